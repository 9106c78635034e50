"""Planes in shared memory: what blocks keep, and that no bit depends on it."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from cubin import resources
from kept import device_code
from plane_programs import PROGRAMS, program, star
from programs import Box, drawn, reference, scheduled
from tile_choices import changed

from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import tiles_of
from halocline_engine.backends.cuda.kernels.points.plane_tile import shared_bytes
from halocline_engine.backends.cuda.kernels.points.planes import planes_of
from halocline_engine.backends.cuda.kernels.points.windows import windows
from halocline_engine.backends.cuda.model.entries import Stride, entries_of
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.ir.types import DType

DOMAIN: Box = (37, 13, 9)
HALO: Box = (5, 4, 4)


TILES = [
    ((8, 2), 2, 2, 4, 1),
    ((8, 2), 2, 3, 3, 2),
    ((7, 3), 1, 1, 16, 2),
    ((4, 4), 2, 1, 2, 3),
    ((3, 1), 4, 2, 5, 2),
]


def drawn_fields(executable: Any, *, rows: bool) -> tuple[dict[str, Any], dict[str, Box]]:
    shape = tuple(n + 2 * h for n, h in zip(DOMAIN, HALO, strict=True))
    assert len(shape) == 3
    fields: dict[str, Any] = {"u": drawn(shape, 1), "v": drawn(shape, 2)}
    origins = dict.fromkeys(fields, HALO)
    if rows:
        for name, array in fields.items():
            fields[name] = executable.memory.empty(array.shape, array.dtype, HALO)
            executable.memory.upload(array, fields[name])
    return fields, origins


@pytest.mark.parametrize("turn", [0, 1])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_the_reference(load: Any, name: str, turn: int) -> None:
    schedule = scheduled(PROGRAMS[name])
    number = list(PROGRAMS).index(name)
    block, width, rows, depth, planes = TILES[(2 * number + turn) % len(TILES)]
    order = {"backward": (number + turn) % 2 == 0, ("strip", "column")[turn]: 1}
    tiles = changed(block=block, width=width, rows=rows, depth=depth, planes=planes, **order)
    executable = load(schedule, tiles=tiles)
    for in_aligned_rows in (False, True):
        fields, origins = drawn_fields(executable, rows=in_aligned_rows)
        expected = reference(schedule, fields, {"w": 0.3}, origins, DOMAIN)
        executable(fields, {"w": 0.3}, origins, DOMAIN)
        np.testing.assert_array_equal(fields["v"], expected["v"])


@pytest.mark.parametrize(("name", "depth"), [("three", 4), ("aside", 16)])
def test_pieces_that_an_edge_cuts_come_element_by_element(load: Any, name: str, depth: int) -> None:
    """Rows of 37 single precision numbers, and what is read beside them, are no whole pieces."""
    schedule = scheduled(
        {**PROGRAMS, "three": program(star(3))}[name].replace("float64", "float32")
    )
    executable = load(schedule, tiles=changed(block=(3, 2), width=4, rows=2, depth=depth, planes=2))
    shape = tuple(n + 2 * h for n, h in zip(DOMAIN, HALO, strict=True))
    assert len(shape) == 3
    fields: dict[str, Any] = {}
    for number, field in enumerate("uv"):
        fields[field] = executable.memory.empty(shape, np.dtype("float32"), HALO)
        executable.memory.upload(drawn(shape, number).astype("float32"), fields[field])
    origins = dict.fromkeys(fields, HALO)
    expected = reference(schedule, fields, {"w": 0.3}, origins, DOMAIN)
    executable(fields, {"w": 0.3}, origins, DOMAIN)
    np.testing.assert_array_equal(fields["v"], expected["v"])


@pytest.mark.parametrize("name", ["star", "aside", "two"])
def test_nvidias_compiler_takes_them(name: str) -> None:
    schedule = scheduled(PROGRAMS[name])
    variant = usual_variant(schedule)
    choose = changed(block=(32, 8), width=2, rows=2, depth=32, planes=2)
    tiles = tiles_of(schedule, variant, (512, 512, 128), choose)
    assert any(tile.planes for tile in tiles.values())
    for used in resources(device_code(emit(schedule, variant, tiles), "sm_90")).values():
        assert used.stack == 0


def test_a_block_keeps_what_its_threads_read() -> None:
    """Every element that a thread loads lies in the plane, and 16 bytes of it at once."""
    offsets = [(3, -2, -1), (-4, 1, 2), (0, 0, 0), (0, 1, 2)]
    for block, width, rows in product([(4, 2), (5, 3)], (1, 2, 4), (1, 3)):
        tile = Tile(block, width=width, rows=rows, depth=4, planes=2)
        ones = (Stride.ONE, Stride.ANY, Stride.ANY)
        found = planes_of({"u": offsets}, {"u": ones}, {"u": DType.FLOAT32}, {"u"}, tile)
        plane = found["u"]
        assert plane.levels == (-1, 3)
        assert plane.deep == 4 + 2
        assert plane.bytes % 16 == 0
        for window in windows(offsets, ones, width=width, rows=rows, ring=True):
            for (x, y), (row, column) in product(
                product(range(block[0]), range(block[1])), window.loaded
            ):
                place = (y * rows + row, x * width + column)
                assert plane.rows[0] <= place[0] < plane.rows[1]
                assert plane.columns[0] <= place[1] < plane.columns[1]
                at = y * rows * plane.pitch + x * width + plane.place((row, column))
                assert at == plane.place(place)
                assert plane.place((place[0], 0)) * plane.itemsize % plane.line == 0
                assert 0 <= at < plane.size


def test_what_a_block_can_not_keep_is_loaded_from_memory() -> None:
    schedule = scheduled(PROGRAMS["star"])
    variant = usual_variant(schedule)
    (entry,) = entries_of(schedule)
    many = changed(block=(32, 8), width=2, rows=4, depth=32, planes=8)
    (tile,) = tiles_of(schedule, variant, (512, 512, 128), many).values()
    assert tile.planes == 0
    few = changed(block=(32, 8), width=2, rows=4, depth=32, planes=2)
    (tile,) = tiles_of(schedule, variant, (512, 512, 128), few).values()
    assert tile.planes == 2
    # A level has 64 + 2 * 4 columns and 32 + 2 * 4 rows; 0 to 4 are read, and 2 are under way. The
    # block's first point lies at a multiple of 64 bytes: for 128 there is no room.
    assert shared_bytes(entry, schedule, variant, tile) == (72 * 40 * 8 + 64) * (5 + 2)
    some = scheduled(PROGRAMS["some"])
    # What is written at some points is stored where it is computed, with no test for the edge.
    (tile,) = tiles_of(some, usual_variant(some), (512, 512, 128), few).values()
    assert tile.planes == 0
    flat = changed(block=(32, 8), width=2, rows=4, depth=1, planes=2)
    (tile,) = tiles_of(schedule, variant, (512, 512, 128), flat).values()
    assert tile.planes == 0
