"""Random trees, and what their systems' solutions are by other means."""

from __future__ import annotations

from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["random_parents", "sparse_solution"]

_LINALG: Any = import_module("scipy.sparse.linalg")
_SPARSE: Any = import_module("scipy.sparse")


def random_parents(nodes: int, rng: np.random.Generator, *, shuffled: bool) -> NDArray[np.int64]:
    """Return local parents, -1 at the root; where not shuffled, parents come first."""
    parents = np.full(nodes, -1, np.int64)
    for i in range(1, nodes):
        near = max(0, i - 3) if rng.random() < 0.8 else 0
        parents[i] = rng.integers(near, i)
    if not shuffled:
        return parents
    to = rng.permutation(nodes)
    moved = np.empty_like(parents)
    moved[to] = np.where(parents < 0, -1, to[parents])
    return moved


def sparse_solution(offsets: Any, parents: Any, diagonal: Any, upper: Any, rhs: Any) -> Any:
    """Solve all cells by SciPy's sparse LU; parents are local, -1 or itself at the root."""
    found = np.empty(len(rhs))
    bounds: list[int] = np.asarray(offsets).tolist()
    for start, stop in pairwise(bounds):
        if start < stop:
            cell = slice(start, stop)
            matrix = _matrix(parents[cell], diagonal[cell], upper[cell])
            found[cell] = _LINALG.splu(matrix).solve(rhs[cell].astype(float))
    return found


def _matrix(parents: NDArray[np.int64], diagonal: Any, upper: Any) -> Any:
    nodes = np.arange(len(parents))
    child: NDArray[np.int64] = np.flatnonzero((parents >= 0) & (parents != nodes))
    rows = np.concatenate([nodes, child, parents[child]])
    columns = np.concatenate([nodes, parents[child], child])
    values = np.concatenate([diagonal, upper[child], upper[child]])
    return _SPARSE.csc_matrix((values, (rows, columns)), shape=(len(nodes), len(nodes)))
