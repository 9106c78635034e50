"""Every race rule, with its text and its place, and the programs that are just legal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from halocline_engine.analysis.dependence import check
from halocline_engine.errors import DependenceError
from halocline_engine.ir.nodes import Program
from halocline_engine.ir.types import Axis, Order

ProgramOf = Callable[[str], Program]

PARALLEL = "with computation(PARALLEL), interval(...):\n"
FORWARD = "with computation(FORWARD), interval(...):\n"

BLOCK_HINT = (
    "Assign to a new name: a block reads at offsets only temporaries that it assigns first."
)
SELF_HINT = "Assign to another name, so that every point reads old values."
FIELD_HINT = "Use computation(FORWARD) or computation(BACKWARD), or write another field."
COPY_HINT = (
    "Write another field, or read a copy in a temporary that is assigned before and not "
    "written back."
)

WRONG = {
    "self-offset of a field": (
        PARALLEL + "    a = a[1, 0, 0]",
        "line 3, column 9: 'a' is assigned from its own neighbour at the offset (1, 0, 0).",
        SELF_HINT,
    ),
    "self-offset of a temporary": (
        PARALLEL + "    t = a\n    t = t[0, -1, 0]\n    b = t",
        "line 4, column 9: 't' is assigned from its own neighbour at the offset (0, -1, 0).",
        SELF_HINT,
    ),
    "self-offset inside an if": (
        PARALLEL + "    if b > 0.0:\n        a = a[1, 0, 0]",
        "line 4, column 13: 'a' is assigned from its own neighbour at the offset (1, 0, 0).",
        SELF_HINT,
    ),
    "written and read in one block": (
        PARALLEL + "    b = a\n    c = b[1, 0, 0]",
        "line 4, column 9: 'b' is written and read at the offset (1, 0, 0) in the same block.",
        BLOCK_HINT,
    ),
    "read before it is written in one block": (
        FORWARD + "    c = b[0, 1, 0]\n    b = a",
        "line 3, column 9: 'b' is written and read at the offset (0, 1, 0) in the same block.",
        BLOCK_HINT,
    ),
    "read in a condition and written": (
        PARALLEL + "    if a[1, 0, 0] > 0.0:\n        b = 1.0\n        a = 2.0",
        "line 3, column 9: 'a' is written and read at the offset (1, 0, 0) in the same block.",
        BLOCK_HINT,
    ),
    "a temporary of an earlier block": (
        PARALLEL + "    t = a\n" + PARALLEL + "    b = t[1, 0, 0]\n    t = b",
        "line 5, column 9: 't' is written and read at the offset (1, 0, 0) in the same block.",
        BLOCK_HINT,
    ),
    "another level in PARALLEL": (
        "with computation(PARALLEL), interval(1, None):\n    a = a[0, 0, -1]",
        "line 3, column 9: 'a' is written and read on another level, at the offset (0, 0, -1), "
        "in the same PARALLEL block.",
        FIELD_HINT,
    ),
    "another level of a temporary in PARALLEL": (
        "with computation(PARALLEL), interval(1, None):\n    t = a\n    b = t[0, 0, -1]",
        "line 4, column 9: 't' is written and read on another level, at the offset (0, 0, -1), "
        "in the same PARALLEL block.",
        "Assign it in a computation of its own before.",
    ),
    "a written field is read next to the point later": (
        PARALLEL + "    b = a\n" + PARALLEL + "    c = b[1, 0, 0]",
        "line 5, column 9: Field 'b' is written, but its neighbour at the offset (1, 0, 0) is "
        "read.",
        COPY_HINT,
    ),
    "a written field was read next to the point before": (
        PARALLEL + "    c = a[0, 2, 0]\n" + PARALLEL + "    a = c",
        "line 3, column 9: Field 'a' is written, but its neighbour at the offset (0, 2, 0) is "
        "read.",
        COPY_HINT,
    ),
    "a written field is needed next to the point through temporaries": (
        PARALLEL + "    t = a\n" + PARALLEL + "    a = t[-2, 0, 0]",
        "line 3, column 9: Field 'a' is written, but through temporaries it is needed up to "
        "2 points along I outside the domain.",
        "Write another field: the halo of a written field has no defined value.",
    ),
    "a plane that is written is read next to the point": (
        FORWARD + "    p = a\n" + PARALLEL + "    b = p[1, 0]",
        "line 5, column 9: Field 'p' is written, but its neighbour at the offset (1, 0, 0) is "
        "read.",
        COPY_HINT,
    ),
}

RIGHT = {
    "a temporary first assigned in the block": PARALLEL + "    t = a\n    b = t[1, 0, 0]",
    "assigned again in that block": PARALLEL
    + "    t = a\n    b = t[1, 0, 0]\n    t = b\n    c = t",
    "one in each block": (
        "with computation(PARALLEL):\n"
        "    with interval(0, 1):\n        t = a\n        b = t[1, 0, 0]\n"
        "    with interval(1, None):\n        b = a"
    ),
    "a level that an earlier block wrote": (
        "with computation(PARALLEL):\n"
        "    with interval(0, 1):\n        a = 5.0\n"
        "    with interval(1, None):\n        b = a[0, 0, -1]"
    ),
    "another level of a block of one level": (
        "with computation(PARALLEL), interval(1, 2):\n    a = a[0, 0, -1]"
    ),
    "another level in FORWARD": (
        "with computation(FORWARD), interval(1, None):\n    a = a[0, 0, -1]"
    ),
    "a plane in BACKWARD": "with computation(BACKWARD), interval(...):\n    p = p + a",
    "neighbours of a field that is only read": PARALLEL
    + "    b = a[1, 0, 0]\n    b = b + a[0, 1, 0]",
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_programs(program_of: ProgramOf, case: str) -> None:
    body, message, hint = WRONG[case]
    with pytest.raises(DependenceError) as caught:
        check(program_of(body))
    assert str(caught.value) == f"{message}\n{hint}"
    assert caught.value.rule


@pytest.mark.parametrize("case", RIGHT)
def test_right_programs(program_of: ProgramOf, case: str) -> None:
    check(program_of(RIGHT[case]))


def test_planes_and_columns_cannot_be_written_everywhere(program_of: ProgramOf) -> None:
    program = program_of(FORWARD + "    p = a")
    check(program)
    (computation,) = program.computations
    with pytest.raises(DependenceError) as caught:
        check(replace(program, computations=(replace(computation, order=Order.PARALLEL),)))
    assert caught.value.message == (
        "Field 'p' has the axes (I, J) and is written in a PARALLEL computation, where all levels "
        "would write the same point."
    )
    assert caught.value.hint == "Use computation(FORWARD) or computation(BACKWARD)."
    fields = tuple(replace(f, axes=(Axis.K,)) if f.name == "p" else f for f in program.fields)
    with pytest.raises(DependenceError) as caught:
        check(replace(program, fields=fields))
    assert caught.value.message == "Field 'p' has the axes (K) and cannot be written."
    assert caught.value.hint == (
        "Only fields with the axes (I, J, K) are written, and in FORWARD and BACKWARD "
        "computations those with (I, J)."
    )
    assert caught.value.rule == "write-axes"
