"""Arrays of variables on a part of the grid, by the names of their dimensions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from halocline_engine.backends.base import Array, Memory
from halocline_engine.distribute.grid.partition import Span

__all__ = ["Cells", "Held", "Room", "Variable", "Where", "hull", "new_array", "next_of", "planes"]

#: Cells of a variable along its dimensions.
Cells: TypeAlias = Mapping[str, Span]
#: Returns the array [i, j, k] of a key, of a shape and type, which is made the first time.
Room: TypeAlias = Callable[[Hashable, tuple[int, int, int], str], Array]

#: Axes, cells and points of a view.
Where: TypeAlias = tuple[tuple[str | None, str | None, str | None], Cells, Mapping[str, int]]

#: Behind the name of a variable: values that take its place when they are complete. No variable
#: of a dataset ends so.
_NEXT = "\0"


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that stays in memory.

    `dims` are its dimensions in its own order, `order` the same as they lie in memory, the last one
    without gaps.
    """

    name: str
    dims: tuple[str, ...]
    dtype: str
    order: tuple[str, ...]

    @property
    def itemsize(self) -> int:
        """Bytes of a value."""
        return int(np.dtype(self.dtype).itemsize)

    def held(self, array: Array, cells: Cells) -> Held:
        """Return an array of some cells of the variable."""
        return Held(array, self.dims, self.order, cells)


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """An array along dimensions, with their `order` in memory and the cells it holds."""

    array: Array
    dims: tuple[str, ...]
    order: tuple[str, ...]
    cells: Cells

    def view(
        self,
        axes: Sequence[str | None],
        cells: Cells,
        at: Mapping[str, int] | None = None,
    ) -> Array:
        """Return some cells along axes, at one point of the other dimensions.

        There is one point along an axis that is None or that the variable does not have.
        """
        points = at or {}
        index = tuple(
            points[dim] - self.cells[dim].start
            if dim in points
            else cells[dim].within(self.cells[dim])
            for dim in self.dims
        )
        left = [dim for dim in self.dims if dim not in points]
        order = [left.index(dim) for dim in axes if dim in left]
        assert len(order) == len(left), (axes, left)
        ordered = self.array[(*index, ...)].transpose(order)
        return ordered[(*(slice(None) if dim in left else None for dim in axes), ...)]


def next_of(name: str) -> str:
    """Return the name of the values that take the place of a variable's when they are complete."""
    return f"{name}{_NEXT}"


def hull(several: Sequence[Cells]) -> dict[str, Span]:
    """Return the smallest cells that hold all of some cells of one variable."""
    first, *rest = several
    found = dict(first)
    for cells in rest:
        found = {dim: span.hull(cells[dim]) for dim, span in found.items()}
    return found


def new_array(memory: Memory, variable: Variable, cells: Cells, own: Cells) -> Array:
    """Return an array along the dimensions of a variable, whose values are not defined.

    The first of its `own` cells is aligned in each row.
    """
    outer, (second, first) = variable.order[:-2], (None, None, *variable.order)[-2:]
    i, j = (1 if dim is None else cells[dim].size for dim in (first, second))
    halo = 0 if first is None else own[first].start - cells[first].start
    shape = [cells[dim].size for dim in outer]
    flat = memory.empty((i, j, math.prod(shape)), np.dtype(variable.dtype), (halo, 0, 0))
    whole = flat.transpose(2, 1, 0).reshape(*shape, j, i)
    plane = (0 if dim is None else slice(None) for dim in (second, first))
    array = whole[(*(slice(None) for _ in shape), *plane, ...)]
    return array.transpose([variable.order.index(dim) for dim in variable.dims])


def planes(held: Held, cells: Cells) -> Iterator[tuple[Array, Where]]:
    """Yield cells as arrays [i, j, k], each with the indices to take them from another array."""
    i, j, k, *rest = (*reversed(held.order), None, None, None)
    loops = [dim for dim in rest if dim is not None]
    ranges = [range(cells[dim].start, cells[dim].stop) for dim in loops]
    for point in itertools.product(*ranges):
        where: Where = ((i, j, k), cells, dict(zip(loops, point, strict=True)))
        yield held.view(*where), where
