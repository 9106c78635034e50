"""Convergence of a field over all ranks: its change in a step, and whether it stays finite.

Both are the same for any blocks. The largest change depends on no order. Squares are added as whole
numbers: each is divided by the square of the largest change, and cut off after sixty bits, so that
sums are exact in any order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias, cast

import numpy as np

from halocline_engine.backends.base import Array
from halocline_engine.distribute.communicators.base import Communicator, from_all
from halocline_engine.distribute.exchanges.halos import ResidentBlock
from halocline_engine.distribute.grid.partition import Block
from halocline_engine.distribute.tasks.until import Until
from halocline_engine.errors import DivergenceError

__all__ = ["Convergence"]

_BITS = 30
#: Cells that are looked at together: sums of as many whole numbers of `_BITS` bits are exact.
_CELLS = 1 << 21
#: Indices of a cell along the dimensions of its variable.
_Place: TypeAlias = tuple[int, ...]


class Convergence:
    """Measurements of the field that `until` names, on the blocks of one rank.

    All ranks take them at the same steps, under a `number` of its own each.
    """

    def __init__(
        self, until: Until, blocks: Sequence[tuple[Block, ResidentBlock]], among: Communicator
    ) -> None:
        self._until, self._blocks, self._communicator = until, blocks, among
        fields = blocks[0][1].fields
        uses = fields.layout.uses
        self._use = next(use for use in uses if use.partner == until.field and use.kept)
        self._grid = fields.layout.grid
        # For each part of each block, packed, which cells had a finite value at some measurement.
        self._finite: list[Array] = []

    def remember(self) -> None:
        """Remember the cells that are finite before a step is made."""
        if self._until.non_finite == "error":
            now = [_finite_bits(part) for _, part in self._parts()]
            before = self._finite or now
            self._finite = [one | other for one, other in zip(before, now, strict=True)]

    def check(self, steps_done: int, number: int) -> None:
        """Raise `DivergenceError` where a cell was finite and is not any more."""
        if self._until.non_finite == "ignore":
            return
        count, first = 0, cast("_Place | None", None)
        for at, (corner, part) in enumerate(self._parts()):
            now = _finite_bits(part)
            lost = self._finite[at] & ~now
            if lost.any():
                cells = np.unpackbits(lost)[: part.size].reshape(part.shape)
                place = self._first(corner, cells)
                first = place if first is None else min(first, place)
                count += int(cells.sum())
            self._finite[at] = self._finite[at] | now
        found = from_all(self._communicator, ("lost", number), [count, first])
        total = sum(one[0] for one in found)
        if total:
            first = min(tuple(one[1]) for one in found if one[1])
            raise self._diverged(steps_done, total, first)

    def change(self, number: int) -> float:
        """Return the change in the last step, on all ranks."""
        pairs = [(self._after(block), self._before(block)) for _, block in self._blocks]
        here = max((_largest(part) for part in _changes(pairs)), default=0.0)
        largest = max(from_all(self._communicator, ("largest", number), here))
        if self._until.change == "max" or not 0 < largest < math.inf:
            return largest
        high = low = 0
        for part in _changes(pairs):
            more = _squares(part, largest)
            high, low = high + more[0], low + more[1]
        sums = from_all(self._communicator, ("squares", number), (high << _BITS) + low)
        total = sum(sums)
        return largest * math.sqrt(total / (1 << 2 * _BITS))

    def _after(self, block: ResidentBlock) -> Array:
        """Return the own cells of the field after the last step."""
        steps = block.steps
        return self._own(block, steps.array_of(steps.owner(self._use)))

    def _before(self, block: ResidentBlock) -> Array:
        """Return the same before the last step, which was made by itself."""
        return self._own(block, block.steps.before(self._use))

    def _own(self, block: ResidentBlock, array: Array) -> Array:
        cells, name = block.fields.cells, self._use.name
        ranges = zip(cells.own[name], cells.frames[name], strict=True)
        return array[tuple(span.within(whole) for span, whole in ranges)]

    def _parts(self) -> Iterator[tuple[dict[str, int], Array]]:
        """Yield the own cells after the last step by some rows, with where they begin."""
        for block, resident in self._blocks:
            values = self._after(resident)
            begin = dict(zip(self._grid.extra, (span.start for span in block.extra), strict=True))
            own = resident.fields.cells.own[self._use.name]
            dims = self._grid.dims_of(self._use.dims)
            axes = zip(dims, own, strict=True)
            begin |= {dim: span.start for dim, span in axes if dim is not None}
            for rows in _rows(values):
                row = dims[1]
                start = {} if row is None else {row: begin[row] + rows.start}
                yield begin | start, values[:, rows]

    def _first(self, corner: dict[str, int], cells: Array) -> _Place:
        """Return where the first cell is that is not 0, in the order of the variable."""
        dims = self._grid.dims_of(self._use.dims)
        axes = {dim: at for at, dim in enumerate(dims) if dim in self._use.dims}
        order = [axes[dim] for dim in self._use.dims if dim in axes]
        ordered = np.transpose(cells, (*order, *({0, 1, 2} - {*order})))
        inside = np.unravel_index(int(ordered.argmax()), ordered.shape)
        steps = dict(zip((dim for dim in self._use.dims if dim in axes), inside, strict=False))
        return tuple(corner[dim] + int(steps.get(dim, 0)) for dim in self._use.dims)

    def _diverged(self, steps_done: int, count: int, first: _Place) -> DivergenceError:
        place = ", ".join(f"{d}={at}" for d, at in zip(self._use.dims, first, strict=True))
        field = self._until.field
        where = f"at {place}" if count == 1 else f"in {count} cells, the first at {place}"
        return DivergenceError(
            f"After step {steps_done} '{field}' is infinite or NaN {where}, where it was finite.",
            hint="Take smaller steps, or write until={..., 'non_finite': 'ignore'} where values may"
            " be lost.",
        )


def _rows(values: Array) -> Iterator[slice]:
    """Yield the rows of an array, so many together that they have few cells."""
    rows = max(1, _CELLS // max(1, values.shape[0] * values.shape[2]))
    for start in range(0, values.shape[1], rows):
        yield slice(start, min(start + rows, values.shape[1]))


def _finite_bits(values: Array) -> Array:
    return np.packbits(np.isfinite(values))


def _changes(pairs: Iterable[tuple[Array, Array]]) -> Iterator[Array]:
    """Yield absolute changes in float64, some rows after the others; NaN is 0."""
    for after, before in pairs:
        for some in _rows(after):
            with np.errstate(invalid="ignore"):  # of infinite values
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
