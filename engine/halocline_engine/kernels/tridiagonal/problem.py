"""The systems, how they lie in memory, and what a factored one is.

A system has a row for each i = 0 .. n-1, and x is wanted::

    lower[i] x[i-1] + diagonal[i] x[i] + upper[i] x[i+1] = rhs[i]

    diagonal upper                                 lower[0]
    lower    diagonal upper
             lower    diagonal upper
    upper[n-1]        lower    diagonal

lower[0] and upper[n-1] couple the two ends of a periodic system, which has at least three rows;
elsewhere they are never looked at. A pentadiagonal system has `second_lower` (x[i-2]) and
`second_upper` (x[i+2]) beside them; elements that would lie outside of the matrix are not read.

A batch is an array indexed [outer, row, inner] in C order, with a system for each pair of outer
and inner. Interleaved systems have inner > 1: the same row of neighbouring systems lies side by
side. Contiguous ones have inner = 1.

All targets eliminate in the same way, with one reciprocal a row (Thomas's algorithm)::

    w[i] = 1 / (diagonal[i] - lower[i] c[i-1]);   c[i] = upper[i] w[i]
    y[i] = (rhs[i] - lower[i] y[i-1]) w[i];       x[i] = y[i] - c[i] x[i+1]

so they agree to the last bit, but where the target 'cuda' has several threads for a system: these
are contiguous ones, and interleaved ones of more than 48 rows, which are cut into pieces whose ends
are found by cyclic reduction. Nothing is pivoted: a system should be diagonally dominant, and
`Status` and the residual say whether all went well.

Compulsory traffic is five elements a row: 40 bytes with float64, 20 with float32; with factors in
the cache it is two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from halocline_engine.errors import ArgumentError, FieldError

__all__ = [
    "Batch",
    "Factored",
    "PentadiagonalBands",
    "Solved",
    "SolvedBands",
    "TridiagonalBands",
    "check_bands",
    "check_batch",
    "rows_of_periodic",
]

#: An array indexed [outer, row, inner]; float32 or float64.
Batch: TypeAlias = NDArray[Any]
#: lower, diagonal, upper and rhs.
TridiagonalBands: TypeAlias = tuple[Batch, Batch, Batch, Batch]
#: lower, diagonal, upper, rhs and solution.
SolvedBands: TypeAlias = tuple[Batch, Batch, Batch, Batch, Batch]
#: second_lower, lower, diagonal, upper, second_upper and rhs.
PentadiagonalBands: TypeAlias = tuple[Batch, Batch, Batch, Batch, Batch, Batch]

_LEAST_PERIODIC = 3
_KINDS = ("float32", "float64")
_TRIDIAGONAL = ("lower", "diagonal", "upper")
_PENTADIAGONAL = ("second_lower", *_TRIDIAGONAL, "second_upper")


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """A solution, indexed as the right-hand side is, and a `Status` byte for [outer, inner]."""

    solution: Batch
    status: NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Factored:
    """Coefficients that are eliminated once: `lower`, w and c of the module's text.

    They are indexed [outer, row, inner] with one point along outer and inner where one matrix is
    shared by all systems.
    """

    lower: Batch
    reciprocal: Batch
    upper: Batch

    @property
    def shared(self) -> bool:
        """Whether there is one matrix for all systems."""
        return self.lower.shape[0] == 1 and self.lower.shape[2] == 1


def check_bands(bands: TridiagonalBands | PentadiagonalBands, *, periodic: bool = False) -> None:
    """Raise an error unless bands fit the right-hand side, and periodic ones have enough rows."""
    names = _TRIDIAGONAL if len(bands) == len(_TRIDIAGONAL) + 1 else _PENTADIAGONAL
    check_batch(dict(zip(names, bands[:-1], strict=True)), bands[-1])
    if periodic:
        rows_of_periodic(bands[-1].shape[1])


def check_batch(bands: Mapping[str, Batch], rhs: Batch, *, shared: bool = False) -> None:
    """Raise `FieldError` unless the bands fit the right-hand side.

    With `shared`, they may have one point along outer and inner.
    """
    if rhs.ndim != 3 or rhs.shape[1] < 1:
        raise FieldError(
            "The right-hand side must be indexed [outer, row, inner] with at least one row, got"
            f" the shape {_text(rhs.shape)}."
        )
    one = (1, rhs.shape[1], 1)
    for name, band in bands.items():
        if band.shape != rhs.shape and not (shared and band.shape == one):
            raise FieldError(
                f"Band '{name}' must have the shape of the right-hand side, {_text(rhs.shape)},"
                f" got {_text(band.shape)}."
            )
    for name, array in {**bands, "rhs": rhs}.items():
        if array.dtype.name not in _KINDS or array.dtype != rhs.dtype:
            raise FieldError(
                f"Array '{name}' must be float32 or float64, as the right-hand side is"
                f" ({rhs.dtype.name}), got {array.dtype.name}.",
                hint="Convert it with astype.",
            )


def rows_of_periodic(rows: int) -> int:
    """Return the number of rows; raises `ArgumentError` where a periodic system has too few."""
    if rows < _LEAST_PERIODIC:
        raise ArgumentError(
            f"A periodic system must have at least {_LEAST_PERIODIC} rows, got {rows}.",
            hint="Leave out 'periodic', or give it more rows.",
        )
    return rows


def _text(shape: Sequence[int]) -> str:
    return f"({', '.join(str(size) for size in shape)})"
