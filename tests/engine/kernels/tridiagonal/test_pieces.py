"""Long systems by the partition method: right, and the same bits however pieces are spread."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from halocline_engine.device.probe import device_count
from halocline_engine.far_memory import place_of
from halocline_engine.kernels.status import Status
from halocline_engine.kernels.tridiagonal import cpu, reference
from halocline_engine.kernels.tridiagonal.cuda_ends import DeviceEnds
from halocline_engine.kernels.tridiagonal.cuda_pieces import DevicePieces
from halocline_engine.kernels.tridiagonal.launching import Layout
from halocline_engine.kernels.tridiagonal.pieces import (
    cut_rows,
    fill_pieces,
    reduce_pieces,
    solve_ends,
    solve_rows,
    verdict,
    with_neighbours,
)

Draw = Callable[..., tuple[Any, Any, Any, Any]]
SIZE = 8
ON_DEVICES = ("emulated", *("cuda",) * (device_count() > 0))


def spread(bands: tuple[Any, Any, Any, Any], cuts: Sequence[int], *, periodic: bool) -> list[Any]:
    """Solve by blocks of pieces that begin at `cuts`, each of which knows its own rows only."""
    pieces = cut_rows(bands[3].shape[1], periodic=periodic, size=SIZE)
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < pieces.count}), pieces.count]
    blocks = list(itertools.pairwise(edges))

    def rows(first: int, past: int) -> Any:
        own = slice(pieces.start(first), pieces.start(past))
        return tuple(np.ascontiguousarray(band[:, own]) for band in bands)

    ends = [
        reduce_pieces(reference, pieces, first, past, rows(first, past), periodic=periodic)
        for first, past in blocks
    ]
    known = solve_ends(np.concatenate(ends, axis=2), periodic=periodic)
    around = with_neighbours(known, periodic=periodic)
    return [
        fill_pieces(
            reference,
            pieces,
            first,
            past,
            rows(first, past),
            around[:, :, first : past + 2],
            periodic=periodic,
            residual=True,
        )
        for first, past in blocks
    ]


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(24, 150), st.integers(1, 4)),
    dtype=st.sampled_from(["float32", "float64"]),
    periodic=st.booleans(),
    cuts=st.lists(st.integers(1, 18), max_size=5),
    seed=st.integers(0, 1000),
)
def test_any_blocks_of_pieces_give_the_same_bits(
    draw: Draw,
    shape: tuple[int, int, int],
    dtype: str,
    periodic: bool,
    cuts: list[int],
    seed: int,
) -> None:
    bands = draw(shape, dtype, periodic=periodic, seed=seed)
    whole = solve_rows(reference, bands, periodic=periodic, size=SIZE)
    filled = spread(bands, cuts, periodic=periodic)
    found = np.concatenate([part.solution for part in filled], axis=1)
    assert np.array_equal(found, whole.solution)
    missing = np.concatenate([part.missing for part in filled], axis=1).max(axis=1)
    scale = np.concatenate([part.scale for part in filled], axis=1).max(axis=1)
    exact = reference.residual(*bands, found, periodic=periodic)
    assert np.array_equal(missing / scale, exact)
    assert exact.max() < (1e-14 if dtype == "float64" else 1e-6)
    assert not whole.status.any()


@pytest.mark.parametrize(
    ("shape", "periodic"), [((2, 40, 3), False), ((2, 40, 3), True), ((3, 40, 1), False)]
)
def test_every_target_solves_long_systems(
    solvers: Callable[[str], Any], draw: Draw, shape: tuple[int, int, int], *, periodic: bool
) -> None:
    """By the emulated kernels as well: interleaved ones with the bits of the reference."""
    bands = draw(shape, periodic=periodic)
    judge = solve_rows(reference, bands, periodic=periodic, size=SIZE).solution
    far = reference.solve(*bands, periodic=periodic).solution
    assert np.abs(judge - far).max() < 1e-13
    on_cpu = solve_rows(cpu, bands, periodic=periodic, size=SIZE).solution
    assert np.array_equal(on_cpu, judge)
    for target in ON_DEVICES:
        found = solve_rows(solvers(target), bands, periodic=periodic, size=SIZE).solution
        assert np.abs(found - judge).max() < 1e-13
        assert shape[2] == 1 or np.array_equal(found, judge)


def test_the_ends_of_pieces_have_the_same_bits_on_all_targets(
    solvers: Callable[[str], Any], draw: Draw
) -> None:
    kinds = ((3, 19, 5), (4, 2, 1), (37, 16, 1), (3, 96, 1))
    for shape, dtype in itertools.product(kinds, ("float64", "float32")):
        bands = draw(shape, dtype, periodic=True)
        judge = reference.ends(*bands)
        for target in ("cpu", *ON_DEVICES):
            assert np.array_equal(solvers(target).ends(*bands), judge), target


def test_many_pieces_are_a_long_system_themselves(draw: Draw) -> None:
    bands = draw((1, 5000, 1))
    found = solve_rows(cpu, bands, periodic=False, size=4).solution
    assert np.abs(found - reference.solve(*bands).solution).max() < 1e-13


def test_a_bad_row_is_reported_for_its_system_only(draw: Draw) -> None:
    bands = draw((1, 40, 5))
    good = solve_rows(cpu, bands, periodic=False, size=SIZE).solution
    lower, diagonal, upper, rhs = bands
    diagonal[0, 20, 1] = 0
    rhs[0, 33, 2] = np.inf
    diagonal[0, :, 3] = lower[0, :, 3] = upper[0, :, 3] = 0
    solved = solve_rows(cpu, bands, periodic=False, size=SIZE)
    status = [Status(int(value)) for value in solved.status[0]]
    assert status[0] is Status.FINE
    assert status[1] & ~Status.FAILED == Status.ZERO_DIAGONAL | Status.NOT_DOMINANT
    assert status[2] == Status.NOT_FINITE
    assert status[3] == Status.ZERO_DIAGONAL | Status.FAILED
    assert status[4] is Status.FINE
    for system in (0, 4):
        assert np.array_equal(solved.solution[..., system], good[..., system])


def kept_on_device(
    kernels: Any,
    bands: tuple[Any, Any, Any, Any],
    size: int,
    *,
    periodic: bool,
    residual: bool,
    far: bool,
) -> list[Any]:
    """Solve by pieces that stay on a device, in three parts; `far` as if arrays were elsewhere."""

    def seen(values: Any) -> Any:
        return place_of(values).open() if far else values

    pieces = cut_rows(bands[3].shape[1], periodic=periodic, size=size)
    edges = sorted({0, 1, pieces.count - 1, pieces.count})
    parts = [
        DevicePieces(
            kernels,
            pieces,
            first,
            past,
            (seen(band[:, pieces.start(first) : pieces.start(past)]) for band in bands),
            periodic=periodic,
            residual=residual,
            contiguous=bands[3].shape[2] == 1,
        )
        for first, past in itertools.pairwise(edges)
    ]
    outer, _, inner = bands[3].shape
    layout = Layout(outer, pieces.count, inner, bands[3].dtype.name, periodic)
    ends = DeviceEnds(kernels, layout)
    for part in parts:
        part.prepare(ends)
        part.reduce()
    ends.solve()
    around = with_neighbours(ends.unknowns(), periodic=periodic)
    solution = np.empty_like(bands[3])
    filled: list[Any] = []
    for part, (first, past) in zip(parts, itertools.pairwise(edges), strict=True):
        part.solve()
        part.complete()
        into = seen(solution[:, pieces.start(first) : pieces.start(past)])
        filled.append(part.take(into, around[:, :, first : past + 2] if residual else None))
    assert all((part.missing is not None) == residual for part in filled)
    return [
        solution,
        *(
            np.concatenate([getattr(part, name) for part in filled], axis=1)
            for name in ("status", *(("missing", "scale") if residual else ()))
        ),
    ]


@pytest.mark.parametrize(("residual", "far"), [(False, False), (False, True), (True, False)])
@pytest.mark.parametrize("target", ON_DEVICES)
@pytest.mark.parametrize(
    ("shape", "size", "dtype", "periodic"),
    [
        ((2, 43, 3), SIZE, "float64", False),
        ((3, 43, 1), SIZE, "float32", True),
        ((2, 3000, 1), 1024, "float64", False),
    ],
)
def test_pieces_that_stay_on_a_device_have_the_bits_of_whole_systems(
    solvers: Callable[[str], Any],
    draw: Draw,
    target: str,
    shape: tuple[int, int, int],
    size: int,
    dtype: str,
    periodic: bool,
    residual: bool,
    far: bool,
) -> None:
    """Bad systems too: what is said of each is what the host would say."""
    bands = draw(shape, dtype, periodic=periodic)
    lower, diagonal, upper, rhs = bands
    rhs[0, 33, 0] = np.nan
    diagonal[1, 16, 0] = 0
    if shape[0] > 2:
        lower[2, 3] = diagonal[2, 3] = upper[2, 3] = 0
    kernels = solvers(target)
    whole = solve_rows(kernels, bands, periodic=periodic, size=size)
    found, status, *worst = kept_on_device(
        kernels, bands, size, periodic=periodic, residual=residual, far=far
    )
    assert found.tobytes() == whole.solution.tobytes()
    assert np.array_equal(verdict(status, 1), whole.status)
    assert whole.status[0, 0] == Status.NOT_FINITE.value
    if worst:
        exact = reference.residual(*bands, found, periodic=periodic)
        missing, scale = (part.max(axis=1) for part in worst)
        assert np.array_equal(missing / scale, exact, equal_nan=True)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(3, 90), st.integers(1, 3)),
    dtype=st.sampled_from(["float32", "float64"]),
    size=st.integers(3, 12),
    seed=st.integers(0, 1000),
    bad=st.sampled_from([0.0, np.nan, np.inf]),
)
@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("target", ON_DEVICES)
def test_a_device_solves_for_ends_with_the_bits_of_the_host(
    solvers: Callable[[str], Any],
    target: str,
    shape: tuple[int, int, int],
    dtype: str,
    size: int,
    seed: int,
    bad: float,
    *,
    periodic: bool,
) -> None:
    """Level by level, with values that are not finite too."""
    outer, pieces, inner = shape
    ends = np.random.default_rng(seed).uniform(-0.6, 0.6, (6, *shape)).astype(dtype)
    if bad:
        ends[seed % 6, seed % outer, seed % pieces, seed % inner] = bad
    if not periodic:
        ends[3, :, 0] = ends[4, :, -1] = 0
    judge = solve_ends(ends, periodic=periodic, size=size)
    found = DeviceEnds(solvers(target), Layout(*shape, dtype, periodic), size)
    there = np.ascontiguousarray(ends.reshape(6 * outer, 1, pieces * inner))
    found.machine.upload(there.transpose(2, 1, 0), found.equations(0, pieces))
    found.solve()
    np.testing.assert_array_equal(found.unknowns(), judge)
    first, past = sorted((seed % pieces, pieces - seed // 7 % pieces))
    if first < past:
        known, act = found.known(first, past)
        act()
        part = np.asarray(found.machine.download(known))
        own = judge[:, :, first:past].reshape(2 * outer, 1, -1)
        np.testing.assert_array_equal(part.transpose(2, 1, 0), own)


def test_what_is_cut_depends_on_the_rows_only() -> None:
    assert [cut_rows(n, periodic=False, size=10).count for n in (9, 19, 20, 39)] == [1, 1, 2, 3]
    assert [cut_rows(n, periodic=True, size=10).count for n in (29, 30)] == [1, 3]
    cut = cut_rows(39, periodic=False, size=10)
    assert [cut.start(piece) for piece in range(4)] == [0, 10, 20, 39]


def test_a_fault_of_one_piece_is_that_of_the_system() -> None:
    parts = np.array([[8, 1, 0], [4, 2, 0]], np.uint8)
    assert verdict(parts, 0).tolist() == [4, 3, 0]
