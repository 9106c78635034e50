"""What must hold of solves on a device, and whether the figures of a run show it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["BEST", "PEER", "TIMES", "USUAL", "Figure", "required", "verdicts"]

USUAL, BEST, PEER = "usual", "best", "peer"
#: How a figure begins whose share is how many times as fast as the processors it is.
TIMES = "times"

_INTERLEAVED = {"float64": 0.90, "float32": 0.88}
_CONTIGUOUS = {"float64": 0.97, "float32": 0.90}
_LONG_ROWS = 0.75


@dataclass(frozen=True)
class Figure:
    """One line: what was done, how, its time and its share of the copy bandwidth."""

    part: str
    case: str
    how: str
    milliseconds: float
    share: float


def required(part: str, case: str) -> float:
    """Return the share that must be reached.

    >>> required("contiguous", "500 rows float64"), required("long", "10000000 rows float64")
    (0.75, 0.6)
    """
    words = case.split()
    match part:
        case "interleaved":
            return _INTERLEAVED[words[2]]
        case "contiguous":
            return _CONTIGUOUS[words[2]] if int(words[0]) <= 128 else _LONG_ROWS
        case "long":
            return 0.6
        case "prefactored":
            return 0.8
        case "uniform":
            return 0.7
        case _:
            return 10.0


def verdicts(found: Sequence[Figure]) -> Iterator[str]:
    """Yield the lines of the last table: what must hold, and whether it does."""
    yield f"{'what':36} {'usual':>7} {'best':>7} {'must':>6} {'peer':>7}"
    for part, case in dict.fromkeys((one.part, one.case) for one in found):
        own = [one for one in found if (one.part, one.case) == (part, case)]
        words = (TIMES,) if part == "ragged" else (USUAL, BEST)
        ours = [one for one in own if one.how.startswith(words)]
        usual = max((one.share for one in ours if not one.how.startswith(BEST)), default=0.0)
        best = max((one.share for one in ours), default=0.0)
        peer = max((one.share for one in own if one.how.startswith(PEER)), default=0.0)
        must = required(part, case)
        fails = "" if usual >= must else "usual fails" if best >= must else "FAILS"
        yield f"{part + ' ' + case:36} {usual:7.3f} {best:7.3f} {must:6.2f} {peer:7.3f}  {fails}"
