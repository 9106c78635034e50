"""Failed jobs show the names that users wrote, and no path of the service."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import xarray as xr
from tests.service.test_dispatcher import tools

from halocline_engine.errors import DatasetError, HaloclineError
from halocline_engine.functions.run import run
from halocline_service.datasets.tree import scan_file
from halocline_service.datasets.wording import Wording
from halocline_service.dispatcher.attempts.attempt import attempt
from halocline_service.jobs.errors import error_fields
from halocline_service.jobs.job import JobRequest

if TYPE_CHECKING:
    from tests.service.conftest import Running

STENCIL = """
def double(sst: Field[np.float64], out: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        out = sst + sst
"""
INPUTS: dict[str, dict[str, Any]] = {
    "stencil": {"program": STENCIL, "target": "reference"},
    "matmul": {"left": "sst", "right": "absent", "dim": "x"},
    "gather": {"source": "sst", "index": "absent", "dim": "x"},
    "tridiagonal": {"lower": "a", "diagonal": "b", "upper": "c", "rhs": "sst", "dim": "x"},
    "column": {"expression": "GradientC2F()(sst)"},
    "neighbours": {"operation": "mean", "mesh": "sst.zarr"},
    "regrid": {"weights": "sst.zarr"},
}


def spoil(root: Path, how: str) -> str:
    """Make a dataset that cannot be computed with."""
    store = root / f"{how}.zarr"
    match how:
        case "text":
            (root / "text.nc").write_text("no dataset")
            return "text.nc"
        case "short":
            whole: Any = xr.Dataset({"sst": (("y", "x"), [[1.0] * 500] * 500)})
            whole.to_netcdf(root / "short.nc")
            content = (root / "short.nc").read_bytes()
            (root / "short.nc").write_bytes(content[: len(content) // 2])
            return "short.nc"
        case "chunk":
            shutil.copytree(root / "sst.zarr", store)
            (store / "sst/c/0/0/0").write_bytes(b"broken")
        case "folder":
            store.mkdir()
        case _:
            shutil.copytree(root / "sst.zarr", store)
    return store.name


def failed(idle: Running, root: Path, process: str, dataset: str) -> HaloclineError | None:
    inputs = {"dataset": dataset, **INPUTS[process]}
    request = {"inputs": inputs, "outputs": ["result"]}
    asked = JobRequest(owner="local", process=process, request=request, fingerprint="f")
    idle.store.jobs.add(asked, queue_limit=1000)
    job = idle.store.jobs.claim("w")
    assert job is not None
    used = tools(idle, runner=run, scan=scan_file, cluster=None)
    try:
        attempt(job, used, lambda event: None, lambda: False)
    except HaloclineError as error:
        return error
    finally:
        idle.store.jobs.cancel(job.id, owner="local")
    return None


@pytest.mark.parametrize("how", ["text", "short", "chunk", "folder", "whole"])
def test_no_answer_has_a_path_of_the_service(
    idle: Running, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "roots of data"
    root.mkdir()
    shutil.copytree(idle.data / "sst.zarr", root / "sst.zarr")
    (tmp_path / "linked").symlink_to(root)
    name = spoil(root, how)
    idle.settings.data_roots[:] = [root, tmp_path / "linked"]
    told: list[str] = []
    for process, written in itertools.product(INPUTS, (name, str(root / name))):
        error = failed(idle, root, process, written)
        if error is not None:
            text = str(error_fields(error))
            told.append(text)
            secret = text.replace(written, "") if written.startswith("/") else text
            assert str(tmp_path) not in secret, (process, text)
            assert "/site-packages/" not in text
    assert len(told) >= (8 if how == "whole" else 10)


def test_places_have_the_names_that_users_wrote() -> None:
    wording = Wording(
        {"/srv/data": "", "/srv/data/a.zarr": "a.zarr", "/var/halocline": "the service's folder"},
        asked="/etc/wished.nc",
    )
    for text, told in {
        "The chunk '/srv/data/a.zarr/t/c/0' is broken.": "The chunk 'a.zarr/t/c/0' is broken.",
        "See file:///srv/data/a.zarr.": "See a.zarr.",
        "See '/srv/data/b.zarr'.": "See 'b.zarr'.",
        "In '/srv/data/a.zarr.bak'": "In 'a.zarr.bak'",
        "In /var/halocline/jobs/x": "In the service's folder/jobs/x",
        "No '/usr/lib/python3/x.py' or /tmp/abc": "No 'a place of the service' or a place of the "
        "service",
        "No '/etc/wished.nc'": "No '/etc/wished.nc'",
        "No array '/group/t' in m/s/day or 1/2/3 a // b": "No array '/group/t' in m/s/day or 1/2/3 "
        "a // b",
    }.items():
        assert wording.told(text) == told


def test_an_error_stays_what_it_is() -> None:
    error = DatasetError("In '/srv/data/a'.", hint="Look at '/srv/data/a'.")
    told = Wording({"/srv/data/a": "a"}).of(error)
    assert (type(told), told.message, told.hint) == (DatasetError, "In 'a'.", "Look at 'a'.")
    assert error.message == "In '/srv/data/a'."
