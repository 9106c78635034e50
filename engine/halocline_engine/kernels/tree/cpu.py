"""Tree systems solved with Numba, a cell at a time, in all threads; in each of the layouts.

The same operations in the same order as in the reference, so the bits are the same as well.
"""

from __future__ import annotations

from typing import Any, cast

import numba
import numpy as np
from numpy.typing import NDArray

from halocline_engine.kernels.threads import spread
from halocline_engine.kernels.tree.problem import Solved, check_cells
from halocline_engine.kernels.tree.storage import Index, Interleaved, Values, pack_parents
from halocline_engine.kernels.tree.topology import Forest

__all__ = ["diagnose", "solve", "solve_interleaved", "strided"]

_njit: Any = cast("Any", numba).njit(nogil=True, error_model="numpy")
_config: Any = cast("Any", numba).config


def solve(forest: Forest, diagonal: Values, upper: Values, rhs: Values) -> Solved:
    """Solve a ragged batch; arrays hold a value for each node of the forest."""
    layout = forest.layout
    check_cells(layout, {"diagonal": diagonal, "upper": upper, "rhs": rhs})
    bases = layout.offsets[:-1]
    absolute = layout.offsets[layout.owners()] + forest.parents
    found = np.empty_like(rhs)
    strided(bases, 1, layout.sizes, absolute, (diagonal, upper, rhs), found)
    return Solved(found, diagnose(forest, diagonal, upper, rhs, found))


def solve_interleaved(
    forest: Forest, target: Interleaved, diagonal: Values, upper: Values, rhs: Values
) -> Values:
    """Solve a batch whose arrays are packed; returns the solution packed, padding as in `rhs`."""
    absolute = pack_parents(forest.layout, forest.parents, target)
    sizes, bases = target.sizes, target.bases()
    found = rhs.copy()
    strided(bases, target.width, sizes, absolute, (diagonal, upper, rhs), found)
    return found


def strided(
    bases: Index,
    stride: int,
    sizes: Index,
    absolute: Index,
    system: tuple[Values, Values, Values],
    found: Values,
) -> None:
    """Solve cells whose nodes lie `stride` apart from `bases` on; put the solutions into `found`.

    `absolute` are parents as `pack_parents` gives them, `system` is diagonal, upper and rhs.
    """
    room = np.empty_like(found)
    one = found.dtype.type(1)

    def part(first: int, past: int) -> None:
        _solve(bases, stride, sizes, absolute, *system, room, found, one, first, past)

    spread(len(sizes), int(_config.NUMBA_NUM_THREADS), part)


def diagnose(
    forest: Forest, diagonal: Values, upper: Values, rhs: Values, solution: Values
) -> NDArray[np.uint8]:
    """Return the `Status` of each system."""
    layout = forest.layout
    status = np.zeros(layout.count, np.uint8)
    arrays = (layout.offsets, forest.parents, diagonal, upper, rhs, solution, status)

    def part(first: int, past: int) -> None:
        _diagnose(*arrays, first, past)

    spread(layout.count, int(_config.NUMBA_NUM_THREADS), part)
    return status


@_njit
def _solve(
    bases: Any,
    stride: int,
    sizes: Any,
    parents: Any,
    diagonal: Any,
    u: Any,
    rhs: Any,
    d: Any,
    r: Any,
    one: Any,
    first: int,
    past: int,
) -> None:
    """Put the solutions of some cells into `r`; `d` is room."""
    for cell in range(first, past):
        base, size = bases[cell], sizes[cell]
        for i in range(size):
            at = base + i * stride
            d[at], r[at] = diagonal[at], rhs[at]
        if size == 0 or d[base] == 0:
            continue
        for i in range(size - 1, 0, -1):
            at = base + i * stride
            p = parents[at]
            w = one / d[at]
            f, g = u[at] * w, r[at] * w
            d[p] -= f * u[at]
            r[p] -= g * u[at]
            d[at], r[at] = f, g
        r[base] = r[base] * (one / d[base])
        for i in range(1, size):
            at = base + i * stride
            r[at] = r[at] - d[at] * r[parents[at]]


@_njit
def _diagnose(
    offsets: Any,
    parents: Any,
    d: Any,
    u: Any,
    r: Any,
    x: Any,
    status: Any,
    first: int,
    past: int,
) -> None:
    around = np.empty(0, d.dtype)
    for cell in range(first, past):
        base, size = offsets[cell], offsets[cell + 1] - offsets[cell]
        if size > len(around):
            around = np.empty(size, d.dtype)
        found, finite, solved = 0, True, True
        for i in range(size):
            around[i] = abs(u[base + i]) if i else abs(d.dtype.type(0))
        for i in range(1, size):
            around[parents[base + i]] += abs(u[base + i])
        for i in range(size):
            at = base + i
            if d[at] == 0:
                found |= 1
                if i == 0:
                    found |= 16
            if abs(d[at]) < around[i]:
                found |= 2
            if not np.isfinite(d[at]) or not np.isfinite(r[at]) or (i and not np.isfinite(u[at])):
                finite = False
            if not np.isfinite(x[at]):
                solved = False
        if not finite:
            found |= 4
        elif not solved:
            found |= 8
        status[cell] = found
