"""Warnings: programs that are valid, but may not mean what was meant."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he

HEAD = """def f(a: Field[np.float64], result: Field[np.float64], n: Field[IJ, np.int64]):
    with computation(FORWARD), interval(...):
"""
TAIL = "        result = a\n"


def told(*lines: str, text: str = "") -> list[str]:
    """Return the warnings about some statements, checked to be one Python warning each."""
    program = text or HEAD + "".join(f"        {line}\n" for line in lines) + TAIL
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        stencil = he.stencil(program, target="reference")
    found = [str(one.message) for one in caught if isinstance(one.message, he.ProgramWarning)]
    assert found == [str(one) for one in stencil.warnings]
    return found


def test_most_programs_have_none() -> None:
    assert told("t = 0.0", "t = t + a[1, 0, 0]", "t = t + float64(n) / 2", "result = t") == []
    assert told("t: float64 = 0", "t = a", "m = n * 2", "result = t + m") == []


def test_functions_and_quotients_of_integers() -> None:
    assert told("result = a + sqrt(n)") == [
        """\
line 3, column 22: 'sqrt' of integers is float32, which has seven digits.
        result = a + sqrt(n)
                     ^
Convert an operand with 'float64(...)', or write it with a point: '2.0'."""
    ]
    assert told("result = 1 / 3 * a") == [
        """\
line 3, column 18: A quotient of integers is float32, which has seven digits.
        result = 1 / 3 * a
                 ^
Convert an operand with 'float64(...)', or write it with a point: '2.0'."""
    ]
    assert told("result = max(n, 2) * a + sin(2.0) + n * a / 2") == []


def test_float32_is_no_surprise_in_a_program_of_float32() -> None:
    text = (HEAD + "        result = a + sqrt(n)\n").replace("float64", "float32")
    assert told(text=text) == []


def test_a_temporary_with_the_type_of_its_first_value() -> None:
    assert told("t = 0", "t = t + 0.5 * a", "result = t") == [
        """\
line 4, column 13: 't' is int64, as is its first value on line 3, so this one loses its fraction.
        t = t + 0.5 * a
            ^
Write the first value with a point, or declare the type: 't: float64 = 0'."""
    ]
    assert told("t: int = 0", "t = a", "result = t") == []
    assert told("t = 0", "t = int(a)", "result = t") == []


def test_an_output_that_looks_misspelt() -> None:
    assert told("reslut = a * 2.0") == [
        """\
line 3, column 9: 'reslut' is assigned but never read, so it is a temporary without use.
        reslut = a * 2.0
        ^
Did you mean the field 'result'?"""
    ]
    assert told("helper = a * 2.0", "result2 = a") == []


def test_a_halo_for_nothing() -> None:
    assert told("t = a[2, 0, 0]", "u = t * 2.0", "v = a", "result = a[1, 0, 0]") == [
        """\
line 3, column 9: 't' is never read, but makes the halo of 'a' wider, as in GT4Py.
        t = a[2, 0, 0]
        ^
Remove the statement."""
    ]
    assert told("t = a[1, 0, 0]", "result = a[1, 0, 0]") == []


def test_calls_of_one_function_warn_once() -> None:
    text = (
        "@function\ndef half(m):\n    return m / 2\n\n\n"
        + HEAD
        + "        result = half(n) + half(n)\n"
    )
    assert len(told(text=text)) == 1


def test_runs_on_datasets_warn_and_tell() -> None:
    text = (HEAD + "        reslut = a\n" + TAIL).replace(", n: Field[IJ, np.int64]", "")
    events: list[Any] = []
    dataset = xr.Dataset({"a": (("z", "y", "x"), np.zeros((2, 3, 4)))})
    with pytest.warns(he.ProgramWarning, match="'reslut' is assigned but never read") as caught:
        he.run(text, dataset, target="reference", on_event=events.append)
    assert caught[0].filename == __file__
    assert events[0].kind == "warned"
    assert events[0].hint == "Did you mean the field 'result'?"
    assert (events[0].line, events[0].column) == (3, 9)


def test_a_field_of_integers_loses_fractions() -> None:
    assert told("n = a", "result = a") == [
        """\
line 3, column 13: Field 'n' is int64, so this value loses its fraction.
        n = a
            ^
Write 'int64(...)' if that is meant, or give the field a type of floats."""
    ]
    assert told("n = 2.0", "n = int64(a)", "n = n + 1") == []


def test_a_temporary_of_one_branch() -> None:
    (warned,) = told("if a > 0.0:", "    t = a", "result = t")
    assert warned == (
        "line 4, column 13: 't' is assigned here under a condition, but read at all points: it is"
        " 0 where the condition does not hold, as in GT4Py.\n"
        "            t = a\n"
        "            ^\n"
        "Assign it before the condition, or in 'else' too."
    )


@pytest.mark.parametrize(
    "lines",
    [
        ("if a > 0.0:", "    t = a", "else:", "    t = 1.0", "result = t"),
        ("t = 1.0", "if a > 0.0:", "    t = a", "result = t"),
        ("if a > 0.0:", "    t = a", "if a > 0.0:", "    result = t"),
        ("if a > 0.0:", "    t = a", "result = t if a > 0.0 else a"),
        ("if a > 0.0:", "    t = a", "    result = t"),
        ("if a > 0.0:", "    t = a", "t = 2.0", "result = t"),
    ],
)
def test_temporaries_that_are_assigned_where_they_are_read(lines: tuple[str, ...]) -> None:
    assert told(*lines) == []
