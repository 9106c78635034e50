"""Cells of chunks are brought where they belong, by the kernel as it runs on the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cubin import resources
from emulation.machine import ABSENT, EmulatedMachine, compiler
from kept import device_code
from numpy.typing import NDArray

from halocline_engine.kernels.machine import Library, source_of
from halocline_engine.kernels.unpack import cuda
from halocline_engine.kernels.unpack.cuda import Placing
from halocline_engine.kernels.unpack.problem import Piece, packed_pieces

SOURCE = Path(cuda.__file__).with_name("place.cu")


def address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def planes(values: NDArray[Any], block: int, *, shuffled: bool) -> tuple[list[Any], NDArray[Any]]:
    """Return memory with a chunk's bytes, in any place, and the table of where they are."""
    width, kept, table = values.itemsize, list[Any](), list[list[int]]()
    for first in range(0, values.size, block):
        lines = values.reshape(-1)[first : first + block].view(np.uint8).reshape(-1, width)
        parts = [lines[:, byte].copy() for byte in range(width)] if shuffled else [lines.copy()]
        kept.extend(parts)
        places = [address(part) for part in parts]
        table.append(places if shuffled else [places[0] + byte for byte in range(width)])
    return kept, np.array(table, np.uint64)


@pytest.mark.skipif(compiler() is None, reason=ABSENT)
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
@pytest.mark.parametrize("shuffled", [True, False])
def test_boxes_go_where_they_belong(emulation_folder: Path, dtype: str, shuffled: bool) -> None:
    rng = np.random.default_rng(6)
    machine = EmulatedMachine(emulation_folder / "loaded", shuffled=3)
    placing = Placing(Library(machine))
    shapes = [(40,), (7, 30), (3, 5, 9), (2, 3, 4, 5), (6, 300)]
    pieces: list[Piece] = []
    held: list[Any] = []
    wanted: list[tuple[Any, Any]] = []
    for shape in shapes:
        values = (rng.normal(size=shape) * 100).astype(dtype)
        block = int(rng.integers(8, 60))
        kept, table = planes(values, block, shuffled=shuffled)
        first = tuple(int(rng.integers(0, n)) for n in shape)
        size = tuple(int(rng.integers(1, n - at + 1)) for n, at in zip(shape, first, strict=True))
        into = np.zeros([n + 2 for n in size], dtype, order="F")
        inside = into[tuple(slice(1, n + 1) for n in size)]
        pieces.append(
            Piece(
                table=address(table),
                block=block,
                spread=1 if shuffled else values.itemsize,
                chunk=shape,
                first=first,
                size=size,
                into=address(inside),
                steps=inside.strides,
            )
        )
        made = np.zeros_like(into)
        box = tuple(slice(at, at + n) for at, n in zip(first, size, strict=True))
        made[tuple(slice(1, n + 1) for n in size)] = values[box]
        held.append((kept, table))
        wanted.append((into, made))
    packed = packed_pieces(pieces)
    placing.place(pieces, address(packed), np.dtype(dtype).itemsize)
    for into, made in wanted:
        np.testing.assert_array_equal(into, made)


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_it_compiles_for_a_device(width: int) -> None:
    found = resources(device_code(source_of(SOURCE, WIDTH=width), "sm_90"))
    assert found["place"].registers <= 64
