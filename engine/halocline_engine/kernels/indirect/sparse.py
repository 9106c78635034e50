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

__all__ = ["SLICE", "Form", "Missing", "Sliced", "Sparse", "balanced", "sliced", "sparse"]

#: Rows of a slice: as many as threads that run side by side.
SLICE = 32
# A matrix with few long rows would become much larger in slices.
_MOST_PADDING = 4


class Form(Enum):
    """Form of a row.

    PLAIN: the sum of weight times cell. RELATIVE: the sum of weight times (cell - own cell), which
    is exactly 0 for a constant; the matrix is square. DEPARTURE: own cell plus the relative sum,
    which is exactly the constant.
    """

    PLAIN = "plain"
    RELATIVE = "relative"
    DEPARTURE = "departure"


class Missing(Enum):
    """Effect of missing cells (NaN).

    PROPAGATE: rows that use one are NaN. RENORMALISE: the other cells of the row take their weight:
    a row in which cells are missing is the sum over the others, times `full / valid`, the sums of
    all weights and of those of the others. It is NaN where the share `valid / full` is less than
    the least share, is 0 or negative, or is not there, because the weights add up to 0. A row in
    which nothing is missing is the plain sum, whatever its weights add up to.
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

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.starts.nbytes + self.columns.nbytes + self.weights.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class Sliced:
    """The same matrix by slices of 32 rows, for threads that each take a row.

    Terms are in blocks of `block` with successive columns, of which `columns` has the first, a
    multiple of `block`. Block t of row n is number `offsets[n // 32] + 32 * t + n % 32`; row n has
    `lengths[n]` blocks, and what stands beyond them in a slice is nothing.
    """

    block: int
    offsets: NDArray[np.int64]
    lengths: NDArray[np.int32]
    columns: Index
    weights: NDArray[np.float64]


def balanced(matrix: Sparse) -> bool:
    """Whether the weights of some row, added in order as every target does, add up to 0.

    Rows without weights do not count. The sum of the weights that are left does not tell for such
    a row whether cells are missing.
    """
    lengths = np.diff(matrix.starts)
    rows = np.repeat(np.arange(matrix.rows), lengths)
    # This adds one weight after the other, in order.
    sums = np.bincount(rows, matrix.weights, matrix.rows)
    return bool(((sums == 0) & (lengths > 0)).any())


def sliced(matrix: Sparse, most: int) -> Sliced | None:
    """Return a matrix in slices, in blocks of at most `most` terms; None where that is wasteful."""
    starts = matrix.starts.astype(np.int64)
    lengths = np.diff(starts)
    block = next(size for size in (4, 2, 1) if size <= most and _in_blocks(matrix, lengths, size))
    blocks = lengths // block
    slices = -(-matrix.rows // SLICE)
    padded = np.zeros(slices * SLICE, np.int64)
    padded[: matrix.rows] = blocks
    depths = padded.reshape(slices, SLICE).max(axis=1, initial=0)
    offsets = np.zeros(slices + 1, np.int64)
    np.cumsum(SLICE * depths, out=offsets[1:])
    total = int(offsets[-1])
    if total * block > _MOST_PADDING * (matrix.weights.size + SLICE * SLICE):
        return None
    row = np.repeat(np.arange(matrix.rows), blocks)
    rank = np.arange(row.size) - np.repeat(starts[:-1] // block, blocks)
    places = offsets[row // SLICE] + SLICE * rank + row % SLICE
    columns = np.zeros(total, matrix.columns.dtype)
    columns[places] = matrix.columns[::block]
    weights = np.zeros((total, block))
    weights[places] = matrix.weights.reshape(-1, block)
    return Sliced(block, offsets, blocks.astype(np.int32), columns, weights.reshape(-1))


def _in_blocks(matrix: Sparse, lengths: NDArray[np.int64], size: int) -> bool:
    """Whether all terms are in blocks of successive columns that begin at multiples of `size`."""
    if size == 1:
        return True
    if matrix.cells % size or (lengths % size).any():
        return False
    columns = matrix.columns.reshape(-1, size)
    return bool((columns[:, 0] % size == 0).all() and (np.diff(columns, axis=1) == 1).all())


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
                f" but there are {size} of them.",
                hint="Files count from 1; the weights must be for grids of these sizes.",
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
