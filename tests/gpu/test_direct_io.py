"""Files that go to the device and back, without buffers of the host: the bytes are the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import numpy as np
import pytest
import zarr

from halocline_engine.device.io import threaded_files
from halocline_engine.device.io.files import Files, Span
from halocline_engine.device.machine import CudaMachine
from halocline_engine.distribute.tasks.events import Event, Finished
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.distribute.transports import direct_file
from halocline_engine.functions.run import run

pytestmark = pytest.mark.gpu

SMOOTH = """
def smooth(u: Field[np.float32], m: Field[IJ, bool], v: Field[np.float32], w: np.float32):
    with computation(PARALLEL), interval(...):
        flux = u[1, 0, 0] - u if m else 0.0
        v = u + w * (flux - flux[-1, 0, 0] + u[0, 1, 0] - 2.0 * u + u[0, -1, 0])
"""


@pytest.fixture(scope="module")
def files(machine: CudaMachine) -> Iterator[Files]:
    """Give the files of the device, which is looked for first."""
    assert machine is not None
    from halocline_engine.device.io.threaded_files import ThreadedFiles

    found = ThreadedFiles(3, 5)
    yield found
    found.close()


def stored(path: Path, dims: tuple[str, ...], chunks: tuple[int, ...]) -> Path:
    group: Any = cast(Any, zarr).create_group(str(path), zarr_format=3)
    rng = np.random.default_rng(4)
    sizes = {"z": 3, "y": 403, "x": 517}
    for name, own in (("u", dims), ("m", tuple(dim for dim in dims if dim != "z"))):
        shape = tuple(sizes[dim] for dim in own)
        options: dict[str, Any] = {"compressors": None, "dimension_names": own}
        parts = tuple(chunk for chunk, dim in zip(chunks, dims, strict=True) if dim in own)
        dtype = "float32" if name == "u" else "bool"
        array = group.create_array(name, shape=shape, chunks=parts, dtype=dtype, **options)
        values = rng.normal(size=shape)
        array[...] = values.astype("float32") if name == "u" else values > 0.3
    return path


def smoothed(store: Path, output: Path, **options: Any) -> Finished:
    events: list[Event] = []
    run(
        SMOOTH,
        store,
        scalars={"w": 0.1},
        boundary={"x": "periodic", "y": {"low": "reflect", "high": {"constant": 2.0}}},
        axes={"I": "x", "J": "y", "K": "z"},
        steps=12,
        feedback={"v": "u"},
        chunks={"y": 64},
        target="cuda",
        output=output,
        on_event=events.append,
        options=Options(steps_per_pass=5, compressed=False, **options),
    )
    assert isinstance(events[-1], Finished)
    return events[-1]


class Borrowed:
    """Files that a run does not close."""

    def __init__(self, files: Files) -> None:
        self.read, self.write = files.read, files.write

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("dims", "chunks"),
    [
        (("z", "y", "x"), (3, 50, 517)),
        (("y", "x", "z"), (50, 200, 3)),
        (("x", "y", "z"), (70, 64, 1)),
    ],
)
@pytest.mark.parametrize("slots", [1, 3])
def test_bytes_are_those_of_buffers_of_the_host(
    files: Files,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    dims: Any,
    chunks: Any,
    slots: int,
) -> None:
    """Any order of dimensions, and chunks with cells behind the end of the data."""
    monkeypatch.setattr(direct_file, "_CALL", 0)
    monkeypatch.setattr(direct_file, "_MORE", 9)
    monkeypatch.setattr(direct_file, "staging_bytes", (9).__mul__)
    monkeypatch.setattr(threaded_files, "ThreadedFiles", Mock(return_value=Borrowed(files)))
    store = stored(tmp_path / "in.zarr", dims, chunks)
    plain = smoothed(store, tmp_path / "plain.zarr", pipeline_depth=slots, direct_io=False)
    found = smoothed(store, tmp_path / "out.zarr", pipeline_depth=slots, direct_io=True)
    assert plain.bytes_direct_io == 0
    assert found.bytes_direct_io > 2 * 3 * 403 * 517 * 4
    made = [tmp_path / name / "v" / "c" for name in ("plain.zarr", "out.zarr")]
    names = [sorted(str(f.relative_to(of)) for f in of.rglob("*") if f.is_file()) for of in made]
    assert names[0] == names[1]
    for name in names[0]:
        assert (made[0] / name).read_bytes() == (made[1] / name).read_bytes()


def test_files_go_to_the_device_and_back(
    files: Files, cupy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threaded_files, "_PIECE", 1_000_000)
    values = np.random.default_rng(1).integers(0, 255, 5_000_003, np.uint8)
    path = tmp_path / "chunk"
    path.write_bytes(values.data)
    there = cupy.zeros(values.size, cupy.uint8)
    cupy.cuda.get_current_stream().synchronize()  # files do not wait for what is queued
    assert files.read([Span(path, 3, there[3:-2])])
    np.testing.assert_array_equal(there.get()[3:-2], values[3:-2])
    files.write([Span(path, 7, there[7:99_999])], values.size)
    files.write([Span(tmp_path / str(n), 100, there[n : n + 1000]) for n in range(20)], 5000)
    assert path.read_bytes() == values.tobytes()
    for n in range(20):
        made = np.fromfile(tmp_path / str(n), np.uint8)
        assert made.size == 5000
        np.testing.assert_array_equal(made[100:1100], there.get()[n : n + 1000])
        assert not made[:100].any()
        assert not made[1100:].any()


def test_what_is_not_there_or_too_short_is_not_read(
    files: Files, cupy: Any, tmp_path: Path
) -> None:
    into = cupy.zeros(100, cupy.uint8)
    assert not files.read([Span(tmp_path / "none", 0, into)])
    (tmp_path / "short").write_bytes(bytes(100))
    assert not files.read([Span(tmp_path / "short", 1, into)])
    with pytest.raises(FileNotFoundError):
        files.write([Span(tmp_path / "no" / "chunk", 0, into)], 100)


def test_a_full_disk_is_the_error_of_the_system(files: Files, cupy: Any) -> None:
    """The smallest file system that there is may be full at once; this one always is."""
    path = Path("/dev/full")
    if not path.exists():
        pytest.skip("no full file beside this CUDA device")
    with pytest.raises(OSError, match=r"No space left|Invalid argument"):
        files.write([Span(path, 0, cupy.zeros(100, cupy.uint8))], 0)
