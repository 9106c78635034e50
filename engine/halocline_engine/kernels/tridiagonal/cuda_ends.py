"""The system of the ends of pieces on a CUDA device, with the bits of `pieces.solve_ends`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.kernels.machine import Arena
from halocline_engine.kernels.tridiagonal.cuda import Act, CudaTridiagonal
from halocline_engine.kernels.tridiagonal.launching import Layout
from halocline_engine.kernels.tridiagonal.pieces import END_PIECE, Pieces, cut_rows

__all__ = ["DeviceEnds"]


class DeviceEnds:
    """The equations of the ends of all pieces, and the unknowns there.

    `layout` is that of the system of the ends, of which each piece is a row, on a `machine`. What
    is queued comes to the current stream.
    """

    def __init__(self, kernels: CudaTridiagonal, layout: Layout, size: int = END_PIECE) -> None:
        self._kernels, self._layout, self._size = kernels, layout, size
        self.machine = kernels.machine
        self._arena = Arena(kernels.machine)
        self._equations = self._new_ends(layout, 6)
        # Prepared, as kernels take no longer than the host would take to prepare them.
        self._acts: list[Act] = []
        self._last = self._solved(layout, self._equations)

    def equations(self, first: int, past: int) -> Any:
        """Return those of some pieces: a view indexed [piece and inner, 0, equation and outer]."""
        inner = self._layout.inner
        return self._equations[first * inner : past * inner]

    def solve(self) -> None:
        """Solve for the last unknowns of all pieces, whose equations are there."""
        for act in self._acts:
            act()

    def known(self, first: int, past: int) -> tuple[Any, Act]:
        """Return an array, as that of equations, for the unknowns at both ends of some pieces.

        The second value queues what brings them there.
        """
        return self._known(self._layout, self._equations, self._last, first, past)

    def unknowns(self) -> NDArray[Any]:
        """Return those of all pieces as the host has them, indexed [end, outer, piece, inner]."""
        outer, pieces, inner = self._layout.shape
        known, act = self.known(0, pieces)
        act()
        return self._arena.get(known).reshape(2, outer, pieces, inner)

    def _solved(self, layout: Layout, ends: Any) -> Any:
        """Add what solves for the last unknowns of pieces, and return where these are then.

        `layout` is that of the system of their ends.
        """
        arena, kernels, acts = self._arena, self._kernels, self._acts
        bands = [arena.new(layout.shape, np.dtype(layout.dtype)) for _ in range(4)]
        places = tuple(arena.address(array) for array in bands)
        numbers = (np.int32(layout.inner), np.int32(layout.rows), _periodic(layout))
        acts.append(kernels.by_piece("couple", layout, (arena.address(ends), *places), numbers))
        pieces = cut_rows(layout.rows, periodic=layout.periodic, size=self._size)
        if pieces.count == 1:
            found = arena.new(layout.shape, np.dtype(layout.dtype))
            status = arena.new((1, layout.outer, layout.inner), np.dtype(np.uint8))
            every = (*places, arena.address(found), arena.address(status))
            acts.append(kernels.alone(layout, every, arena))
            return found
        above = Layout(layout.outer, pieces.count, layout.inner, layout.dtype, layout.periodic)
        ends, cut = self._new_ends(above, 6), _cut(layout, pieces)
        acts.append(kernels.by_piece("reduce", above, (*places, arena.address(ends)), cut))
        last = self._solved(above, ends)
        known, act = self._known(above, ends, last, 0, pieces.count)
        places = (*places, arena.address(known))
        acts += [act, kernels.by_piece("substitute", above, places, cut)]
        return bands[3]

    def _known(
        self, layout: Layout, ends: Any, last: Any, first: int, past: int
    ) -> tuple[Any, Act]:
        """Return an array for both ends of some pieces, and what queues their computation."""
        own = Layout(layout.outer, past - first, layout.inner, layout.dtype)
        known = self._new_ends(own, 2)
        places = tuple(self._arena.address(array) for array in (ends, last, known))
        numbers = (layout.inner, layout.rows, first, past - first)
        given = (*(np.int32(one) for one in numbers), _periodic(layout))
        return known, self._kernels.by_piece("know", layout, places, given)

    def _new_ends(self, layout: Layout, count: int) -> Any:
        shape = (count * layout.outer, 1, layout.rows * layout.inner)
        return self._arena.new(shape, np.dtype(layout.dtype))


def _periodic(layout: Layout) -> np.int32:
    return np.int32(layout.periodic)


def _cut(layout: Layout, pieces: Pieces) -> tuple[np.int32, ...]:
    """Return how rows are cut, as kernels take it."""
    numbers = (layout.rows, layout.inner, pieces.size, pieces.count)
    return tuple(np.int32(one) for one in numbers)
