"""Programs drawn at random of integers: minimums, maximums, negations and choices, nested."""

from __future__ import annotations

import random

__all__ = ["integer_program"]

_LEAVES = ("a", "b", "c", "q", "times", "a[1, 0, 0]", "b[0, 0, 1]", "K", "3", "2")


def integer_program(seed: int) -> str:
    """Return the text of a program of integer fields a, b, c (read), x and y (written)."""
    draw = random.Random(seed)
    dtype = draw.choice(("np.int32", "np.int32", "np.int32", "np.int64", "np.int16"))
    fields = ", ".join(f"{name}: Field[{dtype}]" for name in "abcxy")
    lines = [
        f"def integers({fields}, q: {dtype}, times: {dtype}):",
        "    with computation(PARALLEL), interval(...):",
        f"        x = {_expression(draw, 4)}",
        f"        y = {_expression(draw, 3)}",
    ]
    return "\n".join((*lines, ""))


def _expression(draw: random.Random, depth: int) -> str:
    if depth == 0 or draw.random() < 0.1:
        return draw.choice(_LEAVES)
    one, other = _expression(draw, depth - 1), _expression(draw, depth - 1)
    match draw.randrange(10):
        case 0 | 1 | 2:
            return f"max({one}, {other})"
        case 3 | 4 | 5:
            return f"min({one}, {other})"
        case 6:
            return f"(-{one})"
        case 7:
            return f"(-1 - {one})"
        case 8:
            return f"({one} {draw.choice('+-*')} {other})"
        case _:
            return f"({one} if {other} > {draw.choice(_LEAVES)} else {draw.choice(_LEAVES)})"
