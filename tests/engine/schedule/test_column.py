"""The column order against nested loops: being a permutation is not enough."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from halocline_engine.errors import InternalError
from halocline_engine.schedule.traversal.column import ColumnOrder, visits

MOST = 30


def nested(order: ColumnOrder) -> list[int]:
    """Write the order as loops that anyone can read."""
    cells: list[int] = []
    for column, start in enumerate(range(0, order.length, order.width)):
        places = list(range(start, min(start + order.width, order.length)))
        down = not (order.vertical and column % 2)
        for visit in range(order.rows):
            row = visit if down else order.rows - 1 - visit
            cells += [row * order.length + x for x in places]
    return cells


def assert_is_nested(order: ColumnOrder) -> None:
    expected = np.array(nested(order))
    np.testing.assert_array_equal(order.order(), expected, err_msg=repr(order))


@pytest.mark.parametrize("length", range(1, MOST + 1))
def test_every_size_is_the_nested_loops(length: int) -> None:
    for rows, width in itertools.product(range(1, MOST + 1), range(1, length + 2)):
        assert_is_nested(ColumnOrder(rows, length, width))


def test_zigzag_is_the_nested_loops() -> None:
    for rows, length in itertools.product(range(1, 10), range(1, 13)):
        for width in range(1, length + 2):
            assert_is_nested(ColumnOrder(rows, length, width, vertical=True))


def test_large_random_sizes_are_the_nested_loops() -> None:
    random.seed(4)
    for _ in range(20):
        rows, length = random.randint(1, 200), random.randint(1, 300)
        width, turns = random.randint(1, length), random.random() < 0.5
        assert_is_nested(ColumnOrder(rows, length, width, vertical=turns))


def seed_order(rows: int, length: int, width: int) -> list[int]:
    """Map as the seed does."""
    cells: list[int] = []
    for i in range(rows * length):
        o = i // (rows * width) * width
        w = (length - 1) % width + 1 if o // width == (length - 1) // width else width
        inside = i % (rows * w)
        cells.append(inside % w + inside // w * length + o)
    return cells


def test_the_seed_is_a_permutation_that_rotates_the_last_column() -> None:
    """What the corrected mapping mends, in the numbers of the specification."""
    right = ColumnOrder(rows=4, length=11, width=4).order().tolist()
    assert right[32:] == [8, 9, 10, 19, 20, 21, 30, 31, 32, 41, 42, 43]
    seed = seed_order(4, 11, 4)
    assert seed[32:] == [32, 41, 42, 43, 8, 9, 10, 19, 20, 21, 30, 31]
    for rows, length in itertools.product(range(1, 7), range(1, 12)):
        for width in range(1, length + 1):
            seed = seed_order(rows, length, width)
            assert sorted(seed) == list(range(rows * length))
            last = (length - 1) % width + 1
            alike = width * ((length - 1) // width) * rows % (rows * last) == 0
            assert alike == (seed == ColumnOrder(rows, length, width).order().tolist())


def test_single_steps_take_plain_numbers() -> None:
    order = ColumnOrder(rows=3, length=5, width=2, vertical=True)
    row, cell = order.place(13)
    assert (int(row), int(cell)) == (1, 4)
    assert order.size == 15


def test_numbers_beyond_32_bits() -> None:
    order = ColumnOrder(rows=70_001, length=70_003, width=1024)
    row, cell = order.place(np.array([0, 2**32 + 7, order.size - 1]))
    column, inside = divmod(2**32 + 7, 70_001 * 1024)
    assert (row[1], cell[1]) == (inside // 1024, column * 1024 + inside % 1024)
    assert (row[0], cell[0], row[2], cell[2]) == (0, 0, 70_000, 70_002)


def test_a_width_of_the_length_is_row_order() -> None:
    for width in (7, 8, 100):
        assert ColumnOrder(5, 7, width).order().tolist() == list(range(35))


@pytest.mark.parametrize("vertical", [False, True])
def test_visits_of_two_axes_are_the_column_order(vertical: bool) -> None:
    for rows, length, width in itertools.product(range(1, 6), range(1, 8), range(1, 8)):
        order = ColumnOrder(rows, length, width, vertical=vertical)
        expected = [divmod(cell, length) for cell in order.order().tolist()]
        assert list(visits((rows, length), 0, (1, width), vertical=vertical)) == expected
        turned = [(cell, row) for row, cell in expected]
        assert list(visits((length, rows), 1, (width, 1), vertical=vertical)) == turned


def test_visits_of_planes_go_through_a_column_before_the_next() -> None:
    """Three axes: a row is a plane, a column is a rectangle of every plane."""
    found = list(visits((4, 5, 6), along=0, widths=(1, 3, 4)))
    assert sorted(found) == list(itertools.product(range(4), range(5), range(6)))
    assert found[: 4 * 3 * 4] == list(itertools.product(range(4), range(3), range(4)))
    assert found[4 * 3 * 4] == (0, 0, 4)
    assert list(visits((3,), along=0, widths=(1,))) == [(0,), (1,), (2,)]


def test_sizes_without_work_are_refused() -> None:
    with pytest.raises(InternalError) as caught:
        ColumnOrder(rows=3, length=4, width=0)
    assert str(caught.value) == (
        "A column order needs at least one row, one cell a row and a width of one, got 3 rows of"
        " 4 cells and a width of 0."
    )
    with pytest.raises(InternalError) as caught:
        list(visits((3, 4), along=2, widths=(1, 1)))
    assert str(caught.value) == "A grid of (3, 4) has no columns along axis 2 with widths (1, 1)."
