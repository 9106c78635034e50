"""Temporaries that are defined on intervals side by side are recomputed, with the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from differential import assert_same, copied, front, inputs, judged, run
from drawing_intervals import interval_program
from interpreted import patch

from halocline_engine.backends.cpu.build import CpuBackend
from halocline_engine.backends.cuda.runtime.executable import CudaExecutable
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.options import Options
from halocline_engine.schedule.plan import plan
from halocline_engine.schedule.storage.temporaries import kernels_of

FLUX = """
def flux(q: Field[np.float64], kz: Field[np.float64], out: Field[np.float64]):
    with computation(PARALLEL):
        with interval(0, 1):
            f = 0.0
        with interval(1, None):
            f = kz * (q - q[0, 0, -1])
    with computation(PARALLEL):
        with interval(0, -1):
            out = q + 0.1 * (f[0, 0, 1] - f)
        with interval(-1, None):
            out = q - 0.1 * f
"""
LIMITED = """
def limited(q: Field[np.float64], w: Field[np.float64], out: Field[np.float64]):
    with computation(PARALLEL):
        with interval(0, 1):
            slope = 0.0
        with interval(1, -1):
            a = q - q[0, 0, -1]
            b = q[0, 0, 1] - q
            slope = min(a, b) if a * b > 0.0 else 0.0
        with interval(-1, None):
            slope = q
    with computation(PARALLEL):
        with interval(0, 1):
            f = slope
        with interval(1, None):
            f = w * (q + slope[0, 0, -1]) if w > 0.0 else w * (q - slope)
    with computation(PARALLEL):
        with interval(0, -1):
            out = q - (f[0, 0, 1] - f)
        with interval(-1, None):
            out = q + f
"""
EDGES = """
def edges(q: Field[np.float64], left: Field[np.float64], right: Field[np.float64]):
    with computation(PARALLEL):
        with interval(0, 2):
            al = 0.5 * (q + q[0, 0, 1])
        with interval(2, -2):
            al = 0.75 * (q[0, 0, -1] + q) - 0.25 * (q[0, 0, -2] + q[0, 0, 1])
        with interval(-2, None):
            al = 0.5 * (q[0, 0, -1] + q)
    with computation(PARALLEL):
        with interval(0, -1):
            bl = al - q
            br = al[0, 0, 1] - q
        with interval(-1, None):
            bl = al - q
            br = q - al
    with computation(PARALLEL), interval(...):
        if bl * br > 0.0:
            bl = 0.0
            br = 0.0
        left = q + bl
        right = q + br
"""
DOWN = """
def down(q: Field[np.float64], out: Field[np.float64]):
    with computation(PARALLEL):
        with interval(0, 1):
            a = 2.0 * q
        with interval(1, None):
            a = q - q[0, 0, -1]
    with computation(BACKWARD):
        with interval(-1, None):
            out = a
        with interval(1, -1):
            out = out[0, 0, 1] + a
        with interval(0, 1):
            out = out[0, 0, 1] * a
"""


def made(text: str, options: Options | None = None) -> Schedule:
    return plan(*front(text), options)


@pytest.mark.parametrize(
    ("text", "kernels", "buffers"),
    [(FLUX, 1, []), (LIMITED, 2, ["f"]), (EDGES, 1, []), (DOWN, 1, [])],
    ids=["flux", "limited", "edges", "down"],
)
def test_kernels_and_memory_go(text: str, kernels: int, buffers: list[str]) -> None:
    schedule = made(text)
    assert len(kernels_of(schedule.steps)) == kernels
    assert [buffer.name for buffer in schedule.buffers] == buffers


def test_a_value_that_costs_more_than_memory_stays() -> None:
    dear = FLUX.replace("kz * (q - q[0, 0, -1])", "exp(q) * exp(kz) * exp(q[0, 0, -1])")
    assert [buffer.name for buffer in made(dear).buffers] == ["f"]
    assert made(dear, Options(temporaries="recompute")).buffers == ()


def test_what_other_columns_read_stays_and_their_kernels_have_one_section() -> None:
    across = FLUX.replace("out = q - 0.1 * f", "out = q - 0.1 * f[1, 0, 0]")
    assert [buffer.name for buffer in made(across).buffers] == ["f"]
    mixed = """
def mixed(q: Field[np.float64], out: Field[np.float64], low: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        out = q[1, 0, 0] - q[-1, 0, 0]
    with computation(PARALLEL), interval(0, 1):
        low = out * q
"""
    assert [len(kernel.sections) for kernel in kernels_of(made(mixed).steps)] == [1, 1]


def test_a_field_that_changes_before_the_reader_keeps_the_value_in_memory() -> None:
    changed = FLUX.replace("with interval(0, -1):\n", "with interval(0, -1):\n            kz = q\n")
    assert [buffer.name for buffer in made(changed).buffers] == ["f"]


@pytest.mark.parametrize("layout", ["along I", "along K"])
@pytest.mark.parametrize("levels", [5, 6, 7, 12])
@pytest.mark.parametrize(
    "text", [FLUX, LIMITED, EDGES, DOWN], ids=["flux", "limited", "edges", "down"]
)
def test_bits_are_those_of_the_reference(
    load: Callable[[Schedule], CudaExecutable], text: str, levels: int, layout: str
) -> None:
    program, facts = front(text)
    for count in {levels, max(facts.min_levels, levels - 4)}:
        domain = (9, 5, count)
        given = inputs(program, facts, domain, layout=layout, seed=levels)
        scalars: dict[str, Any] = {}
        expected = judged(program, facts, given, domain, scalars)
        assert_same(run(load(plan(program, facts)), copied(given), domain, scalars), expected)


@pytest.mark.parametrize("options", [Options(), Options(temporaries="recompute")])
def test_drawn_programs_have_the_bits_of_the_reference(
    monkeypatch: pytest.MonkeyPatch, options: Options
) -> None:
    """From the fewest levels on that a program accepts."""
    patch(monkeypatch)
    for seed in range(20):
        program, facts = front(interval_program(seed))
        for more in range(3):
            domain = (3, 2, facts.min_levels + more)
            given = inputs(program, facts, domain, seed=seed)
            expected = judged(program, facts, given, domain, {})
            loops = CpuBackend().build(plan(program, facts, options)).load()
            assert_same(run(loops, copied(given), domain, {}), expected)


@pytest.mark.parametrize("seed", [3, 4, 7])
def test_kernels_of_drawn_programs_have_the_bits_of_the_reference(
    load: Callable[[Schedule], CudaExecutable], seed: int
) -> None:
    program, facts = front(interval_program(seed))
    domain = (9, 5, facts.min_levels + 4)
    given = inputs(program, facts, domain, seed=seed)
    expected = judged(program, facts, given, domain, {})
    assert_same(run(load(plan(program, facts)), copied(given), domain, {}), expected)
