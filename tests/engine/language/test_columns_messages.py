"""Every diagnostic of the column language, as a person sees it: `tests/golden/column_messages`.

A case is a line `### name`, the program, a line `---` and the rendered error with its class. Cases
whose name begins with `few` are columns of two levels, the others have ten; those of `matrix.txt`
ask for the matrix that acts on `a`, or on `g` where the name says flat.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from column_cases import lowered

import halocline_engine.ir
import halocline_engine.language
from halocline_engine.errors import HaloclineError
from halocline_engine.ir.columns.check import Known, check_columns
from halocline_engine.ir.columns.formulas.metric import Widths
from halocline_engine.ir.columns.matrix import lower_matrix
from halocline_engine.ir.columns.points import Shape
from halocline_engine.ir.columns.table import OPERATORS, At
from halocline_engine.ir.types import DType
from halocline_engine.language.columns import parse_columns

FOLDER = Path(__file__).parents[2] / "golden" / "column_messages"
LANGUAGE = Path(str(halocline_engine.language.__file__)).parent
IR = Path(str(halocline_engine.ir.__file__)).parent
PLACES = {
    **dict.fromkeys(("a", "b", "theta"), At.CENTRE),
    **dict.fromkeys(("f", "w"), At.FACE),
    **dict.fromkeys(("g", "land"), At.FLAT),
}
#: Those that other tests raise, or that only a fault of Python's parser does.
ELSEWHERE = ("The program is nested too deeply for Python's parser.",)


def cases() -> Iterator[Any]:
    for path in sorted(FOLDER.glob("*.txt")):
        for block in path.read_text().split("### ")[1:]:
            name, rest = block.split("\n", 1)
            program, rendered = rest.split("\n---\n", 1)
            other = name == "not-python" and sys.version_info >= (3, 12)
            marks = [pytest.mark.skip(reason="the tokenizer of Python 3.11 is quoted")] * other
            yield pytest.param(program, name, rendered.strip("\n"), id=name, marks=marks)


@pytest.mark.parametrize(("program", "name", "rendered"), list(cases()))
def test_message(program: str, name: str, rendered: str) -> None:
    shape = Shape(2 if name.startswith("few") else 10)
    with pytest.raises(HaloclineError) as caught:
        refuse(program, name, shape)
    assert f"{type(caught.value).__name__}: {caught.value}" == rendered


def refuse(text: str, name: str, shape: Shape) -> None:
    """Do what a case asks for, which raises."""
    if not name.startswith("matrix-"):
        lowered(text, PLACES, shape, scalars=("k",), types={"land": "bool"})
        return
    of = "g" if "flat" in name else "a"
    known = {name: Known(DType.FLOAT64, at) for name, at in PLACES.items()}
    columns = check_columns(parse_columns(text), known, ("k",), "result")
    lower_matrix(columns, shape, Widths(), DType.FLOAT64, of, text=text)


def messages(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the longest fixed part of each message that a module can raise."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "message":
            parts = [c.value for c in ast.walk(node.value) if isinstance(c, ast.Constant)]
            fixed = [part for part in parts if isinstance(part, str) and len(part) > 3]
            if fixed:
                yield node.lineno, max(fixed, key=len)


def test_every_message_is_pinned() -> None:
    pinned = "".join(path.read_text() for path in FOLDER.glob("*.txt"))
    missing = [
        f"{path.name}:{line}: {text}"
        for path in [*sorted(LANGUAGE.glob("columns*.py")), *sorted(IR.glob("columns*.py"))]
        for line, text in messages(path)
        if text not in pinned and text not in ELSEWHERE
    ]
    assert not missing, "\n".join(missing)


def test_a_deep_expression_is_refused_at_its_place() -> None:
    with pytest.raises(HaloclineError) as caught:
        parse_columns("-" * 400 + "a")
    assert caught.value.code == "program-limit"


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=lambda operator: operator.name)
def test_an_operator_refuses_every_condition_that_it_does_not_take(operator: Any) -> None:
    known = {name: Known(DType.FLOAT64, at) for name, at in PLACES.items()}
    named = {At.CENTRE: "a", At.FACE: "f", At.FLAT: "1.0", None: "a"}
    arguments = ", ".join(named[at] for at in operator.arguments)
    values = ("SetValue(0.0)", "SetGradient(0.0)", "SetDivergence(0.0)", "SetCurl(0.0)")
    others = ("Extrapolate", "ExtrapolateComponents", "FirstOrderOneSided", "ThirdOrderOneSided")
    for side, allowed in (("bottom", operator.bottom), ("top", operator.top)):
        for condition in (*values, *(f"{name}()" for name in others)):
            text = f"{operator.name}({side}={condition})({arguments})"
            if condition.split("(")[0] in allowed:
                check_columns(parse_columns(text), known, (), "result")
                continue
            with pytest.raises(HaloclineError, match="does not take"):
                check_columns(parse_columns(text), known, (), "result")


def test_names_of_earlier_lines_and_hidden_ones() -> None:
    text = "_flux = f * 2.0\nout = DivergenceF2C()(_flux)"
    program = lowered(text, PLACES, Shape(10))
    assert [field.name for field in program.fields if field.written] == ["out"]
