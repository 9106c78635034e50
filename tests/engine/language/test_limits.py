"""Texts that are too large, too deep or no text at all are refused, quickly and with a place."""

import re
import sys
from dataclasses import replace
from typing import Any

import pytest
from lowered import lower

from halocline_engine.errors import LimitError, ProgramError, SyntaxRuleError
from halocline_engine.ir.lower.naming import names
from halocline_engine.ir.lower.naming.fold import fold
from halocline_engine.language.gtscript import parse
from halocline_engine.language.limits import LIMITS, Limits
from halocline_engine.language.source import START
from halocline_engine.language.syntax import Infix, Literal, Name

BODY = "def f(a: Field[np.float64]):\n    with computation(PARALLEL), interval(...):\n        "


#: Calls and returns of functions until a text is refused, at most: under 2 s of a quiet core.
STEPS = 3_000_000

pytestmark = pytest.mark.timeout(60)  # ends what takes long within one call


def message(text: str, kind: type[ProgramError], limits: Limits = LIMITS) -> str:
    """Return what is said to a text, after checking that few steps lead there."""
    steps = [0]

    def count(_frame: object, _event: str, _given: object) -> None:
        steps[0] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        with pytest.raises(kind) as caught:
            lower(parse(text, limits=limits))
    finally:
        sys.setprofile(before)
    assert steps[0] < STEPS
    return str(caught.value)


def test_source() -> None:
    text = "# " + "x" * LIMITS.source
    assert message(text, LimitError).split("\n")[0] == (
        "line 1, column 1: The program has 524290 bytes, but at most 524288 are allowed."
    )


def test_source_counts_bytes() -> None:
    assert "The program has 524290 bytes" in message("#" + "é" * 262144 + " ", LimitError)


def test_tokens() -> None:
    assert message("a\n" * 50_001, LimitError) == (
        "line 50001, column 1: The program has more than 100000 tokens.\na\n^\n"
        "Split it into several programs."
    )


def test_nodes() -> None:
    limits = replace(LIMITS, nodes=20)
    assert message(BODY + "a = a + a * a + a", LimitError, limits) == (
        "line 1, column 1: The program has more than 20 nodes in its syntax tree.\n"
        "def f(a: Field[np.float64]):\n^\nSplit it into several programs."
    )


def test_brackets() -> None:
    text = BODY + "a = " + "(" * 65 + "1" + ")" * 65
    assert "The program is nested more than 64 levels deep here." in message(text, LimitError)


def test_depth_of_an_expression() -> None:
    said = message(BODY + "a = " + "-" * 70 + "1", LimitError)
    assert said.startswith(
        "line 3, column 77: The program is nested more than 64 levels deep here."
    )
    assert said.endswith("Use temporaries for parts of it.")


def test_a_sum_of_sixty_terms_is_accepted() -> None:
    lower(parse(BODY + "a = " + " + ".join(["a"] * 60)))


def test_depth_of_blocks() -> None:
    limits = replace(LIMITS, depth=8)
    text = "def f(a: Field[np.float64]):\n    with computation(PARALLEL), interval(...):\n"
    for level in range(8):
        text += " " * (8 + level) + "if a > 0.0:\n"
    text += " " * 16 + "a = 1.0\n"
    assert "The program is nested more than 8 levels deep here." in message(
        text, LimitError, limits
    )


@pytest.mark.parametrize("text", ["-" * 15000 + "1", "a" + ".a" * 9000, "a" + "[1]" * 5000])
def test_the_parser_itself_is_guarded(text: str) -> None:
    said = message(text, ProgramError)
    assert (
        "The program is nested too deeply for Python's parser." in said
        or "The program is nested more than 64 levels deep here." in said
        or "not valid Python syntax" in said
    )


def test_chain_of_constants() -> None:
    text = "A0 = 1\n" + "".join(f"A{i} = A{i - 1}\n" for i in range(1, 2000)) + BODY
    assert message(text + "a = A1999", LimitError).startswith(
        "line 1, column 1: The program is nested too deeply after its functions are inlined."
    )


def test_digits() -> None:
    assert message(BODY + "a = " + "1" * 65, LimitError) == (
        "line 3, column 13: A number has 65 characters, but at most 64 are allowed.\n"
        f"        a = {'1' * 65}\n            ^\nWrite it with fewer digits."
    )


def test_fields() -> None:
    parameters = ", ".join(f"a{i}: Field[np.float64]" for i in range(257))
    text = (
        f"def f({parameters}):\n    with computation(PARALLEL), interval(...):\n        a0 = a1\n"
    )
    assert "The stencil has 257 fields, but at most 256 are allowed." in message(text, LimitError)


def test_components_are_no_fields_but_arrays() -> None:
    parameters = ", ".join(f"a{i}: Field[(np.float64, (100,))]" for i in range(11))
    head = f"def f({parameters}, n: int):\n    with computation(PARALLEL), interval(...):\n"
    some = "\n".join(f"        a{i}[0, 0, 0][n] = a{i + 1}.A[n]" for i in range(3))
    assert len(lower(parse(head + some)).fields) == 400
    every = "\n".join(f"        a{i}[0, 0, 0][n] = a{i + 1}.A[n]" for i in range(10))
    said = message(head + every, LimitError)
    assert "The stencil has 1100 arrays, but at most 1024 are allowed." in said


@pytest.mark.parametrize(
    ("statement", "times", "what"),
    [
        ("v[0, 0, 0][n] = 2.0", 65, "16384 statements"),
        ("v = 2.0", 65, "16384 statements"),
        ("v = w + 2.0 * w * w - w * 3.0 + w * w * w - w", 60, "300000 terms"),
        ("a = v.A[n] + w.A[n]", 100, "300000 terms"),
        ("m = m @ m", 18, "300000 terms"),
        (
            "m = m @ m @ m @ m @ m @ m @ m @ m @ m @ m @ m @ m @ m @ m @ m @ m @ m",
            1,
            "300000 terms",
        ),
    ],
)
def test_what_components_stand_for_is_counted(statement: str, times: int, what: str) -> None:
    head = (
        "def f(a: Field[float], v: Field[(float, (256,))], w: Field[(float, (256,))],\n"
        "      m: Field[(float, (16, 16))], n: int):\n"
        "    with computation(PARALLEL), interval(...):\n"
    )
    said = message(head + f"        {statement}\n" * times, LimitError)
    assert f"The program has more than {what} for all components of its arrays." in said


@pytest.mark.parametrize("name", ["A", "A.x"])
def test_constants_are_computed_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each constant reads the one before twice: 2^60 additions if none were remembered."""
    dotted = name.partition(".")[2]
    line = "class A{}:\n    x = {}" if dotted else "A{} = {}"
    end = f".{dotted}" if dotted else ""
    lines = [line.format(0, 1.0)]
    lines += [line.format(i, f"A{i - 1}{end} * 0.5 + A{i - 1}{end} * 0.5") for i in range(1, 60)]
    computed: list[Any] = []

    def counted(*given: Any) -> Any:
        computed.append(given)
        return fold(*given)

    monkeypatch.setattr(names, "fold", counted)
    lower(parse("\n".join(lines) + "\n" + BODY + f"a = a * A59{end}"))
    assert len(computed) == 60


@pytest.mark.parametrize("above", ["A = A.b\n", "A = B\nB = C.q\nC = A\n"])
def test_constants_that_are_attributes_of_themselves(above: str) -> None:
    said = message(above + BODY + "a = a * A.x", ProgramError)
    assert "is not a constant of the text" in said or "nested too deeply" in said


def test_functions_that_grow() -> None:
    """Each function calls the one before twice: 2^30 statements after inlining."""
    text = "def f0(x):\n    return x + 1.0\n"
    for i in range(1, 30):
        text += f"def f{i}(x):\n    return f{i - 1}(x) + f{i - 1}(x)\n"
    said = message(text + BODY + "a = f29(a)", LimitError)
    assert "The program has more than 16384 statements after its functions are inlined." in said


def test_terms_after_inlining() -> None:
    limits = replace(LIMITS, terms=100)
    text = "def g(x):\n    return " + " + ".join(["x"] * 20) + "\n" + BODY
    said = message(text + "a = g(g(g(a)))", LimitError, limits)
    assert "The program has more than 100 terms after its functions are inlined." in said


def test_conditions_that_nest_through_functions() -> None:
    text = "def f0(x):\n    return x\n"
    for i in range(1, 70):
        text += f"def f{i}(x):\n    r = x\n    if x > 0.0:\n        r = f{i - 1}(x)\n    return r\n"
    said = message(text + BODY + "a = f69(a)", LimitError)
    assert "The program has more than 64 nested conditions after its functions" in said


def test_many_names_are_not_compared_for_many_errors() -> None:
    known = "".join(f"NAME{i} = {i}\n" for i in range(3000))
    text = known + BODY + "".join(f"a = NAME_{i}\n        " for i in range(300))
    said = message(text, ProgramError)
    assert said.count("is unknown.") == 10
    assert "Did you mean" not in said


def test_long_names_are_not_compared() -> None:
    names = " + ".join(f"{letter * 12_000}" for letter in "ab")
    assert "is unknown." in message(f"{'ab' * 6000} = 1.0\n" + BODY + f"a = {names}", ProgramError)


def test_no_text() -> None:
    assert message("a\0", SyntaxRuleError).startswith(
        "line 1, column 1: The program is not text: it holds a NUL character."
    )
    assert message("\ud800", SyntaxRuleError).startswith(
        "line 1, column 1: The program is not text: it holds a character that UTF-8 cannot express."
    )


@pytest.mark.parametrize("quote", ["'", '"', "'''", '"""'])
@pytest.mark.parametrize("prefix", ["f", "F", "rf", "fr", "Rf"])
def test_formatted_strings_count_with_what_is_inside(prefix: str, quote: str) -> None:
    text = f"NAME = {prefix}{quote}{{}}{quote}\n" + BODY + "a = 1.0"
    lower(parse(text.replace("{}", "{%s}" % ("(" * 63 + "1" + ")" * 63))))
    deep = text.replace("{}", "{%s}" % ("(" * 64 + "1" + ")" * 64))
    # Since Python 3.12 the tokens of formatted strings have places of their own.
    assert re.match(
        r"line 1, column (8|7\d): The program is nested more than 64 levels",
        message(deep, LimitError),
    )
    long = text.replace("{}", "{" + "a+" * 50_000 + "a}")
    assert "The program has more than 100000 tokens." in message(long, LimitError)


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_line_endings(ending: str) -> None:
    text = (BODY + "a = zzz\n").replace("\n", ending)
    said = message(text, ProgramError)
    assert said.startswith("line 3, column 13: The name 'zzz' is unknown.\n        a = zzz\n")


def test_columns_count_characters() -> None:
    assert message("é = 1.0\n" + BODY + "ü = é; a = ü + zzz", ProgramError).startswith(
        "line 4, column 24: The name 'zzz' is unknown.\n"
        "        ü = é; a = ü + zzz\n                       ^"
    )


def test_control_characters_do_not_reach_the_excerpt() -> None:
    said = message(BODY + "a = 'a\x1b[31m'", ProgramError)
    assert "\x1b" not in said


def nested(levels: int, counters: int) -> str:
    """Return a program of loops in one another, of which each changes integers by one another."""
    lines = [f"        v{each}: int64 = {each}" for each in range(counters)]
    for level in range(levels):
        indent = " " * 4 * (level + 2)
        lines.append(f"{indent}while x < {level}.0:")
        lines += [
            f"{indent}    v{each} = min(v{each} + v{(each + 1) % counters}, {1000 * (level + 1)})"
            for each in range(counters)
        ]
    lines.append(f"{' ' * 4 * (levels + 2)}x = x + 1.0")
    body = "\n".join(lines)
    return (
        "def f(t: Field[np.float64], out: Field[np.float64]):\n"
        f"    with computation(PARALLEL), interval(...):\n        x = t\n{body}\n        out = x\n"
    )


@pytest.mark.parametrize(("levels", "counters"), [(14, 0), (30, 0), (55, 0), (12, 3), (30, 4)])
def test_nested_loops_are_analysed_in_bounded_steps(levels: int, counters: int) -> None:
    steps = [0]

    def count(_frame: object, _event: str, _given: object) -> None:
        steps[0] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        lower(parse(nested(levels, counters)))
    finally:
        sys.setprofile(before)
    assert steps[0] < 2 * STEPS


@pytest.mark.parametrize(
    ("constant", "value"),
    [
        ("round(5, -1000000000)", 0),
        ("round(5.5, -1000000000)", 0.0),
        ("round(5, 1000000000)", 5),
        ("round(2.567, 1000000000)", 2.567),
        ("round(15, -1)", 20),
        ("round(2.567, 2)", 2.57),
    ],
)
def test_rounding_to_any_place_takes_no_time(constant: str, value: float) -> None:
    text = f"X = {constant}\n{BODY}a = a * X\n"
    plain = f"X = {value}\n{BODY}a = a * X\n"
    assert lower(parse(text)) == lower(parse(plain))


def test_a_constant_on_the_way_has_bounded_digits() -> None:
    power = Infix("**", Name("X", START), Literal(1024, START), START)
    with pytest.raises(SyntaxRuleError) as caught:
        fold(power, lambda _: 10**4000)
    assert str(caught.value).split("\n")[0] == (
        "line 1, column 1: A constant must be a finite number of at most 64 bits, but this one is "
        "not."
    )
