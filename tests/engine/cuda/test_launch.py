"""Launch geometry: every point once, in any block shape, in grids that a device takes."""

from __future__ import annotations

from collections import Counter

import pytest

from halocline_engine.backends.cuda.entries import Entry
from halocline_engine.backends.cuda.launch import Block, Launch, block_for, launches
from halocline_engine.ir.extent import Horizontal
from halocline_engine.ir.types import Order
from halocline_engine.schedule.nodes import Kernel

Point = tuple[int, int, int]


def entry(extent: Horizontal = ((0, 0), (0, 0)), order: Order = Order.PARALLEL) -> Entry:
    return Entry("kernel0", Kernel(order, extent, (), ()), False, (), (), ())


def points(
    launch: Launch, rows: int, extent: Horizontal, domain: tuple[int, int, int]
) -> Counter[Point]:
    """Return the points that the threads of a launch compute, by the rules of the kernels."""
    (i_low, i_high), (_, j_high) = extent
    found: Counter[Point] = Counter()
    for x in range(launch.grid[0] * launch.block[0]):
        for y in range(launch.grid[1] * launch.block[1]):
            for z in range(launch.grid[2]):
                for n in range(rows):
                    i, j = x + i_low, launch.row + y * rows + n
                    if i < domain[0] + i_high and j < domain[1] + j_high:
                        found[i, j, launch.level + z] += 1
    return found


@pytest.mark.parametrize("block", [(1, 1), (7, 3), (32, 4)])
@pytest.mark.parametrize("rows", [1, 2, 4])
@pytest.mark.parametrize("extent", [((0, 0), (0, 0)), ((-2, 1), (-1, 3))])
def test_every_point_is_computed_once(block: Block, rows: int, extent: Horizontal) -> None:
    domain = (9, 14, 5)
    found: Counter[Point] = Counter()
    for launch in launches(entry(extent), domain, block, rows, (1, 4)):
        found += points(launch, rows, extent, domain)
    (a, b), (c, d) = extent
    assert found == {
        (i, j, k): 1 for i in range(a, 9 + b) for j in range(c, 14 + d) for k in range(1, 4)
    }


def test_grids_are_split_where_a_device_takes_no_larger_ones() -> None:
    (first, second) = launches(entry(), (10, 70000, 1), (32, 1), 1, (0, 1))
    assert (first.grid, first.row) == ((1, 65535, 1), 0)
    assert (second.grid, second.row) == ((1, 4465, 1), 65535)
    (low, high) = launches(entry(), (10, 10, 70000), (32, 4), 2, (0, 70000))
    assert (low.grid, low.level) == ((1, 2, 65535), 0)
    assert (high.grid, high.level) == ((1, 2, 4465), 65535)


def test_columns_are_launched_once_whatever_their_height() -> None:
    (only,) = launches(entry(order=Order.FORWARD), (100, 50, 80), (64, 2), 1, (3, 80))
    assert only == Launch((2, 25, 1), (64, 2, 1), 0, 0)


def test_nothing_is_launched_for_nothing() -> None:
    assert not list(launches(entry(), (5, 5, 5), (32, 4), 1, (3, 3)))
    assert not list(launches(entry(((0, -5), (0, 0))), (5, 5, 5), (32, 4), 1, (0, 5)))


@pytest.mark.parametrize(
    ("domain", "order", "block"),
    [
        ((1024, 1024, 8), Order.PARALLEL, (32, 4)),
        ((1024, 1024, 8), Order.FORWARD, (64, 2)),
        ((1024, 1, 8), Order.PARALLEL, (128, 1)),
        ((8, 1024, 8), Order.PARALLEL, (8, 16)),
        ((12, 1024, 8), Order.BACKWARD, (16, 8)),
    ],
)
def test_blocks_follow_the_domain(domain: tuple[int, int, int], order: Order, block: Block) -> None:
    assert block_for(entry(order=order), domain) == block
