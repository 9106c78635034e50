"""The sweep goes on whatever one entry does, and so does the dispatcher."""

from __future__ import annotations

import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from halocline_engine.removal import Removal
from halocline_service.datasets.layout import Layout
from halocline_service.datasets.marker import claim
from halocline_service.dispatcher.sweep import Sweep
from halocline_service.jobs.job import Removed, UploadRequest
from halocline_service.store.base import Store, StoreAway
from halocline_service.store.memory.store import memory_store

_DAY = 86_400.0


@pytest.fixture
def store() -> Store:
    return memory_store()


@pytest.fixture
def layout(tmp_path: Path, store: Store) -> Layout:
    layout = Layout(tmp_path)
    claim(layout, store, database="memory")
    return layout


def removed_upload(store: Store, layout: Layout, *, depth: int) -> str:
    upload = store.uploads.add(UploadRequest(owner="ann"), limit=10)
    layout.make_upload(upload.id)
    folder = layout.open_upload(upload.id).joinpath(*["a"] * depth)
    folder.mkdir(parents=True)
    (folder / "a").write_bytes(b"1")
    store.uploads.remove(upload.id, owner="ann")
    return upload.id


def sweep(store: Store, layout: Layout) -> None:
    Sweep(store, layout, 7 * _DAY, now=lambda: time.time() + 2 * _DAY).run()


def left(layout: Layout) -> set[str]:
    return {path.stem for path in (layout.root / "uploads").iterdir()}


@pytest.mark.parametrize("depth", [3, 511, 900])
def test_folders_of_any_depth_are_swept(store: Store, layout: Layout, depth: int) -> None:
    removed_upload(store, layout, depth=depth)
    sweep(store, layout)
    assert left(layout) == set()
    assert store.removed.list(before=float("inf")) == []


@pytest.mark.parametrize("error", [RecursionError, OSError, ValueError, MemoryError])
def test_an_entry_that_fails_stops_no_other(
    store: Store, layout: Layout, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    bad, good = (removed_upload(store, layout, depth=2) for _ in range(2))
    forget = Layout.forget

    def failing(self: Layout, gone: Removed) -> Removal:
        if gone.id == bad:
            raise error
        return forget(self, gone)

    with monkeypatch.context() as patch:
        patch.setattr(Layout, "forget", failing)
        sweep(store, layout)
        assert left(layout) == {bad}
    sweep(store, layout)
    assert left(layout) == set()
    assert good not in left(layout)


def test_a_database_that_is_away_ends_a_sweep(
    store: Store, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed_upload(store, layout, depth=2)
    forget = Mock(side_effect=StoreAway)
    monkeypatch.setattr(Layout, "forget", forget)
    with pytest.raises(StoreAway):
        sweep(store, layout)
    assert forget.call_count == 1
