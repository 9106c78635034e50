"""Values that a column holds from one section to a later one need no memory over its levels."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cubin import resources
from differential import assert_same, front
from emulation.machine import EmulatedMachine
from general_runs import agree, given_arrays, judged, ran
from kept import device_code
from tile_choices import changed

from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import tiles_of
from halocline_engine.backends.cuda.kernels.columns.passes import carries, passes_of
from halocline_engine.backends.cuda.kernels.columns.placement import placement_of
from halocline_engine.backends.cuda.model.entries import entries_of
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.ir.types import Axis
from halocline_engine.schedule.plan import plan

#: Two sums of a column, complete at the last level, which shares one with all levels.
SUMS = """
def sums(a: Field[{0}], b: Field[{0}], x: Field[{0}]):
    with computation(FORWARD):
        with interval(0, 1):
            above = a * b
            below = b
        with interval(1, None):
            above = above[0, 0, -1] + a * b
            below = below[0, 0, -1] + b
            if a > {0}(0.75):
                x = a * x
    with computation(BACKWARD):
        with interval(-1, None):
            part = above / below
            x = x + part if a > b else x
        with interval(0, -1):
            part = part[0, 0, 1]
            x = x + part if a > b else x
"""
#: What one level makes is needed two sections later, at other levels and changed in place.
LATER = """
def later(a: Field[{0}], b: Field[{0}], x: Field[{0}], y: Field[{0}]):
    with computation(FORWARD):
        with interval(0, 1):
            first = a + b
        with interval(1, 3):
            x = x * a
        with interval(3, -1):
            x = x[0, 0, -1] + b
            last = x * b
        with interval(-1, None):
            x = last[0, 0, -1] + a
            last = last[0, 0, -1] * {0}(0.5)
            y = last
    with computation(BACKWARD):
        with interval(-1, None):
            last = last + x
            x = last * b
        with interval(1, -1):
            y = x[0, 0, 1] * b
        with interval(0, 1):
            first = first * a
            if a > b:
                first = {0}(2.0) * first
            y = first
    with computation(FORWARD), interval(0, 1):
        x = y + first
"""
#: What has to be in memory, as another section assigns it in between, or perhaps does.
BETWEEN = """
def between(a: Field[{0}], b: Field[{0}], x: Field[{0}], y: Field[{0}]):
    with computation(FORWARD):
        with interval(0, 1):
            s = a
            t = b
        with interval(1, None):
            s = s[0, 0, -1] + a
            t = t[0, 0, -1] * a
            x = s
    with computation(BACKWARD), interval(1, -1):
        x = x[0, 0, 1] * b
        if a > b:
            t = a - b
    with computation(FORWARD), interval(-1, None):
        y = t + s + x
        if a > b:
            y = x[0, 0, -1]
            x = y * b
        y = y + x
    with computation(BACKWARD), interval(-1, None):
        y = x + t[0, 0, -1] + s[0, 0, -1]
"""
#: Fields without levels: a sum, a level that a scan finds, and what another computation had left.
PLANES = """
def planes(a: Field[{0}], b: Field[{0}], x: Field[{0}], h: Field[IJ, {0}], low: Field[IJ, {0}]):
    with computation(FORWARD), interval(0, 1):
        total: Field[IJ, {0}] = 0.0
        top: Field[IJ, int] = 0
    with computation(FORWARD), interval(...):
        total = total + a
        if b > {0}(0.2) and top == K - 1:
            top = K
        if a > b:
            low = b + low
    with computation(BACKWARD), interval(0, -1):
        x = total * x[0, 0, 1] + low
        h = h + x
    with computation(FORWARD), interval(-1, None):
        h = h / total + top
"""
#: What each branch assigns, some of it a second time, and reads of the level before.
BRANCHES = """
def branches(a: Field[{0}], b: Field[{0}], x: Field[{0}], y: Field[{0}]):
    with computation(FORWARD):
        with interval(0, 1):
            t = a
            u = b
            x = a
        with interval(1, None):
            if a > b:
                t = t[0, 0, -1] + a
                if a > {0}(0.5):
                    u = b
                    x = u + x[0, 0, -1]
                else:
                    x = t * b
                    u = x - x[0, 0, -1]
            else:
                u = u[0, 0, -1] - t[0, 0, -1]
                t = a
                x = b * u
            if u > t:
                x = x + u
                y = x[0, 0, -1]
            y = u * a
    with computation(BACKWARD), interval(0, -1):
        if x[0, 0, 1] > y:
            x = x[0, 0, 1]
        else:
            x = y[0, 0, 1]
            y = a
"""
TEXTS = {"sums": SUMS, "later": LATER, "between": BETWEEN, "planes": PLANES, "branches": BRANCHES}
DOMAINS: tuple[Domain, ...] = ((5, 3, 5), (3, 2, 12))
TILES: tuple[dict[str, Any], ...] = (
    {},
    {"ahead": 0, "on_chip": 0, "levels": 0},
    {"ahead": 2, "on_chip": 64},
    {"ahead": 3, "on_chip": 0},
)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("layout", ["along I", "along K"])
@pytest.mark.parametrize("number", range(len(TILES)))
def test_values_are_those_of_the_reference(
    load: Any, emulation_folder: Path, name: str, layout: str, number: int
) -> None:
    meaning, facts = front(TEXTS[name].format("float64" if number % 2 else "float32"))
    machine = EmulatedMachine(emulation_folder / "loaded", shuffled=number)
    loaded = partial(load, plan(meaning, facts), on=machine, tiles=changed(**TILES[number]))
    for domain in DOMAINS:
        own = given_arrays(meaning, facts, domain, layout)
        expected = judged(meaning, facts, own, domain)
        tiled: Any = SimpleNamespace(load=loaded)
        assert_same(ran(tiled, meaning, facts, own, domain).arrays, expected.arrays)


@pytest.mark.parametrize("name", TEXTS)
def test_loops_give_the_same(name: str) -> None:
    meaning, facts = front(TEXTS[name].format("float64"))
    agree(meaning, facts, (5, 3, 6), "along I", 1)


@pytest.mark.parametrize("levels", [0, 12])
def test_what_is_held_is_in_variables(levels: int) -> None:
    def variables(text: str) -> frozenset[str]:
        schedule = plan(*front(text.format("float64")))
        (entry,) = entries_of(schedule)
        tile = Tile((32, 1), on_chip=64, levels=levels)
        placement = placement_of(entry.kernel, schedule, tile)
        own = {buffer.name for buffer in schedule.buffers}
        assert own == placement.names
        return frozenset(name.partition(".")[0] for name in placement.variables)

    assert variables(SUMS) == {"above", "below", "part"}
    assert variables(LATER) >= {"last"}
    assert not variables(BETWEEN) & {"s", "t"}
    assert variables(BRANCHES) == {"t", "u"}


def test_only_a_section_that_is_read_later_hands_on() -> None:
    schedule = plan(*front(SUMS.format("float64")))
    (entry,) = entries_of(schedule)
    down, up = carries(passes_of(entry.kernel), frozenset(entry.arrays))
    assert [one.handed for one in down] == [{"above", "below"}] * 2
    assert [one.handed for one in up] == [{"part"}] * 2
    assert {name for name, _ in up[0].before} >= {"above", "below"}
    assert not any(one.loaded for one in (*down, *up))


def test_sums_take_no_shared_memory_and_no_stack() -> None:
    schedule = plan(*front(SUMS.format("float64")))
    variant = usual_variant(schedule)
    tiles = tiles_of(schedule, variant, (512, 512, 80), changed(on_chip=0, ahead=4))
    text = emit(schedule, variant, tiles)
    assert "chip" not in text
    assert "b0[" not in text
    (used,) = resources(device_code(text, "sm_90")).values()
    assert used.stack == 0
    assert used.registers <= 96


def test_fields_without_levels_are_loaded_and_stored_once() -> None:
    schedule = plan(*front(PLANES.format("float64")))
    variant = usual_variant(schedule)
    text = emit(schedule, variant, tiles_of(schedule, variant, (512, 512, 80)))
    names = [f"f{n}" for n, f in enumerate(schedule.program.fields) if Axis.K not in f.axes]
    assert len(names) == 4
    for name in names:
        assert len(re.findall(rf"= {name}\[", text)) <= 1
        assert len(re.findall(rf"{name}\[\w+\] = ", text)) == 1
