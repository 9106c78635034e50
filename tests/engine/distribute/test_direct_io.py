"""Fields that go between files and memory of a device, where threads are the device."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import pytest
import xarray as xr
import zarr

from halocline_engine.datasets.chunk_files import raw
from halocline_engine.device.io.files import Span
from halocline_engine.distribute.modes import launch
from halocline_engine.distribute.pipeline.host_queues import HostQueues
from halocline_engine.distribute.tasks.events import Event, Finished, Planned
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.distribute.transports import direct_file
from halocline_engine.errors import CancelledError, DatasetError, OutputError
from halocline_engine.functions.run import run

STAR = """
def star(u: Field[np.float32], m: Field[IJ, bool], v: Field[np.float32]):
    with computation(PARALLEL), interval(...):
        v = 0.25 * (u[1, 0, 0] + u[-2, 0, 0] + u[0, 1, 0] + u[0, -1, 0]) if m else u
"""


class HostFiles:
    """Files that are read to and written from memory of this process; counts what it moves."""

    def __init__(self, full: bool = False) -> None:
        self.read_bytes = self.written_bytes = 0
        self.closed = False
        self._full = full
        self._lock = threading.Lock()

    def read(self, spans: Sequence[Span]) -> bool:
        for span in spans:
            path, size = Path(span.path), span.values.nbytes
            if not path.exists() or path.stat().st_size < span.offset + size:
                return False
            span.values[...] = np.fromfile(path, np.uint8, size, offset=span.offset)
            with self._lock:
                self.read_bytes += size
        return True

    def write(self, spans: Sequence[Span], size: int) -> None:
        if self._full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        for span in spans:
            with Path(span.path).open("wb") as file:
                file.truncate(size)
                file.seek(span.offset)
                file.write(span.values.data)
            with self._lock:
                self.written_bytes += span.values.nbytes

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostFiles]:
    """Let all pieces of files be worth asking for."""
    found = HostFiles()
    monkeypatch.setattr(direct_file, "_CALL", 0)
    monkeypatch.setattr(direct_file, "staging_bytes", (9).__mul__)
    monkeypatch.setattr(raw, "_CALL", 100)
    with patch.object(HostQueues, "files", return_value=found):
        yield found


def stored(path: Path, dims: tuple[str, ...], chunks: dict[str, int]) -> Path:
    sizes = {"time": 2, "z": 2, "y": 37, "x": 24}
    random = np.random.default_rng(9)
    group: Any = cast(Any, zarr).create_group(str(path), zarr_format=3)
    for name, own in (("u", dims), ("m", tuple(dim for dim in dims if dim in "xy"))):
        shape = tuple(sizes[dim] for dim in own)
        values = random.normal(size=shape).astype("float32")
        plain: dict[str, Any] = {"compressors": None, "dimension_names": own}
        array = group.create_array(
            name,
            shape=shape,
            chunks=tuple(chunks.get(dim, 1) for dim in own),
            dtype="float32" if name == "u" else bool,
            **plain,
        )
        array[...] = values if name == "u" else values > -0.3
    return path


def starred(
    store: Path, output: Path, cancelled: Any = None, **options: Any
) -> tuple[xr.Dataset, Planned, Finished]:
    events: list[Event] = []
    chosen: dict[str, Any] = {
        "steps_per_pass": 2,
        "pipeline_depth": 3,
        "compressed": False,
        **options,
    }
    result = run(
        STAR,
        store,
        steps=5,
        feedback={"v": "u"},
        boundary={"x": "periodic", "y": "periodic"},
        axes={"I": "x", "J": "y", "K": "z"},
        chunks={"y": 10},
        target="reference",
        cancelled=cancelled,
        on_event=events.append,
        output=output,
        options=Options(**chosen),
    )
    planned, finished = events[0], events[-1]
    assert isinstance(planned, Planned)
    assert isinstance(finished, Finished)
    return result, planned, finished


def contents(store: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(store)): file.read_bytes()
        for file in sorted((store / "v" / "c").rglob("*"))
        if file.is_file()
    }


@pytest.mark.parametrize(
    ("dims", "chunks"),
    [
        (("time", "z", "y", "x"), {"z": 2, "y": 5, "x": 24}),
        (("z", "y", "x", "time"), {"z": 2, "y": 5, "x": 7}),
        (("x", "time", "y", "z"), {"z": 1, "y": 5, "x": 13}),
    ],
)
@pytest.mark.parametrize("slots", [1, 3])
def test_bytes_are_those_of_buffers_of_the_host(
    tmp_path: Path, files: HostFiles, dims: Any, chunks: Any, slots: int
) -> None:
    """Any order of dimensions, chunks with cells behind the data's end, halos from both ends."""
    store = stored(tmp_path / "in.zarr", dims, chunks)
    plain, _, before = starred(
        store, tmp_path / "plain.zarr", pipeline_depth=slots, direct_io=False
    )
    assert (before.bytes_direct_io, files.read_bytes, files.written_bytes) == (0, 0, 0)
    got, _, finished = starred(store, tmp_path / "out.zarr", pipeline_depth=slots, direct_io=True)
    assert got["v"].values.tobytes() == plain["v"].values.tobytes()
    assert contents(tmp_path / "out.zarr") == contents(tmp_path / "plain.zarr")
    assert finished.bytes_direct_io > 2 * got["v"].nbytes
    assert files.read_bytes > got["v"].nbytes
    assert files.written_bytes >= got["v"].nbytes
    assert finished.fetches == before.fetches
    assert files.closed


def test_chunks_that_are_not_there_are_read_otherwise(tmp_path: Path, files: HostFiles) -> None:
    """One that was never written, and one that is cut off, which Zarr tells of."""
    store = stored(tmp_path / "in.zarr", ("time", "z", "y", "x"), {"z": 2, "y": 5, "x": 24})
    (store / "u" / "c" / "1" / "0" / "4" / "0").unlink()
    plain, _, _ = starred(store, tmp_path / "plain.zarr", direct_io=False)
    got, _, finished = starred(store, tmp_path / "out.zarr", direct_io=True)
    assert got["v"].values.tobytes() == plain["v"].values.tobytes()
    assert 0 < finished.bytes_direct_io < finished.bytes_read + finished.bytes_written
    (store / "u" / "c" / "1" / "0" / "3" / "0").write_bytes(b"short")
    with pytest.raises(DatasetError, match=r"^Chunk \(1, 0, 3, 0\) of variable 'u'"):
        starred(store, tmp_path / "broken.zarr", direct_io=True)
    assert not (tmp_path / "broken.zarr").exists()


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path, files: HostFiles) -> None:
    store = stored(tmp_path / "in.zarr", ("time", "z", "y", "x"), {"z": 2, "y": 5, "x": 24})
    full = HostFiles(full=True)
    before = threading.active_count()
    with (
        patch.object(HostQueues, "files", return_value=full),
        pytest.raises(OutputError, match=r"^Writing to '.*v' stopped because the disk is full\."),
    ):
        starred(store, tmp_path / "out.zarr", direct_io=True)
    assert threading.active_count() == before
    assert not (tmp_path / "out.zarr").exists()


def test_a_run_that_is_cancelled_ends(tmp_path: Path, files: HostFiles) -> None:
    store = stored(tmp_path / "in.zarr", ("time", "z", "y", "x"), {"z": 2, "y": 5, "x": 24})
    before = threading.active_count()
    with pytest.raises(CancelledError):
        starred(store, tmp_path / "out.zarr", lambda: files.written_bytes > 0, direct_io=True)
    assert threading.active_count() == before
    assert not (tmp_path / "out.zarr").exists()


def test_rooms_for_files_are_projected_but_never_refused(tmp_path: Path, files: HostFiles) -> None:
    store = stored(tmp_path / "in.zarr", ("time", "z", "y", "x"), {"z": 2, "y": 5, "x": 24})
    _, plain, _ = starred(store, tmp_path / "plain.zarr", direct_io=False)
    _, planned, finished = starred(store, tmp_path / "out.zarr", direct_io=True)
    assert planned.projected_bytes > plain.projected_bytes
    assert finished.bytes_direct_io > 0
    scarce = plain.projected_bytes
    _, again, buffered = starred(
        store, tmp_path / "again.zarr", direct_io=True, memory_limit=scarce
    )
    assert again.projected_bytes == scarce
    assert buffered.bytes_direct_io == 0


def test_two_blocks_overlap_where_three_leave_no_room_for_files(
    tmp_path: Path, files: HostFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If nobody said how many; the bytes are the same."""
    store = stored(tmp_path / "in.zarr", ("time", "z", "y", "x"), {"z": 2, "y": 5, "x": 24})
    plain, _, _ = starred(store, tmp_path / "plain.zarr", direct_io=False)
    three, two = (
        starred(store, tmp_path / f"{slots}.zarr", direct_io=True, pipeline_depth=slots)[
            1
        ].projected_bytes
        for slots in (3, 2)
    )

    def usual(_checked: object, options: Options) -> int:
        return options.pipeline_depth or 3

    monkeypatch.setattr(launch, "_slots", usual)
    scarce: dict[str, Any] = {"direct_io": True, "memory_limit": three - 1}
    got, planned, finished = starred(store, tmp_path / "out.zarr", pipeline_depth=None, **scarce)
    assert planned.projected_bytes == two < three
    assert finished.bytes_direct_io > 0
    assert got["v"].values.tobytes() == plain["v"].values.tobytes()
    _, _, asked = starred(store, tmp_path / "asked.zarr", pipeline_depth=3, **scarce)
    assert asked.bytes_direct_io == 0


def test_small_pieces_go_through_buffers(tmp_path: Path) -> None:
    store = stored(tmp_path / "in.zarr", ("time", "z", "y", "x"), {"z": 2, "y": 5, "x": 24})
    found = HostFiles()
    with patch.object(HostQueues, "files", return_value=found):
        _, _, finished = starred(store, tmp_path / "out.zarr", direct_io=True)
    assert (finished.bytes_direct_io, found.read_bytes, found.written_bytes) == (0, 0, 0)
