"""Heads of loops that tell points which narrow regions may hold from all others.

Along I, those in regions of columns are on either side of those in none. A row, or a column of
levels, beside which a region lies is taken to be in it as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from halocline_engine.ir.nodes import Read, Statement
from halocline_engine.ir.types import Axis
from halocline_engine.ir.walk import reads

__all__ = ["columns_in_none", "masks_of", "parted"]


def masks_of(body: Sequence[Statement], masks: Set[str]) -> list[Read]:
    """Return the masks of narrow regions that a body reads, and where it reads them."""
    return [one for one in dict.fromkeys(reads(body)) if one.name in masks]


def columns_in_none(masks: Sequence[tuple[str, int]]) -> Iterator[str]:
    """Yield what finds the points along I from `free0` to `free1`, which no mask holds.

    `masks` are arrays of such masks as the text calls them, and the offsets at which they are read.
    """
    if not masks:
        yield "free0, free1 = i0, i1"
        return

    def held(index: str) -> str:
        return " | ".join(
            f"load(pointer_bool({array}), ({index} + {offset}) * {array}_i)"
            for array, offset in masks
        )

    yield "free0 = free1 = (i0 + i1) // 2"
    yield f"while free0 > i0 and not ({held('free0 - 1')}):"
    yield "    free0 -= 1"
    yield f"while free1 < i1 and not ({held('free1')}):"
    yield "    free1 += 1"


def parted(loop: str, inner: Axis, across: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the heads of the loops over points that regions may hold, and over all others.

    `loop` is that over all points, and `across` are the masks that are alike for all of them.
    """
    beside = f"beside = {' | '.join(across) or 'False'}"
    if inner is not Axis.I:
        return [beside, "if beside:", f"    {loop}"], ["else:", f"    {loop}"]
    regions = [
        beside,
        "low = right if beside else min(max(left, free0), right)",
        "high = right if beside else max(low, min(right, free1))",
        "for side in range(2):",
        "    for i in range(high if side else left, right if side else low):",
    ]
    return regions, ["for i in range(low, high):"]
