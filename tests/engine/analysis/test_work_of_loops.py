"""Operations of loops: as many turns as the reference counts on what is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from halocline_engine.analysis.work import Operation, work_of
from halocline_engine.functions.reports.turns import measured_turns
from halocline_engine.program import compile_program

HEAD = "def f(a: Field[float], out: Field[float]):\n"
BODY = """
    with computation(PARALLEL), interval(1, None):
        x = a
        n = 0
        while n < 4 and x < 3.0:
            m = 0
            while m < 2:
                x = x + exp(x) / 1000.0
                m += 1
            n += 1
        out = x
"""
SIZE, HALO = (20, 10, 4), (2, 1, 0)


def drawn(domain: tuple[int, int, int]) -> dict[str, Any]:
    ni, nj, nk = (n + 2 * around for n, around in zip(domain, HALO, strict=True))
    a = np.full((ni, nj, nk), 1.0)
    a[2::3] = 4.0
    return {"a": a, "out": np.zeros_like(a)}


def test_measured_turns_are_counted() -> None:
    program = compile_program(HEAD + BODY, target="reference").program
    turns = measured_turns(program, SIZE, drawn, {}, HALO)
    # Three of the nine columns along I that are looked at begin above the bound.
    assert sorted(turns.values()) == pytest.approx([4 * 2 / 3, 8 * 2 / 3])
    points = 20 * 10 * 3
    assert work_of(program, SIZE).operations[Operation.FUNCTION] == points
    measured = work_of(program, SIZE, turns)
    assert measured.operations[Operation.FUNCTION] == round(points * 8 * 2 / 3)
    assert measured.bytes == work_of(program, SIZE).bytes


def test_programs_without_loops_are_not_run() -> None:
    text = HEAD + "    with computation(PARALLEL), interval(...):\n        out = a\n"
    program = compile_program(text, target="reference").program
    assert measured_turns(program, SIZE, drawn, {}, HALO) == {}
