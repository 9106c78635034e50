"""Chunks that are decoded on a device, which the host stands for here, against what Zarr reads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr
from emulation.machine import ABSENT, EmulatedMachine, compiler
from host_desk import HostDesk
from numpy.typing import NDArray
from packed_store import CHUNKS, GRID, SHAPE, boxes, compressed, unpacker

from halocline_engine.datasets.chunk_files import packed
from halocline_engine.datasets.grids.match import FieldUse
from halocline_engine.datasets.stores.chunks import (
    CachedSource,
    Stored,
    Tally,
    clear_cache,
    counted,
)
from halocline_engine.datasets.stores.source import ArrayStore
from halocline_engine.distribute.grid.partition import Block, Box, Span
from halocline_engine.distribute.grid.regions import read_box
from halocline_engine.distribute.pipeline import resources
from halocline_engine.distribute.tasks.events import Event, Finished, Planned
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.distribute.transports import device_decode
from halocline_engine.distribute.transports.base import box_bytes, shape_of
from halocline_engine.distribute.transports.decoder import Decoder
from halocline_engine.distribute.transports.device_decode import DeviceDecoding
from halocline_engine.errors import DatasetError
from halocline_engine.functions.run import run
from halocline_engine.kernels.machine import Library

pytestmark = pytest.mark.skipif(compiler() is None, reason=ABSENT)


@pytest.fixture(scope="module")
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(3) as executor:
        yield executor


@pytest.fixture
def library(emulation_folder: Path) -> Library:
    return Library(EmulatedMachine(emulation_folder / "loaded"))


def filled(
    read: DeviceDecoding, use: FieldUse, block: Block, box: Box, tally: Tally | None = None
) -> NDArray[Any]:
    """Return what a reader fills an array of a device with, by way of a room."""
    shape = shape_of(box)
    room = np.full(box_bytes(use, box) + 7, 0xA5, np.uint8)
    assert read.read(block, box, room, tally or Tally())
    assert (room[-7:] == 0xA5).all()
    into = np.zeros(shape, use.dtype)
    read.send(block, box, room, into)
    return into


@pytest.mark.parametrize(
    ("codec", "dtype", "batch"),
    [
        ("zstd", "float32", 1),
        ("zstd", "int8", 1 << 30),
        ("lz4", "int16", 20_000),
        ("blosc-lz4", "float32", 20_000),
        ("blosc-lz4", "int16", 1 << 30),
        ("blosc-zstd", "float64", 50_000),
        ("blosc-bits", "float32", 1),
    ],
)
def test_boxes_are_those_of_zarr(
    tmp_path: Path,
    threads: Executor,
    library: Library,
    monkeypatch: pytest.MonkeyPatch,
    codec: str,
    dtype: str,
    batch: int,
) -> None:
    monkeypatch.setattr(device_decode, "DECODED_AT_ONCE", batch)
    compressed(tmp_path, codec, dtype)
    device = HostDesk()
    read, use = unpacker(tmp_path, dtype, device, library, threads, limit=3 * 16 * 3 * 40 * 8)
    source = ArrayStore(str(tmp_path))
    for block, box in boxes():
        wanted = read_box(source, "u", use, GRID, block, box)[0]
        np.testing.assert_array_equal(filled(read, use, block, box), wanted)
    assert (device.decoded > 0) == (codec != "blosc-bits")


def test_fetches_are_those_of_the_cache_on_the_host(
    tmp_path: Path, threads: Executor, library: Library
) -> None:
    compressed(tmp_path, "blosc-lz4", "float32")
    kept = 6 * 16 * 3 * 40 * 4
    read, use = unpacker(tmp_path, "float32", HostDesk(), library, threads, kept)
    variable = Stored("u", SHAPE, CHUNKS, 4)
    cached = CachedSource(ArrayStore(str(tmp_path)), "here", (variable,), kept, str(tmp_path))
    there, here = Tally(), Tally()
    try:
        for block, box in boxes():
            filled(read, use, block, box, here)
            read_box(counted(cached, there), "u", use, GRID, block, box)
    finally:
        clear_cache(str(tmp_path), kept)
    assert here == there
    assert there.hits > 0


def test_what_the_device_refuses_is_read_on_the_host(
    tmp_path: Path, threads: Executor, library: Library
) -> None:
    values = compressed(tmp_path, "zstd", "float32")
    device = HostDesk(refused=2)
    read, use = unpacker(tmp_path, "float32", device, library, threads)
    (tmp_path / "u/0.1.0.1").unlink()
    block, _ = boxes()[0]
    into = filled(read, use, block, (Span(0, 90), Span(0, 70), Span(0, 3)))
    wanted = values[0].transpose(2, 0, 1).copy()
    wanted[40:80, 16:32] = np.nan
    np.testing.assert_array_equal(into, wanted)
    assert device.refused == 0


@pytest.mark.parametrize(("codec", "cut"), [("zstd", 30), ("blosc-lz4", 100), ("lz4", 60)])
def test_a_broken_chunk_is_named(
    tmp_path: Path, threads: Executor, library: Library, codec: str, cut: int
) -> None:
    values = compressed(tmp_path, codec, "float32")
    file = tmp_path / "u/0.2.0.1"
    whole = file.read_bytes()
    file.write_bytes(whole[:cut])
    device = HostDesk()
    read, use = unpacker(tmp_path, "float32", device, library, threads, limit=1 << 30)
    block, _ = boxes()[0]
    box = (Span(0, 90), Span(0, 70), Span(0, 3))
    with pytest.raises(DatasetError) as caught:
        filled(read, use, block, box)
    text = str(caught.value)
    assert text.startswith(f"Chunk (0, 2, 0, 1) of variable 'u' of '{tmp_path}' cannot be decoded:")
    assert text.endswith(
        f"The file '{file}' is damaged: copy it anew, or remove it to have the fill value there."
    )
    # Nothing of it is kept.
    file.write_bytes(whole)
    np.testing.assert_array_equal(filled(read, use, block, box), values[0].transpose(2, 0, 1))


SMOOTH = """
def smooth(u: Field[np.float32], v: Field[np.float32], w: np.float32):
    with computation(PARALLEL), interval(...):
        v = u + w * (u[1, 0, 0] + u[-1, 0, 0] + u[0, 1, 0] + u[0, -1, 0] - 4.0 * u)
"""


def smoothed(store: Path, output: Path, **options: Any) -> tuple[Any, Planned, Finished]:
    events: list[Event] = []
    made = run(
        SMOOTH,
        store,
        scalars={"w": 0.1},
        boundary={"x": "periodic", "y": "edge"},
        steps=4,
        feedback={"v": "u"},
        chunks={"y": 20},
        target="reference",
        output=output,
        on_event=events.append,
        options=Options(steps_per_pass=2, **options),
    )
    planned, finished = events[0], events[-1]
    assert isinstance(planned, Planned)
    assert isinstance(finished, Finished)
    return made["v"].values, planned, finished


@pytest.mark.parametrize(("device_decoding", "share"), [(True, 0.5), (None, 0.0), (False, 0.0)])
def test_a_run_has_the_same_bits_however_chunks_are_decoded(
    tmp_path: Path,
    library: Library,
    monkeypatch: pytest.MonkeyPatch,
    device_decoding: bool | None,
    share: float,
) -> None:
    """The first of two passes reads chunks, and the second one plain files. nvCOMP is not here."""
    monkeypatch.setattr(device_decode, "DECODED_AT_ONCE", 1 << 16)
    monkeypatch.setattr(packed, "DECODED_AT_ONCE", 1 << 16)
    device = HostDesk()

    def opened(target: str, codecs: tuple[str, ...]) -> Decoder:
        assert (target, codecs) == ("reference", ("lz4", "zstd"))
        return Decoder(device, library, codecs)

    store = tmp_path / "in.zarr"
    values = np.cumsum(np.ones((70, 3, 90), "float32"), axis=2)
    data = xr.Dataset({"u": (("y", "z", "x"), values)})
    options = {"u": {"chunks": (16, 3, 40)}}
    cast(Any, data).to_zarr(store, zarr_format=3, encoding=options, consolidated=False)
    plain, _, _ = smoothed(store, tmp_path / "plain.zarr", pipeline_depth=0)
    without, before, _ = smoothed(
        store, tmp_path / "without.zarr", pipeline_depth=2, device_decoding=device_decoding
    )
    monkeypatch.setattr(resources, "open_decoder", opened)
    got, planned, finished = smoothed(
        store, tmp_path / "out.zarr", pipeline_depth=2, device_decoding=device_decoding
    )
    assert without.tobytes() == got.tobytes() == plain.tobytes()
    assert planned.projected_bytes == before.projected_bytes
    assert finished.fetches == planned.predicted_fetches
    assert round(2 * finished.bytes_direct_io / finished.bytes_read) == 2 * share
    assert (device.decoded > 0) == (share > 0)
