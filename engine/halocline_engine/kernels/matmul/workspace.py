"""Workspace of products: buffers for tiles, copies there and back, and products.

A `Workspace` has places of some elements of one type. What is loaded into a place, multiplied and
taken from it happens as if it were done in the order of the calls, though it may be done later.
Several threads may load and take at once, each place by itself; one multiplies.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from halocline_engine.device.memory.zero_copy import PinnedRows
from halocline_engine.kernels.matmul import cpu, reference

__all__ = ["HostWorkspace", "Rectangle", "RowCopies", "Shape", "Workspace", "total_type"]


@dataclass(frozen=True, slots=True)
class Rectangle:
    """Rows of elements in a place: `pitch` elements apart, the first `offset` behind the start."""

    rows: int
    width: int
    offset: int
    pitch: int


@dataclass(frozen=True, slots=True)
class Shape:
    """A product of tiles left [batch, row, inner] and right [batch, inner, column].

    The last two dimensions lie the other way round in the place of one that is turned.
    """

    batch: int
    rows: int
    columns: int
    inner: int
    left_turned: bool = False
    right_turned: bool = False


class RowCopies(Protocol):
    """Copies between places and rows on the host without a piece between them."""

    def send(self, place: Any, parts: Sequence[tuple[Rectangle, PinnedRows]]) -> Any:
        """Let rows be brought to parts of a place; see `device.io.copy_threads.Batch`."""
        ...

    def fetch(self, total: Any, parts: Sequence[tuple[Rectangle, PinnedRows]]) -> Any:
        """Let parts of a place of the product be brought to rows."""
        ...

    def finish(self, *, out: bool) -> None:
        """Let those who fetch, if `out`, or send end when they have done what was asked so far."""
        ...

    def split(self, total: Any, elements: int) -> Sequence[Any]:
        """Return places for tiles of operands in one of the product that is used no more."""
        ...


class Workspace(Protocol):
    """See the head of this module."""

    def place(self, elements: int, *, total: bool) -> Any:
        """Return a place for a tile of an operand, or for one of the product."""
        ...

    def load(self, place: Any, where: Rectangle, fill: Callable[[NDArray[Any]], None]) -> None:
        """Let `fill` write an array [row, element], and bring it to a part of a place."""
        ...

    @property
    def row_copies(self) -> RowCopies | None:
        """Copies of rows on the host where they lie, if they are allowed."""
        ...

    def multiply(self, left: Any, right: Any, total: Any, shape: Shape, *, new: bool) -> float:
        """Add the product of two places to a third one, or put it there if `new`.

        Return how many seconds it took; 0 where it is queued.
        """
        ...

    def clear(self, total: Any) -> None:
        """Put zeros into a place of the product."""
        ...

    def take(self, total: Any, where: Rectangle, use: Callable[[NDArray[Any]], None]) -> None:
        """Let `use` read an array [row, element] that is a part of a place of the product."""
        ...

    def close(self) -> None:
        """Wait until nothing is under way."""
        ...


def total_type(target: str, dtype: str) -> np.dtype[Any]:
    """Return the type in which products of a type are added up."""
    return reference.WIDER[dtype] if target == "reference" else np.dtype(dtype)


@dataclass(frozen=True, slots=True)
class HostWorkspace:
    """Places in memory, for the targets 'reference' and 'cpu'."""

    target: str
    dtype: str

    def place(self, elements: int, *, total: bool) -> NDArray[Any]:
        """Return an array."""
        kind = total_type(self.target, self.dtype) if total else np.dtype(self.dtype)
        return np.empty(elements, kind)

    def load(
        self, place: NDArray[Any], where: Rectangle, fill: Callable[[NDArray[Any]], None]
    ) -> None:
        """Let `fill` write into the place itself."""
        fill(_part(place, where))

    @property
    def row_copies(self) -> RowCopies | None:
        """Nothing: there is no piece between a place and what `load` reads."""
        return None

    def multiply(
        self,
        left: NDArray[Any],
        right: NDArray[Any],
        total: NDArray[Any],
        shape: Shape,
        *,
        new: bool,
    ) -> float:
        """Multiply at once."""
        began = time.perf_counter()
        one = _tile(left, shape.batch, shape.rows, shape.inner, turned=shape.left_turned)
        other = _tile(right, shape.batch, shape.inner, shape.columns, turned=shape.right_turned)
        into = _tile(total, shape.batch, shape.rows, shape.columns, turned=False)
        if self.target == "reference":
            reference.add_product(one, other, into, new=new)
        else:
            cpu.add_product(one, other, into, new=new, threads=cpu.cores())
        return time.perf_counter() - began

    def clear(self, total: NDArray[Any]) -> None:
        """Put zeros into a place."""
        total[...] = 0

    def take(
        self, total: NDArray[Any], where: Rectangle, use: Callable[[NDArray[Any]], None]
    ) -> None:
        """Let `use` read the place itself, in the type of the product."""
        with np.errstate(over="ignore"):
            own = _part(total, where).astype(self.dtype, copy=False)
        use(own)

    def close(self) -> None:
        """Do nothing: nothing is done later."""


def _part(place: NDArray[Any], where: Rectangle) -> NDArray[Any]:
    """Return a part of a place as a view [row, element]."""
    item = place.itemsize
    return np.ndarray(
        (where.rows, where.width),
        place.dtype,
        place.data,
        where.offset * item,
        (where.pitch * item, item),
    )


def _tile(
    place: NDArray[Any], batch: int, first: int, second: int, *, turned: bool
) -> NDArray[Any]:
    """Return the tile in a place as a view [batch, first, second]."""
    shape = (batch, second, first) if turned else (batch, first, second)
    tile = place[: batch * first * second].reshape(shape)
    return tile.transpose(0, 2, 1) if turned else tile
