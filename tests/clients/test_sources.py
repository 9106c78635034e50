"""A Python function as program text: what is found, how it is printed, what is refused."""
# ruff: noqa: ANN001, ANN201, ANN202, F841
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false, reportUnusedVariable=false

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lowered import lower

from halocline.errors import NameRuleError, SourceError
from halocline.gtscript import IJ, PARALLEL, Field, K, computation, function, interval
from halocline.inputs.program import program_source
from halocline_engine.language.gtscript import parse
from halocline_engine.language.python.sources import parameters, with_place

F = Field[np.float64]
F2 = Field[IJ, np.float32]
FK = Field[K, np.float64]
wp = np.float32
GAIN = 2.5
HALF = np.float32(0.5)
ZERO_D = np.array(3.0)
COUNT = np.int64(4)
SMALL = np.int8(-5)
ON = np.bool_(True)
INFINITE = math.inf
WORD = "text"


class grid:
    DX = 0.25
    LEVELS = 3
    UNUSED = object()

    class deep:
        MORE = 1.0


settings = types.SimpleNamespace(alpha=0.125, name="x")


def traced(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def call(*arguments: Any) -> Any:
        return f(*arguments)

    return call


@function
def twice(q):
    return q * FACTOR


FACTOR = 2


@function
def smooth(q):
    return twice(q[-1, 0, 0]) + q[1, 0, 0]


@traced
@function
def decorated(a: F, b: F):
    """Say what it does."""
    with computation(PARALLEL), interval(...):
        # a comment stays
        b = a * 2.0


def everything(a: F, b: F, m: F2, k: FK, w: wp, *, c: float = 1.0):
    from __externals__ import LIMIT  # pyright: ignore[reportMissingImports]

    with computation(PARALLEL), interval(...):
        t = smooth(a) * GAIN + HALF * ZERO_D - grid.DX * grid.LEVELS
        b = t * settings.alpha if t < LIMIT else COUNT * SMALL
        b = b if ON else min(a, m)


def test_a_function_is_sent_with_all_that_it_needs() -> None:
    source = program_source(everything)
    assert source.name == "everything"
    assert source.text == (
        "F = Field[np.float64]\n"
        "F2 = Field[IJ, np.float32]\n"
        "FK = Field[K, np.float64]\n"
        "wp = np.float32\n"
        "FACTOR = 2\n"
        "GAIN = 2.5\n"
        "HALF = np.float32(0.5)\n"
        "ZERO_D = 3.0\n"
        "COUNT = 4\n"
        "SMALL = np.int8(-5)\n"
        "ON = True\n"
        "\n\n"
        "class grid:\n"
        "    DX = 0.25\n"
        "    LEVELS = 3\n"
        "\n\n"
        "class settings:\n"
        "    alpha = 0.125\n"
        "\n\n"
        "def twice(q):\n"
        "    return q * FACTOR\n"
        "\n\n"
        "def smooth(q):\n"
        "    return twice(q[-1, 0, 0]) + q[1, 0, 0]\n"
        "\n\n"
        "def everything(a: F, b: F, m: F2, k: FK, w: wp, *, c: float = 1.0):\n"
        "    from __externals__ import LIMIT  # pyright: ignore[reportMissingImports]\n"
        "\n"
        "    with computation(PARALLEL), interval(...):\n"
        "        t = smooth(a) * GAIN + HALF * ZERO_D - grid.DX * grid.LEVELS\n"
        "        b = t * settings.alpha if t < LIMIT else COUNT * SMALL\n"
        "        b = b if ON else min(a, m)\n"
    )


def test_decorators_are_dropped_and_comments_stay() -> None:
    text = program_source(decorated).text
    assert text.splitlines()[3:5] == [
        "def decorated(a: F, b: F):",
        '    """Say what it does."""',
    ]
    assert "@" not in text
    assert "# a comment stays" in text


def test_the_language_reads_what_is_collected() -> None:
    names = [definition.name for definition in parse(program_source(decorated).text).definitions]
    assert names == ["F", "decorated"]


def test_the_language_knows_the_words_by_their_module() -> None:
    head = "import numpy as np\nfrom halocline.gtscript import Field as A, PARALLEL, computation\n"
    text = f"{head}def f(a: A[np.float64]):\n    with computation(PARALLEL), interval(...):\n"
    program = lower(parse(f"{text}        a = 1.0\n"))
    assert [(field.name, field.dtype) for field in program.fields] == [("a", "float64")]


def test_the_same_function_gives_the_same_text() -> None:
    assert program_source(everything) == program_source(everything)


def test_an_inner_function_brings_its_closure() -> None:
    weight = 0.25

    def inner(a: F, b: F):
        with computation(PARALLEL), interval(...):
            b = a * weight

    text = program_source(inner).text
    assert "weight = 0.25\n" in text
    assert "\ndef inner(a: F, b: F):\n    with computation" in text


def test_a_function_is_sent_under_the_name_its_user_gives_it() -> None:
    other = twice

    def user(a: F, b: F):
        with computation(PARALLEL), interval(...):
            b = other(a)

    assert "\ndef other(q):\n    return q * FACTOR\n" in program_source(user).text


def test_a_module_is_a_class_of_what_is_used_of_it() -> None:
    def user(a: F, b: F):
        with computation(PARALLEL), interval(...):
            b = a * math.pi

    assert f"class math:\n    pi = {math.pi!r}\n" in program_source(user).text


def four_types(a: T1, b: T2, c: T3, d: T4):  # noqa: F821 # pyright: ignore[reportUndefinedVariable]
    with computation(PARALLEL), interval(...):
        b = a


def with_types(*types_of_parameters: Any) -> Callable[..., Any]:
    scope = {f"T{number}": value for number, value in enumerate(types_of_parameters, 1)}
    return types.FunctionType(four_types.__code__, scope, "four_types")


def test_gt4py_types_are_printed() -> None:
    gtscript = pytest.importorskip("gt4py.cartesian.gtscript", exc_type=ImportError)
    program = with_types(
        gtscript.Field[np.float64],
        gtscript.Field[gtscript.IJ, np.int32],
        gtscript.Field[(np.float32, (3,))],
        gtscript.GlobalTable[(np.float64, (8,))],
    )
    assert program_source(program).text.splitlines()[:4] == [
        "T1 = Field[np.float64]",
        "T2 = Field[IJ, np.int32]",
        "T3 = Field[(np.float32, (3,))]",
        "T4 = GlobalTable[(np.float64, (8,))]",
    ]


def test_own_types_know_axes_and_sizes() -> None:
    program = with_types(Field[IJ, (np.float32, (3, 2))], Field["T"], np.bool_, float)
    assert program_source(program).text.splitlines()[:4] == [
        "T1 = Field[IJ, (np.float32, (3, 2))]",
        "T2 = Field['T']",
        "T3 = np.bool_",
        "T4 = float",
    ]


def bad_value(a: F, b: F):
    with computation(PARALLEL), interval(...):
        b = a * WORD


def bad_number(a: F, b: F):
    with computation(PARALLEL), interval(...):
        b = a * INFINITE


def bad_member(a: F, b: F):
    with computation(PARALLEL), interval(...):
        b = a * settings.name


def deep_member(a: F, b: F):
    with computation(PARALLEL), interval(...):
        b = a * grid.deep.MORE


def no_member(a: F, b: F):
    with computation(PARALLEL), interval(...):
        b = a * grid.DZ  # pyright: ignore[reportAttributeAccessIssue]


def bad_module(a: F, b: F):
    with computation(PARALLEL), interval(...):
        b = a * math


def member_function(a: F, b: F):
    with computation(PARALLEL), interval(...):
        b = math.hypot(a, a)


HOLDS = (
    ", which a program cannot hold. A program holds finite numbers, types, functions, and classes "
    "of numbers; pass other values as 'scalars' or 'externals'."
)
PLAIN = "Pass the function written with 'def', before it is compiled by another package."
KINDS = "A program must be text, a '.py' file or a plain Python function, got"


@pytest.mark.parametrize(
    ("program", "text"),
    [
        (bad_value, f"The name 'WORD' in 'bad_value' stands for 'str': 'text'{HOLDS}"),
        (bad_number, f"The name 'INFINITE' in 'bad_number' stands for 'float': inf{HOLDS}"),
        (bad_member, f"The name 'settings.name' in 'bad_member' stands for 'str': 'x'{HOLDS}"),
        (
            no_member,
            "The name 'grid.DZ' in 'no_member' stands for nothing, which a program cannot hold. "
            "'grid.DZ' does not exist.",
        ),
        (lambda a: a, f"{KINDS} a lambda. {PLAIN}"),
        (functools.partial(twice, 1), f"{KINDS} 'partial'. {PLAIN}"),
        (len, f"{KINDS} 'builtin_function_or_method'. {PLAIN}"),
    ],
)
def test_what_cannot_be_sent_is_named(program: Any, text: str) -> None:
    with pytest.raises(SourceError) as caught:
        program_source(program)
    assert f"{caught.value.message} {caught.value.hint}" == text


def test_a_module_or_its_function_is_named() -> None:
    with pytest.raises(
        SourceError, match=r"^The name 'math' in 'bad_module' stands for a module: "
    ):
        program_source(bad_module)
    with pytest.raises(SourceError, match=r"^The name 'grid\.deep\.MORE' in 'deep_member' stands "):
        program_source(deep_member)
    with pytest.raises(SourceError, match=r"^The name 'math\.hypot' in 'member_function' stands "):
        program_source(member_function)


def test_a_name_with_two_meanings_gets_another_name_for_the_second() -> None:
    first = types.FunctionType(twice.__code__, {"FACTOR": 3}, "twice")

    def clash(a: F, b: F):
        with computation(PARALLEL), interval(...):
            b = first(a) * smooth(a)

    text = program_source(clash).text
    assert "FACTOR = 3\nFACTOR__2 = 2\n" in text
    assert "def first(q):\n    return q * FACTOR\n" in text
    assert "def twice(q):\n    return q * FACTOR__2\n" in text


def test_a_function_without_text_is_refused() -> None:
    scope: dict[str, Any] = {}
    exec("def made(a, b):\n    pass\n", scope)
    with pytest.raises(SourceError) as caught:
        program_source(scope["made"])
    assert str(caught.value) == (
        "The text of the function 'made' cannot be found.\n"
        "Write it in a file or a notebook cell, or pass the program as text."
    )


def test_text_is_sent_as_it_is() -> None:
    text = "def f(a: Field[float]):\n    pass\n"
    assert program_source(text).text == text


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("GAIN = 1.0\n")
    assert program_source(path).text == program_source(str(path)).text == "GAIN = 1.0\n"


@pytest.mark.parametrize(
    ("program", "text"),
    [
        ("missing.py", "The program 'missing.py' cannot be read: No such file or directory."),
        (
            "x = 1",
            "A program must be text with line breaks, a '.py' file or a function, got 'x = 1'.",
        ),
    ],
)
def test_what_is_neither_text_nor_a_file_is_refused(program: str, text: str) -> None:
    with pytest.raises(SourceError) as caught:
        program_source(program)
    assert str(caught.value).startswith(text)


def test_parameters_are_those_of_the_stencil() -> None:
    assert parameters(program_source(everything)) == ("a", "b", "m", "k", "w", "c")
    text = program_source(everything).text
    assert parameters(program_source(text)) == ("a", "b", "m", "k", "w", "c")
    two = f"{text}\n{program_source(decorated).text}"
    assert parameters(program_source(two)) == ()
    assert parameters(program_source(two), "decorated") == ("a", "b")
    assert parameters(program_source("def f(:\n")) == ()


def placed_error(line: int, column: int) -> NameRuleError:
    error = NameRuleError("So.")
    error.line, error.column = line, column
    return error


def test_an_error_finds_the_line_in_the_users_file() -> None:
    source = program_source(everything)
    line = next(n for n, t in enumerate(source.text.splitlines(), 1) if "return q * FACTOR" in t)
    error = placed_error(line, 5)
    placed = with_place(error, source)
    assert placed.file == __file__
    own = Path(__file__).read_text().splitlines()
    assert own[placed.file_line - 1] == "    return q * FACTOR"
    assert str(placed) == f"{__file__}, line {placed.file_line}, column 5: So."


def test_an_error_in_a_made_line_has_the_place_in_the_text() -> None:
    error = placed_error(1, 5)
    assert with_place(error, program_source(everything)).place == "line 1, column 5"


def test_an_error_in_a_file_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("GAIN = 1.0\nHALF = x\n")
    error = placed_error(2, 8)
    assert with_place(error, program_source(path)).place == f"{path}, line 2, column 8"


def test_words_do_nothing_in_python() -> None:
    with pytest.raises(TypeError, match=r"^'interval' belongs to a stencil program, which Python "):
        interval(...)
    with pytest.raises(TypeError, match=r"pass the function to 'Client\.stencil'\.$"):
        decorated(1, 2)
    assert repr(PARALLEL) == "PARALLEL"
