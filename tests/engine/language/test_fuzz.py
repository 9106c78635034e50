"""Whatever the text is, it is accepted or refused with a ProgramError: nothing else comes out."""

import contextlib
import random
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lowered import lower

from halocline_engine.errors import ArgumentError, ProgramError
from halocline_engine.ir.verify import verify
from halocline_engine.language.gtscript import parse

DATA = Path(__file__).parents[2] / "data" / "gtscript"
OWN = (DATA / "own_stencils.py").read_text()
HEAD, *STENCILS = re.split(r"\n\n\n(?=def |@)", OWN)
WORDS = [
    *(
        "with computation(PARALLEL), interval(...):",
        "with interval(1, -1):",
        "return q",
        "if q > 0:",
    ),
    *(
        "else:",
        "q",
        "out",
        "F",
        "Field",
        "K",
        "I",
        "...",
        "None",
        "True",
        "1",
        "-1",
        "2.5",
        "1e400",
    ),
    *("[", "]", "(", ")", "[1, 0, 0]", "[K-1]", "=", "+=", ":", ",", ".", "and", "not", "**", "//"),
    *("twice(q)", "minmax(q, q)", "sqrt(q)", "__INLINED", "compile_assert", "from __externals__"),
    *(" import fac", "\n    ", "\n        ", "\n", "'''", '"T"', "f'{q}'", "#", "\\", "\t", "\x0c"),
    *(
        "lambda:",
        "for q in q:",
        "while q:",
        "import os",
        "class grid:",
        "def f(q):",
        "@",
        "~",
        ":=",
    ),
    *(
        "é",
        "\u2028",
        "0x1F",
        "1_000",
        "1j",
        "b'a'",
        "yield",
        "await",
        "async ",
        "match q:",
        "*",
        "%",
    ),
]
SETTINGS = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def attempt(text: str) -> None:
    """Parse and lower a text; a program that is accepted must also pass the check of the IR."""
    with contextlib.suppress(ProgramError, ArgumentError):
        verify(lower(parse(text), externals={"fac": 2.0, "op": {"function": "twice"}}))


@SETTINGS
@given(st.text())
def test_any_text(text: str) -> None:
    attempt(text)


@SETTINGS
@given(st.binary())
def test_any_bytes(data: bytes) -> None:
    attempt(data.decode("latin-1"))


@SETTINGS
@given(st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join))
def test_words_of_the_language(text: str) -> None:
    attempt(text)


@SETTINGS
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join))
def test_words_in_a_body(words: str) -> None:
    attempt(
        "F = Field[np.float64]\n\n\ndef twice(x):\n    return 2.0 * x\n\n\ndef f(q: F, out: F):\n"
        f"    with computation(PARALLEL), interval(...):\n        out = {words}\n"
    )


@SETTINGS
@given(st.integers(0, 2**32), st.integers(1, 5))
def test_damaged_programs(seed: int, damages: int) -> None:
    """Take a real stencil, and drop, double, exchange or insert some of its words."""
    dice = random.Random(seed)
    parts = re.split(r"(\W)", dice.choice(STENCILS))
    for _ in range(damages):
        place = dice.randrange(len(parts))
        match dice.randrange(4):
            case 0:
                del parts[place]
            case 1:
                parts.insert(place, parts[place])
            case 2:
                other = dice.randrange(len(parts))
                parts[place], parts[other] = parts[other], parts[place]
            case _:
                parts.insert(place, dice.choice(WORDS))
        parts = parts or [""]
    functions = [text for text in STENCILS if text.startswith("@")]
    attempt("\n\n\n".join([HEAD, *functions, "".join(parts)]))


@pytest.mark.parametrize(
    "text", ["", "\n", " ", "\\", "\x00", "\ufeff", "\ufeffx = 1", "'", "(" * 100]
)
def test_odd_texts(text: str) -> None:
    attempt(text)
