"""Programs drawn at random with a loop over levels whose condition has two bounds or more."""

from __future__ import annotations

import random

__all__ = ["loop_program"]

_CONDITIONS = (
    "l >= lo and l <= hi",
    "l <= hi and l >= lo",
    "lo <= l and l < hi",
    "not (l < lo or l > hi)",
    "(l - lo) >= 0 and (hi - l) >= 0",
    "2 * l >= 2 * lo and l <= hi",
    "l > lo - 1 and l < hi + 1",
    "l >= bound and l <= top",
    "l <= top and l >= bound and l <= 11",
    "l >= 0 and l <= hi and l <= 11",
    "l >= 0 and l < 12 and HERE < 1.7",
    "l >= lo and l <= hi and l != 7",
    "l >= lo and l <= hi and x < 4.0",
)
_BODIES = (
    ("if HERE < x:", "    x = HERE", "    best = l"),
    ("x = x + HERE", "best = best + l"),
    ("if HERE > x and l > best:", "    best = l", "x = x + 0.5"),
    ("x = x * 0.5 + HERE * w", "best = l"),
    ("if l > K:", "    x = x + HERE", "else:", "    x = x - HERE", "best = best + 1"),
)
_STARTS_UP = ("lo", "lo + 1", "max(lo, 1)", "2", "K", "lo + hi - lo")
_STARTS_DOWN = ("hi", "hi - 1", "hi - lo + lo", "max(hi, 0)", "9")
#: The element of the column at the level of the loop, whatever that is.
_HERE = "a.at(K=min(max(l, 0), 3))"


def loop_program(seed: int) -> str:
    """Return the text of a program that searches or sums up each column of a."""
    draw = random.Random(seed)
    counts = draw.random() < 0.5
    up = draw.random() < 0.7
    integer = draw.choice(("i32", "i64", "i64", "int"))
    condition = draw.choice(_CONDITIONS)
    lines = [
        f"l = {draw.choice(_STARTS_UP if up else _STARTS_DOWN)}",
        f"bound = {draw.choice(('lo', 'lo + 1', 'max(lo, 1)', 'min(lo, hi)'))}",
        f"top = {draw.choice(('hi', 'max(lo, hi)', 'min(hi, 10)', 'max(lo + 1, hi)'))}",
        f"x = {draw.choice(('a', '0.0', 'a.at(K=min(max(lo, 0), 3))'))}",
        f"best = {draw.choice(('lo', '0', 'l'))}",
        f"while ({condition}) and n < 30:" if counts else f"while {condition}:",
        *(f"    {line}" for line in draw.choice(_BODIES)),
        f"    l = l {'+' if up else '-'} {draw.choice(('1', '1', '1', '2', '3', 'q'))}",
        *(["    n = n + 1"] if counts else []),
        "o = x",
        "p = best",
    ]
    text = [
        "def loops(a: Field[np.float64], lo: Field[IJ, np.int64], hi: Field[IJ, np.int64],",
        "          w: Field[K, np.float64], o: Field[np.float64], p: Field[np.int64],",
        "          q: np.int64):",
        f"    with computation({draw.choice(('PARALLEL', 'FORWARD', 'BACKWARD'))}), interval(...):",
        *(f"        {name}: {integer} = 0" for name in ("l", "best", "bound", "top")),
        "        n = 0",
        "        x = 0.0",
        *(f"        {line}" for line in lines),
    ]
    return "\n".join((*text, "")).replace("HERE", _HERE)
