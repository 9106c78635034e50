"""Pivoting: systems that elimination without it cannot solve, or solves badly."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cubin import resources
from hypothesis import given, settings
from hypothesis import strategies as st
from kept import device_code
from numpy.typing import NDArray

import halocline_engine.kernels.tridiagonal.cuda as module
from halocline_engine.device.probe import device_count
from halocline_engine.kernels.machine import source_of
from halocline_engine.kernels.status import Status
from halocline_engine.kernels.tridiagonal.launching import Layout, plan_thomas

LINALG: Any = import_module("scipy.linalg")
cpu: Any = import_module("halocline_engine.kernels.tridiagonal.cpu")
reference: Any = import_module("halocline_engine.kernels.tridiagonal.reference")
pivoting: Any = import_module("halocline_engine.kernels.tridiagonal.pivoting")
Solvers = Callable[[str], Any]
KNOWN = ("reference", "cpu", "emulated", *("cuda",) * (device_count() > 0))
TARGETS = pytest.mark.parametrize("target", KNOWN)


def matrix_of(bands: list[Any], outer: int, inner: int, *, periodic: bool = False) -> Any:
    """Return one system's matrix; `bands` go from the lowest to the highest."""
    reach, rows = len(bands) // 2, bands[0].shape[1]
    matrix: NDArray[np.float64] = np.zeros((rows, rows))
    for offset, band in zip(range(-reach, reach + 1), bands, strict=True):
        for i in range(rows):
            if periodic or 0 <= i + offset < rows:
                matrix[i, (i + offset) % rows] += band[outer, i, inner]
    return matrix


def banded(bands: list[Any], rhs: Any) -> Any:
    """Return what SciPy's `solve_banded` finds, which pivots, in the type of the bands."""
    reach, rows = len(bands) // 2, rhs.shape[1]
    found = np.empty_like(rhs)
    for outer, inner in np.ndindex(rhs.shape[0], rhs.shape[2]):
        stored = np.zeros((len(bands), rows), rhs.dtype)
        for above, band in zip(range(-reach, reach + 1), bands, strict=True):
            for i in range(max(0, -above), min(rows, rows - above)):
                stored[reach - above, i + above] = band[outer, i, inner]
        found[outer, :, inner] = LINALG.solve_banded((reach, reach), stored, rhs[outer, :, inner])
    return found


def weak(shape: tuple[int, ...], count: int, dtype: str, seed: int, *, zeros: bool) -> Any:
    """Return bands without any dominance, and a right-hand side; some diagonals are zero."""
    rng = np.random.default_rng(seed)
    bands = [rng.normal(size=shape).astype(dtype) for _ in range(count + 1)]
    if zeros:
        bands[count // 2][rng.random(shape) < 0.5] = 0
    return bands


@TARGETS
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_no_dominance_at_all(solvers: Solvers, target: str, dtype: str) -> None:
    *bands, rhs = weak((2, 9, 3), 3, dtype, 5, zeros=True)
    kept = [band.copy() for band in (*bands, rhs)]
    bands[0][:, 0] = bands[2][:, -1] = np.nan
    solved = solvers(target).solve(*bands, rhs, pivoting=True)
    exact = banded(bands, rhs)
    scale = 1e-12 if dtype == "float64" else 1e-3
    assert np.abs(solved.solution - exact).max() < scale * np.abs(exact).max()
    unit = 1e-15 if dtype == "float64" else 1e-6
    assert reference.residual(*bands, rhs, solved.solution).max() < unit
    assert not solved.status.any()
    assert np.array_equal(solved.solution, reference.solve(*bands, rhs, pivoting=True).solution)
    assert np.array_equal(kept[1], bands[1])
    plain = reference.solve(*bands, rhs)
    assert not reference.residual(*bands, rhs, plain.solution).max() < 1e-6


@TARGETS
def test_rows_that_lie_side_by_side_and_such_that_do_not_fit_on_the_chip(
    solvers: Solvers, target: str
) -> None:
    for shape in ((3, 1, 1), (3, 2, 1), (3, 9, 1), (1, 400, 2)):
        *bands, rhs = weak(shape, 3, "float64", 6, zeros=shape[1] > 2)
        solved = solvers(target).solve(*bands, rhs, pivoting=True)
        judge = reference.solve(*bands, rhs, pivoting=True)
        assert np.array_equal(solved.solution, judge.solution)
        assert reference.residual(*bands, rhs, solved.solution).max() < 1e-15


@TARGETS
def test_periodic_systems(solvers: Solvers, target: str) -> None:
    """The six rows of ones beside a zero diagonal: Sherman and Morrison's matrix is singular."""
    ones = np.ones((1, 6, 1))
    rhs = np.arange(6.0).reshape(1, 6, 1)
    solved = solvers(target).solve(ones, 0 * ones, ones, rhs, periodic=True, pivoting=True)
    matrix = matrix_of([ones, 0 * ones, ones], 0, 0, periodic=True)
    assert np.abs(matrix @ solved.solution[0, :, 0] - np.arange(6)).max() < 1e-14
    assert not solved.status.any()
    for rows in (3, 9):
        *bands, right = weak((1, rows, 4), 3, "float64", 7, zeros=True)
        solved = solvers(target).solve(*bands, right, periodic=True, pivoting=True)
        assert reference.residual(*bands, right, solved.solution, periodic=True).max() < 1e-15


@TARGETS
def test_pentadiagonal_systems(solvers: Solvers, target: str) -> None:
    for rows in (1, 2, 3, 9):
        *bands, rhs = weak((1, rows, 4), 5, "float64", 8, zeros=rows > 2)
        for at, (first, past) in enumerate(((0, 2), (0, 1), (0, 0), (rows - 1, rows), (-2, None))):
            bands[at][:, first:past] = np.nan
        found = solvers(target).solve_pentadiagonal(*bands, rhs, pivoting=True)
        judge = reference.solve_pentadiagonal(*bands, rhs, pivoting=True)
        assert np.array_equal(found, judge)
        exact = banded(bands, rhs)
        assert np.abs(found - exact).max() < 1e-11 * np.abs(exact).max()


@TARGETS
def test_a_singular_system_is_reported_and_spoils_no_other(solvers: Solvers, target: str) -> None:
    for shape in ((1, 9, 4), (4, 9, 1)):
        for periodic in (False, True):
            *bands, rhs = weak(shape, 3, "float64", 9, zeros=True)
            good = solvers(target).solve(*bands, rhs, periodic=periodic, pivoting=True)
            systems = [np.moveaxis(band, 1, 2).reshape(4, 9) for band in (*bands, rhs)]
            for band in systems[:3]:
                band[1, 4] = 0
            systems[3][2, 5] = np.nan
            changed = [
                np.ascontiguousarray(np.moveaxis(s.reshape(shape[0], shape[2], 9), 2, 1))
                for s in systems
            ]
            solved = solvers(target).solve(*changed, periodic=periodic, pivoting=True)
            status = solved.status.reshape(-1).tolist()
            assert status == [0, Status.FAILED.value, Status.NOT_FINITE.value, 0]
            found, before = (np.moveaxis(s.solution, 1, 2).reshape(4, 9) for s in (solved, good))
            assert np.array_equal(found[[0, 3]], before[[0, 3]])


@settings(max_examples=20, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 2), st.integers(3, 40), st.integers(1, 5)),
    seed=st.integers(0, 1000),
    zeros=st.booleans(),
)
def test_cpu_has_the_bits_of_the_reference(
    shape: tuple[int, int, int], seed: int, zeros: bool
) -> None:
    *bands, rhs = weak(shape, 5, "float64", seed, zeros=zeros)
    for periodic in (False, True):
        three = (*bands[:3], rhs)
        judge = reference.solve(*three, periodic=periodic, pivoting=True)
        solved = cpu.solve(*three, periodic=periodic, pivoting=True)
        assert np.array_equal(solved.solution, judge.solution, equal_nan=True)
        assert np.array_equal(solved.status, judge.status)
    judge = reference.solve_pentadiagonal(*bands, rhs, pivoting=True)
    found = cpu.solve_pentadiagonal(*bands, rhs, pivoting=True)
    assert np.array_equal(found, judge, equal_nan=True)


def test_folding_keeps_the_systems() -> None:
    for rows in (3, 4, 5, 8):
        *bands, rhs = weak((1, rows, 1), 3, "float64", 10, zeros=False)
        folded, right = pivoting.fold(*bands, rhs)
        order = pivoting.unfold(np.arange(float(rows)).reshape(1, rows, 1))[0, :, 0].astype(int)
        whole = matrix_of([*bands], 0, 0, periodic=True)
        assert np.array_equal(matrix_of([*folded], 0, 0)[np.ix_(order, order)], whole)
        assert np.array_equal(pivoting.unfold(right), rhs)


def test_nvidias_compiler_takes_the_kernels_and_spills_nothing() -> None:
    folder = Path(module.__file__).parent
    plan = plan_thomas(Layout(1, 80, 1 << 20, "float64"), 227 * 1024, kept=3)
    assert plan.on_chip
    code = device_code(source_of(folder / "pivoted.cu", **dict(plan.constants)), "sm_90")
    found = resources(code)
    assert found["pivoted"].stack == 0
    assert found["pivoted_band"].stack == 0
