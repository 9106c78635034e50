"""Compulsory bytes of arrays with components: those that a call touches."""

from __future__ import annotations

import pytest

from halocline_engine.analysis.work import work_of
from halocline_engine.program import compile_program

HEAD = "def f(v: Field[(float, (3,))], a: Field[float], out: Field[float], *, n: int):\n"
BODY = "    with computation(PARALLEL), interval(...):\n        "


@pytest.mark.parametrize(
    ("statement", "arrays"),
    [
        ("out = v[0, 0, 0][1] + v[0, 0, 0][2]", 3),
        ("out = v[0, 0, 0][n]", 2),
        ("v[0, 0, 0][n] = a", 2),
        ("v[0, 0, 0][n] = a * v[0, 0, 0][n]\n        out = v[0, 0, 0][n]", 4),
    ],
)
def test_one_component_is_counted_where_a_run_chooses(statement: str, arrays: int) -> None:
    program = compile_program(f"{HEAD}{BODY}{statement}\n", target="reference").program
    assert work_of(program, (5, 4, 3)).bytes == arrays * 8 * 60
