"""Horizontal extents: GridTools' documented examples, GT4Py's own, dependences over levels."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from lowered import lower

from halocline_engine.analysis.dependence import check
from halocline_engine.analysis.extents import analyse, horizontal_needs
from halocline_engine.errors import DependenceError, InternalError
from halocline_engine.ir.extent import CENTRE, Extent
from halocline_engine.ir.nodes import Program
from halocline_engine.language.gtscript import parse
from halocline_engine.language.syntax import Syntax
from halocline_engine.passes.split_conditionals import split_conditionals

ProgramOf = Callable[[str], Program]
Stage = tuple[str, Mapping[str, tuple[int, int]]]

DATA = Path(__file__).parents[2] / "data" / "gtscript"
CASES = sorted(path.stem for path in DATA.glob("o*.json"))
#: Stencils that use what is not part of the language yet; a line goes when its feature comes.
PARALLEL = "with computation(PARALLEL), interval(...):\n"

# "A very simple example" and "A more complex example" of GridTools' notes on its dependence
# analysis: the stages f0, f1, f2 with what they read, one dimension, output e.
SIMPLE: list[Stage] = [
    ("a", {"b": (-1, 1), "c": (0, 1)}),
    ("d", {"b": (-2, 0), "c": (-1, 2)}),
    ("e", {"a": (-1, 2), "d": (-2, 2), "c": (-1, 1)}),
]
COMPLEX: list[Stage] = [
    ("a", {"b": (-1, 1), "c": (0, 1)}),
    ("d", {"b": (-2, 0), "a": (-1, 2)}),
    ("e", {"a": (-1, 2), "d": (-2, 2), "c": (-1, 1)}),
]
BAD: list[Stage] = [
    ("a", {"b": (-1, 1), "c": (0, 1)}),
    ("c", {"b": (-2, 0), "a": (-1, 2)}),
    ("e", {"a": (-1, 2), "d": (-2, 2), "c": (-1, 1)}),
]


def staged(stages: list[Stage], fields: str, axis: str) -> Program:
    """Write stages as a program: each reads the two ends of its extents, along I or J."""
    lines = [f"def staged({', '.join(f'{name}: Field[float64]' for name in fields)}):"]
    for target, inputs in stages:
        offset = "{n}[{s}, 0, 0]" if axis == "I" else "{n}[0, {s}, 0]"
        ends = [offset.format(n=name, s=step) for name, both in inputs.items() for step in both]
        lines.append("    with computation(PARALLEL), interval(...):")
        lines.append(f"        {target} = {' + '.join(ends)}")
    return lower(parse("\n".join(lines) + "\n"))


@pytest.mark.parametrize("axis", ["I", "J"])
@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        (SIMPLE, {"a": (-1, 2), "b": (-4, 3), "c": (-3, 4), "d": (-2, 2), "e": (0, 0)}),
        (COMPLEX, {"a": (-3, 4), "b": (-4, 5), "c": (-3, 5), "d": (-2, 2), "e": (0, 0)}),
    ],
    ids=["simple", "complex"],
)
def test_documented_examples(
    stages: list[Stage], expected: dict[str, tuple[int, int]], axis: str
) -> None:
    facts = analyse(staged(stages, "bce", axis))
    none = (0, 0)
    both = {n: (x, none) if axis == "I" else (none, x) for n, x in expected.items()}
    assert {n: facts.fields[n][:2] for n in "bce"} == {n: both[n] for n in "bce"}
    assert facts.temporaries == {n: both[n] for n in "ad"}
    assert [blocks[0][0] for blocks in facts.statements] == [both[n] for n in "ade"]


def test_the_bad_example_is_refused() -> None:
    """GridTools leaves it undefined: a stage writes what an earlier one read beside the point."""
    with pytest.raises(DependenceError) as caught:
        check(staged(BAD, "bcde", "I"))
    assert caught.value.message == (
        "Field 'c' is written, but its neighbour at the offset (1, 0, 0) is read."
    )


@pytest.fixture(scope="module")
def own_stencils() -> Syntax:
    return parse((DATA / "own_stencils.py").read_text())


def _merged(extents: list[Extent]) -> Extent:
    """Return what all components of a field need, those that are not used not at all."""
    i, j, k = (
        (min((low for low, _ in along), default=0), max((high for _, high in along), default=0))
        for along in ([extent[axis] for extent in extents] for axis in range(3))
    )
    return i, j, k


@pytest.mark.parametrize("case", CASES)
def test_gt4py_finds_the_same(case: str, own_stencils: Syntax) -> None:
    """Compare with GT4Py; where it counts without the point itself, ours also holds the point."""
    facts_of = json.loads((DATA / f"{case}.json").read_text())
    options = {key: facts_of.get(key) for key in ("externals", "dtypes")}
    program = lower(own_stencils, name=facts_of["stencil"], **options)
    facts = analyse(program)
    assert facts.min_levels == max(1, facts_of["min_sequential_axis_size"])
    for name, info in facts_of["fields_info"].items():
        axes: list[str] = info.get("axes") or []
        bounds: list[list[int]] = info.get("boundary_IJK") or []
        required = _merged([facts.required(f) for f in facts.fields if f.split(".")[0] == name])
        for axis, (before, after), ours in zip("IJK", bounds, required, strict=False):
            if axis == "K" and axis in axes:
                assert ours == (-before, after), name
            elif axis in axes:
                assert ours == (min(0, -before), max(0, after)), name
            else:
                assert ours == (0, 0), name


def test_diffusion_stages(program_of: ProgramOf) -> None:
    program = program_of(
        PARALLEL
        + "    lap = 4.0 * a - a[1, 0, 0] - a[-1, 0, 0] - a[0, 1, 0] - a[0, -1, 0]\n"
        + "    flx = lap[1, 0, 0] - lap\n"
        + "    flx = 0.0 if flx * (a[1, 0, 0] - a) > 0.0 else flx\n"
        + "    fly = lap[0, 1, 0] - lap\n"
        + "    b = a - 0.1 * (flx - flx[-1, 0, 0] + fly - fly[0, -1, 0])"
    )
    facts = analyse(program)
    assert facts.temporaries == {
        "lap": ((-1, 1), (-1, 1)),
        "flx": ((-1, 0), (0, 0)),
        "fly": ((0, 0), (-1, 0)),
    }
    assert facts.fields["a"] == ((-2, 2), (-2, 2), (0, 0))
    assert facts.fields["b"] == ((0, 0), (0, 0), (0, 0))


def test_unused_statements_count(program_of: ProgramOf) -> None:
    facts = analyse(program_of(PARALLEL + "    t = a[5, 0, 0]\n    b = a"))
    assert facts.fields["a"][0] == (0, 5)


def test_planes_and_columns_need_nothing_along_axes_they_lack(program_of: ProgramOf) -> None:
    facts = analyse(program_of(PARALLEL + "    t = p[1, 0] + z\n    b = t[0, -2, 0]"))
    assert facts.fields["p"] == ((0, 1), (-2, 0), (0, 0))
    assert facts.fields["z"] == ((0, 0), (0, 0), (0, 0))


def test_an_if_is_one_statement(program_of: ProgramOf) -> None:
    program = program_of(
        PARALLEL
        + "    t = a\n    u = a\n"
        + "    if c[0, 1, 0] > 0.0:\n        t = d[1, 0, 0]\n    else:\n        u = 1.0\n"
        + "    b = t[-1, 0, 0] + u[0, 3, 0]"
    )
    facts = analyse(program)
    assert facts.statements[0][0][2] == ((-1, 0), (0, 3))
    assert facts.fields["c"] == ((-1, 0), (0, 4), (0, 0))
    assert facts.fields["d"] == ((0, 1), (0, 3), (0, 0))


ENTANGLED = """
def entangled(a: Field[float64], b: Field[float64], c: Field[float64], d: Field[float64]):
    with computation(PARALLEL), interval(...):
        t = a[0, -2, 0]
        if c[0, 1, 0] > 0.0:
            t = a
            if d > 0.0:
                b = t[1, 0, 0]
            else:
                t = d[-3, 0, 0]
                b = t[0, 1, 0]
        b = b + t[-1, 0, 0]
"""


def test_statements_of_an_interval_of_the_run_have_extents_of_their_own() -> None:
    program = lower(
        parse(
            "def f(a: Field[float64], n: int, x: Field[float64], y: Field[float64]):\n"
            "    with computation(BACKWARD), interval(1, n):\n"
            "        t = a[1, 0, 0]\n"
            "        x = x + a\n"
            "    with computation(PARALLEL), interval(...):\n"
            "        y = t[-1, 0, 0]\n"
        )
    )
    check(program)
    facts = analyse(program)
    assert facts.fields["x"][:2] == CENTRE
    assert facts.fields["a"][:2] == ((0, 1), (0, 0))
    assert facts.temporaries["t"] == ((-1, 0), (0, 0))


def test_an_interval_that_changes_its_own_bound_is_tested_once() -> None:
    program = lower(
        parse(
            "def f(n: Field[IJ, int], x: Field[float64]):\n"
            "    with computation(FORWARD), interval(n, None):\n"
            "        n = n + 2\n"
            "        x = 1.0\n"
        )
    )
    assert len(program.computations[0].blocks[0].body) == 1


def test_needs_are_the_same_before_and_after_an_if_is_split() -> None:
    program = lower(parse(ENTANGLED))
    split = split_conditionals(program)
    assert split != program
    check(program)
    check(split)
    before, after = horizontal_needs(program).names, horizontal_needs(split).names
    assert before == {name: after[name] for name in before}
    assert analyse(split).fields["d"] == ((-4, 0), (0, 1), (0, 0))


def test_an_if_that_needs_its_own_neighbours_has_no_extent_as_one_statement() -> None:
    with pytest.raises(InternalError) as caught:
        analyse(lower(parse(ENTANGLED)))
    assert str(caught.value) == (
        "An 'if' assigns a temporary and reads it at a horizontal offset, and was not split before "
        "the analysis."
    )


CARRIED = """
with computation(PARALLEL), interval(...):
    u = a
with computation(FORWARD), interval(1, None):
    t = u[0, 0, -1]
    s = t[1, 0, 0]
    b = s
    u = c
"""


def test_levels_that_need_what_later_statements_left(program_of: ProgramOf) -> None:
    """One pass over the statements gives u = c no halo, and every level but one a wrong value."""
    facts = analyse(program_of(CARRIED))
    assert facts.temporaries["u"] == ((0, 1), (0, 0))
    assert facts.statements[1][0] == (((0, 1), (0, 0)), CENTRE, CENTRE, ((0, 1), (0, 0)))
    assert facts.fields["c"][:2] == ((0, 1), (0, 0))


def test_levels_that_carry_through_two_temporaries(program_of: ProgramOf) -> None:
    facts = analyse(
        program_of(
            PARALLEL
            + "    u = a\n    v = a\n    w = a\n"
            + "with computation(BACKWARD), interval(0, -1):\n"
            + "    b = u[1, 0, 1]\n    u = v[1, 0, 1]\n    v = w[0, 1, 1]\n    w = c"
        )
    )
    assert facts.temporaries["u"] == ((0, 1), (0, 0))
    assert facts.temporaries["v"] == ((0, 2), (0, 0))
    assert facts.temporaries["w"] == ((0, 2), (0, 1))
    assert facts.fields["c"][:2] == ((0, 2), (0, 1))


def test_levels_that_were_not_visited_hold_what_was_before(program_of: ProgramOf) -> None:
    facts = analyse(
        program_of(
            PARALLEL
            + "    u = a\n    t = a\n"
            + "with computation(FORWARD), interval(0, -1):\n"
            + "    t = u[0, 0, 1]\n    u = t[1, 0, 0]\n    b = u"
        )
    )
    assert facts.temporaries == {"u": ((0, 1), (0, 0)), "t": ((0, 1), (0, 0))}
    assert facts.statements[1][0] == (((0, 1), (0, 0)), CENTRE, CENTRE)


@pytest.mark.parametrize("order", ["FORWARD", "BACKWARD"])
def test_a_halo_that_would_grow_for_ever_is_refused(order: str, program_of: ProgramOf) -> None:
    """GT4Py accepts this, and its targets give different numbers."""
    interval, k = ("1, None", -1) if order == "FORWARD" else ("0, -1", 1)
    program = program_of(
        PARALLEL
        + "    u = a\n"
        + f"with computation({order}), interval({interval}):\n"
        + f"    t = u[0, 0, {k}] + a\n    u = t[1, 0, 0]\n"
        + PARALLEL
        + "    b = u"
    )
    with pytest.raises(DependenceError) as caught:
        analyse(program)
    assert str(caught.value) == (
        "line 5, column 9: Each level needs neighbours of 'u' on the level before, so the halo "
        "would grow with the number of levels.\n"
        "Take the horizontal offset out of the loop over levels, or compute the neighbours' value "
        "in a computation of its own."
    )
    assert caught.value.rule == "loop-carried-extent"


def test_facts_are_complete(program_of: ProgramOf) -> None:
    program = program_of(CARRIED)
    facts = analyse(program)
    shape: Any = [[len(b.body) for b in c.blocks] for c in program.computations]
    assert [[len(body) for body in blocks] for blocks in facts.statements] == shape
    assert set(facts.fields) == {"a", "b", "c", "d", "p", "z"}
    assert set(facts.temporaries) == {"u", "t", "s"}
