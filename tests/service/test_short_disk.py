"""Jobs wait for a short disk, and say so; what they write has a quota."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from halocline_engine.errors import OutputError
from halocline_service.datasets.layout import Layout
from halocline_service.dispatcher.quota import check_quota
from halocline_service.settings import Settings

if TYPE_CHECKING:
    from tests.service.conftest import Running

_SHORT = "only 5 bytes are free, 10 must stay free"


def test_jobs_wait_for_a_short_disk(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Layout, "shortage", Mock(return_value=_SHORT))
        answer = service.client.post(
            "/processes/stencil/execution",
            json={
                "inputs": {
                    "program": "def f(sst: Field[float], out: Field[float]):\n"
                    "    with computation(PARALLEL), interval(...):\n        out = sst\n",
                    "dataset": "sst.zarr",
                }
            },
            headers={"Prefer": "respond-async"},
        )
        assert answer.status_code == 201
        assert answer.json()["message"] == f"Waiting for room on the disk: {_SHORT}."
        jobs = [answer.json()["jobID"], service.submit()]
        echo = service.submit("echo", string="x")
        assert service.wait(echo)["status"] == "successful"
        for job in jobs:
            told = service.client.get(f"/jobs/{job}").json()
            assert (told["status"], told["message"]) == (
                "accepted",
                f"Waiting for room on the disk: {_SHORT}.",
            )
        ready = service.client.get("/readyz").json()
        assert ready["checks"]["disk"] == _SHORT
    for job in jobs:
        assert service.wait(job)["status"] == "successful"


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"result_bytes": 1024}, "The result and its workspace have more than 1024 bytes."),
        ({"result_keys": 5}, "The result and its workspace have more than 5 files and folders."),
    ],
)
def test_results_have_a_quota(tmp_path: Path, limits: dict[str, Any], message: str) -> None:
    folder = tmp_path / "attempt-1" / "result.zarr"
    folder.mkdir(parents=True)
    check_quota(tmp_path, Settings(**limits))
    for number in range(4):
        (folder / str(number)).write_bytes(bytes(300))
    with pytest.raises(OutputError) as caught:
        check_quota(tmp_path, Settings(**limits))
    assert caught.value.message == message
