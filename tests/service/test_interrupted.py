"""Deleting an upload that ends halfway: nothing is shown that is not whole, and nothing is left."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.service.test_dispatcher import tools

from halocline_service.datasets.layout import Layout
from halocline_service.dispatcher.loop import Dispatcher

if TYPE_CHECKING:
    from tests.service.conftest import Running

GROUP: dict[str, Any] = {"zarr_format": 3, "node_type": "group", "attributes": {}}


class Interrupted(Exception):
    """The request ends here; what stands on the disk is as where its process were killed."""


def sent(idle: Running, *, complete: bool) -> str:
    upload = idle.client.post("/uploads").json()["id"]
    url = f"/uploads/{upload}.zarr/zarr.json"
    assert idle.client.put(url, content=json.dumps(GROUP)).status_code == 204
    if complete:
        assert idle.client.post(f"/uploads/{upload}/complete").status_code == 200
    return upload


def names(idle: Running) -> set[str]:
    return {path.name for path in (idle.settings.data_dir / "uploads").iterdir()}


def sweep(idle: Running) -> None:
    Dispatcher(idle.settings, idle.store, tools(idle)).sweep()


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("step", range(4))
def test_what_a_delete_left_is_swept(
    idle: Running, monkeypatch: pytest.MonkeyPatch, complete: bool, step: int
) -> None:
    """It ends after the row is gone, and before or between the folders."""
    kept = {f"{sent(idle, complete=True)}.zarr"}
    upload = sent(idle, complete=complete)
    before = names(idle)
    left, delete = [step], shutil.rmtree

    def rmtree(folder: Path, *, ignore_errors: bool) -> None:
        if left[0] == 0:
            raise Interrupted
        left[0] -= 1
        delete(folder, ignore_errors=ignore_errors)

    place = "halocline_service.datasets.layout.shutil.rmtree"
    with monkeypatch.context() as patch:
        patch.setattr(place, rmtree)
        answer = idle.client.delete(f"/uploads/{upload}")
        assert answer.status_code == (500 if step < 3 else 204)
    if step == 0:
        assert names(idle) == before
    # No reader finds what is only half there: its chunks that are gone would read as fill values.
    assert idle.client.get(f"/uploads/{upload}.zarr/zarr.json").status_code == 404
    assert idle.client.delete(f"/uploads/{upload}").status_code == 404
    sweep(idle)
    assert names(idle) == kept
    sweep(idle)
    assert names(idle) == kept


def test_a_delete_that_ends_before_its_first_step_is_made_again(
    idle: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = sent(idle, complete=True)

    def remove(*_: object, **__: object) -> None:
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(idle.store.uploads, "remove", remove)
        assert idle.client.delete(f"/uploads/{upload}").status_code == 500
    sweep(idle)
    assert idle.client.get(f"/uploads/{upload}.zarr/zarr.json").status_code == 200
    assert idle.client.delete(f"/uploads/{upload}").status_code == 204
    assert names(idle) == set()


def test_an_upload_that_is_opened_during_a_sweep_keeps_its_files(
    idle: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = idle.store.uploads.known
    opened: list[str] = []

    def slow() -> frozenset[str]:
        before = known()
        opened.append(sent(idle, complete=False))
        return before

    monkeypatch.setattr(idle.store.uploads, "known", slow)
    sweep(idle)
    assert names(idle) == {f"{opened[0]}.open", f"{opened[0]}.parts"}


def test_files_that_are_no_uploads_are_not_swept(idle: Running) -> None:
    other = idle.settings.data_dir / "uploads" / "lost+found"
    other.mkdir()
    layout = Layout(idle.settings.data_dir.resolve())
    layout.upload("00000000-0000-7000-8000-000000000000").mkdir()
    sweep(idle)
    assert names(idle) == {"lost+found"}
