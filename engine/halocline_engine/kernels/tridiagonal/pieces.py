"""Long systems by the partition method: pieces of rows, and a system of their ends.

The rows of a long system are cut into pieces of `PIECE` rows each, the last of which has the rest
as well. Where they are cut depends on the number of rows and on nothing else. For each piece p,
with first unknown f[p] and last unknown l[p], elimination inside of it gives two equations::

    f[p] + e0 l[p-1] + e1 l[p]   = e2
    l[p] + e3 l[p-1] + e4 f[p+1] = e5

Putting each f into the equation before leaves a tridiagonal system of the last unknowns, one row a
piece, which is periodic where the rows are. It is cut into pieces of `END_PIECE` rows, and so on,
until few rows are left. When both ends of a piece are known, the rows between them are a system by
themselves.

Everything that is done depends on one piece or on the ends of all, so a system may be spread over
any blocks of whole pieces. Wang (1981), "A parallel method for tridiagonal equations"; the two
equations are those of SPIKE (Polizzi and Sameh 2006). Nothing is pivoted.

Batches are arrays [outer, row, inner]; `first` and `past` say which pieces they hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from halocline_engine.copies import AnyArray, copy
from halocline_engine.kernels.status import Status
from halocline_engine.kernels.tridiagonal import reference
from halocline_engine.kernels.tridiagonal.problem import (
    Batch,
    Solved,
    SolvedBands,
    TridiagonalBands,
)

__all__ = [
    "END_PIECE",
    "PIECE",
    "Bands",
    "Filled",
    "HostPieces",
    "Judged",
    "PieceSolver",
    "Pieces",
    "cut_off",
    "cut_rows",
    "fill_pieces",
    "judge_pieces",
    "reduce_pieces",
    "solve_ends",
    "solve_rows",
    "verdict",
    "with_neighbours",
]

#: Rows of a piece. Systems of twice as many are long.
PIECE = 1024
#: The same of the system of ends: so few that no thread of a device has much to do.
END_PIECE = 32

_LEAST = 2
_LEAST_PERIODIC = 3

Bands: TypeAlias = TridiagonalBands


class PieceSolver(Protocol):
    """What a target does with systems and pieces."""

    def solve(self, *bands: *Bands, periodic: bool) -> Solved:
        """Solve a batch."""
        ...

    def ends(self, *bands: *Bands) -> NDArray[Any]:
        """Return e0 to e5 of each piece, indexed [equation, outer, inner]."""
        ...

    def judge(
        self, *solved: *SolvedBands, beside: Sequence[Batch] | None, residual: bool
    ) -> tuple[NDArray[np.uint8], NDArray[np.float64], NDArray[np.float64]]:
        """Return status, missing and scale of each system; see `reference.judge`."""
        ...


@dataclass(frozen=True, slots=True)
class Pieces:
    """How `rows` are cut: `count` pieces of `size` rows, the last one with the rest as well."""

    rows: int
    size: int
    count: int

    def start(self, piece: int) -> int:
        """Return the first row of a piece, or the number of rows behind the last one."""
        return self.rows if piece == self.count else piece * self.size

    def alike(self, first: int, past: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of pieces that have as many rows each.

        >>> list(Pieces(34, 8, 4).alike(1, 4)), list(Pieces(32, 8, 4).alike(1, 4))
        ([(1, 3), (3, 4)], [(1, 4)])
        """
        longer = past == self.count and self.rows != self.count * self.size
        if first < past - longer:
            yield first, past - longer
        if longer:
            yield past - 1, past


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """How well each piece is solved, indexed [outer, piece, inner].

    `missing` and `scale` are those of `reference.misses`, or None if not requested.
    """

    status: NDArray[np.uint8]
    missing: NDArray[np.float64] | None
    scale: NDArray[np.float64] | None


@dataclass(frozen=True, slots=True, eq=False)
class Filled(Judged):
    """Pieces that are solved."""

    solution: Batch


@dataclass(frozen=True, slots=True, eq=False)
class HostPieces:
    """Pieces that stay in memory, of a target that computes there."""

    solver: PieceSolver
    pieces: Pieces
    first: int
    past: int
    bands: Bands
    periodic: bool
    residual: bool

    def ends(self) -> NDArray[Any]:
        """Return what `reduce_pieces` does."""
        where = (self.pieces, self.first, self.past)
        return reduce_pieces(self.solver, *where, self.bands, periodic=self.periodic)

    def fill(self, known: NDArray[Any], into: AnyArray) -> Judged:
        """Do what `fill_pieces` does, and leave the solution in an array [outer, row, inner]."""
        where = (self.pieces, self.first, self.past, self.bands)
        how = {"periodic": self.periodic, "residual": self.residual}
        filled = fill_pieces(self.solver, *where, known, **how)
        copy(filled.solution, into)
        return filled


def cut_rows(rows: int, *, periodic: bool, size: int = PIECE) -> Pieces:
    """Return how rows are cut; into one piece where they are few.

    >>> cut_rows(2047, periodic=False).count, cut_rows(2048, periodic=False).count
    (1, 2)
    """
    assert size > _LEAST, "both ends and a row between them"
    count = rows // size
    least = _LEAST_PERIODIC if periodic else _LEAST
    return Pieces(rows, size, count if count >= least else 1)


def reduce_pieces(
    solver: PieceSolver, pieces: Pieces, first: int, past: int, bands: Bands, *, periodic: bool
) -> NDArray[Any]:
    """Return the equations of both ends of some pieces, indexed [equation, outer, piece, inner]."""
    bands = cut_off(pieces, first, past, bands, periodic=periodic)
    outer, _, inner = bands[3].shape
    found: NDArray[Any] = np.empty((6, outer, past - first, inner), bands[3].dtype)
    for low, high in pieces.alike(first, past):
        ends = solver.ends(*(_batch(pieces, band, first, low, high) for band in bands))
        found[:, :, low - first : high - first] = ends.reshape(6, outer, high - low, inner)
    return found


def solve_ends(ends: NDArray[Any], *, periodic: bool, size: int = END_PIECE) -> NDArray[Any]:
    """Return the first and last unknowns of all pieces, indexed [end, outer, piece, inner].

    They have the same bits on all targets.
    """
    with np.errstate(all="ignore"):
        behind = np.roll(ends[:3], -1, axis=2)
        if not periodic:
            behind[:, :, -1] = 0
        reduced = (
            np.ascontiguousarray(ends[3]),
            1 - ends[4] * behind[0],
            -(ends[4] * behind[1]),
            ends[5] - ends[4] * behind[2],
        )
        sizes = {"size": size, "end_size": size}
        last = solve_rows(reference, reduced, periodic=periodic, **sizes).solution
        before = np.roll(last, 1, axis=1)
        if not periodic:
            before[:, 0] = 0
        first = ends[2] - ends[0] * before - ends[1] * last
    return np.stack([first, last])


def with_neighbours(known: NDArray[Any], *, periodic: bool) -> NDArray[Any]:
    """Return the unknowns of all pieces, of the one before the first and behind the last one."""
    around: NDArray[Any] = np.concatenate([known[:, :, -1:], known, known[:, :, :1]], axis=2)
    if not periodic:
        around[:, :, [0, -1]] = 0
    return around


def fill_pieces(
    solver: PieceSolver,
    pieces: Pieces,
    first: int,
    past: int,
    bands: Bands,
    known: NDArray[Any],
    *,
    periodic: bool,
    residual: bool,
) -> Filled:
    """Solve some pieces, when the unknowns at all ends are known.

    `known` is indexed [end, outer, piece, inner], and holds the piece before and the one behind
    those as well: zeros where there is none.
    """
    bands = cut_off(pieces, first, past, bands, periodic=periodic)
    outer, rows, inner = bands[3].shape
    solution: Batch = np.empty((outer, rows, inner), bands[3].dtype)
    for low, high in pieces.alike(first, past):
        own = known[:, :, low - first + 1 : high - first + 1]
        ends = [end.reshape(outer * (high - low), inner) for end in own]
        part = [_batch(pieces, band, first, low, high).copy() for band in bands]
        for at, end in zip((0, -1), ends, strict=True):
            part[0][:, at] = part[2][:, at] = 0
            part[1][:, at] = 1
            part[3][:, at] = end
        found = solver.solve(part[0], part[1], part[2], part[3], periodic=False).solution
        _rows(pieces, solution, first, low, high)[...] = found.reshape(outer, -1, inner)
    found = judge_pieces(solver, pieces, first, past, bands, solution, known, residual=residual)
    return Filled(found.status, found.missing, found.scale, solution)


def judge_pieces(
    solver: PieceSolver,
    pieces: Pieces,
    first: int,
    past: int,
    bands: Bands,
    solution: Batch,
    known: NDArray[Any],
    *,
    residual: bool,
) -> Judged:
    """Say how well pieces are solved; see `fill_pieces`.

    The bands are zero where nothing is coupled beyond the ends of all rows.
    """
    outer, _, inner = solution.shape
    shape = (outer, past - first, inner)
    status = np.empty(shape, np.uint8)
    missing, scale = np.empty(shape), np.empty(shape)
    for low, high in pieces.alike(first, past):
        at, count = slice(low - first, high - first), high - low
        a, b, c, d, x = (_batch(pieces, band, first, low, high) for band in (*bands, solution))
        before, behind = known[1, :, at], known[0, :, low - first + 2 : high - first + 2]
        beside = [one.reshape(outer * count, 1, inner) for one in (before, behind)]
        found = solver.judge(a, b, c, d, x, beside=beside, residual=residual)
        for kept, values in zip((status, missing, scale), found, strict=True):
            kept[:, at] = values.reshape(outer, count, inner)
    kept = (missing, scale) if residual else (None, None)
    return Judged(status, *kept)


def verdict(status: NDArray[np.uint8], axis: int) -> NDArray[np.uint8]:
    """Return the `Status` of whole systems from those of their pieces along an axis."""
    found: NDArray[np.uint8] = np.bitwise_or.reduce(status, axis=axis)
    given = found & Status.NOT_FINITE.value != 0
    return np.where(given, found & ~np.uint8(Status.FAILED.value), found).astype(np.uint8)


def solve_rows(
    solver: PieceSolver,
    bands: Bands,
    *,
    periodic: bool,
    size: int = PIECE,
    end_size: int = END_PIECE,
) -> Solved:
    """Solve whole systems, by pieces where they are long."""
    pieces = cut_rows(bands[3].shape[1], periodic=periodic, size=size)
    if pieces.count == 1:
        return solver.solve(*bands, periodic=periodic)
    count = pieces.count
    ends = reduce_pieces(solver, pieces, 0, count, bands, periodic=periodic)
    known = solve_ends(ends, periodic=periodic, size=end_size)
    around = with_neighbours(known, periodic=periodic)
    filled = fill_pieces(solver, pieces, 0, count, bands, around, periodic=periodic, residual=False)
    return Solved(filled.solution, verdict(filled.status, 1))


def cut_off(pieces: Pieces, first: int, past: int, bands: Bands, *, periodic: bool) -> Bands:
    """Return bands with zeros where nothing is coupled beyond the ends of all rows."""
    lower, diagonal, upper, rhs = bands
    if not periodic and first == 0:
        lower = lower.copy()
        lower[:, 0] = 0
    if not periodic and past == pieces.count:
        upper = upper.copy()
        upper[:, -1] = 0
    return lower, diagonal, upper, rhs


def _rows(pieces: Pieces, band: Batch, first: int, low: int, high: int) -> Batch:
    """Return a view of the rows of some pieces; the band begins with the piece `first`."""
    begin = pieces.start(first)
    return band[:, pieces.start(low) - begin : pieces.start(high) - begin]


def _batch(pieces: Pieces, band: Batch, first: int, low: int, high: int) -> Batch:
    """Return pieces of as many rows each as a batch [outer and piece, row, inner]."""
    outer, _, inner = band.shape
    rows = _rows(pieces, band, first, low, high)
    return rows.reshape(outer * (high - low), -1, inner)
