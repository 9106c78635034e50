"""Deleting an upload that ends halfway: nothing is shown that is not whole, and nothing is left."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from halocline_engine.removal import Removal, remove_own
from halocline_service.datasets.layout import Layout
from halocline_service.datasets.marker import MARKER
from halocline_service.dispatcher.sweep import Sweep

if TYPE_CHECKING:
    from tests.service.conftest import Running

STRANGE = "00000000-0000-7000-8000-000000000000"
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


def sweep(idle: Running, *, days: float = 2.0) -> None:
    """Sweep as if some days had gone by; what was removed is not swept on the same day."""
    layout = Layout(idle.settings.data_dir.resolve())
    seconds = idle.settings.upload_open_seconds
    Sweep(idle.store, layout, seconds, now=lambda: time.time() + days * 86_400).run()


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("step", range(3))
def test_what_a_delete_left_is_swept(
    idle: Running, monkeypatch: pytest.MonkeyPatch, complete: bool, step: int
) -> None:
    """It ends after the row is gone, and before or between the folders."""
    kept = {f"{sent(idle, complete=True)}.zarr"}
    upload = sent(idle, complete=complete)
    before = names(idle)
    left = [step]

    def remove(*words: Any, **given: Any) -> Removal:
        if left[0] == 0:
            raise Interrupted
        left[0] -= 1
        return remove_own(*words, **given)

    place = "halocline_service.datasets.layout.remove_own"
    with monkeypatch.context() as patch:
        patch.setattr(place, remove)
        answer = idle.client.delete(f"/uploads/{upload}")
        folders = 1 if complete else 2
        assert answer.status_code == (500 if step < folders else 204)
    if step == 0:
        assert names(idle) == before
    # No reader finds what is only half there: its chunks that are gone would read as fill values.
    assert idle.client.get(f"/uploads/{upload}.zarr/zarr.json").status_code == 404
    assert idle.client.delete(f"/uploads/{upload}").status_code == 404
    sweep(idle)
    assert names(idle) == kept
    assert idle.store.removed.list(before=float("inf")) == []
    sweep(idle)
    assert names(idle) == kept


def test_what_was_removed_is_swept_a_day_later(
    idle: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = sent(idle, complete=True)
    with monkeypatch.context() as patch:
        patch.setattr(Layout, "forget_upload", Mock(return_value=Removal()))
        assert idle.client.delete(f"/uploads/{upload}").status_code == 204
    sweep(idle, days=0.9)
    assert names(idle) == {f"{upload}.zarr"}
    sweep(idle, days=1.1)
    assert names(idle) == set()


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


def test_what_the_database_never_made_is_not_swept(idle: Running) -> None:
    """Not even under a name that Halocline would give."""
    layout = Layout(idle.settings.data_dir.resolve())
    (idle.settings.data_dir / "uploads" / "lost+found").mkdir()
    layout.upload(STRANGE).mkdir()
    layout.work(STRANGE).mkdir(parents=True)
    sweep(idle)
    assert names(idle) == {"lost+found", f"{STRANGE}.zarr"}
    assert layout.work(STRANGE).is_dir()


@pytest.mark.parametrize("marker", [None, "other", "newer"])
def test_a_folder_that_is_another_databases_is_not_swept(idle: Running, marker: str | None) -> None:
    """It may have come there after the start: a disk that was mounted, a backup restored."""
    upload = sent(idle, complete=True)
    assert idle.store.uploads.remove(upload, owner="local")
    path = idle.settings.data_dir / MARKER
    kept = path.read_text()
    path.unlink()
    if marker is not None:
        number = 2 if marker == "newer" else 1
        name = json.loads(kept)["installation"] if marker == "newer" else STRANGE
        path.write_text(json.dumps({"format": number, "installation": name}))
    sweep(idle)
    assert names(idle) == {f"{upload}.zarr"}
    path.write_text(kept)
    sweep(idle)
    assert names(idle) == set()
