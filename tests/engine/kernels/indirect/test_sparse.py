"""Sparse products on every target, bit for bit, and against SciPy within rounding."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from emulation.machine import EmulatedMachine
from numpy.typing import NDArray

from halocline_engine.errors import ArgumentError
from halocline_engine.kernels.indirect.apply import Device, Host, Target
from halocline_engine.kernels.indirect.sparse import Form, Missing, Sparse, sliced, sparse

# SciPy has no annotations.
scipy_sparse: Any = import_module("scipy.sparse")
ROWS, CELLS, LEVELS = 150, 220, 11


@pytest.fixture(params=["cpu", "cuda-emulated"])
def target(request: pytest.FixtureRequest) -> Target:
    if request.param == "cpu":
        return Host(2)
    folder = request.getfixturevalue("emulation_folder")
    return Device(EmulatedMachine(folder / "loaded", descending=True), member_bytes=15_000)


def terms(rows: int = ROWS, cells: int = CELLS) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return rows, columns and weights in no order, with rows that have none or many."""
    rng = np.random.default_rng(6)
    row = np.concatenate([rng.integers(0, rows // 2, 400), np.full(90, rows - 2)])
    return row, rng.integers(0, cells, row.size), rng.normal(size=row.size)


def fields(dtype: str, cells: int = CELLS) -> NDArray[Any]:
    values = np.random.default_rng(7).normal(250, 30, (LEVELS, cells)).astype(dtype)
    values[:, 17] = np.nan
    values[3, ::3] = np.nan
    return values


def square() -> Sparse:
    return sparse(*terms(CELLS), CELLS, CELLS)


@pytest.mark.parametrize("missing", list(Missing))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_targets_agree_bit_for_bit(dtype: str, missing: Missing, target: Target) -> None:
    matrix, field = sparse(*terms(), ROWS, CELLS), fields(dtype)
    for least in (0.0, 0.5):
        wanted = Host(0).product(matrix, field, Form.PLAIN, missing, least)
        found = target.product(matrix, field, Form.PLAIN, missing, least)
        assert found.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("form", [Form.RELATIVE, Form.DEPARTURE])
def test_forms_relative_to_the_own_cell(form: Form, target: Target) -> None:
    matrix, field = square(), fields("float64")
    wanted = Host(0).product(matrix, field, form, Missing.PROPAGATE, 0.0)
    np.testing.assert_array_equal(
        target.product(matrix, field, form, Missing.PROPAGATE, 0.0), wanted
    )
    constant = np.full((2, CELLS), 0.1)
    found = target.product(matrix, constant, form, Missing.PROPAGATE, 0.0)
    there = np.diff(matrix.starts) > 0
    assert set(found[:, there].ravel()) == {0.0 if form is Form.RELATIVE else 0.1}


def test_the_reference_is_the_product_of_scipy() -> None:
    row, column, weight = terms()
    matrix = sparse(row, column, weight, ROWS, CELLS)
    field = np.random.default_rng(8).normal(size=(LEVELS, CELLS))
    whole: Any = scipy_sparse.coo_matrix((weight, (row, column)), (ROWS, CELLS)).tocsr()
    wanted = (whole @ field.T).T
    empty = np.bincount(row, minlength=ROWS) == 0
    for missing in Missing:
        found = Host(0).product(matrix, field, Form.PLAIN, missing, 0.0)
        np.testing.assert_allclose(found[:, ~empty], wanted[:, ~empty], rtol=1e-13, atol=1e-12)
        assert np.isnan(found[:, empty]).all()


def blocky(size: int) -> Sparse:
    """Return a matrix of blocks of successive columns, as between grids that divide each other."""
    rng = np.random.default_rng(size)
    row = np.repeat(np.sort(rng.integers(0, ROWS - 5, 300)), size)
    column = (size * rng.integers(0, CELLS // size, 300)[:, None] + np.arange(size)).reshape(-1)
    return sparse(row, column, rng.normal(size=row.size), ROWS, CELLS)


@pytest.mark.parametrize("missing", list(Missing))
@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("float32", 2), ("float64", 2)])
def test_blocks_of_successive_cells(
    dtype: str, size: int, missing: Missing, target: Target
) -> None:
    matrix, field = blocky(size), fields(dtype)
    found = sliced(matrix, 16 // np.dtype(dtype).itemsize)
    assert found is not None
    assert found.block == size
    wanted = Host(0).product(matrix, field, Form.PLAIN, missing, 0.5)
    np.testing.assert_array_equal(target.product(matrix, field, Form.PLAIN, missing, 0.5), wanted)


def test_slices_hold_the_matrix() -> None:
    matrix = sparse(*terms(), ROWS, CELLS)
    found = sliced(matrix, 4)
    assert found is not None
    assert found.block == 1
    for row in range(ROWS):
        first = int(found.offsets[row // 32]) + row % 32
        places = first + 32 * np.arange(int(found.lengths[row]))
        own = slice(matrix.starts[row], matrix.starts[row + 1])
        np.testing.assert_array_equal(found.columns[places], matrix.columns[own])
        np.testing.assert_array_equal(found.weights[places], matrix.weights[own])
    one = sparse(np.zeros(9000, int), np.arange(9000) % CELLS, np.ones(9000), 1000, CELLS)
    assert sliced(one, 1) is None, "one long row would fill a slice"


def test_missing_cells() -> None:
    matrix = sparse(np.zeros(4, int), np.arange(4), np.array([0.4, 0.3, 0.2, 0.1]), 1, 4)
    field = np.array([[1.0, np.nan, 3.0, 4.0], [np.nan] * 4, [np.nan, np.nan, np.nan, 4.0]])

    def found(missing: Missing, least: float = 0.0) -> NDArray[Any]:
        return Host(0).product(matrix, field, Form.PLAIN, missing, least)[:, 0]

    assert np.isnan(found(Missing.PROPAGATE)).all()
    np.testing.assert_allclose(found(Missing.RENORMALISE), [1.4 / 0.7, np.nan, 4.0])
    np.testing.assert_allclose(found(Missing.RENORMALISE, 0.5), [1.4 / 0.7, np.nan, np.nan])
    np.testing.assert_allclose(found(Missing.RENORMALISE, 0.8), [np.nan, np.nan, np.nan])


def test_terms_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ArgumentError) as caught:
        sparse(np.array([0, 3]), np.array([0, 0]), np.ones(2), 3, 4)
    assert str(caught.value) == (
        "Weight 1 has the row 3, counted from 0, but there are 3 of them. Files count from 1; the"
        " weights must be for grids of these sizes."
    )
    with pytest.raises(ArgumentError) as caught:
        sparse(np.array([0, 2]), np.array([0, -1]), np.ones(2), 3, 4)
    assert str(caught.value).startswith("Weight 1 has the column -1, counted from 0")
    with pytest.raises(ArgumentError) as caught:
        sparse(np.array([0]), np.array([0, 1]), np.ones(2), 3, 4)
    assert str(caught.value) == (
        "Weights need one row and one column for each weight, got arrays of the shapes (1,), (2,)"
        " and (2,)."
    )
