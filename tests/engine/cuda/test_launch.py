"""Launch geometry: every point once, in any block shape, in grids that a device takes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from halocline_engine.backends.cuda.kernels.choose import launches
from halocline_engine.backends.cuda.model.entries import Entry
from halocline_engine.backends.cuda.model.launch import (
    MAX_BLOCKS,
    Launch,
    first_whole,
    inverse_of,
)
from halocline_engine.backends.cuda.model.tile import Block, Tile
from halocline_engine.ir.extent import Horizontal
from halocline_engine.ir.types import Order
from halocline_engine.schedule.nodes import Kernel

Point = tuple[int, int, int]


def entry(extent: Horizontal = ((0, 0), (0, 0)), order: Order = Order.PARALLEL) -> Entry:
    return Entry("kernel0", Kernel(order, extent, (), ()), False, (), (), ())


def points(
    launch: Launch, tile: Tile, extent: Horizontal, domain: tuple[int, int, int]
) -> Counter[Point]:
    """Return the points that the threads of a launch compute, by the rules of the kernels."""
    found: Counter[Point] = Counter()
    (i_low, i_high), (_, j_high) = extent
    i1, j1 = domain[0] + i_high, domain[1] + j_high
    deep = launch.deep(tile)
    first = first_whole(i_low, tile)
    wholes = max(i1 - first, 0) // tile.width
    left = i1 - i_low - wholes * tile.width
    for x, y, bz in product(
        range(launch.grid[0] * launch.block[0]),
        range(launch.grid[1] * launch.block[1]),
        range(launch.grid[2]),
    ):
        part, z = divmod(bz, deep) if tile.strip or tile.column else (0, bz)
        t = x + (part * launch.grid[0] * launch.block[0] if tile.column else 0)
        strip = part if tile.strip else 0
        j0 = launch.row + (y + strip * launch.grid[1] * launch.block[1]) * tile.rows
        rows = range(j0, min(j0 + tile.rows, j1))
        columns = range(0)
        if tile.planes:
            i0 = t * tile.width + i_low // tile.width * tile.width
            columns = range(max(i0, i_low), min(i0 + tile.width, i1))
        elif t < wholes:
            columns = range(first + t * tile.width, first + (t + 1) * tile.width)
        elif t - wholes < left * tile.rows:
            row, column = divmod(t - wholes, left)
            i = column + i_low + (0 if column < first - i_low else wholes * tile.width)
            rows, columns = rows[row : row + 1], range(i, i + 1)
        k0 = launch.level + z * tile.depth
        for point in product(columns, rows, range(k0, min(k0 + tile.depth, launch.top))):
            found[point] += 1
    return found


@pytest.mark.parametrize("block", [(1, 1), (7, 3), (32, 4)])
@pytest.mark.parametrize("share", [(1, 1, 1), (1, 4, 2), (4, 2, 1), (2, 1, 3)])
@pytest.mark.parametrize("more", [{}, {"strip": 1}, {"strip": 3}, {"column": 2}, {"planes": 2}])
@pytest.mark.parametrize("extent", [((0, 0), (0, 0)), ((-2, 1), (-1, 3)), ((-5, -1), (1, 2))])
def test_every_point_is_computed_once(
    block: Block, share: tuple[int, int, int], extent: Horizontal, more: dict[str, Any]
) -> None:
    domain, tile = (9, 14, 5), replace(Tile(block, *share), **more)
    found: Counter[Point] = Counter()
    for launch in launches(entry(extent), domain, tile, (1, 4)):
        found += points(launch, tile, extent, domain)
    (a, b), (c, d) = extent
    assert found == {
        (i, j, k): 1 for i in range(a, 9 + b) for j in range(c, 14 + d) for k in range(1, 4)
    }


def test_grids_are_split_where_a_device_takes_no_larger_ones() -> None:
    (first, second) = launches(entry(), (10, 70000, 1), Tile((32, 1)), (0, 1))
    assert (first.grid, first.row) == ((1, 65535, 1), 0)
    assert (second.grid, second.row) == ((1, 4465, 1), 65535)
    tile = Tile((32, 4), rows=2, depth=2)
    (low, high) = launches(entry(), (10, 10, 140000), tile, (0, 140000))
    assert (low.grid, low.level, low.top) == ((1, 2, 65535), 0, 140000)
    assert (high.grid, high.level, high.top) == ((1, 2, 4465), 131070, 140000)


def test_grids_of_strips_are_split_as_well() -> None:
    tile = Tile((32, 4), depth=2, strip=50)
    (first, second) = launches(entry(), (10, 600, 60000), tile, (0, 60000))
    assert (first.grid, first.row) == ((1, 50, 60000), 0)
    assert (second.grid, second.row) == ((1, 50, 30000), 400)


def test_the_inverse_divides_every_number_of_a_block() -> None:
    numbers = np.arange(MAX_BLOCKS, dtype=np.uint64)
    for deep in (*range(1, 400), *range(401, MAX_BLOCKS, 487), 32767, 32768, MAX_BLOCKS):
        parts = (numbers + np.uint64(1)) * np.uint64(inverse_of(deep)) >> np.uint64(32)
        assert (parts == numbers // np.uint64(deep)).all(), deep


def test_columns_are_launched_once_whatever_their_height() -> None:
    (only,) = launches(entry(order=Order.FORWARD), (100, 50, 80), Tile((64, 2)), (3, 80))
    assert only == Launch((50, 1, 1), (64, 2, 1), 0, 0, 1)


def test_nothing_is_launched_for_nothing() -> None:
    assert not list(launches(entry(), (5, 5, 5), Tile((32, 4)), (3, 3)))
    assert not list(launches(entry(((0, -5), (0, 0))), (5, 5, 5), Tile((32, 4)), (0, 5)))
