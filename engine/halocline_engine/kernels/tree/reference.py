"""Tree systems solved node by node in plain Python and NumPy: the reference for the other targets.

Cells with the same tree are eliminated together.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from halocline_engine.kernels.status import Status
from halocline_engine.kernels.tree.problem import Solved, check_cells
from halocline_engine.kernels.tree.storage import Flat, Index, Values
from halocline_engine.kernels.tree.topology import Forest

__all__ = ["diagnose", "solve"]


def solve(forest: Forest, diagonal: Values, upper: Values, rhs: Values) -> Solved:
    """Solve a ragged batch; arrays hold a value for each node of the forest."""
    arrays = {"diagonal": diagonal, "upper": upper, "rhs": rhs}
    check_cells(forest.layout, arrays)
    found = rhs.copy()
    for parents, nodes in _alike(forest.layout, forest.parents):
        skipped = diagonal[nodes[:, 0]] == 0
        part = nodes[~skipped]
        found[part] = _eliminate(parents, diagonal[part], upper[part], rhs[part])
    return Solved(found, diagnose(forest, diagonal, upper, rhs, found))


def _alike(layout: Flat, parents: Index) -> list[tuple[Index, Index]]:
    """Return each tree that occurs, with the nodes of all cells that have it, [cell, node]."""
    groups: dict[bytes, list[int]] = {}
    for cell in range(layout.count):
        start, stop = layout.offsets[cell : cell + 2]
        if stop > start:
            groups.setdefault(parents[start:stop].tobytes(), []).append(cell)
    found: list[tuple[Index, Index]] = []
    for cells in groups.values():
        start, stop = layout.offsets[cells[0] : cells[0] + 2]
        starts: Index = layout.offsets[np.array(cells)]
        nodes = starts[:, None] + np.arange(int(stop - start))
        found.append((parents[start:stop], nodes))
    return found


def _eliminate(parents: Index, d: Values, u: Values, r: Values) -> Values:
    """Solve systems with the same tree, indexed [cell, node]."""
    d, r = d.T.copy(), r.T.copy()
    u = u.T
    with np.errstate(all="ignore"):
        for i in range(len(d) - 1, 0, -1):
            p = parents[i]
            w = d.dtype.type(1) / d[i]
            d[i], r[i] = u[i] * w, r[i] * w
            d[p] -= d[i] * u[i]
            r[p] -= r[i] * u[i]
        r[0] = r[0] * (d.dtype.type(1) / d[0])
        for i in range(1, len(d)):
            r[i] -= d[i] * r[parents[i]]
    return r.T


def diagnose(
    forest: Forest, diagonal: Values, upper: Values, rhs: Values, solution: Values
) -> NDArray[np.uint8]:
    """Return the `Status` of each system."""
    layout = forest.layout
    owners, inner = layout.owners(), layout.local() > 0
    beside = np.where(inner, np.abs(upper), 0).astype(diagonal.dtype)
    around = beside.copy()
    with np.errstate(all="ignore"):
        np.add.at(around, (layout.offsets[owners] + forest.parents)[inner], beside[inner])
        weak = np.abs(diagonal) < around
    finite = np.isfinite(diagonal) & np.isfinite(beside) & np.isfinite(rhs)
    status = np.zeros(layout.count, np.uint8)

    def mark(nodes: NDArray[np.bool_], flag: Status) -> None:
        status[np.unique(owners[nodes])] |= np.uint8(flag.value)

    mark(diagonal == 0, Status.ZERO_DIAGONAL)
    mark(weak, Status.NOT_DOMINANT)
    mark(~finite, Status.NOT_FINITE)
    mark(~inner & (diagonal == 0), Status.SKIPPED)
    bad = np.isfinite(solution) == 0
    failed = np.unique(owners[bad])
    fine = status[failed] & np.uint8(Status.NOT_FINITE.value) == 0
    status[failed[fine]] |= np.uint8(Status.FAILED.value)
    return status
