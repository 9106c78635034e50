"""The printed program: complete, exact, and different for different programs."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

import pytest
from lowered import lower

from halocline_engine.ir.nodes import Call, Location, Number, Program, Read, Scalar
from halocline_engine.ir.show import show, show_expr
from halocline_engine.ir.types import DType
from halocline_engine.ir.walk import rewrite_body
from halocline_engine.language.gtscript import parse

TEXT = """
def example(a: Field[float64], b: Field[float32], s: Field[IJ, int64], unused: Field[bool],
            c: float, n: int = 3):
    with computation(PARALLEL), interval(1, -1):
        t = -a[1, 0, -1] * c
        if a > 0.1 and not (s == n):
            b = sqrt(t)
        else:
            b = t if t < 1.0 else 2.0
    with computation(BACKWARD):
        with interval(-1, None):
            s = 0
        with interval(0, 1):
            s = s + n
"""

SHOWN = """\
program example(a, b, s, unused, c, n)
field a: float64[I, J, K] read
field b: float32[I, J, K] written
field s: int64[I, J] read and written
field unused: bool[I, J, K] unused
scalar c: float64
scalar n: int64 = 3
temporary t: float64
computation PARALLEL
  interval [1, end-1)
    t = ((- a[1, 0, -1]) * c)
    if ((a[0, 0, 0] > 0.1:float64) and (not (s[0, 0, 0] == n)))
      b = float32(sqrt(t[0, 0, 0]):float64)
    else
      b = float32((t[0, 0, 0] if (t[0, 0, 0] < 1.0:float64) else 2.0:float64))
computation BACKWARD
  interval [end-1, end)
    s = 0:int64
  interval [0, 1)
    s = (s[0, 0, 0] + n)
"""


@pytest.fixture(scope="module")
def program() -> Program:
    return lower(parse(TEXT))


def test_the_whole_text(program: Program) -> None:
    assert show(program) == SHOWN


def test_places_do_not_count(program: Program) -> None:
    moved = lower(parse("\n\n# a comment\n" + TEXT))
    assert moved == program
    assert show(moved) == show(program)


def test_every_difference_shows(program: Program) -> None:
    """Change one thing of each kind; a fingerprint must not miss any of them."""
    others = [
        replace(program, name="other"),
        replace(program, arguments=program.arguments[::-1]),
        replace(program, scalars=(program.scalars[0], Scalar("n", DType.INT64, 4))),
        replace(program, scalars=(program.scalars[0], Scalar("n", DType.INT64))),
        replace(program, computations=program.computations[::-1]),
        replace(program, computations=program.computations[:1]),
        *(
            replace(program, fields=(replace(program.fields[0], **c), *program.fields[1:]))
            for c in ({"dtype": DType.FLOAT32}, {"axes": ()}, {"read": False}, {"written": True})
        ),
        *(_changed(program, kind) for kind in ("offset", "dtype", "value")),
    ]
    texts = {show(other) for other in [program, *others]}
    assert len(texts) == len(others) + 1


def _changed(program: Program, what: str) -> Program:
    new: dict[str, Any] = {
        "offset": (2, 0, -1),
        "dtype": DType.FLOAT32,
        "value": 0.1000000000000001,
    }

    def change(expr: Any) -> Any:
        names = {field.name for field in fields(expr)}
        wanted = Call if what == "dtype" else Number if what == "value" else Read
        return (
            replace(expr, **{what: new[what]}) if type(expr) is wanted and what in names else expr
        )

    first, *rest = program.computations
    (block,) = first.blocks
    blocks = (replace(block, body=rewrite_body(block.body, change)),)
    return replace(program, computations=(replace(first, blocks=blocks), *rest))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1:float64"),
        (-0.0, "-0.0:float64"),
        (5e-324, "5e-324:float64"),
        (math.inf, "inf:float64"),
        (math.nan, "nan:float64"),
    ],
)
def test_numbers_are_exact(value: float, text: str) -> None:
    assert show_expr(Number(DType.FLOAT64, value)) == text


def test_locations_are_left_out() -> None:
    assert Location(1, 2) != Location(3, 4)
    assert "line" not in SHOWN
