"""The systems on trees, how they are assembled, and the order in which they are eliminated.

Every node i but the root has a parent p[i] < i, with `upper[i]` in both of their rows::

    diagonal[i] x[i] + upper[i] x[p[i]] + sum over children k: upper[k] x[k] = rhs[i]

Nodes are eliminated from last to first, then found from first to last (Hines 1984), with one
reciprocal a node::

    i = n-1 .. 1:   w = 1 / d[i];   f[i] = u[i] w;   g[i] = r[i] w
                    d[p[i]] -= f[i] u[i];   r[p[i]] -= g[i] u[i]
    root:           x[0] = r[0] / d[0]
    i = 1 .. n-1:   x[i] = g[i] - f[i] x[p[i]]

A parent gets what its children give it in descending order of the children, in every layout and on
every target, so that the result is the same to the last bit everywhere. Nothing is pivoted; a
system should be diagonally dominant. A system whose root has a zero diagonal is skipped: its
solution is its right-hand side. The root's `upper` is not looked at.

Compulsory traffic is four elements a node (32 bytes with float64), and the parents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from halocline_engine.errors import FieldError
from halocline_engine.kernels.tree.storage import Flat, Values

__all__ = ["Solved", "check_cells"]

_KINDS = ("float32", "float64")


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """A solution, a value for each node, and a `Status` byte for each system."""

    solution: Values
    status: NDArray[np.uint8]


def check_cells(layout: Flat, arrays: Mapping[str, Values]) -> None:
    """Raise `FieldError` unless all arrays have a float of the same type for each node."""
    dtype = next(iter(arrays.values())).dtype
    for name, array in arrays.items():
        if array.shape != (layout.total,):
            raise FieldError(
                f"Array '{name}' must have {layout.total} values, one for each node, got the shape"
                f" {array.shape}."
            )
        if array.dtype.name not in _KINDS or array.dtype != dtype:
            raise FieldError(
                f"Array '{name}' must be float32 or float64, as the others are ({dtype.name}),"
                f" got {array.dtype.name}.",
                hint="Convert it with astype.",
            )
