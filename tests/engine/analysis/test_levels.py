"""Intervals and vertical offsets: how many levels are needed, and which are touched."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from halocline_engine.analysis.extents import analyse
from halocline_engine.analysis.levels import touched_levels
from halocline_engine.errors import DependenceError
from halocline_engine.ir.nodes import Program

ProgramOf = Callable[[str], Program]


def blocks(order: str, *intervals: str, body: str = "b = a") -> str:
    inner = "".join(f"    with interval({i}):\n        {body}\n" for i in intervals)
    return f"with computation({order}):\n{inner}"


@pytest.mark.parametrize(
    ("intervals", "least"),
    [
        (["..."], 1),
        (["0, 1"], 1),
        (["2, 3"], 3),
        (["-2, None"], 2),
        (["1, None"], 2),
        (["1, -1"], 3),
        (["0, 1", "-1, None"], 2),
        (["0, 2", "2, -2", "-2, None"], 5),
        (["0, 1", "3, -1"], 5),
    ],
)
def test_least_levels(program_of: ProgramOf, intervals: list[str], least: int) -> None:
    assert analyse(program_of(blocks("FORWARD", *intervals))).min_levels == least


def test_the_computation_that_needs_most_decides(program_of: ProgramOf) -> None:
    text = blocks("FORWARD", "0, 2") + blocks("PARALLEL", "1, -3")
    assert analyse(program_of(text)).min_levels == 5


@pytest.mark.parametrize(
    ("interval", "offset", "extent"),
    [
        ("...", 0, (0, 0)),
        ("1, None", -1, (0, -1)),
        ("1, None", 0, (1, 0)),
        ("0, -1", 1, (1, 0)),
        ("...", 2, (2, 2)),
        ("...", -3, (-3, -3)),
        ("2, -1", 0, (2, -1)),
        ("0, 1", 1, (1, 0)),
        ("-1, None", -1, (0, -1)),
        ("-1, None", -2, (0, -2)),
    ],
)
def test_vertical_extents(
    program_of: ProgramOf, interval: str, offset: int, extent: tuple[int, int]
) -> None:
    program = program_of(blocks("FORWARD", interval, body=f"b = a[0, 0, {offset}] + z[{offset}]"))
    facts = analyse(program)
    assert facts.fields["a"][2] == extent
    assert facts.fields["z"] == ((0, 0), (0, 0), extent)
    assert facts.fields["c"][2] == (0, 0)


def test_touched_levels_are_exact(program_of: ProgramOf) -> None:
    text = blocks("FORWARD", "-1, None", body="b = a[0, 0, -1]")
    program = program_of(text)
    assert touched_levels(program, 1) == {"a": (-1, -1), "b": (0, 0)}
    assert touched_levels(program, 5) == {"a": (3, 3), "b": (4, 4)}
    both = program_of(blocks("FORWARD", "0, 1", "2, None", body="b = a[0, 0, 1] + p"))
    assert touched_levels(both, 6) == {"a": (1, 6), "b": (0, 5)}


@pytest.mark.parametrize(
    ("interval", "offset", "edge"),
    [
        ("...", -1, "below the first level"),
        ("1, None", -2, "below the first level"),
        ("...", 1, "above the last level"),
        ("0, -1", 2, "above the last level"),
    ],
)
def test_temporaries_have_the_levels_of_the_domain(
    interval: str, offset: int, edge: str, program_of: ProgramOf
) -> None:
    order = "FORWARD" if offset < 0 else "BACKWARD"
    program = program_of(
        "with computation(PARALLEL), interval(...):\n    t = a\n"
        + blocks(order, "1, -2", body="b = t[0, 0, 1]")
    )
    wide = replace_interval(program, interval, offset)
    with pytest.raises(DependenceError) as caught:
        analyse(wide)
    assert str(caught.value) == (
        f"line 6, column 13: Temporary 't' is read at the vertical offset {offset:+d}, which is "
        f"{edge} of the domain, where it has no value.\n"
        "Shorten the interval so that the read stays inside the domain's levels."
    )
    assert caught.value.rule == "temporary-levels"


def replace_interval(program: Program, interval: str, offset: int) -> Program:
    """Return the program with another last interval and offset, which its text may not have."""
    from dataclasses import replace

    from halocline_engine.ir.nodes import Bound, Interval, Read
    from halocline_engine.ir.walk import rewrite_body

    low, _, high = interval.replace("...", "0, None").partition(", ")
    end = Bound(True, 0) if high == "None" else Bound(True, int(high))
    computation = program.computations[-1]
    (block,) = computation.blocks
    body = rewrite_body(
        block.body, lambda e: replace(e, offset=(0, 0, offset)) if isinstance(e, Read) else e
    )
    new = replace(block, interval=Interval(Bound(False, int(low)), end), body=body)
    return replace(
        program,
        computations=(*program.computations[:-1], replace(computation, blocks=(new,))),
    )


def test_a_temporary_that_is_read_near_an_end_needs_levels(program_of: ProgramOf) -> None:
    text = "with computation(PARALLEL), interval(...):\n    t = a\n" + blocks(
        "FORWARD", "-1, None", body="b = t[0, 0, -3]"
    )
    assert analyse(program_of(text)).min_levels == 4
    text = "with computation(PARALLEL), interval(...):\n    t = a\n" + blocks(
        "FORWARD", "0, 1", body="b = t[0, 0, 2]"
    )
    assert analyse(program_of(text)).min_levels == 3
