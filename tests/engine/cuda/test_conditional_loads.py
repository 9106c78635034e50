"""Loads under a condition that is known early: the same bits, and nothing else is loaded."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from corpus.calls import CorpusCall
from corpus.cases import corpus
from cubin import resources
from differential import assert_same, front
from emulation.machine import EmulatedMachine
from general_runs import agree, given_arrays, judged, ran
from kept import device_code
from tile_choices import changed

from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import tiles_of
from halocline_engine.backends.cuda.model.tile import Domain
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.ir.nodes import Program
from halocline_engine.schedule.plan import plan

HEAD = """
def columns(a: Field[{0}], b: Field[{0}], c: Field[{0}], p: Field[IJ, {0}], x: Field[{0}]):
"""
#: Loads in both branches, in branches of branches, and at levels that the domain may not have.
BRANCHES = """
    with computation(FORWARD):
        with interval(0, 1):
            s = a
        with interval(1, None):
            s = s[0, 0, -1] * {0}(0.5) + a
            positive = a > p
            if positive:
                x = s + b * c[0, 0, 1] if K > 3 else b
                if b > {0}(0.0):
                    x = x + c[0, 0, -1] if K > 1 else x
                if a < {0}(0.5):
                    x = x * b[0, 0, -1]
            else:
                if a > {0}(0.5):
                    x = c * b
                else:
                    x = c - s
"""
#: What a branch changes in place, and reads of the level before.
IN_PLACE = """
    with computation(BACKWARD):
        with interval(-1, None):
            x = x + a
        with interval(0, -1):
            if a > {0}(0.0):
                x = x + b * c * x[0, 0, 1]
            elif b > {0}(0.0):
                c = c + b
    with computation(FORWARD), interval(1, None):
        if a < {0}(0.5):
            x = x[0, 0, -1] * b
            if x > {0}(0.0):
                x = x - c
"""
#: What both branches change in place, so that each level assigns it.
BOTH = """
    with computation(BACKWARD):
        with interval(-1, None):
            x = b
        with interval(0, -1):
            if a < {0}(0.5):
                x = {0}(0.5) * x + b * x[0, 0, 1]
            else:
                x = {0}(0.25) * x + c
    with computation(FORWARD), interval(1, None):
        if b > {0}(0.0):
            c = c * p + x[0, 0, -1]
        else:
            c = c - a
        x = x + c
"""
#: Conditions that depend on what levels changed: these are not known early.
CHANGED = """
    with computation(FORWARD):
        with interval(0, 1):
            s = a
        with interval(1, None):
            s = s[0, 0, -1] * {0}(0.5) + a
            if s > {0}(0.0):
                x = b + x
            if a > {0}(0.2):
                b = c
            if b > {0}(0.2):
                c = x * b
                x = x + b[0, 0, -1]
            if a > p:
                if c > x:
                    x = x[0, 0, -1]
                b = x * c
"""
TEXTS = {"branches": BRANCHES, "in place": IN_PLACE, "both": BOTH, "changed": CHANGED}
DOMAINS: tuple[Domain, ...] = ((5, 3, 3), (3, 2, 25))
TILES: tuple[dict[str, Any], ...] = (
    {"ahead": 1},
    {"ahead": 2, "levels": 0},
    {"ahead": 3},
    {"ahead": 4, "levels": 0, "on_chip": 64},
)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("number", range(len(TILES)))
def test_values_are_those_of_the_reference(
    load: Any, emulation_folder: Path, name: str, number: int
) -> None:
    meaning, facts = front((HEAD + TEXTS[name]).format("float64" if number % 2 else "float32"))
    machine = EmulatedMachine(emulation_folder / "loaded", shuffled=number)
    loaded = partial(load, plan(meaning, facts), on=machine, tiles=changed(**TILES[number]))
    for domain in DOMAINS:
        own = given_arrays(meaning, facts, domain)
        expected = judged(meaning, facts, own, domain)
        tiled: Any = SimpleNamespace(load=loaded)
        assert_same(ran(tiled, meaning, facts, own, domain).arrays, expected.arrays)


@pytest.mark.parametrize("name", TEXTS)
def test_loops_give_the_same(name: str) -> None:
    meaning, facts = front((HEAD + TEXTS[name]).format("float64"))
    agree(meaning, facts, (5, 3, 6), "along I", 1)


def conditional(program: Program, facts: Any) -> list[str]:
    """Return what a kernel loads under conditions, with the conditions."""
    schedule = plan(program, facts)
    variant = usual_variant(schedule)
    text = emit(schedule, variant, tiles_of(schedule, variant, (512, 512, 80)))
    return sorted(set(re.findall(r"c\d+\[q\] = (.*) :", text)))


def test_what_is_loaded_under_conditions() -> None:
    case = next(case for case in corpus() if case.name == "masked_scan")
    made = CorpusCall(case, "float64", "KJI", case.domain).compiled
    assert conditional(made.program, made.facts) == [
        "t0[q] && !was_f3 ? f3[o0 + s0k]",
        "t0[q] ? f1[o0]",
        "t0[q] ? f2[o0]",
        "t0[q] ? f3[o0]",
    ]
    found = conditional(*front((HEAD + CHANGED).format("float64")))
    assert not any("f1[" in one or "f4[" in one for one in found), found


@pytest.mark.parametrize("name", ["filler_down", "filler_up", "sedimentation"])
def test_conditions_on_what_levels_hand_on_load_nothing(name: str) -> None:
    case = next(case for case in corpus() if case.name == name)
    made = CorpusCall(case, "float64", "KJI", case.domain).compiled
    assert not conditional(made.program, made.facts)


def test_branches_of_branches() -> None:
    found = conditional(*front((HEAD + BRANCHES).format("float64")))
    assert "t0[q] ? f2[o0 + s0k]" in found
    assert "t0[q] ? f1[o0 - s0k]" in {one.replace("t1", "t0").replace("t2", "t0") for one in found}
    assert any(one.endswith("f1[o0]") and "||" in one for one in found)
    assert not any(one.endswith("f2[o0 - s0k]") for one in found)


def test_queues_fit_registers() -> None:
    for text in TEXTS.values():
        schedule = plan(*front((HEAD + text).format("float64")))
        variant = usual_variant(schedule)
        code = device_code(
            emit(schedule, variant, tiles_of(schedule, variant, (512, 512, 80))), "sm_90"
        )
        assert all(used.stack == 0 for used in resources(code).values())
