"""Arrays of this process that a pipeline sends from and fetches to, without a buffer between.

Their pages are locked block by block, as far as they are not, and stay so until the run ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.typing import NDArray

from halocline_engine.backends.base import Array
from halocline_engine.datasets.grids.match import FieldUse, Grid
from halocline_engine.datasets.stores.chunks import Tally
from halocline_engine.datasets.stores.source import Region
from halocline_engine.device.memory.locking import Pages
from halocline_engine.distribute.grid.partition import Block, Box
from halocline_engine.distribute.grid.regions import pieces_of
from halocline_engine.distribute.transports.base import (
    Copies,
    Loading,
    Part,
    Storing,
    TransferredBytes,
    box_bytes,
)

__all__ = ["PinParts", "PinnedPart", "ZeroCopyLoading", "ZeroCopyStoring", "pin_parts"]

#: Bytes of a piece below which copying it takes no longer than locking it.
_SMALL = 1 << 20
#: Bytes between the first and the last one of an array, for one that it has, at most.
_WASTE = 2


@dataclass(frozen=True, slots=True, eq=False)
class PinnedPart:
    """Values [i, j, k] that can be copied at once, and where they lie in the box they are of."""

    values: NDArray[Any]
    there: Region


#: Returns what a box of a block of one point of the others is made of; None where that needs a
#: buffer.
PinParts: TypeAlias = Callable[[Block, Box], "list[PinnedPart] | None"]


class ZeroCopyLoading:
    """Sends values from where they lie; what cannot be locked there goes `otherwise`."""

    several = False

    def __init__(self, use: FieldUse, pin: PinParts, copies: Copies, otherwise: Loading) -> None:
        self._use, self._pin, self._copies, self._otherwise = use, pin, copies, otherwise
        self._pinned: dict[int, list[PinnedPart]] = {}

    def read(self, part: Part, tally: Tally) -> TransferredBytes:
        """Lock the values, or read them."""
        pinned = self._pin(part.block, part.box)
        if pinned is None:
            return self._otherwise.read(part, tally)
        self._pinned[part.item] = pinned
        size = box_bytes(self._use, part.box)
        return TransferredBytes(size, zero_copy=size)

    def send(self, part: Part, into: Array) -> None:
        """Queue their copies."""
        pinned = self._pinned.pop(part.item, None)
        if pinned is None:
            self._otherwise.send(part, into)
        for piece in pinned or ():
            self._copies.send(piece.values, into[piece.there])


class ZeroCopyStoring:
    """Fetches values to where they belong; what cannot be locked there goes `otherwise`."""

    def __init__(self, use: FieldUse, pin: PinParts, copies: Copies, otherwise: Storing) -> None:
        self._use, self._pin, self._copies, self._otherwise = use, pin, copies, otherwise
        self._pinned: dict[int, list[PinnedPart]] = {}

    def prepare(self, part: Part) -> None:
        """Lock where the values belong."""
        pinned = self._pin(part.block, part.box)
        if pinned is not None:
            self._pinned[part.item] = pinned

    def fetch(self, part: Part, made: Array) -> None:
        """Queue their copies."""
        pinned = self._pinned.get(part.item)
        if pinned is None:
            self._otherwise.fetch(part, made)
        for piece in pinned or ():
            self._copies.fetch(made[piece.there], piece.values)

    def write(self, part: Part) -> TransferredBytes:
        """Write what is not where it belongs."""
        if self._pinned.pop(part.item, None) is None:
            return self._otherwise.write(part)
        size = box_bytes(self._use, part.box)
        return TransferredBytes(size, zero_copy=size)


def pin_parts(
    values: NDArray[Any], use: FieldUse, grid: Grid, pages: Pages, *, writes: bool
) -> PinParts:
    """Return what finds a field's values in an array with the dimensions of its variable.

    `writes` says that the device will write there, where no value matters before. What lies between
    the rows of a block is locked with them: that other blocks will need.
    """
    low, high = byte_bounds(values)
    dense = high - low <= _WASTE * values.nbytes

    def pin(block: Block, box: Box) -> list[PinnedPart] | None:
        found: list[tuple[NDArray[Any], Region]] = []
        for region, there in pieces_of(use, grid, block, box):
            part = values[region]
            if not dense or part.nbytes < _SMALL:
                return None
            found.append((_by_axes(use, grid, part), _axes_of(use, grid, there)))
        if not all(_has_rows(part) for part, _ in found):
            return None
        pinned: list[PinnedPart] = []
        for part, there in found:
            cuts = pages.lock(part, writes=writes)
            if cuts is None:
                return None
            pinned.extend(_cut(part, there, cuts))
        return pinned

    return pin


def _has_rows(values: NDArray[Any]) -> bool:
    """Whether points along I stand side by side, and nothing runs backwards or lies twice."""
    row = values.shape[0] * values.itemsize
    side_by_side = values.shape[0] == 1 or values.strides[0] == values.itemsize
    rest = zip(values.shape[1:], values.strides[1:], strict=True)
    apart = all(size == 1 or stride >= row for size, stride in rest)
    return side_by_side and apart and values.flags.aligned


def _cut(values: NDArray[Any], there: Region, cuts: Sequence[int]) -> Iterator[PinnedPart]:
    """Yield an array in parts of which none goes beyond an address."""
    inside = next((cut for cut in cuts if _within(values, cut)), None)
    if inside is None:
        if values.size:
            yield PinnedPart(values, there)
        return
    axis = max(range(values.ndim), key=lambda at: (values.shape[at] > 1, values.strides[at]))
    low, _ = byte_bounds(values)
    at = (inside - low) // values.strides[axis]
    # The cell that holds the address is cut along the other dimensions, if it has several.
    for start, stop in ((0, at), (at, at + 1), (at + 1, values.shape[axis])):
        sides = list(there)
        first = there[axis].start
        sides[axis] = slice(first + start, first + stop)
        part = values[(slice(None),) * axis + (slice(start, stop),)]
        yield from _cut(part, tuple(sides), cuts)


def _within(values: NDArray[Any], address: int) -> bool:
    if not values.size:
        return False
    low, high = byte_bounds(values)
    return low < address < high


def _by_axes(use: FieldUse, grid: Grid, values: NDArray[Any]) -> NDArray[Any]:
    """Return the view [i, j, k] of values with the variable's dimensions."""
    axes = [grid.axis_of(dim) for dim in use.dims]
    view = values[tuple(0 if axis is None else slice(None) for axis in axes)]
    own = [axis for axis in axes if axis is not None]
    view = view.transpose([own.index(axis) for axis in sorted(own)])
    return view[tuple(slice(None) if axis in own else np.newaxis for axis in range(3))]


def _axes_of(use: FieldUse, grid: Grid, region: Region) -> Region:
    """Return a region of the variable's dimensions as one of [i, j, k]."""
    sides = {grid.axis_of(dim): side for dim, side in zip(use.dims, region, strict=True)}
    return tuple(sides.get(axis, slice(0, 1)) for axis in range(3))
