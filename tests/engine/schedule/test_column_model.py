"""The cache model against brute force, a simulated cache, and the numbers of the specification."""

from __future__ import annotations

import itertools
import random

import pytest
from column_formulas import (
    asymptotic_width,
    counted_fetches,
    exact_width,
    fetch_bound,
    lines_of,
    product_width,
    tile_order,
    tile_surplus,
)
from lru import chunk_reads, misses, padded_reads

from halocline_engine.errors import InternalError
from halocline_engine.schedule.traversal.column import ColumnOrder
from halocline_engine.schedule.traversal.column_model import (
    Reads,
    Work,
    fitting_width,
    product_fitting_width,
    product_working_set,
    working_set,
)

MIB = 2**20
#: Threads of an H200 that are alive at a time.
THREADS = 132 * 2048
NINE = Reads((4, 4), (4, 4))
FIVE = Reads((2, 2), (2, 2))


def box(radius: int) -> Reads:
    return Reads((radius, radius), (radius, radius))


def test_the_working_set_holds_what_consecutive_cells_read() -> None:
    """Counted cell by cell, in columns of many rows; the most that any start needs."""
    for height, across, active, width in itertools.product(
        (1, 3), (1, 4), range(1, 9), range(1, 6)
    ):
        work = Work(unit=1, reads=Reads((height - 1, 0), (0, across - 1)), active=active)
        most = 0
        for start in range(width):
            rows = [cell // width for cell in range(start, start + active)]
            count = max(rows) - min(rows) + height
            most = max(most, count * (width + across - 1))
        assert working_set(work, width) == most


def test_widths_of_an_h200() -> None:
    """Level 2, and level 1 with the threads of one multiprocessor."""
    l2 = 50 * MIB
    assert asymptotic_width(Work(8, FIVE, THREADS), l2) == pytest.approx(1.26e6, rel=3e-3)
    assert asymptotic_width(Work(8, NINE, THREADS), l2) == pytest.approx(0.70e6, rel=3e-3)
    l1 = Work(8, FIVE, 2048)
    assert asymptotic_width(l1, 256 * 1024) == 6139
    exact = exact_width(l1, 256 * 1024)
    assert exact is not None
    assert 0 < 6139 - exact < 2


def test_the_exact_width_solves_the_working_set() -> None:
    random.seed(5)
    for _ in range(200):
        reads = Reads((random.randint(0, 4), 4), (random.randint(0, 4), 4))
        work = Work(random.choice((4, 8)), reads, random.randint(1, 5000))
        cache = random.randint(10_000, 10_000_000)
        width = exact_width(work, cache)
        if width is None:
            continue
        cells = (width + reads.width) * (reads.height + work.active / width)
        assert work.unit * cells == pytest.approx(cache)
        assert width <= asymptotic_width(work, cache)


def test_the_asymptote_is_that_of_the_seed() -> None:
    work = Work(8, NINE, 1000)
    width = asymptotic_width(work, MIB)
    assert 8 * (1000 + 9 * (width + 9)) == pytest.approx(MIB)


def test_a_cache_that_is_too_small_has_no_width() -> None:
    work = Work(8, NINE, THREADS)
    assert exact_width(work, 2 * MIB) is None
    assert fitting_width(work, 2 * MIB) is None
    assert asymptotic_width(work, 2 * MIB) < 1


def test_the_fitting_width_is_the_largest_that_fits() -> None:
    for radius, active, cache in itertools.product((0, 1, 2), range(1, 40, 5), range(1, 600, 13)):
        work = Work(1, box(radius), active)
        fits = [width for width in range(1, cache + 1) if working_set(work, width) <= cache]
        assert fitting_width(work, cache) == (fits[-1] if fits else None), (work, cache)


def test_planes_are_rows_of_rows() -> None:
    """The strip of 2048 x 2048 planes in single precision that stays in 20 MB: about 600 rows."""
    work = Work(unit=2048 * 4, reads=Reads((1, 1), (1, 1)))
    width = fitting_width(work, 20 * 10**6)
    assert width is not None
    assert width == pytest.approx(2 * 10**7 / 3 / (2048 * 4), abs=3)
    assert working_set(work, width) <= 20 * 10**6 < working_set(work, width + 1)


@pytest.mark.parametrize(
    ("unit", "inner", "width"),
    [(4, 4096, 3113), (4, 8192, 1408), (4, 16384, None), (8, 8192, None)],
)
def test_widths_of_a_matrix_product(unit: int, inner: int, width: int | None) -> None:
    found = product_width(unit, inner, THREADS, 50 * MIB)
    assert (None if found is None else round(found)) == width
    fitting = product_fitting_width(unit, inner, THREADS, 50 * MIB)
    if width is None:
        assert fitting is None
        return
    assert fitting is not None
    assert abs(fitting - width) <= 1
    assert product_working_set(unit, inner, fitting, THREADS) <= 50 * MIB
    assert product_working_set(unit, inner, fitting + 1, THREADS) > 50 * MIB


def test_a_product_has_a_width_from_two_roots_of_the_active_elements() -> None:
    for cells, active in itertools.product(range(1, 60), range(1, 200, 7)):
        exists = product_width(1, 1, active, cells) is not None
        assert exists == (cells * cells >= 4 * active)
        fits = [c for c in range(1, cells) if product_working_set(1, 1, c, active) <= cells]
        assert product_fitting_width(1, 1, active, cells) == (fits[-1] if fits else None)


def test_the_bound_of_the_seed_does_not_bound() -> None:
    work = Work(4, NINE)
    order = ColumnOrder(192, 192, 100).order().tolist()
    seed = -(-192 // 100) * -(-(100 + 9) // 16) * (192 + 9)
    fetched = misses(padded_reads(order, 192, NINE, 16), 90)
    assert (seed, fetched, fetch_bound(work, 192, 192, 100, 16)) == (2814, 2900, 3200)


def test_the_simulated_orders_of_the_specification() -> None:
    """9 x 9 box, lines of 16, columns and tiles 16 wide, 30 lines of cache."""

    def fetched(order: list[int]) -> int:
        return misses(padded_reads(order, 192, NINE, 16), 30)

    assert fetched(ColumnOrder(192, 192, 16).order().tolist()) == 4800
    assert fetched(ColumnOrder(192, 192, 16, vertical=True).order().tolist()) == 4690
    tiles = fetched(tile_order(192, 192, 16, 16))
    assert tiles == 6868
    assert tile_surplus(Work(4, NINE), 192, 192, 16, 16, 16) == 2112 >= tiles - 4800


def test_a_cache_of_the_working_set_fetches_what_is_counted() -> None:
    """The bound holds, and what is counted without a simulation is what the cache fetches."""
    random.seed(6)
    for _ in range(60):
        radius = random.randint(0, 3)
        rows, length, line = random.randint(1, 25), random.randint(1, 40), random.randint(1, 8)
        width = random.randint(1, length + 3)
        work = Work(4, box(radius), random.choice((1, 5)))
        order = ColumnOrder(rows, length, width).order().tolist()
        held = working_set(work, width) // work.unit
        lines = (1 + -(-held // line)) * 2 + 2 * (2 * radius + 2)
        fetched = misses(padded_reads(order, length, work.reads, line), lines)
        bound = fetch_bound(work, rows, length, width, line)
        assert fetched <= lines_of(work, rows, length, width, line) <= bound


@pytest.mark.parametrize("reads", [box(1), Reads((2, 0), (0, 1)), Reads((0, 0), (1, 1))])
def test_chunks_are_fetched_as_counted(reads: Reads) -> None:
    """The cache holds the working set of a column; chunks that columns share come again."""
    work = Work(1, reads)
    for rows, length in itertools.product((1, 4, 9), (1, 5, 12)):
        for width in range(1, length + 1):
            order = ColumnOrder(rows, length, width).order().tolist()
            uses = list(chunk_reads(order, rows, length, reads))
            counted = counted_fetches(work, rows, length, width)
            assert misses(uses, working_set(work, width)) <= counted
            assert len(set(uses)) == rows * length == counted_fetches(work, rows, length, length)
    one = Work(1, box(1))
    order = ColumnOrder(12, 40, 8).order().tolist()
    uses = list(chunk_reads(order, 12, 40, one.reads))
    assert misses(uses, working_set(one, 8)) == counted_fetches(one, 12, 40, 8) == 12 * 48


def test_row_order_fetches_again_what_columns_keep() -> None:
    """A cache for a column of 20 of 40 chunks: 1.05 times against nearly 3 times."""
    work = Work(1, box(1))
    cache = working_set(work, 20)

    def fetched(width: int) -> float:
        order = ColumnOrder(30, 40, width).order().tolist()
        return misses(chunk_reads(order, 30, 40, work.reads), cache) / (30 * 40)

    assert fetched(20) == 1.05
    assert fetched(40) > 2.8


def test_wrong_reads_and_work_are_refused() -> None:
    with pytest.raises(InternalError) as caught:
        Reads((1, -1), (0, 0))
    assert str(caught.value) == (
        "Reads around a cell are given as numbers from 0 before and after it, got rows (1, -1)"
        " and cells (0, 0)."
    )
    with pytest.raises(InternalError) as caught:
        Work(0, FIVE)
    assert str(caught.value) == (
        "Work in columns needs cells of at least a byte and at least one in work, got 0 bytes"
        " and 1 cells."
    )
