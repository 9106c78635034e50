"""What must hold of indirect access on a device, and whether the figures of a run show it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["EVEN", "PEERS", "USUAL", "Figure", "required", "verdicts"]

#: Shares of a gather that must be reached, by element size; where they are near, the copy itself.
RANDOM = {4: 0.11, 8: 0.18, 16: 0.30, 32: 0.49, 64: 0.75, 256: 0.95, 1024: 0.95}
NEAR = 1.0
REGRID = 0.6
SCIPY = 20.0
USUAL = "usual"
#: What others' figures begin with: libraries, and the kernel that was written by hand.
PEERS = ("cupy", "torch", "hand")
#: Of two figures of the same rounds, the smaller counts as no less from this part of the larger.
EVEN = 0.995


@dataclass(frozen=True)
class Figure:
    """One line: what was done, how, its time and its share of the copy bandwidth."""

    part: str
    case: str
    how: str
    milliseconds: float
    share: float


def verdicts(found: Sequence[Figure]) -> Iterator[str]:
    """Yield the lines of the last table: what must hold, and whether it does.

    The last figure is the share of what is usual as a part of that of the kernel by hand.
    """
    yield f"{'what':30} {'usual':>7} {'best':>7} {'must':>6} {'peer':>7} {'of hand':>8}"
    cases = dict.fromkeys((one.part, one.case) for one in found)
    for part, case in cases:
        own = [one for one in found if (one.part, one.case) == (part, case)]
        peers = [one.share for one in own if one.how.startswith(PEERS)]
        ours = [one for one in own if not one.how.startswith((*PEERS, "SciPy"))]
        best = max(one.share for one in ours)
        usual = max((one.share for one in ours if one.how.startswith(USUAL)), default=best)
        must = required(part, case)
        peer = max(peers, default=0.0)
        asked = max(must, EVEN * peer)
        fails = "" if usual >= asked else "usual fails"
        fails = "FAILS" if best < asked else fails
        hand = max((one.share for one in own if one.how.startswith("hand")), default=0.0)
        of_hand = f"{usual / hand:.3f}" if hand else ""
        name = f"{part} {case}"
        yield f"{name:30} {usual:7.3f} {best:7.3f} {must:6.2f} {peer:7.3f} {of_hand:>8}  {fails}"
        for host in (one for one in own if one.how.startswith("SciPy")):
            times = host.milliseconds / min(one.milliseconds for one in ours)
            short = "" if times >= SCIPY else "FAILS"
            yield f"{name + ', times SciPy':30} {times:15.1f} {SCIPY:6.2f} {'':7}  {short}"


def required(part: str, case: str) -> float:
    """Return the share that a case must reach; 0 where nothing is asked."""
    order, _, size = case.partition(" ")
    match part, order:
        case "gather", "random":
            return RANDOM[int(size.split()[0])]
        case "gather", _:
            return NEAR
        case "grouped", _:
            return 2 * RANDOM[int(size.split()[0])]
        case "regrid", _:
            return REGRID
        case _:
            return 0.0
