"""Chunks that nvCOMP decodes on the device: the values of the host, and its errors."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray
from packed_store import COMPRESSORS, GRID, boxes, compressed, unpacker

from halocline_engine.datasets.grids.match import FieldUse
from halocline_engine.datasets.stores.chunks import Tally
from halocline_engine.datasets.stores.source import ArrayStore
from halocline_engine.device.decode.codecs import find_nvcomp
from halocline_engine.device.decode.device_decoder import NvcompDevice, open_nvcomp
from halocline_engine.device.machine import CudaMachine
from halocline_engine.distribute.grid.partition import Block, Box, Span
from halocline_engine.distribute.grid.regions import read_box
from halocline_engine.distribute.tasks.events import Event, Finished, Planned
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.distribute.transports.base import box_bytes, shape_of
from halocline_engine.distribute.transports.device_decode import DeviceDecoding
from halocline_engine.errors import DatasetError
from halocline_engine.functions.run import run
from halocline_engine.kernels.machine import Library

pytestmark = pytest.mark.gpu

FIVE = """
def five(u: Field[np.float32], v: Field[np.float32], w: np.float32):
    with computation(PARALLEL), interval(...):
        v = w * (u + u[1, 0, 0] + u[-1, 0, 0] + u[0, 1, 0] + u[0, -1, 0])
"""


@pytest.fixture(scope="module")
def device(machine: CudaMachine) -> NvcompDevice:
    """Return what there is beside a device, which is looked for first."""
    assert machine is not None
    found = open_nvcomp()
    assert (found is None) == (find_nvcomp() is None)
    if found is None:
        pytest.skip("nvCOMP is not installed beside this CUDA device")
    return found


@pytest.fixture(scope="module")
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(4) as executor:
        yield executor


def filled(read: DeviceDecoding, use: FieldUse, block: Block, box: Box, cupy: Any) -> NDArray[Any]:
    """Return what a reader fills an array of the device with, by way of a room."""
    room = cupy.full(box_bytes(use, box) + 8, 0xA5, "uint8")
    into = cupy.zeros(shape_of(box), use.dtype)
    cupy.cuda.Device().synchronize()
    assert read.read(block, box, room, Tally())
    assert bool((room[-8:] == 0xA5).all())
    read.send(block, box, room, into)
    return cupy.asnumpy(into)


@pytest.mark.parametrize(
    ("codec", "dtype"),
    [
        ("zstd", "float32"),
        ("lz4", "int16"),
        ("blosc-lz4", "float32"),
        ("blosc-lz4", "int8"),
        ("blosc-zstd", "float64"),
        ("blosc-bits", "float32"),
    ],
)
def test_boxes_are_those_of_zarr(
    machine: CudaMachine,
    device: NvcompDevice,
    threads: Executor,
    cupy: Any,
    tmp_path: Path,
    codec: str,
    dtype: str,
) -> None:
    compressed(tmp_path, codec, dtype)
    read, use = unpacker(tmp_path, dtype, device, Library(machine), threads, 3 * 16 * 3 * 40 * 8)
    for block, box in boxes():
        wanted = read_box(ArrayStore(str(tmp_path)), "u", use, GRID, block, box)[0]
        np.testing.assert_array_equal(filled(read, use, block, box, cupy), wanted)


def test_damaged_chunks_have_the_values_and_the_errors_of_the_host(
    machine: CudaMachine, device: NvcompDevice, threads: Executor, cupy: Any, tmp_path: Path
) -> None:
    """Of bits that are flipped, many are values: those are the host's; and no other is let pass."""
    compressed(tmp_path, "lz4", "float32")
    use_block, _ = boxes()[0]
    box = (Span(0, 40), Span(16, 32), Span(0, 3))
    file = tmp_path / "u/0.1.0.0"
    whole = file.read_bytes()
    rng = np.random.default_rng(9)
    library = Library(machine)
    errors = 0
    for _ in range(120):
        data = bytearray(whole)
        data[rng.integers(4, len(data))] ^= 1 << int(rng.integers(0, 8))
        file.write_bytes(data)
        read, use = unpacker(tmp_path, "float32", device, library, threads)
        try:
            wanted = read_box(ArrayStore(str(tmp_path)), "u", use, GRID, use_block, box)[0]
        except DatasetError:
            errors += 1
            with pytest.raises(DatasetError, match=r"Chunk \(0, 1, 0, 0\) of variable 'u'"):
                filled(read, use, use_block, box, cupy)
            continue
        got = filled(read, use, use_block, box, cupy)
        np.testing.assert_array_equal(got.view("uint32"), wanted.view("uint32"))
    assert 0 < errors < 120


@pytest.mark.parametrize("device_decoding", [True, None])
def test_a_run_has_the_bits_of_the_host(
    machine: CudaMachine, tmp_path: Path, device_decoding: bool | None
) -> None:
    """Chunks of LZ4 are decoded on the device unasked; without nvCOMP the host decodes all."""
    store = tmp_path / "in.zarr"
    steps = np.random.default_rng(3).integers(-2, 3, (512, 700))
    data = xr.Dataset({"u": (("y", "x"), np.cumsum(steps, axis=1).astype("float32"))})
    options = {"u": {"chunks": (100, 256), "compressors": COMPRESSORS["blosc-lz4"]}}
    if device_decoding:
        options["u"]["compressors"] = COMPRESSORS["zstd"]
    cast(Any, data).to_zarr(store, zarr_format=2, encoding=options, consolidated=False)
    found: list[bytes] = []
    for way in (device_decoding, False):
        events: list[Event] = []
        result = run(
            FIVE,
            store,
            scalars={"w": 0.2},
            boundary={"x": "periodic", "y": "edge"},
            chunks={"y": 128},
            target="cuda",
            output=tmp_path / f"{way}.zarr",
            on_event=events.append,
            options=Options(pipeline_depth=3, device_decoding=way),
        )
        found.append(result["v"].values.tobytes())
        planned, finished = events[0], events[-1]
        assert isinstance(planned, Planned)
        assert isinstance(finished, Finished)
        assert finished.fetches == planned.predicted_fetches
        assert (finished.bytes_direct_io > 0) == (way is not False and find_nvcomp() is not None)
    assert found[0] == found[1]
