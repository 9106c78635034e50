"""Steps at once beyond whose sides ghosts are made: the bits of single steps, for any sides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from emulated_steps import Emulated, assert_steps
from feedback_steps import CLOSED, Fed, fed_program, grid_of, made_sides
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from halocline_engine.analysis.boundaries import UNMADE, Kind, MadeSides
from halocline_engine.backends.cuda.kernels.temporal.choose import usual_form
from halocline_engine.backends.cuda.kernels.temporal.text import fused_text
from halocline_engine.backends.cuda.kernels.temporal.tile import FusedTile
from halocline_engine.schedule.temporal.levels import levels_at_once

NINE = Fed(
    """
def nine(u: Field[float64], v: Field[float64]):
    with computation(PARALLEL), interval(...):
        v = 0.3 * u + 0.1 * ((u[-1, -1, 0] - u[1, 1, 0]) + (u[-1, 1, 0] + u[1, -1, 0]))
""",
    {"v": "u"},
)
#: Reads temporaries around a point, so that these are made beyond the sides.
DIFFUSION = Fed(
    """
def diffusion(inp: Field[float64], coeff: Field[float64], out: Field[float64]):
    with computation(PARALLEL), interval(...):
        lap = 4.0 * inp - (inp[-1, 0, 0] + inp[1, 0, 0] + inp[0, -1, 0] + inp[0, 1, 0])
        flx = lap[1, 0, 0] - lap
        flx = 0.0 if flx * (inp[1, 0, 0] - inp) > 0.0 else flx
        fly = lap[0, 1, 0] - lap
        fly = 0.0 if fly * (inp[0, 1, 0] - inp) > 0.0 else fly
        out = inp - coeff * (flx - flx[-1, 0, 0] + fly - fly[0, -1, 0])
""",
    {"out": "inp"},
)
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
SEVEN = Fed(
    """
def seven(u: Field[float64], v: Field[float64]):
    with computation(PARALLEL), interval(...):
        v = 0.14 * ((u[-1, 0, 0] + u[1, 0, 0]) + (u[0, -1, 0] + u[0, 1, 0])
                    + (u[0, 0, -1] + u[0, 0, 1]) + u)
""",
    {"v": "u"},
)
E, R, X, N = Kind.EDGE, Kind.REFLECT, Kind.EXTRAPOLATE, Kind.NONE
PLANE = FusedTile(2, 5, rows=2, warps=6)
SLOW = settings(
    max_examples=9,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
def emulated(emulation_folder: Path) -> Emulated:
    return Emulated(emulation_folder)


@pytest.mark.parametrize(
    "ends",
    [
        ((E, E), (E, E), (E, E)),
        ((R, R), (R, R), (R, R)),
        ((X, X), (X, X), (X, X)),
        ((E, R), (X, E), (R, X)),
        ((R, N), (N, X), (N, E)),
    ],
)
@pytest.mark.parametrize(
    ("fed", "steps", "domain", "tile"),
    [
        (NINE, 4, (75, 26, 1), FusedTile(2, 11, ahead=3, unroll=3)),
        (UPWIND, 3, (70, 20, 2), FusedTile(1, 30)),
        (DIFFUSION, 2, (61, 25, 1), FusedTile(2, 9)),
        (SEVEN, 3, (40, 21, 9), PLANE),
        (BOX, 2, (40, 21, 9), PLANE),
    ],
)
def test_ghosts_are_those_of_single_steps(
    emulated: Emulated, fed: Fed, steps: int, domain: Any, tile: FusedTile, ends: MadeSides
) -> None:
    grid = grid_of(fed, steps, domain, CLOSED, ends=ends)
    assert_steps(emulated(grid, tile), grid)


@SLOW
@given(
    seed=st.integers(0, 2**40),
    steps=st.integers(2, 4),
    domain=st.tuples(st.integers(1, 110), st.integers(1, 30), st.integers(1, 9)),
    vertical=st.booleans(),
    sides=st.lists(st.sampled_from((E, R, X, N, None)), min_size=6, max_size=6),
    width=st.sampled_from((1, 2)),
    depth=st.sampled_from((3, 8, 40)),
    ahead=st.integers(0, 2),
    order=st.integers(0, 3),
)
def test_drawn_programs_and_sides(
    emulated: Emulated,
    seed: int,
    steps: int,
    domain: Any,
    vertical: bool,
    sides: Any,
    width: int,
    depth: int,
    ahead: int,
    order: int,
) -> None:
    fed = fed_program(seed, vertical=vertical)
    step = fed.step()
    opened, ends = made_sides(sides)
    tile = FusedTile(width, depth, ahead=ahead)
    if step.is_vertical:
        tile = replace(tile, rows=2, warps=6)
    assume(all(n > max(-low, high) for n, (low, high) in zip(domain, step.reach, strict=True)))
    grid = grid_of(fed, steps, domain, opened, seed % 1000, ends=ends)
    executable = emulated(grid, tile, order=order)
    form = usual_form(executable.levels, tile)
    tall = max(max(len(kept.below), len(kept.above)) for kept in form.kept)
    assume(form.columns > 0 and form.lines > 0 and tall <= tile.rows)
    assert_steps(executable, grid)


@pytest.mark.parametrize("fed", [NINE, SEVEN])
def test_tiles_that_touch_no_side_have_the_same_code(fed: Fed) -> None:
    """A stencil that reads as far to one side as to the other has what ghosts are made of."""
    texts: list[list[str]] = []
    for ends in (UNMADE, ((E, R), (R, X), (X, R))):
        levels = levels_at_once(fed.step(), 3, ends)
        tile = FusedTile(2, 9) if fed is NINE else PLANE
        text = fused_text(usual_form(levels, tile)).splitlines()
        start = next(n for n, line in enumerate(text) if "while (inner" in line)
        stop = next(n for n, line in enumerate(text) if "if (y >= end) break;" in line)
        texts.append(text[start:stop])
    assert texts[0] == texts[1]
