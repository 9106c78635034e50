"""Several steps at once on the cores: the bits of single steps, for drawn programs and tiles."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import interpreted
import numpy as np
import pytest
from feedback_steps import CLOSED, OPEN, SCALARS, Fed, Grid, fed_program, grid_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import halocline_engine as he
from halocline_engine.backends.base import OpenSides
from halocline_engine.backends.cpu import build
from halocline_engine.backends.cpu.caches import Caches
from halocline_engine.backends.cpu.run import CpuExecutable
from halocline_engine.backends.cpu.temporal import fused as fused_module
from halocline_engine.backends.cpu.temporal.choose import gains_of, points_of_tile
from halocline_engine.backends.cpu.temporal.tiles import Tiling, shape_of, work_of
from halocline_engine.backends.fusing import FusingExecutable
from halocline_engine.backends.repetition import make_steps
from halocline_engine.errors import FieldError
from halocline_engine.program import compile_program
from halocline_engine.schedule.temporal.step import Refused

FIVE = Fed(
    """
def five(u: Field[float64], v: Field[float64], s: float64):
    with computation(PARALLEL), interval(...):
        v = s * (((u + u[-1, 0, 0]) + (u[1, 0, 0] + u[0, -1, 0])) + u[0, 1, 0])
""",
    {"v": "u"},
)
WAVE = Fed(
    """
def wave(now: Field[float64], prev: Field[float64], nxt: Field[float64], old: Field[float64],
         h: Field[IJ, float64], change: Field[float64], s: float64):
    with computation(PARALLEL), interval(...):
        flux = h * (now[1, 0, 0] - now)
        nxt = 2.0 * now - prev + s * (flux - flux[-1, 0, 0] + now[0, -2, 0] - now[0, 1, 0])
        old = now
        change = nxt - old
""",
    {"nxt": "now", "old": "prev"},
)
BOX = Fed(
    """
def box(u: Field[float32], v: Field[float32], c: Field[float64]):
    with computation(PARALLEL), interval(...):
        v = 0.5 * u + 0.125 * c * ((u[-1, -1, 0] + u[1, 0, 1]) + (u[0, -1, 1] - u[1, 1, -1])
            + (u[-1, 0, -1] + u[-1, 1, 1])) + 0.25 * c[0, 1, -1]
""",
    {"v": "u"},
)
MIXED_SIDES: OpenSides = ((True, False), (False, True), (False, False))
SIDES = st.tuples(*[st.tuples(st.booleans(), st.booleans())] * 2).map(
    lambda pairs: (*pairs, (False, False))
)
FEW = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def executable_of(text: str, level2: int = 4096) -> CpuExecutable:
    """Return an executable whose tiles have few points."""
    return CpuExecutable(compile_program(text, target="cpu").schedule, Caches(level2=level2))


def assert_steps(executable: CpuExecutable, grid: Grid) -> None:
    """Assert that outputs have the bits of single steps on the domain, and are NaN around it."""
    fused = executable.fused(grid.steps, grid.fed.feedback, grid.sides)
    assert not isinstance(fused, Refused)
    before = {name: array.copy() for name, array in grid.arrays.items()}
    fused(grid.arrays, grid.scalars, grid.origins, grid.domain)
    expected = grid.expected()
    for name, values in expected.items():
        got = grid.inside(grid.arrays, name)
        np.testing.assert_array_equal(got, values, err_msg=name)
        around = np.isnan(grid.arrays[name]).sum() - np.isnan(got).sum()
        assert around == grid.arrays[name].size - got.size
    for name, array in grid.arrays.items():
        if name not in expected:
            np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("sides", [CLOSED, OPEN, MIXED_SIDES])
@pytest.mark.parametrize(
    ("fed", "steps", "domain", "order"),
    [
        (FIVE, 4, (61, 40, 1), "F"),
        (FIVE, 1, (65, 9, 2), "F"),
        (FIVE, 5, (3, 50, 1), "C"),
        (WAVE, 3, (50, 33, 2), "F"),
        (WAVE, 4, (20, 23, 9), "C"),
        (BOX, 3, (20, 13, 12), "F"),
    ],
)
def test_steps_at_once_are_as_many_steps(
    fed: Fed,
    steps: int,
    domain: Any,
    order: str,
    sides: OpenSides,
    threads: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fused_module, "threads_of_calls", lambda: threads)
    assert_steps(executable_of(fed.text), grid_of(fed, steps, domain, sides, order=order))


@FEW
@given(
    seed=st.integers(0, 2**40),
    steps=st.integers(1, 5),
    domain=st.tuples(st.integers(1, 20), st.integers(1, 12), st.integers(1, 4)),
    sides=SIDES,
    vertical=st.booleans(),
    order=st.sampled_from("CF"),
    level2=st.sampled_from((512, 2048, 16384)),
)
def test_drawn_programs(
    seed: int,
    steps: int,
    domain: Any,
    sides: OpenSides,
    vertical: bool,
    order: str,
    level2: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interpreted.patch(monkeypatch)
    fed = fed_program(seed, vertical=vertical)
    grid = grid_of(fed, steps, domain, sides, seed % 1000, order)
    assert_steps(executable_of(fed.text, level2), grid)


@pytest.mark.parametrize("fed", [FIVE, WAVE, BOX])
@pytest.mark.parametrize(("steps", "each"), [(7, 3), (11, 5), (6, 3)])
def test_arrays_that_change_places_are_as_after_single_steps(
    fed: Fed, steps: int, each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Odd steps find beyond the domain what the output's array holds."""

    def at_once(*_: Any) -> int:
        return each

    monkeypatch.setattr(CpuExecutable, "fused_steps_in_turns", at_once)
    grid = grid_of(fed, 1, (40, 30, 3), CLOSED)
    other = {**fed.feedback, **{old: new for new, old in fed.feedback.items()}}
    for number, name in enumerate(other):
        random = np.random.default_rng(number)
        grid.arrays[name][...] = random.normal(size=grid.arrays[name].shape)
    executable = executable_of(fed.text)
    assert isinstance(executable, FusingExecutable)
    results: list[dict[str, Any]] = []
    for several in (True, False):
        own = {name: grid.arrays[name].copy(order="F") for name in other}
        arrays = {**grid.arrays, **own}
        back = {name: arrays[other.get(name, name)] for name in arrays}
        turns = [(one, grid.scalars, grid.origins, grid.domain) for one in (arrays, back)]
        if several:
            make_steps(executable, turns, steps, fed.feedback)
        else:
            for step in range(steps):
                executable(*turns[step % 2])
        results.append(own)
    for name, array in results[0].items():
        np.testing.assert_array_equal(array, results[1][name], err_msg=name)


def test_a_pass_may_be_made_again_for_what_its_arrays_hold() -> None:
    grid = grid_of(FIVE, 3, (40, 30, 1), CLOSED)
    fused = executable_of(FIVE.text).fused(3, FIVE.feedback, CLOSED)
    assert not isinstance(fused, Refused)
    call = fused.prepared(grid.arrays, grid.scalars, grid.origins, grid.domain)
    fused.repeat(call, 2)
    grid.arrays["u"][...] *= 2.0
    call()
    np.testing.assert_array_equal(grid.inside(grid.arrays, "v"), grid.expected()["v"])
    fused(grid.arrays, grid.scalars, grid.origins, (0, 3, 1))


def test_arrays_that_share_memory_are_refused() -> None:
    grid = grid_of(FIVE, 3, (40, 9, 1), CLOSED)
    same = {**grid.arrays, "v": grid.arrays["u"]}
    executable = executable_of(FIVE.text)
    fused = executable.fused(3, FIVE.feedback, CLOSED)
    assert not isinstance(fused, Refused)
    with pytest.raises(FieldError) as caught:
        fused(same, grid.scalars, grid.origins, grid.domain)
    assert str(caught.value) == (
        "A field that several steps at once write shares memory with another field. Pass arrays of"
        " their own."
    )
    large = (4096, 4096, 1)
    executable = executable_of(FIVE.text, level2=1 << 20)
    assert executable.fused_steps_in_turns(FIVE.feedback, large, grid.arrays) > 1
    assert executable.fused_steps_in_turns(FIVE.feedback, large, same) == 1


def test_what_is_not_fused_has_a_reason() -> None:
    executable = executable_of(FIVE.text.replace("v = s *", "v = K + s *"))
    found = executable.fused(2, FIVE.feedback, CLOSED)
    assert found == Refused("it reads indices, or has regions")
    assert executable.fused_steps(FIVE.feedback, (4096, 4096, 1)) == 1


def test_every_point_is_in_one_tile_and_what_it_needs_is_made() -> None:
    reach = ((-2, 1), (0, 1), (0, 0))
    tiling = Tiling((11, 7, 2), MIXED_SIDES, reach, 3, (4, 3, 2))
    made = np.zeros(tiling.domain, int)
    for tile in tiling.tiles():
        made[tuple(slice(*ends) for ends in tile)] += 1
        boxes = [tiling.box(tile, step) for step in range(3)]
        assert boxes[-1] == tile
        for wide, narrow in pairwise(boxes):
            for (a, b), (c, d), (low, high), n, (below, above) in zip(
                wide, narrow, reach, tiling.domain, MIXED_SIDES, strict=True
            ):
                assert a == (c + low if below else max(0, c + low))
                assert b == (d + high if above else min(n, d + high))
    assert made.min() == made.max() == 1


def test_tiles_fit_and_need_little_more_work() -> None:
    reach = ((-1, 1), (-1, 1), (0, 0))
    shape = shape_of((4000, 4000, 1), reach, 8, 40000, 0)
    assert math.prod(size + 14 for size in shape[:2]) <= 40000
    assert shape[0] >= 384
    assert work_of(shape, reach, 8) < 1.15
    assert work_of((10, 1, 1), ((0, 0), (-1, 1), (0, 0)), 3) == (1 + 3 + 5) / 3
    assert shape_of((4000, 4000, 1), reach, 8, 10, 0)[1] <= 2


def test_the_model_knows_where_several_steps_at_once_pay() -> None:
    caches = Caches()
    heavy = FIVE.text.replace("v = s *", "v = sin(u) * cos(u) * exp(u) * tan(u) *")
    heavy = heavy.replace(", s: float64", "")
    gains = {
        text: gains_of(Fed(text, FIVE.feedback).step(), (4000, 4000, 1), caches, 0)
        for text in (FIVE.text, heavy)
    }
    assert gains[FIVE.text].best(range(1, 9)) >= 4
    assert gains[heavy].best(range(1, 9)) == 1
    assert gains_of(FIVE.step(), (300, 300, 1), caches, 0).by_steps == {}
    assert points_of_tile(FIVE.step(), caches, 0) == int(0.7 * 2**20) // 16
    assert points_of_tile(WAVE.step(), caches, 8) == int(0.7 * 2**20) // 48


def test_stencils_make_several_steps_at_once_on_large_fields(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[int] = []
    whole = CpuExecutable.fused_in_turns

    def noted(self: CpuExecutable, steps: int, feedback: Any) -> Any:
        made.append(steps)
        return whole(self, steps, feedback)

    monkeypatch.setattr(CpuExecutable, "fused_in_turns", noted)
    monkeypatch.setattr(build, "read_caches", Caches)
    stencil = he.stencil(FIVE.text, target="cpu")
    random = np.random.default_rng(0)
    results: list[Any] = []
    for at_once in (True, False):
        u = np.asfortranarray(random.normal(size=(1002, 902, 1))) if at_once else results[0][2]
        v = u.copy(order="F")
        start = u.copy(order="F")
        how: Any = {"origin": (1, 1, 0), "domain": (1000, 900, 1)}
        if at_once:
            stencil.repeat(29, u, v, SCALARS["s"], feedback={"v": "u"}, **how)
        else:
            for step in range(29):
                stencil(*((u, v) if step % 2 == 0 else (v, u)), SCALARS["s"], **how)
        results.append((u, v, start))
    assert len(made) == 1
    assert made[0] > 1
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])
