"""Sparse matrices that are applied to many fields at once, in rows.

A field is an array indexed [batch, cell]; the product is indexed [batch, row]. Terms are added in
the order in which they are stored, in double precision, so that every target gives the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.errors import ArgumentError
from halocline_engine.kernels.indirect.indices import narrowest
from halocline_engine.kernels.indirect.problem import Index

__all__ = ["Form", "Missing", "Sparse", "sparse"]


class Form(Enum):
    """What a row is.

    PLAIN: the sum of weight times cell. RELATIVE: the sum of weight times (cell - own cell), which
    is exactly 0 for a constant; the matrix is square. DEPARTURE: own cell plus the relative sum,
    which is exactly the constant.
    """

    PLAIN = "plain"
    RELATIVE = "relative"
    DEPARTURE = "departure"


class Missing(Enum):
    """What missing cells (NaN) do.

    PROPAGATE: rows that use one are NaN. RENORMALISE: the other cells of the row take their weight;
    a row is NaN where the weight of its other cells is less than the least share.
    """

    PROPAGATE = "propagate"
    RENORMALISE = "renormalise"


@dataclass(frozen=True, slots=True, eq=False)
class Sparse:
    """A matrix by rows: row n has `columns[starts[n]:starts[n + 1]]` with those `weights`."""

    rows: int
    cells: int
    starts: Index
    columns: Index
    weights: NDArray[np.float64]


def sparse(
    row: NDArray[Any], column: NDArray[Any], weight: NDArray[Any], rows: int, cells: int
) -> Sparse:
    """Return a matrix from its terms, which count from 0; those of a row keep their order.

    Raises `ArgumentError` where they do not fit.
    """
    if not (row.ndim == column.ndim == weight.ndim == 1 and row.size == column.size == weight.size):
        raise ArgumentError(
            "Weights need one row and one column for each weight, got arrays of the shapes"
            f" {row.shape}, {column.shape} and {weight.shape}."
        )
    for kind, numbers, size in (("row", row, rows), ("column", column, cells)):
        wrong = np.flatnonzero((numbers < 0) | (numbers >= size))
        if wrong.size:
            raise ArgumentError(
                f"Weight {int(wrong[0])} has the {kind} {int(numbers[wrong[0]])}, counted from 0,"
                f" but there are {size} of them."
            )
    order = np.argsort(row, kind="stable")
    starts = np.zeros(rows + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=rows), out=starts[1:])
    return Sparse(
        rows=rows,
        cells=cells,
        starts=narrowest(starts, row.size + 1),
        columns=narrowest(column[order], cells),
        weights=np.ascontiguousarray(weight[order], np.float64),
    )
