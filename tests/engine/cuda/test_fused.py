"""Several steps at once: the bits of single steps, for drawn programs, sides and tiles."""

from __future__ import annotations

import heapq
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulated_steps import Emulated, assert_steps
from feedback_steps import CLOSED, OPEN, Fed, Grid, fed_program, grid_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nvidia import compiled_everywhere, table

from halocline_engine.backends.base import OpenSides, prepare
from halocline_engine.backends.cuda.kernels.temporal.choose import (
    fits,
    fused_tile,
    gains_of,
    seconds_of_pass,
    steps_between_fills,
    usual_form,
)
from halocline_engine.backends.cuda.kernels.temporal.text import fused_text
from halocline_engine.backends.cuda.kernels.temporal.tile import FusedTile
from halocline_engine.backends.cuda.kernels.temporal.turns import turns
from halocline_engine.backends.cuda.model.speed import H200, Speed
from halocline_engine.backends.cuda.runtime.executable import CudaExecutable
from halocline_engine.backends.fusing import FusingExecutable
from halocline_engine.cache import Cache
from halocline_engine.errors import FieldError
from halocline_engine.program import compile_program
from halocline_engine.schedule.temporal.levels import levels_at_once
from halocline_engine.schedule.temporal.step import Refused

FIVE = Fed(
    """
def five(u: Field[float64], v: Field[float64], s: float64):
    with computation(PARALLEL), interval(...):
        v = s * (((u + u[-1, 0, 0]) + (u[1, 0, 0] + u[0, -1, 0])) + u[0, 1, 0])
""",
    {"v": "u"},
)
#: No symmetry: further to one side than to the other, or to one alone.
UPWIND = Fed(
    """
def upwind(u: Field[float32], v: Field[float32], c: Field[float32]):
    with computation(PARALLEL), interval(...):
        v = u - c[-1, 0, 0] * (u - u[-3, 0, 0]) - c * (u[0, -2, 0] - u[1, -1, 0])
""",
    {"v": "u"},
)
WAVE = Fed(
    """
def wave(now: Field[float64], prev: Field[float64], nxt: Field[float64], old: Field[float64],
         s: float64):
    with computation(PARALLEL), interval(...):
        nxt = 2.0 * now - prev + s * ((now[-1, 0, 0] + now[1, 0, 0]) + now[0, -1, 0] - now[0, 1, 0])
        old = now
""",
    {"nxt": "now", "old": "prev"},
)
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
BOX = Fed(
    """
def box(u: Field[float64], v: Field[float64], c: Field[float64]):
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
TILES = st.builds(
    FusedTile,
    width=st.sampled_from((1, 2, 4)),
    depth=st.sampled_from((3, 8, 40)),
    ahead=st.integers(0, 3),
    unroll=st.integers(1, 3),
)
BLOCKS = st.builds(
    FusedTile,
    width=st.sampled_from((1, 2)),
    depth=st.sampled_from((3, 20)),
    rows=st.sampled_from((2, 3)),
    warps=st.sampled_from((4, 5)),
    ahead=st.integers(0, 2),
    unroll=st.integers(1, 2),
)
SLOW = settings(
    max_examples=9,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
def emulated(emulation_folder: Path) -> Emulated:
    return Emulated(emulation_folder)


@pytest.mark.parametrize("sides", [CLOSED, OPEN, MIXED_SIDES])
@pytest.mark.parametrize(
    ("fed", "steps", "domain", "tile"),
    [
        (FIVE, 4, (301, 40, 1), FusedTile(2, 15, ahead=3, unroll=3)),
        (FIVE, 1, (65, 9, 2), FusedTile(4, 4)),
        (UPWIND, 3, (290, 30, 1), FusedTile(4, 30)),
        (WAVE, 5, (200, 33, 1), FusedTile(2, 20)),
        (DIFFUSION, 2, (150, 25, 2), FusedTile(4, 9)),
        (BOX, 2, (100, 31, 12), FusedTile(2, 5, rows=2, warps=6)),
    ],
)
def test_steps_at_once_are_as_many_steps(
    emulated: Emulated, fed: Fed, steps: int, domain: Any, tile: FusedTile, sides: OpenSides
) -> None:
    grid = grid_of(fed, steps, domain, sides)
    assert_steps(emulated(grid, tile), grid)


@SLOW
@given(
    seed=st.integers(0, 2**40),
    steps=st.integers(1, 4),
    domain=st.tuples(st.integers(1, 150), st.integers(1, 30), st.integers(1, 2)),
    sides=SIDES,
    tile=TILES,
    order=st.integers(0, 3),
)
def test_drawn_programs(
    emulated: Emulated,
    seed: int,
    steps: int,
    domain: Any,
    sides: OpenSides,
    tile: FusedTile,
    order: int,
) -> None:
    grid = grid_of(fed_program(seed), steps, domain, sides, seed % 1000)
    executable = emulated(grid, tile, order=order)
    if usual_form(executable.levels, tile).columns > 0:
        assert_steps(executable, grid)


@SLOW
@given(
    seed=st.integers(0, 2**40),
    steps=st.integers(1, 3),
    domain=st.tuples(st.integers(1, 70), st.integers(1, 25), st.integers(1, 9)),
    sides=SIDES,
    tile=BLOCKS,
    order=st.integers(0, 3),
)
def test_drawn_programs_of_planes(
    emulated: Emulated,
    seed: int,
    steps: int,
    domain: Any,
    sides: OpenSides,
    tile: FusedTile,
    order: int,
) -> None:
    fed = fed_program(seed, vertical=True)
    grid = grid_of(fed, steps, domain, sides, seed % 1000)
    if not fed.step().is_vertical:
        tile = replace(tile, rows=1, warps=1)
    executable = emulated(grid, tile, order=order)
    form = usual_form(executable.levels, tile)
    if form.columns > 0 and form.lines > 0:
        assert_steps(executable, grid)


@pytest.mark.parametrize(
    ("fed", "domain", "tile"),
    [
        (FIVE, (131, 20, 1), FusedTile(2, 9)),
        (WAVE, (131, 20, 1), FusedTile(2, 9)),
        (BOX, (70, 20, 7), FusedTile(2, 5, rows=2, warps=6)),
    ],
)
def test_arrays_that_change_places_keep_what_is_beyond_the_domain(
    emulated: Emulated, fed: Fed, domain: Any, tile: FusedTile
) -> None:
    """Odd steps find beyond the domain what the output's array holds."""
    steps = 3
    grid = grid_of(fed, steps, domain, CLOSED)
    for new, old in fed.feedback.items():
        grid.arrays[new][...] = grid.arrays[old] + 100.0
    one = compile_program(fed.text, target="reference").artifact.load()
    arrays = {name: array.copy("F") for name, array in grid.arrays.items()}
    for _ in range(steps):
        one(arrays, grid.scalars, grid.origins, domain)
        arrays |= {
            name: arrays[other]
            for pair in fed.feedback.items()
            for name, other in (pair, pair[::-1])
        }
    emulated(grid, tile, alternate=True)(grid.arrays, grid.scalars, grid.origins, domain)
    for new, old in fed.feedback.items():
        np.testing.assert_array_equal(grid.arrays[new], arrays[old])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("aligned", [True, False])
def test_arrays_may_lie_in_any_way(emulated: Emulated, order: str, *, aligned: bool) -> None:
    grid = grid_of(DIFFUSION, 2, (90, 20, 3), OPEN, order=order)
    if aligned:
        memory = emulated(grid, FusedTile(2, 8)).memory
        arrays: dict[str, Any] = {}
        for name, array in grid.arrays.items():
            i, j, k = grid.origins[name]
            arrays[name] = memory.empty(array.shape, array.dtype, (i, j, k))
            arrays[name][...] = array
        grid = Grid(grid.fed, 2, OPEN, grid.domain, arrays, grid.origins, grid.scalars)
    assert_steps(emulated(grid, FusedTile(2, 8)), grid)


@pytest.mark.parametrize("behind", [True, False])
def test_nothing_is_read_beyond_what_a_caller_provides(emulated: Emulated, *, behind: bool) -> None:
    """Arrays end at a page that cannot be read; a child process would be killed there."""
    from guarded import guarded

    text = FIVE.text.replace("[-1,", "[-2,").replace("[1,", "[2,")
    for sides in (CLOSED, OPEN):
        grid = grid_of(Fed(text, FIVE.feedback), 3, (262, 30, 1), sides)
        arrays: dict[str, Any] = {}
        origins: dict[str, Any] = {}
        grown = grid.grown(2)
        for name, reach in (("u", (2, 1)), ("v", (0, 0))):
            more = [grown[n][0] + reach[n] if name == "u" else 0 for n in (0, 1)]
            shape = (262 + 2 * more[0], 30 + 2 * more[1], 1)
            arrays[name] = guarded(shape, np.dtype("float64"), behind=behind)
            arrays[name][...] = 1.0
            origins[name] = (more[0], more[1], 0)
        executable = emulated(grid, FusedTile(2, 7, ahead=3))
        call = prepare(executable, arrays, grid.scalars, origins, grid.domain)
        child = os.fork()
        if child == 0:
            call()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0


def executable_of(text: str, emulated: Emulated) -> CudaExecutable:
    schedule = compile_program(text, target="cuda").schedule
    return CudaExecutable(schedule, emulated.machine(), Cache(emulated.folder / "compiled"))


def test_executables_make_several_steps_at_once(emulated: Emulated) -> None:
    executable = executable_of(DIFFUSION.text, emulated)
    assert isinstance(executable, FusingExecutable)
    fused = executable.fused(2, DIFFUSION.feedback, MIXED_SIDES)
    assert not isinstance(fused, Refused)
    assert executable.fused(2, DIFFUSION.feedback, MIXED_SIDES) is fused
    assert_steps(fused, grid_of(DIFFUSION, 2, (140, 17, 2), MIXED_SIDES))
    (cut,) = fused.tilings()
    assert cut.startswith("2 steps at once: strips of 64 columns, ")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("v = s *", "v = v + s *"), "'v' is read before it is written, and so keeps older values"),
        (("v = s *", "v = 1.0\n        v = v + s *"), ""),
        (
            ("PARALLEL), interval(...)", "PARALLEL), interval(1, None)"),
            "some statements run on a part of the levels",
        ),
        (("v = s *", "v = K + s *"), "it reads indices, or has regions"),
        (("v = s *", "w = s\n        v = w[1, 0, 0] + s *"), ""),
    ],
)
def test_reasons(emulated: Emulated, change: tuple[str, str], reason: str) -> None:
    executable = executable_of(FIVE.text.replace(*change), emulated)
    found = executable.fused(2, FIVE.feedback, CLOSED)
    assert (found.reason if isinstance(found, Refused) else "") == reason
    large = (10**4, 10**4, 1)
    assert (executable.fused_steps(FIVE.feedback, large) == 1) == bool(reason)


def test_reasons_of_what_is_asked(emulated: Emulated) -> None:
    executable = executable_of(FIVE.text, emulated)
    open_k: OpenSides = ((False, False), (False, False), (True, False))
    asked = {
        "K is open": (2, {"v": "u"}, open_k),
        "there is no step to make": (0, {"v": "u"}, CLOSED),
        "'w' or 'u' is not a field": (2, {"w": "u"}, CLOSED),
        "'u' is not written": (2, {"u": "v"}, CLOSED),
        "90 steps need more registers than a thread has": (90, {"v": "u"}, CLOSED),
    }
    for reason, (steps, feedback, sides) in asked.items():
        found = executable.fused(steps, feedback, sides)
        said = "'v' is fed and also written" if feedback == {"u": "v"} else reason
        assert found == Refused(said)
    assert isinstance(executable.fused_in_turns(2, {"v": "u"}), Refused)


def test_arrays_that_share_memory_are_refused(emulated: Emulated) -> None:
    grid = grid_of(FIVE, 3, (40, 9, 1), CLOSED)
    same = {**grid.arrays, "v": grid.arrays["u"]}
    with pytest.raises(FieldError) as caught:
        emulated(grid, FusedTile(2, 9))(same, grid.scalars, grid.origins, grid.domain)
    assert str(caught.value) == (
        "A field that several steps at once write shares memory with another field. Pass arrays of"
        " their own."
    )
    executable = executable_of(FIVE.text, emulated)
    large = (4096, 4096, 1)
    assert executable.fused_steps_in_turns(FIVE.feedback, large, grid.arrays) > 1
    assert executable.fused_steps_in_turns(FIVE.feedback, large, same) == 1


def test_the_model_knows_where_several_steps_at_once_pay() -> None:
    step = FIVE.step()
    assert gains_of(step, (256, 256, 1)).best(range(1, 13)) == 1
    assert gains_of(step, (16001, 15999, 1)).best(range(1, 13)) >= 6
    assert gains_of(BOX.step(), (32, 32, 32)).best(range(1, 13)) == 1
    assert gains_of(BOX.step(), (700, 700, 700)).best(range(1, 13)) >= 2
    odd = gains_of(step, (16001, 15999, 1)).best(range(1, 13, 2))
    assert odd % 2 == 1
    assert odd >= 5


def test_more_steps_are_best_where_memory_is_slower() -> None:
    h100 = Speed(132, 1.98e9, 3.35e12)
    domain = (15361, 16001, 1)
    step = FIVE.step()
    found = [gains_of(step, domain, speed).best(range(1, 13)) for speed in (H200, h100)]
    assert found == sorted(found)
    one, other = (gains_of(step, domain, speed).by_steps[8] for speed in (H200, h100))
    assert other > one
    assert Speed(0, 0.0, 0.0).known == H200
    assert Speed(78, 1.2e9, 2.0e12).known == Speed(78, 1.2e9, 2.0e12)


def test_passes_that_memory_bounds_have_many_blocks_too() -> None:
    """While the last blocks of a few turns end, memory has as little to do as processors."""
    domain = (15361, 16001, 1)
    levels = levels_at_once(FIVE.step(), 3)
    tile = fused_tile(levels, domain)
    form = usual_form(levels, tile)
    assert tile.depth <= 250
    at_once, of_turns = (seconds_of_pass(form, domain, n, H200) for n in (1001, tile.depth))
    assert at_once > 1.1 * of_turns


def test_kernels_of_several_steps_compile_for_every_device() -> None:
    """What each needs is printed: `pytest -rP` shows it."""
    cases = [(FIVE, 6), (DIFFUSION, 2), (BOX, 2)]
    sources: list[str] = []
    for fed, steps in cases:
        levels = levels_at_once(fed.step(), steps)
        assert fits(levels)
        tile = fused_tile(levels, (1001, 999, 301))
        form = usual_form(levels, tile)
        sources.append(fused_text(replace(form, wide=fed is DIFFUSION, alternate=fed is FIVE)))
    needs = compiled_everywhere(sources)
    print(table(needs, [f"{steps} steps of {fed.text.split()[1]}" for fed, steps in cases]))
    for found in needs.values():
        assert all(0 < used.registers <= 255 for used in found.values())
        assert all(used.stack <= 64 for used in found.values())


@given(st.integers(1, 30), st.integers(0, 200), st.integers(0, 80), st.sampled_from((1.0, 1.3, 4)))
def test_blocks_that_take_longer_begin_first(
    places: int, usual: int, longer: int, length: float
) -> None:
    free = [0.0] * places
    for count, time in ((longer, length), (usual, 1.0)):
        for _ in range(count):
            heapq.heapreplace(free, free[0] + time)
    assert turns(places, usual, longer, length) == pytest.approx(max(free))


def test_small_domains_fill_halos_for_many_steps() -> None:
    """A launch takes longer than what earlier steps compute more, until fields are larger."""
    step = FIVE.step()
    small, large = (steps_between_fills(step, (n, n, 1), 12) for n in (256, 8192))
    assert small == 12 > large
    several = [steps_between_fills(BOX.step(), (n, n, n), 12) for n in (32, 64, 128, 256)]
    assert several == sorted(several, reverse=True)
    assert several[0] > several[-1] == 1
    assert steps_between_fills(step, (0, 5, 1), 12) == 1


PRINT = """
import sys
sys.path[:0] = sys.argv[1:]
from feedback_steps import fed_program
from halocline_engine.backends.cuda.kernels.temporal.choose import fused_tile, usual_form
from halocline_engine.backends.cuda.kernels.temporal.text import fused_text
from halocline_engine.schedule.temporal.levels import levels_at_once
for seed in range(6):
    levels = levels_at_once(fed_program(seed, vertical=seed % 2 == 1).step(), 2)
    print(fused_text(usual_form(levels, fused_tile(levels, (300, 200, 9)))))
"""


def test_the_same_steps_give_the_same_text() -> None:
    support = str(Path(__file__).parents[2] / "support")
    texts = {
        subprocess.run(
            [sys.executable, "-c", PRINT, support],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "77")
    }
    assert len(texts) == 1


#: A value that is fed to an input of which nothing else in the step is needed before it.
CROSSED = Fed(
    """
def crossed(u: Field[float64], v: Field[float64], p: Field[float64], q: Field[float64]):
    with computation(PARALLEL), interval(...):
        p = v
        q = 0.5 * v[0, 1, 0] - u[1, -1, 0] + v
""",
    {"p": "u", "q": "v"},
)


def test_values_beyond_a_side_that_nothing_has_at_hand_are_loaded(emulated: Emulated) -> None:
    grid = grid_of(CROSSED, 4, (90, 20, 1), CLOSED)
    assert_steps(emulated(grid, FusedTile(2, 8)), grid)
