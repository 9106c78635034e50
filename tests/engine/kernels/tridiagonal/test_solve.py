"""All targets against dense matrices, and against each other bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from halocline_engine.errors import ArgumentError, FieldError
from halocline_engine.kernels.status import Status
from halocline_engine.kernels.tridiagonal import cpu, reference
from halocline_engine.kernels.tridiagonal.launching import window_rows
from halocline_engine.kernels.tridiagonal.problem import Factored

Bands = tuple[Any, Any, Any, Any]
Draw = Callable[..., Bands]
Shape = tuple[int, int, int]
SHAPES: tuple[Shape, ...] = ((3, 7, 5), (2, 1, 4), (1, 40, 33), (5, 33, 1))


def dense(
    lower: Any, diagonal: Any, upper: Any, outer: int, inner: int, *, periodic: bool = False
) -> NDArray[np.float64]:
    rows = diagonal.shape[1]
    matrix: NDArray[np.float64] = np.zeros((rows, rows))
    for i in range(rows):
        matrix[i, i] += diagonal[outer, i, inner]
        if i > 0 or periodic:
            matrix[i, i - 1] += lower[outer, i, inner]
        if i < rows - 1 or periodic:
            matrix[i, (i + 1) % rows] += upper[outer, i, inner]
    return matrix


def expected(bands: Bands, *, periodic: bool = False) -> Any:
    rhs = bands[3]
    found = np.empty(rhs.shape)
    for outer in range(rhs.shape[0]):
        for inner in range(rhs.shape[2]):
            matrix = dense(*bands[:3], outer, inner, periodic=periodic)
            right = rhs[outer, :, inner].astype(float)
            found[outer, :, inner] = np.linalg.solve(matrix, right)
    return found


@pytest.mark.parametrize(
    ("shape", "periodic"),
    [(shape, periodic) for shape in SHAPES for periodic in (False, True)[: 1 + (shape[1] >= 3)]],
)
def test_solves_dense_matrices(solver: Any, draw: Draw, shape: Shape, periodic: bool) -> None:
    bands = draw(shape, periodic=periodic)
    kept = [band.copy() for band in bands]
    solved = solver.solve(*bands, periodic=periodic)
    assert np.abs(solved.solution - expected(bands, periodic=periodic)).max() < 1e-12
    assert not solved.status.any()
    assert reference.residual(*bands, solved.solution, periodic=periodic).max() < 1e-15
    for before, after in zip(kept, bands, strict=True):
        assert np.array_equal(before, after, equal_nan=True)


@pytest.mark.parametrize(
    ("shape", "dtype"), [((3, 7, 5), "float64"), ((1, 40, 33), "float64"), ((1, 40, 33), "float32")]
)
def test_interleaved_systems_have_the_same_bits_on_all_targets(
    solver: Any, draw: Draw, shape: Shape, dtype: str
) -> None:
    bands = draw(shape, dtype)
    assert np.array_equal(solver.solve(*bands).solution, reference.solve(*bands).solution)
    if shape[1] >= 3:
        bands = draw(shape, dtype, periodic=True)
        judge = reference.solve(*bands, periodic=True).solution
        assert np.array_equal(solver.solve(*bands, periodic=True).solution, judge)


@pytest.mark.parametrize(
    ("rows", "dtype"), [(20, "float64"), (80, "float32"), (500, "float64"), (1300, "float64")]
)
def test_contiguous_systems_of_any_length(solver: Any, draw: Draw, rows: int, dtype: str) -> None:
    most = 1e-14 if dtype == "float64" else 1e-6
    bands = draw((2, rows, 1), dtype)
    solved = solver.solve(*bands)
    assert reference.residual(*bands, solved.solution).max() < most
    assert np.abs(solved.solution - reference.solve(*bands).solution).max() < 100 * most
    assert not solved.status.any()


@pytest.mark.parametrize(
    ("rows", "dtype"), [(60, "float64"), (80, "float64"), (130, "float64"), (260, "float32")]
)
def test_interleaved_systems_of_many_rows(solvers: Any, draw: Draw, rows: int, dtype: str) -> None:
    """Several threads a system, in any order; any part of the batch gives the same bits."""
    solver, other = solvers("emulated"), solvers("emulated-descending")
    most = 1e-14 if dtype == "float64" else 1e-6
    bands = draw((2, rows, 35), dtype)
    solved = solver.solve(*bands)
    assert reference.residual(*bands, solved.solution).max() < most
    assert np.abs(solved.solution - reference.solve(*bands).solution).max() < 100 * most
    assert not solved.status.any()
    assert np.array_equal(other.solve(*bands).solution, solved.solution)
    part = tuple(np.ascontiguousarray(band[1:, :, 3:9]) for band in bands)
    assert np.array_equal(solver.solve(*part).solution, solved.solution[1:, :, 3:9])


def test_a_bad_system_of_many_rows_is_reported(solvers: Any, draw: Draw) -> None:
    solver = solvers("emulated")
    for shape in ((1, 60, 6), (6, 60, 1)):
        lower, diagonal, upper, rhs = draw(shape)
        good = solver.solve(lower, diagonal, upper, rhs).solution
        place = (slice(None), 33, slice(None))
        for array, system, value in (
            (diagonal, 1, 0.0),
            (rhs, 2, np.inf),
            (upper, 3, np.nan),
            (diagonal, 4, 0.5 * np.abs(lower[place]).ravel()[4]),
        ):
            array[(0, 33, system) if shape[2] > 1 else (system, 33, 0)] = value
        solved = solver.solve(lower, diagonal, upper, rhs)
        status = [Status(int(value)) for value in solved.status.reshape(-1)]
        assert status[0] is Status.FINE
        assert status[1] & ~Status.FAILED == Status.ZERO_DIAGONAL | Status.NOT_DOMINANT
        assert Status.NOT_FINITE in status[2]
        assert Status.NOT_FINITE in status[3]
        assert status[4] == Status.NOT_DOMINANT
        assert status[5] is Status.FINE
        flat = [np.moveaxis(a, 1, 2).reshape(6, 60) for a in (solved.solution, good)]
        assert np.array_equal(flat[0][[0, 5]], flat[1][[0, 5]])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_what_was_not_finite_is_told_from_what_became_so(
    solvers: Any, draw: Draw, dtype: str
) -> None:
    """In the middle of pieces of 15 rows and at their ends; a thread has two float32 systems."""
    bands = draw((1, 60, 16), dtype)
    given = [
        *((band, row, np.inf) for band in range(4) for row in (14, 15, 22)),
        (1, 30, np.nan),
    ]
    ignored = [(0, 0, np.nan), (2, 59, np.inf)]
    for system, (band, row, value) in enumerate([*given, *ignored, (1, 0, 0.0)]):
        bands[band][0, row, system] = value
    solved = solvers("emulated").solve(*bands)
    status = [Status(int(value)) for value in solved.status.reshape(-1)]
    assert all(Status.NOT_FINITE in one for one in status[: len(given)])
    assert not any(Status.FAILED in one for one in status[: len(given)])
    assert status[len(given) : -1] == [Status.FINE] * len(ignored)
    assert status[-1] == Status.ZERO_DIAGONAL | Status.NOT_DOMINANT | Status.FAILED


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_windows_of_long_systems(solvers: Any, draw: Draw, dtype: str) -> None:
    """Whole windows and tiles, and one row more; threads in another order give the same bits."""
    solver, other = solvers("emulated-descending"), solvers("emulated")
    most = 1e-14 if dtype == "float64" else 1e-6
    for window in window_rows(dtype):
        for rows in (2 * window, 2 * window + 1):
            bands = draw((2, rows, 1), dtype)
            solved = solver.solve(*bands)
            assert reference.residual(*bands, solved.solution).max() < most
            assert np.array_equal(solved.solution, other.solve(*bands).solution)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_long_systems_that_are_coupled_strongly(solvers: Any, draw: Draw, dtype: str) -> None:
    """One of three systems is solved again, by tiles: what is at one end reaches the other."""
    solver = solvers("emulated")
    lower, diagonal, upper, rhs = draw((3, 1500, 1), dtype)
    fine = solver.solve(lower, diagonal, upper, rhs)
    lower[1], upper[1], rhs[1] = -1, -1, 0
    diagonal[1] = 2
    rhs[1, 0] = 1
    solved = solver.solve(lower, diagonal, upper, rhs)
    exact = 1 - np.arange(1, 1501) / 1501
    assert np.abs(solved.solution[1, :, 0] - exact).max() < (1e-10 if dtype == "float64" else 0.1)
    assert not solved.status.any()
    assert np.array_equal(solved.solution[::2], fine.solution[::2])
    alone = solver.solve(*(array[1:2] for array in (lower, diagonal, upper, rhs)))
    assert np.array_equal(alone.solution, solved.solution[1:2])


def test_a_bad_row_of_a_long_system(solvers: Any, draw: Draw) -> None:
    solver = solvers("emulated")
    bands = draw((5, 1500, 1))
    good = solver.solve(*bands).solution
    bands[1][1, 700] = 0
    bands[3][2, 1499] = np.inf
    bands[1][3, :700] /= 1.9
    solved = solver.solve(*bands)
    status = [Status(int(value)) for value in solved.status.reshape(-1)]
    assert status[0] is status[4] is Status.FINE
    assert status[1] & ~Status.FAILED == Status.ZERO_DIAGONAL | Status.NOT_DOMINANT
    assert Status.NOT_FINITE in status[2]
    assert status[3] == Status.NOT_DOMINANT
    assert np.array_equal(solved.solution[[0, 4]], good[[0, 4]])
    lower, diagonal, upper, rhs = (band[3:4] for band in bands)
    assert reference.residual(lower, diagonal, upper, rhs, solved.solution[3:4]).max() < 1e-13


def test_systems_that_do_not_fit_on_the_chip(solver: Any, draw: Draw) -> None:
    bands = draw((1, 700, 3), periodic=True)
    for periodic in (False, True):
        judge = reference.solve(*bands, periodic=periodic).solution
        assert np.array_equal(solver.solve(*bands, periodic=periodic).solution, judge)


def test_any_part_of_a_batch_gives_the_same_bits(solver: Any, draw: Draw) -> None:
    for shape in ((4, 19, 6), (24, 19, 1)):
        bands = draw(shape)
        whole = solver.solve(*bands).solution
        for outer in (slice(0, 1), slice(1, 4)):
            part = tuple(np.ascontiguousarray(band[outer]) for band in bands)
            assert np.array_equal(solver.solve(*part).solution, whole[outer])


def test_a_bad_system_is_reported_and_spoils_no_other(solver: Any, draw: Draw) -> None:
    for shape in ((1, 9, 8), (8, 9, 1)):
        bands = draw(shape)
        good = solver.solve(*bands).solution
        flat = [np.moveaxis(band, 1, 2).reshape(8, 9) for band in bands]
        lower, diagonal, upper, rhs = flat
        diagonal[1, 4] = 0
        diagonal[2, 3] = 0.5 * (abs(lower[2, 3]) + abs(upper[2, 3]))
        rhs[3, 8] = np.inf
        lower[4, 5] = np.nan
        diagonal[5] = 0
        lower[5] = upper[5] = 0
        changed = [
            np.ascontiguousarray(np.moveaxis(a.reshape(shape[0], shape[2], 9), 2, 1)) for a in flat
        ]
        solved = solver.solve(*changed)
        status = [Status(int(value)) for value in solved.status.reshape(-1)]
        assert status[0] is Status.FINE
        # What begins with the zero itself, as a lane of a warp may do, finds no solution.
        assert status[1] & ~Status.FAILED == Status.ZERO_DIAGONAL | Status.NOT_DOMINANT
        assert status[2] == Status.NOT_DOMINANT
        assert Status.NOT_FINITE in status[3]
        assert Status.NOT_FINITE in status[4]
        assert status[5] == Status.ZERO_DIAGONAL | Status.FAILED
        assert status[6:] == [Status.FINE, Status.FINE]
        per_system = np.moveaxis(solved.solution, 1, 2).reshape(8, 9)
        untouched = np.moveaxis(good, 1, 2).reshape(8, 9)
        for system in (0, 6, 7):
            assert np.array_equal(per_system[system], untouched[system])


def test_factors_serve_several_right_hand_sides(solver: Any, draw: Draw) -> None:
    for dtype in ("float64", "float32"):
        bands = draw((2, 30, 5), dtype)
        factored = solver.factor(*bands[:3])
        for seed in (1, 2):
            rhs = draw((2, 30, 5), dtype, seed=seed)[3]
            direct = reference.solve(*bands[:3], rhs).solution
            assert np.array_equal(solver.solve_factored(factored, rhs), direct)
        assert isinstance(factored, Factored)
        assert not factored.shared


def test_one_matrix_for_all_systems(solver: Any, draw: Draw) -> None:
    bands = draw((1, 30, 1))[:3]
    rhs = draw((3, 30, 7))[3]
    factored = solver.factor(*bands)
    assert factored.shared
    lower, diagonal, upper = (np.broadcast_to(band, rhs.shape).copy() for band in bands)
    direct = reference.solve(lower, diagonal, upper, rhs).solution
    assert np.array_equal(solver.solve_factored(factored, rhs), direct)


@pytest.mark.parametrize("shape", [(2, 17, 3), (3, 12, 1), (1, 1, 2), (1, 2, 2)])
def test_pentadiagonal(solver: Any, draw: Draw, shape: Shape) -> None:
    rng = np.random.default_rng(5)
    second_lower, second_upper = rng.normal(size=shape), rng.normal(size=shape)
    lower, diagonal, upper, rhs = draw(shape)
    diagonal += 4 * np.sign(diagonal)
    second_lower[:, :2] = second_upper[:, -2:] = np.nan
    bands = (second_lower, lower, diagonal, upper, second_upper)
    found = solver.solve_pentadiagonal(*bands, rhs)
    for outer in range(shape[0]):
        for inner in range(shape[2]):
            matrix = dense(lower, diagonal, upper, outer, inner)
            for i in range(2, shape[1]):
                matrix[i, i - 2] = second_lower[outer, i, inner]
                matrix[i - 2, i] = second_upper[outer, i - 2, inner]
            right: NDArray[np.float64] = rhs[outer, :, inner]
            exact = np.linalg.solve(matrix, right)
            assert np.abs(found[outer, :, inner] - exact).max() < 1e-12
    judge = reference.solve_pentadiagonal(*bands, rhs)
    assert np.array_equal(found, judge)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    shape=st.tuples(st.integers(1, 4), st.integers(1, 30), st.integers(1, 140)),
    dtype=st.sampled_from(["float32", "float64"]),
    seed=st.integers(0, 1000),
)
def test_cpu_has_the_bits_of_the_reference(draw: Draw, shape: Shape, dtype: str, seed: int) -> None:
    bands = draw(shape, dtype, seed=seed)
    judge, solved = reference.solve(*bands), cpu.solve(*bands)
    assert np.array_equal(solved.solution, judge.solution)
    assert np.array_equal(solved.status, judge.status)
    assert not np.isnan(solved.solution).any()


def test_the_residual_tells_of_lost_accuracy(draw: Draw) -> None:
    """A pivot that is almost zero: nothing is pivoted, so the digits are gone."""
    lower, diagonal, upper = (np.full((1, 3, 1), value) for value in (1.0, 1.0, 1.0))
    diagonal[0, 0, 0] = 1e-17
    rhs = np.array([1.0, 2.0, 4.0]).reshape(1, 3, 1)
    solved = reference.solve(lower, diagonal, upper, rhs)
    assert reference.residual(lower, diagonal, upper, rhs, solved.solution).max() > 1e-3
    assert Status(int(solved.status[0, 0])) == Status.NOT_DOMINANT


MESSAGES = {
    "shape": "Band 'lower' must have the shape of the right-hand side, (1, 4, 2), got (1, 3, 2).",
    "dtype": "Array 'upper' must be float32 or float64, as the right-hand side is (float64), got"
    " float32. Convert it with astype.",
    "whole": "Array 'lower' must be float32 or float64, as the right-hand side is (int64), got"
    " int64. Convert it with astype.",
    "dims": "The right-hand side must be indexed [outer, row, inner] with at least one row, got"
    " the shape (4, 2).",
    "periodic": "A periodic system must have at least 3 rows, got 2. Leave out 'periodic', or give"
    " it more rows.",
}


def test_messages(solver: Any) -> None:
    good = np.ones((1, 4, 2))

    def message(kind: type[Exception], *bands: Any, periodic: bool = False) -> str:
        with pytest.raises(kind) as caught:
            solver.solve(*bands, periodic=periodic)
        return str(caught.value)

    assert message(FieldError, good[:, :3], good, good, good) == MESSAGES["shape"]
    assert message(FieldError, good, good, good.astype("f4"), good) == MESSAGES["dtype"]
    assert message(FieldError, *(good.astype(int),) * 4) == MESSAGES["whole"]
    assert message(FieldError, *(good[0],) * 4) == MESSAGES["dims"]
    short = good[:, :2]
    assert message(ArgumentError, *(short,) * 4, periodic=True) == MESSAGES["periodic"]
