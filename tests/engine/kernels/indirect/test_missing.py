"""Rows in which cells are missing, on every target: rows by hand, and drawn ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from emulation.machine import EmulatedMachine
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from halocline_engine.kernels.indirect.apply import Device, Host, Target
from halocline_engine.kernels.indirect.sparse import Form, Missing, Sparse, balanced, sliced, sparse

NAN = float("nan")
RENORMALISE = Missing.RENORMALISE
#: Weights and cells of each row.
Rows: TypeAlias = list[tuple[list[float], list[float]]]


@dataclass(frozen=True)
class Case:
    """A row, and what it is: weights, cells, the least share, and the result."""

    weights: list[float]
    cells: list[float]
    least: float
    wanted: float


CASES = {
    "one missing": Case([0.5, 0.25, 0.25], [2, 4, NAN], 0.75, 2 * (1 / 0.75)),
    "too much missing": Case([0.5, 0.25, 0.25], [2, 4, NAN], 0.8, NAN),
    "all missing": Case([0.5, 0.5], [NAN, NAN], 0.0, NAN),
    "what is left adds up to all": Case([2, 1, -1], [5, NAN, NAN], 1.0, 10.0),
    "no weight missing": Case([1, 1, 0], [2, 4, NAN], 1.0, 6.0),
    "what is left adds up to 0": Case([1, -1, 2], [5, 3, NAN], 0.0, NAN),
    "what is left is negative": Case([3, -1], [NAN, 4], 0.0, NAN),
    "balanced": Case([1, -1], [5, 3], 1.0, 2.0),
    "balanced, all missing": Case([1, -1], [NAN, NAN], 0.0, NAN),
    "balanced, positive is left": Case([1, -1], [5, NAN], 0.0, NAN),
    "balanced, negative is left": Case([1, -1], [NAN, 3], 0.0, NAN),
    "balanced, balanced is left": Case([1, -1, 0.5, -0.5], [3, 1, NAN, NAN], 0.0, NAN),
    "balanced, no weight missing": Case([1, -1, 0], [5, 3, NAN], 0.0, NAN),
    "no weight": Case([0, 0], [5, 3], 1.0, 0.0),
    "no weight, one missing": Case([0, 0], [5, NAN], 0.0, NAN),
    "no weight, all missing": Case([0], [NAN], 0.0, NAN),
    "negative": Case([-1, -1], [4, 2], 1.0, -6.0),
    "negative, one missing": Case([-1, -1], [4, NAN], 0.0, -8.0),
    "negative, just enough": Case([-1, -1], [4, NAN], 0.5, -8.0),
    "negative, too much missing": Case([-1, -1], [4, NAN], 0.75, NAN),
    "negative, positive is left": Case([-3, 1], [NAN, 4], 0.0, NAN),
    "negative, all missing": Case([-1, -1], [NAN, NAN], 0.0, NAN),
    "empty": Case([], [], 0.0, NAN),
}


@pytest.fixture(scope="session")
def emulated(emulation_folder: Path) -> Target:
    return Device(EmulatedMachine(emulation_folder / "loaded", descending=True))


@pytest.fixture(params=["reference", "cpu", "cuda-emulated"])
def target(request: pytest.FixtureRequest) -> Target:
    if request.param == "cuda-emulated":
        made: Target = request.getfixturevalue("emulated")
        return made
    return Host(0 if request.param == "reference" else 2)


def matrix_of(rows: Rows, block: int = 1) -> tuple[Sparse, NDArray[np.float64]]:
    """Return a matrix whose rows each have cells of their own, and these cells.

    Rows are filled up to blocks of `block` with weights of 0 for cells that are there. There are
    more cells than rows, so that each row has an own one.
    """
    own = [-(-len(weights) // block) * block for weights, _ in rows]
    cells = -(-max(sum(own), len(rows) + 1) // block) * block
    weights, values = np.zeros(sum(own)), np.ones(cells)
    place = 0
    for size, (given_weights, given_cells) in zip(own, rows, strict=True):
        weights[place : place + len(given_weights)] = given_weights
        values[place : place + len(given_cells)] = given_cells
        place += size
    row = np.repeat(np.arange(len(rows)), own)
    return sparse(row, np.arange(row.size), weights, len(rows), cells), values


def with_a_long_row(matrix: Sparse) -> Sparse:
    """Return the matrix with a row that fills no slice, so that it is applied by rows."""
    more = (matrix.weights.size + 32 * 32) // 7 + 1
    row = np.repeat(np.arange(matrix.rows), np.diff(matrix.starts))
    return sparse(
        np.append(row, np.full(more, matrix.rows)),
        np.append(matrix.columns, np.arange(more) % matrix.cells),
        np.append(matrix.weights, np.ones(more)),
        matrix.rows + 1,
        matrix.cells,
    )


def assert_same_bits(found: NDArray[Any], wanted: NDArray[Any]) -> None:
    np.testing.assert_array_equal(found, wanted)
    there = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[there]), np.signbit(wanted[there]))


@pytest.mark.parametrize("layout", ["by rows", "in slices", "in blocks"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_by_hand(dtype: str, layout: str, target: Target) -> None:
    """Every second member has all cells: it is the plain sum."""
    chosen = list(CASES.values())
    block = 16 // np.dtype(dtype).itemsize if layout == "in blocks" else 1
    matrix, cells = matrix_of([(case.weights, case.cells) for case in chosen], block)
    rows = matrix.rows
    if layout == "by rows":
        matrix = with_a_long_row(matrix)
    found = sliced(matrix, block)
    assert (found.block if found else 0) == (0 if layout == "by rows" else block)
    assert balanced(matrix)
    field = np.ones((7, matrix.cells), dtype)
    field[::2] = cells
    plain = np.array([sum(case.weights) if case.weights else NAN for case in chosen], dtype)
    for least in {case.least for case in chosen}:
        made = target.product(matrix, field, Form.PLAIN, RENORMALISE, least)[:, :rows]
        assert_same_bits(made[1::2], np.broadcast_to(plain, made[1::2].shape))
        for name, case, members in zip(CASES, chosen, made[::2].T, strict=True):
            if case.least == least:
                wanted = np.full(4, case.wanted, dtype)
                np.testing.assert_array_equal(members, wanted, err_msg=name)


@pytest.mark.parametrize("form", [Form.RELATIVE, Form.DEPARTURE])
def test_rows_relative_to_a_missing_cell(form: Form, target: Target) -> None:
    """Where the own cell is missing, all are."""
    matrix = sparse(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.array([1, -1, 1, 1.0]), 2, 2)
    field = np.array([[NAN, 1.0], [3.0, NAN], [3.0, 1.0]])
    found = target.product(matrix, field, form, RENORMALISE, 0.0)
    # Of the second row its own cell is left: nothing apart from itself.
    own = field if form is Form.DEPARTURE else np.zeros_like(field)
    relative = [[NAN, 0.0], [NAN, NAN], [2.0, 2.0]]
    np.testing.assert_array_equal(found, own + relative)


def test_which_matrices_are_balanced() -> None:
    def found(*rows: list[float]) -> bool:
        return balanced(matrix_of([(row, [1.0] * len(row)) for row in rows])[0])

    assert not found([], [1.0], [-1.0, 0.5], [])
    assert found([1.0], [2.0, -2.0])
    assert found([0.0])
    assert found([-0.0], [1.0])
    # What they add up to in order counts.
    assert found([1e16, 1.0, -1e16])
    assert not found([1e16, -1e16, 1.0])


WEIGHTS = st.sampled_from([-2.0, -1.0, -0.25, -0.1, 0.0, 0.1, 0.25, 0.3, 1.0, 2.0])
CELLS = st.one_of(st.just(NAN), st.integers(-3, 3).map(float), st.sampled_from([0.1, 271.3]))


@st.composite
def drawn_rows(draw: st.DrawFn) -> Rows:
    rows: Rows = []
    for _ in range(draw(st.integers(1, 8))):
        weights = draw(st.lists(WEIGHTS, max_size=5))
        if draw(st.booleans()):
            weights += [-weight for weight in reversed(weights)]
        of = st.just(NAN) if draw(st.integers(0, 4)) == 0 else CELLS
        rows.append((weights, draw(st.lists(of, min_size=len(weights), max_size=len(weights)))))
    return rows


def as_documented(weights: list[float], cells: list[float], least: float) -> float:
    """Return a row by what `Missing` says, one step after the other."""
    full = valid = total = 0.0
    for weight, cell in zip(weights, cells, strict=True):
        full += weight
        if cell == cell:
            valid += weight
            total += weight * cell
    if not weights:
        return NAN
    if not any(np.isnan(cells)):
        return total
    if full == 0 or valid == 0 or (full < 0) != (valid < 0):
        return NAN
    return total * (full / valid) if abs(valid) >= least * abs(full) else NAN


@settings(max_examples=150, deadline=None)
@given(
    rows=drawn_rows(),
    other=st.integers(0, 2**32 - 1),
    least=st.sampled_from([0.0, 0.25, 0.5, 0.8, 1.0]),
    dtype=st.sampled_from(["float32", "float64"]),
    form=st.sampled_from(list(Form)),
    by_rows=st.booleans(),
)
def test_drawn_rows(
    emulated: Target,
    rows: Rows,
    other: int,
    least: float,
    dtype: str,
    form: Form,
    by_rows: bool,
) -> None:
    matrix, cells = matrix_of(rows)
    ranges = list(zip(matrix.starts[:-1].tolist(), matrix.starts[1:].tolist(), strict=True))
    if by_rows:
        matrix = with_a_long_row(matrix)
    rng = np.random.default_rng(other)
    field = np.where(rng.random((6, matrix.cells)) < 0.3, NAN, rng.normal(size=matrix.cells))
    field[2] = cells
    field = field.astype(dtype)
    wanted = Host(0).product(matrix, field, form, RENORMALISE, least)
    assert_same_bits(Host(1).product(matrix, field, form, RENORMALISE, least), wanted)
    assert_same_bits(emulated.product(matrix, field, form, RENORMALISE, least), wanted)
    if form is Form.PLAIN:
        own = [field[2, first:past].tolist() for first, past in ranges]
        by_hand = [as_documented(row[0], has, least) for row, has in zip(rows, own, strict=True)]
        assert_same_bits(wanted[2, : len(rows)], np.array(by_hand, dtype))
