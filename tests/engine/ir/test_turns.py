"""Which loops need a limit of turns: those that do not count to a bound."""

from __future__ import annotations

import numpy as np
import pytest

import halocline_engine as he
from halocline_engine.errors import LimitError
from halocline_engine.ir.lower.statements.turns import USUAL_LEVELS

TEXT = """
def loops(q: Field[float], m: Field[IJ, int], s: Field[int32], out: Field[float], *, last: int):
    with computation(FORWARD), interval(...):
        x = q
{body}
        out = x
"""
#: Lines are apart by '|'.
COUNTING = {
    "up to a number": "n = 0|while n < 8 and x < 2.0:|  x = x + q.at(K=n)|  n += 1",
    "down to a number": "n = K|while x > 0.5 and n > 0:|  n = n - 1|  x = q.at(K=n)",
    "from the level on": "n = 1|while K + n < 9:|  n = n + 2|  x = x + 1.0",
    "the other way round": "n = 5|while 0 <= n:|  n = -1 + n|  x = x + 1.0",
    "to the lesser one": "n = K|while n < min(K + 4, last):|  n = n + 1|  x = x + 1.0",
    "steps that differ": "n = 0|while n <= 9:|  if x > 1.0:|    n = n + 1|  else:|    n += 3",
    "one after the other": "n = K|while n > 0 and x > 0.9:|  n -= 1|while n < K + 3:|  n += 1",
    "inside each other": (
        "n = 0|while n < 3:|  m2 = n|  while m2 < 5:|    m2 += 1|    x += 1.0|  n += 1"
    ),
    "small integers": "n: int32 = 0|while n < 8:|  n = n + 1|  x = x + 1.0",
    "under a condition": "n = 0|if x > 1.0:|  n = 3|while n < 9:|  n += 1|  x += 1.0",
}
UNKNOWN = {
    "no counter": "while x < 2.0:|  x = x + 1.0",
    "a field": "n = 0|while n < m and n < s:|  n += 1",
    "a scalar": "n = 0|while n < last:|  n += 1",
    "from anywhere": "n = m|while n < 8:|  n += 1",
    "either condition": "n = 0|while n < 8 or x < 0.0:|  n += 1",
    "not always": "n = 0|while n < 8:|  if x < 2.0:|    n += 1|  x = x + 1.0",
    "the wrong way": "n = 9|while n > 8 and x < 2.0:|  n += 1|  x = x + 1.0",
    "a bound that moves": "n = 0|b = 3|while n < b and x < 2.0:|  n += 1|  b += 1|  x += 1.0",
    "back again": "n = 0|while n < 8 and x < 2.0:|  n = 0 if x < 1.0 else n + 1|  x += 1.0",
    "too many": "n = 0|while n < 200000 and x < 2.0:|  n += 1|  x += 1.0",
    "changed inside": (
        "n = 0|while n < 8 and x < 2.0:|  i = 0|  while i < 2:|    n -= 1|    i += 1|"
        "  n += 1|  x += 1.0"
    ),
    "a loop in front": "n = 0|while x < 2.0:|  n -= 1|  x += 1.0|while n < 8:|  n += 1",
    "sums that wrap": (
        "n: int32 = 1|b: int32 = 2147483647|while n + b < 5 and x < 2.0:|  n = n + 1|  x += 1.0"
    ),
    "bytes that wrap": "n: int8 = 0|while n < 200 and x < 2.0:|  n = n + 1|  x += 1.0",
}


def text(body: str) -> str:
    return TEXT.format(body="\n".join(" " * 8 + line for line in body.split("|")))


def is_limited(body: str) -> bool:
    return ".loops" in he.stencil(text(body), target="reference").show("ir")


@pytest.mark.parametrize("body", COUNTING.values(), ids=COUNTING.keys())
def test_a_loop_that_counts_to_a_bound_has_no_limit(body: str) -> None:
    assert not is_limited(body)


@pytest.mark.parametrize("body", UNKNOWN.values(), ids=UNKNOWN.keys())
def test_other_loops_have_a_limit(body: str) -> None:
    assert is_limited(body)


def test_one_loop_of_two_may_need_a_limit() -> None:
    body = f"{COUNTING['up to a number']}|{UNKNOWN['no counter']}"
    shown = he.stencil(text(body), target="reference").show("ir")
    assert shown.count("while") == 2
    assert shown.count(".loops = ") == 1


def test_a_loop_to_a_scalar_is_looked_at_where_the_scalar_is_large() -> None:
    """All calls but the one with a large bound surely end, and are told so by the scalar alone."""
    body = "n = 0|while n < last:|  n += 1|x = n * 1.0"
    stencil = he.stencil(text(body), target="cpu")
    (loops,) = stencil.compiled.program.scratch
    assert loops.within == USUAL_LEVELS
    arrays = [np.zeros((2, 2, 2)), np.zeros((2, 2), np.int64), np.zeros((2, 2, 2), np.int32)]
    out = np.zeros((2, 2, 2))
    for _ in range(2):
        stencil(*arrays, out, last=7)
        assert (out == 7.0).all()
        with pytest.raises(LimitError, match="A 'while' was not over after 100000 turns"):
            stencil(*arrays, out, last=200_000)
        stencil(*arrays, out, last=60_000)
        assert (out == 60_000.0).all()


@pytest.mark.parametrize("body", [UNKNOWN["no counter"], UNKNOWN["a field"]])
def test_other_loops_are_looked_at_after_each_call(body: str) -> None:
    both = f"{UNKNOWN['a scalar']}|{body}"
    (loops,) = he.stencil(text(both), target="reference").compiled.program.scratch
    assert len(loops.loops) == 2
    assert loops.within == 0
