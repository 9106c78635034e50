"""Steps at once on the cores beyond whose sides ghosts are made: the bits of single steps."""

from __future__ import annotations

from typing import Any

import interpreted
import numpy as np
import pytest
from feedback_steps import CLOSED, Fed, Grid, fed_program, grid_of, made_sides
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from halocline_engine.analysis.boundaries import Kind, MadeSides
from halocline_engine.backends.cpu.caches import Caches
from halocline_engine.backends.cpu.run import CpuExecutable
from halocline_engine.backends.cpu.temporal.tiles import Tiling
from halocline_engine.program import compile_program
from halocline_engine.schedule.temporal.step import Refused

E, R, X, N = Kind.EDGE, Kind.REFLECT, Kind.EXTRAPOLATE, Kind.NONE
UPWIND = Fed(
    """
def upwind(u: Field[float32], w: Field[float32], v: Field[float32], x: Field[float32]):
    with computation(PARALLEL), interval(...):
        v = u - 0.25 * (u - u[-2, 0, 0]) * w - 0.125 * (u - u[0, -1, 0])
        x = 0.5 * w + 0.25 * (w[0, 2, 0] - u[1, 0, 0])
""",
    {"v": "u", "x": "w"},
)
BOX = Fed(
    """
def box(u: Field[float64], v: Field[float64], c: Field[float64]):
    with computation(PARALLEL), interval(...):
        v = 0.5 * u + 0.125 * c * ((u[-1, -1, 0] + u[1, 0, 1]) + (u[0, -1, 1] - u[1, 1, -1])
            + (u[-1, 0, -1] + u[-1, 1, 1])) + 0.25 * c[0, 1, -1]
""",
    {"v": "u"},
)
ENDS: list[MadeSides] = [
    ((E, E), (E, E), (E, E)),
    ((R, R), (R, R), (R, R)),
    ((X, X), (X, X), (X, X)),
    ((E, R), (X, E), (R, X)),
    ((R, N), (N, X), (N, E)),
]


def assert_steps(grid: Grid, level2: int) -> None:
    """Assert that outputs have the bits of single steps on the domain, and are NaN around it."""
    artifact = compile_program(grid.fed.text, target="cpu")
    executable = CpuExecutable(artifact.schedule, Caches(level2=level2))
    fused = executable.fused(grid.steps, grid.fed.feedback, grid.sides, grid.ends)
    assert not isinstance(fused, Refused)
    before = {name: array.copy() for name, array in grid.arrays.items()}
    fused(grid.arrays, grid.scalars, grid.origins, grid.domain)
    expected = grid.expected()
    for name, array in grid.arrays.items():
        if name not in expected:
            np.testing.assert_array_equal(array, before[name])
            continue
        got = grid.inside(grid.arrays, name)
        np.testing.assert_array_equal(got, expected[name], err_msg=name)
        assert np.isnan(array).sum() - np.isnan(got).sum() == array.size - got.size


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize(
    ("fed", "steps", "domain", "order"),
    [(UPWIND, 4, (61, 20, 2), "F"), (BOX, 3, (20, 13, 12), "C")],
)
def test_ghosts_are_those_of_single_steps(
    fed: Fed, steps: int, domain: Any, order: str, ends: MadeSides
) -> None:
    assert_steps(grid_of(fed, steps, domain, CLOSED, order=order, ends=ends), 4096)


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    seed=st.integers(0, 2**40),
    steps=st.integers(2, 5),
    domain=st.tuples(st.integers(1, 24), st.integers(1, 12), st.integers(1, 5)),
    vertical=st.booleans(),
    sides=st.lists(st.sampled_from((E, R, X, N, None)), min_size=6, max_size=6),
    order=st.sampled_from("CF"),
    level2=st.sampled_from((512, 2048, 16384)),
)
def test_drawn_programs_and_sides(
    seed: int,
    steps: int,
    domain: Any,
    vertical: bool,
    sides: Any,
    order: str,
    level2: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interpreted.patch(monkeypatch)
    fed = fed_program(seed, vertical=vertical)
    opened, ends = made_sides(sides)
    reach = fed.step().reach
    assume(all(n > max(-low, high) for n, (low, high) in zip(domain, reach, strict=True)))
    assert_steps(grid_of(fed, steps, domain, opened, seed % 1000, order, ends), level2)


def test_tiles_need_what_ghosts_are_made_of() -> None:
    """Nothing is computed that a domain does not have, even so."""
    ends: MadeSides = ((N, R), (N, N), (N, N))
    sides = ((True, False), (False, False), (False, False))
    tiling = Tiling((20, 1, 1), sides, ((0, 2), (0, 0), (0, 0)), 3, (5, 1, 1), ends)
    assert tiling.box(((15, 20), (0, 1), (0, 1)), 0)[0] == (11, 20)
    assert tiling.box(((0, 5), (0, 1), (0, 1)), 0)[0] == (0, 9)


def test_a_field_that_is_read_to_one_side_alone_has_no_ghosts_at_the_other() -> None:
    tiling = Tiling((20, 1, 1), CLOSED, ((0, 2), (0, 0), (0, 0)), 3, (20, 1, 1), ENDS[2])
    found = tiling.ghosts(((0, 20), (0, 1), (0, 1)), ((1, 2), (0, 0), (0, 0)))
    assert found is not None
    assert [box[0] for box in found] == [(0, 22), (0, 20)]
