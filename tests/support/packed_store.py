"""A store of compressed chunks, and boxes to read of it, on a device or what stands for one."""

from __future__ import annotations

from concurrent.futures import Executor
from pathlib import Path
from typing import Any, cast

import numcodecs  # pyright: ignore[reportMissingTypeStubs] - it has none
import numpy as np
import zarr
from numpy.typing import NDArray

from halocline_engine.datasets.chunk_files.packed import ALL, packed_array
from halocline_engine.datasets.grids.match import FieldUse, Grid, Role
from halocline_engine.datasets.stores.source import ArrayStore
from halocline_engine.distribute.grid.partition import Block, Box, Span
from halocline_engine.distribute.transports.device_decode import DecodingDevice, DeviceDecoding
from halocline_engine.ir.types import Axis
from halocline_engine.kernels.machine import Library

__all__ = ["CHUNKS", "COMPRESSORS", "GRID", "SHAPE", "boxes", "compressed", "unpacker"]

ZARR, CODECS = cast(Any, zarr), cast(Any, numcodecs)
GRID = Grid(("x", "y", "z"), (90, 70, 3), ("time",), (2,))
DIMS = ("time", "y", "z", "x")
SHAPE, CHUNKS = (2, 70, 3, 90), (1, 16, 3, 40)
COMPRESSORS: dict[str, Any] = {
    "zstd": CODECS.Zstd(1),
    "lz4": CODECS.LZ4(),
    "blosc-lz4": CODECS.Blosc("lz4", 5, CODECS.Blosc.SHUFFLE, blocksize=1 << 11),
    "blosc-zstd": CODECS.Blosc("zstd", 1, CODECS.Blosc.SHUFFLE, blocksize=1 << 11),
    "blosc-bits": CODECS.Blosc("lz4", 5, CODECS.Blosc.BITSHUFFLE),
}


def compressed(path: Path, codec: str, dtype: str) -> NDArray[Any]:
    # Some of it is noise, which is not compressed.
    rng = np.random.default_rng(7)
    values = np.cumsum(rng.integers(-2, 3, SHAPE), axis=3).astype(dtype)
    noise = rng.integers(0, 256, (8, 3, 90, np.dtype(dtype).itemsize), np.uint8)
    values[1, 40:48] = noise.view(dtype)[..., 0]
    values[np.isnan(values)] = 0
    group = ZARR.create_group(str(path), zarr_format=2)
    fill = np.nan if np.dtype(dtype).kind == "f" else None
    options = {"compressors": COMPRESSORS[codec], "fill_value": fill}
    group.create_array("u", shape=SHAPE, chunks=CHUNKS, dtype=dtype, **options)[...] = values
    return values


def unpacker(
    path: Path,
    dtype: str,
    device: DecodingDevice,
    library: Library,
    threads: Executor,
    limit: int = 0,
) -> tuple[DeviceDecoding, FieldUse]:
    use = FieldUse("u", "u", tuple(Axis), dtype, DIMS, Role.INPUT, CHUNKS)
    array = packed_array(str(path), "u", dtype)
    assert array is not None
    assert array.decodes(ALL)
    source = ArrayStore(str(path))
    return DeviceDecoding(
        array, use, GRID, device, library, threads, source, limit, codecs=ALL
    ), use


def boxes() -> list[tuple[Block, Box]]:
    """Return boxes that go beyond the data, where it is taken to be periodic."""
    found: list[tuple[Block, Box]] = []
    for time in range(2):
        for start in range(0, 70, 20):
            rows = Span(start, min(70, start + 20))
            block = Block(0, (Span(0, 90), rows, Span(0, 3)), (Span(time, time + 1),))
            box = (Span(-2, 91), Span(rows.start - 3, rows.stop + 3), Span(0, 3))
            found.append((block, box))
    return found
