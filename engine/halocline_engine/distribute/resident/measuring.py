"""The change of a field in the last step, over all ranks: the same number for any blocks.

The largest change depends on no order. Squares are added as whole numbers: each is divided by the
square of the largest change, and cut off after sixty bits, so that sums are exact in any order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import numpy as np

from halocline_engine.backends.base import Array
from halocline_engine.distribute.communicators.base import Communicator, from_all
from halocline_engine.distribute.exchanges.halos import ResidentBlock
from halocline_engine.distribute.tasks.until import Until

__all__ = ["Pairs", "changed", "measure"]

#: A field's own cells after the last step and before it, block by block.
Pairs: TypeAlias = Iterable[tuple[Array, Array]]

_BITS = 30
#: Cells that are looked at together: sums of as many whole numbers of `_BITS` bits are exact.
_CELLS = 1 << 21


def changed(blocks: Iterable[ResidentBlock], field: str) -> list[tuple[Array, Array]]:
    """Return an output's own cells after the last step, made by itself, and before it."""
    found: list[tuple[Array, Array]] = []
    for block in blocks:
        fields, steps = block.fields, block.steps
        use = next(use for use in fields.layout.uses if use.partner == field and use.kept)
        own, frame = fields.cells.own[use.name], fields.cells.frames[use.name]
        cells = tuple(span.within(whole) for span, whole in zip(own, frame, strict=True))
        found.append((steps.array_of(steps.owner(use))[cells], steps.before(use)[cells]))
    return found


def measure(pairs: Pairs, until: Until, communicator: Communicator, number: int) -> float:
    """Return the change on all ranks; `number` counts the measurements, alike on all of them."""
    parts = list(pairs)
    here = max((_largest(part) for part in _changes(parts)), default=0.0)
    largest = max(from_all(communicator, ("largest", number), here))
    if until.change == "max" or not 0 < largest < math.inf:
        return largest
    high = low = 0
    for part in _changes(parts):
        more = _squares(part, largest)
        high, low = high + more[0], low + more[1]
    sums = from_all(communicator, ("squares", number), (high << _BITS) + low)
    total = sum(sums)
    return largest * math.sqrt(total / (1 << 2 * _BITS))


def _changes(parts: Iterable[tuple[Array, Array]]) -> Iterator[Array]:
    """Yield absolute changes in float64, some rows after the others; NaN is 0."""
    for after, before in parts:
        rows = max(1, _CELLS // max(1, after.shape[0] * after.shape[2]))
        for start in range(0, after.shape[1], rows):
            some = slice(start, start + rows)
            change = abs(after[:, some].astype(np.float64) - before[:, some].astype(np.float64))
            yield np.where(np.isnan(change), 0.0, change)


def _largest(change: Array) -> float:
    return float(change.max()) if change.size else 0.0


def _squares(change: Array, largest: float) -> tuple[int, int]:
    """Return the sum of the squares of shares of the largest change, as whole numbers."""
    share = change / largest
    bits = share * share * float(1 << _BITS)
    high = np.floor(bits)
    low = np.floor((bits - high) * float(1 << _BITS))
    return int(high.sum()), int(low.sum())
