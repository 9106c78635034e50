"""Threads of one point that load first: the same bits, and conditions decide as before."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from differential import assert_same, front
from emulation.machine import EmulatedMachine
from general_runs import given_arrays, judged, ran
from tile_choices import changed

from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import tiles_of
from halocline_engine.backends.cuda.kernels.points.tile import loads_first
from halocline_engine.backends.cuda.model.entries import entries_of
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.schedule.plan import plan

#: Loads and stores that conditions decide on, fields without J or K, and two sections.
POINTS = """
def points(
    a: Field[{0}], b: Field[{0}], c: Field[{0}], d: Field[{0}], e: Field[{0}], wet: Field[IJ, {0}],
    w: Field[K, {0}], x: Field[{0}], y: Field[{0}], z: Field[{0}],
):
    with computation(PARALLEL):
        with interval(0, -1):
            x = x + a * b + wet * w
            if wet > {0}(0.5):
                y = y + c * d[0, 0, 1]
                x = x - y
            z = a if b > {0}(0.0) else e
        with interval(-1, None):
            x = a
            if a > b:
                y = x * e
"""
DOMAIN = (509, 487, 72)


def _first(text: str) -> list[bool]:
    schedule = plan(*front(text))
    variant = usual_variant(schedule)
    return [loads_first(entry, schedule, variant) for entry in entries_of(schedule)]


def _pointwise(count: int, dtype: str, value: str = "f0") -> str:
    names = [f"f{number}" for number in range(count)]
    fields = ", ".join(f"{name}: Field[{dtype}]" for name in (*names, "out"))
    return f"""
def pointwise({fields}):
    with computation(PARALLEL), interval(...):
        out = {" + ".join((*names[1:], value))}
"""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_are_those_of_the_reference(load: Any, emulation_folder: Path, dtype: str) -> None:
    meaning, facts = front(POINTS.format(dtype))
    machine = EmulatedMachine(emulation_folder / "loaded")
    one = changed(block=(32, 2), width=1, rows=1, depth=1)
    tiled: Any = SimpleNamespace(load=partial(load, plan(meaning, facts), on=machine, tiles=one))
    for domain in ((37, 3, 4), (5, 4, 1)):
        own = given_arrays(meaning, facts, domain)
        expected = judged(meaning, facts, own, domain)
        assert_same(ran(tiled, meaning, facts, own, domain).arrays, expected.arrays)


def test_what_every_point_reads_is_loaded_before_conditions() -> None:
    schedule = plan(*front(POINTS.format("float64")))
    variant = usual_variant(schedule)
    text = emit(schedule, variant, tiles_of(schedule, variant, DOMAIN))
    lower = text[text.index("if (k >= 0") : text.index("if (k >= nk - 1")]
    before, _, after = lower.partition("if ((")
    assert all(f"= f{number}[" in before for number in (0, 1, 5, 6, 7)), lower
    assert not any(f"f{number}[" in before for number in (2, 3, 4, 8)), lower
    assert all(f"f{number}[" in after for number in (2, 3, 4, 8)), lower


def test_kernels_of_points_on_their_own_load_first() -> None:
    assert _first(POINTS.format("float64")) == [True]
    assert _first(_pointwise(31, "float64")) == [True]


def test_what_neighbours_read_too_is_loaded_where_it_is_used() -> None:
    assert _first(_pointwise(10, "float64", "f0[1, 0, 0]")) == [False]
    assert _first(_pointwise(10, "float64", "f0[0, -1, 0]")) == [False]
    assert _first(_pointwise(10, "float64", "f0[0, 0, 1]")) == [True]


def test_more_than_registers_hold_is_loaded_where_it_is_used() -> None:
    assert _first(_pointwise(40, "float64")) == [False]
    assert _first(_pointwise(40, "float32")) == [True]
