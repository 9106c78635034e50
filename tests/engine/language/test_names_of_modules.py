"""Names that a module defines more than once, or by other statements than one assignment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import halocline_engine as he

TWICE = """
LEVEL = 1
LEVEL = 2


def first(a: Field[float], b: Field[float]):
    with computation(PARALLEL), interval(...):
        b = 2.0 * a


def second(a: Field[float], b: Field[float]):
    with computation(PARALLEL), interval(...):
        b = LEVEL * a


def third(a: Field[float], b: Field[float]):
    with computation(PARALLEL), interval(...):
        b = a


def third(a: Field[float], b: Field[float]):
    with computation(PARALLEL), interval(...):
        b = -a
"""


def test_a_name_that_is_defined_twice_is_an_error_only_where_it_is_used() -> None:
    a, b = np.ones((2, 2, 2)), np.zeros((2, 2, 2))
    he.stencil(TWICE, stencil_name="first", target="reference")(a, b)
    assert (b == 2.0).all()
    with pytest.raises(he.NameRuleError, match="The name 'third' is defined twice"):
        he.stencil(TWICE, stencil_name="third", target="reference")
    with pytest.raises(he.NameRuleError, match="The name 'LEVEL' is defined twice"):
        he.stencil(TWICE, stencil_name="second", target="reference")


TYPES = """
def scale(a: Field[float], b: Field["float"], c: Field[np.float64], s: float, n: int):
    with computation(PARALLEL), interval(...):
        a = s * 0.1
        b = 0.1
        c = 0.1
"""


@pytest.mark.parametrize(
    ("dtypes", "types", "number"),
    [
        ({"float": "float64"}, ["float64", "float64", "float64"], 0.1),
        ({"float": np.float32}, ["float64", "float32", "float64"], 0.1),
        (
            {float: np.float32, "float": np.float64},
            ["float32", "float64", "float64"],
            float(np.float32(0.1)),
        ),
    ],
)
def test_python_types_are_keys_of_dtypes_as_in_gt4py(
    dtypes: dict[Any, Any], types: list[str], number: float
) -> None:
    stencil = he.stencil(TYPES, dtypes=dtypes, target="reference")
    program = stencil.compiled.program
    assert [field.dtype.value for field in program.fields] == types
    assert [scalar.dtype.value for scalar in program.scalars] == [types[0], "int64"]
    a, b, c = (np.zeros((1, 1, 1), kind) for kind in types)
    stencil(a, b, c, 2.0, 1)
    assert c[0, 0, 0] == number


def test_a_wrong_type_of_a_python_type_is_refused() -> None:
    with pytest.raises(he.ArgumentError, match="The dtype of '<float>' must be one of"):
        he.stencil(TYPES, dtypes={float: "no type", "float": "float64"})
    wrong: Any = {3: "float64"}
    with pytest.raises(he.ArgumentError, match="must have names as keys"):
        he.stencil(TYPES, dtypes=wrong)


COMPUTED = """
class Constants:
    def __init__(self):
        self.G = 9.81


def compute(x):
    return x + 1.0


P = compute(3)
C = Constants()
HALF = P / 2


def scale(a: Field[float], b: Field[float]):
    with computation(PARALLEL), interval(...):
        b = a * P + C.G + HALF
"""


def test_what_a_module_computes_is_given() -> None:
    a, b = np.ones((1, 1, 1)), np.zeros((1, 1, 1))
    given = {"P": 2.0, "C": {"G": 3.0}}
    he.stencil(COMPUTED, externals=given, target="reference")(a, b)
    assert b[0, 0, 0] == 1.0 * 2.0 + 3.0 + 1.0
    with pytest.raises(he.SyntaxRuleError, match="This is not a compile-time constant"):
        he.stencil(COMPUTED, externals={"C": {"G": 3.0}})
    with pytest.raises(he.ArgumentError, match="the external 'C' has no 'G'"):
        he.stencil(COMPUTED, externals={"P": 2.0, "C": {}})


def test_an_external_is_imported_unless_the_module_has_its_name() -> None:
    text = COMPUTED.replace("C.G", "UNKNOWN").replace("P = compute(3)", "P = 4.0")
    with pytest.raises(he.NameRuleError, match="The name 'UNKNOWN' is unknown"):
        he.stencil(text, externals={"UNKNOWN": 1.0})
    a, b = np.ones((1, 1, 1)), np.zeros((1, 1, 1))
    he.stencil(text.replace("UNKNOWN", "0.0"), externals={"P": 1.0}, target="reference")(a, b)
    assert b[0, 0, 0] == 4.0 + 2.0


def test_blocks_of_a_script_are_passed_over_but_not_those_of_a_stencil() -> None:
    script = TWICE + "\n\nwith halocline.Client() as client, open('a') as file:\n    first(1, 2)\n"
    assert he.stencil(script, stencil_name="first", target="reference").name == "first"
    for block in ("computation(PARALLEL), interval(...)", "gtscript.computation(PARALLEL)"):
        with pytest.raises(he.ProgramError, match="cannot stand at the top of a program"):
            he.stencil(f"{TWICE}\n\nwith {block}:\n    a = 1.0\n", stencil_name="first")


def test_the_script_of_the_quick_start_is_a_program() -> None:
    page = (Path(__file__).parents[3] / "README.md").read_text("utf-8")
    script = page.partition("```python\n")[2].partition("```")[0]
    assert he.stencil(script, target="reference").name == "smooth"
