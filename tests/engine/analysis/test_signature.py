"""What calls must give is found out once, and is what it would be each time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from halocline_engine.analysis import signature as module
from halocline_engine.analysis.extents import analyse
from halocline_engine.analysis.levels import touched_levels
from halocline_engine.analysis.signature import signature_of
from halocline_engine.ir.nodes import Program

ProgramOf = Callable[[str], Program]
BODY = """
with computation(FORWARD):
    with interval(1, None):
        b = a[0, 0, -1]
"""


def test_levels_are_looked_at_once_for_each_size(
    program_of: ProgramOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = program_of(BODY)
    asked: list[int] = []

    def counted(program: Program, size: int) -> dict[str, tuple[int, int]]:
        asked.append(size)
        return touched_levels(program, size)

    monkeypatch.setattr(module, "touched_levels", counted)
    signature = signature_of(program, analyse(program))
    for size in (5, 7, 5, 7, 5):
        assert signature.levels(size) == touched_levels(program, size)
    assert asked == [5, 7]
    for size in range(2, 40):
        signature.levels(size)
    assert signature.levels(5) == touched_levels(program, 5)
    assert asked.count(5) == 2


def test_fields_that_a_call_needs(program_of: ProgramOf) -> None:
    program = program_of(BODY)
    signature = signature_of(program, analyse(program))
    assert {field.name for field in signature.used} == {"a", "b"}
    assert signature.optional == {f.name for f in program.fields} - {"a", "b"}
    assert signature.elsewhere == frozenset()
