"""Blocks of tridiagonal and of tree systems: how a batch is cut up, and what a worker does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.targets import TARGETS
from halocline_engine.copies import dense, of_device
from halocline_engine.datasets.stores.sink import Sink
from halocline_engine.datasets.stores.source import Source
from halocline_engine.device.launch.streams import own_stream, wait_for_all
from halocline_engine.distribute.grid.partition import Block, Span
from halocline_engine.distribute.jobs.blocking import region_of
from halocline_engine.distribute.solves.select import TridiagonalSolver, tridiagonal_solver
from halocline_engine.distribute.tasks.cancel import CancelToken
from halocline_engine.distribute.tasks.model import Report, Task
from halocline_engine.kernels.status import Status
from halocline_engine.kernels.tridiagonal import reference
from halocline_engine.kernels.tridiagonal.cuda import CudaTridiagonal
from halocline_engine.kernels.tridiagonal.cuda_pieces import solve_on_device
from halocline_engine.kernels.tridiagonal.judging import judge_band
from halocline_engine.kernels.tridiagonal.pieces import Bands, PieceSolver, cut_rows, solve_rows
from halocline_engine.kernels.tridiagonal.pivoting import settled
from halocline_engine.kernels.tridiagonal.problem import Solved

__all__ = [
    "Band",
    "BandedWork",
    "Systems",
    "backward_error",
    "batch_of",
    "dense_bands",
    "read_band",
    "repeated",
    "residual_of",
    "status_with",
]

# Bands of a tridiagonal system, and its right-hand side.
_TRIDIAGONAL = 4


@dataclass(frozen=True, slots=True)
class Band:
    """A variable of the systems, with its dimensions in its own order."""

    name: str
    dims: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Systems:
    """The systems of a job, where they are read and written, and the target that solves them.

    `bands` are those of the matrix from the lowest to the highest, and rhs; `dims` the dimensions
    of rhs and of the result, of which `dim` is that of the rows. `status` and `residual` name
    results; the latter may be empty.
    """

    bands: tuple[Band, ...]
    dims: tuple[str, ...]
    dim: str
    source: Source
    sink: Sink
    target: str
    contiguous: bool
    periodic: bool
    name: str
    status: str
    residual: str

    @property
    def solver(self) -> TridiagonalSolver:
        """The solver of the target in this process."""
        return tridiagonal_solver(self.target, contiguous=self.contiguous)

    def batch(self, spans: Mapping[str, Span]) -> tuple[int, int, int]:
        """Return the shape of a batch; see `batch_of`."""
        return batch_of(self.dims, self.dim, spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class BandedWork(Systems):
    """Work of a worker on a block: all rows of some systems.

    Long tridiagonal systems are solved by pieces of `piece` rows, unless with `pivoting`. Blocks
    may be arrays of CuPy, `on_device`, and so is what is made of them.
    """

    pivoting: bool
    piece: int
    on_device: bool = False

    def run(self, block: Block, cancelled: CancelToken | None = None) -> Report:
        """Read, solve and write a block."""
        task = Task(block, cancelled)
        with own_stream() if self.on_device else nullcontext():
            self._run(task)
        return task.report()

    def _run(self, task: Task) -> None:
        spans = dict(zip(self.dims, task.block.extra, strict=True))
        read = [task.loaded(read_band(self.source, band, self.dims, spans)) for band in self.bands]
        with task.computing():
            values = self.solved(read, spans)
            if self.on_device:
                wait_for_all()
        for name, array in values.items():
            task.write(self.sink, name, region_of(self.dims_of(name), spans), array)

    def dims_of(self, name: str) -> tuple[str, ...]:
        """Return the dimensions of a result."""
        return tuple(dim for dim in self.dims if name == self.name or dim != self.dim)

    def solved(
        self, read: Sequence[NDArray[Any]], spans: Mapping[str, Span]
    ) -> dict[str, NDArray[Any]]:
        """Return the results of some systems, whose bands have one point where they lack a dim."""
        shape = tuple(spans[dim].size for dim in self.dims)
        solve = self._tridiagonal if len(self.bands) == _TRIDIAGONAL else self._pentadiagonal
        solved, error = solve(read, shape, self.batch(spans))
        values: dict[str, NDArray[Any]] = {self.name: solved.solution.reshape(shape)}
        systems = [spans[dim].size for dim in self.dims_of(self.status)]
        values[self.status] = solved.status.reshape(systems)
        if self.residual:
            values[self.residual] = error.reshape(systems)
        return values

    def _tridiagonal(
        self, read: Sequence[NDArray[Any]], shape: tuple[int, ...], batch: tuple[int, int, int]
    ) -> tuple[Solved, NDArray[np.float64]]:
        """Return the solution, and the backward error where it is asked for."""
        solved, bands = self._solve(read, shape, batch)
        if not self.residual:
            return solved, np.empty(0)
        return solved, residual_of(self.solver, bands, solved.solution, periodic=self.periodic)

    def _pentadiagonal(
        self, read: Sequence[NDArray[Any]], shape: tuple[int, ...], batch: tuple[int, int, int]
    ) -> tuple[Solved, NDArray[np.float64]]:
        """Return the solution and the backward error."""
        *bands, rhs = repeated(read, shape, batch)
        found = self.solver.solve_pentadiagonal(
            bands[0], bands[1], bands[2], bands[3], bands[4], rhs, pivoting=self.pivoting
        )
        status, error = judge_band(bands, rhs, found)
        return settled(found, status) if self.pivoting else Solved(found, status), error

    def _solve(
        self, read: Sequence[NDArray[Any]], shape: tuple[int, ...], batch: tuple[int, int, int]
    ) -> tuple[Solved, Bands]:
        """Return the solution, and lower, diagonal, upper and rhs as they were solved."""
        solver = self.solver
        if self._constant(batch[1]):
            one = (1, batch[1], 1)
            lower, diagonal, upper = (dense(a).reshape(one) for a in read[:3])
            rhs = dense(read[3]).reshape(batch)
            solved = _constant(solver, lower, diagonal, upper, rhs)
            return solved, (lower, diagonal, upper, rhs)
        bands = dense_bands(read, shape, batch)
        if self.pivoting:
            return solver.solve(*bands, periodic=self.periodic, pivoting=True), bands
        pieces = cut_rows(batch[1], periodic=self.periodic, size=self.piece)
        if pieces.count > 1 and of_device(bands[3]):
            kernels, how = cast(CudaTridiagonal, solver), {"contiguous": self.contiguous}
            found = solve_on_device(kernels, bands, pieces, periodic=self.periodic, **how)
            return found, bands
        return solve_rows(solver, bands, periodic=self.periodic, size=self.piece), bands

    def _constant(self, rows: int) -> bool:
        """Return whether there is one matrix for all systems, which is eliminated once.

        On a device, contiguous systems are solved by warps, which do not use factors.
        """
        pieces = cut_rows(rows, periodic=self.periodic, size=self.piece)
        if self.pivoting or pieces.count > 1:
            return False
        alike = all(band.dims == (self.dim,) for band in self.bands[:3])
        by_warps = self.contiguous and TARGETS[self.target].on_device
        return alike and not self.periodic and not by_warps


def _constant(
    solver: TridiagonalSolver,
    lower: NDArray[Any],
    diagonal: NDArray[Any],
    upper: NDArray[Any],
    rhs: NDArray[Any],
) -> Solved:
    found = solver.solve_factored(solver.factor(lower, diagonal, upper), rhs)
    nothing = np.zeros_like(diagonal)
    matrix = reference.diagnose(lower, diagonal, upper, nothing, nothing)
    return Solved(found, status_with(matrix, rhs, found))


def status_with(
    matrix: NDArray[np.uint8], rhs: NDArray[Any], found: NDArray[Any]
) -> NDArray[np.uint8]:
    """Return the `Status` of systems from that of their matrices, or of one that they share."""
    finite = np.isfinite(rhs).all(axis=1) & (matrix & Status.NOT_FINITE.value == 0)
    failed = finite & ~np.isfinite(found).all(axis=1)
    status = matrix | np.where(finite, 0, Status.NOT_FINITE.value)
    return (status | np.where(failed, Status.FAILED.value, 0)).astype(np.uint8)


def read_band(
    source: Source, band: Band, dims: Sequence[str], spans: Mapping[str, Span]
) -> NDArray[Any]:
    """Return a variable in the order of the dimensions, with one point where it has none."""
    values = source.read(band.name, region_of(band.dims, spans))
    there = [band.dims.index(dim) for dim in dims if dim in band.dims]
    absent = tuple(at for at, dim in enumerate(dims) if dim not in band.dims)
    return np.expand_dims(values.transpose(there), absent)


def dense_bands(
    read: Sequence[NDArray[Any]], shape: tuple[int, ...], batch: tuple[int, int, int]
) -> Bands:
    """Return lower, diagonal, upper and rhs as a batch, repeated where they lack dimensions."""
    lower, diagonal, upper, rhs = repeated(read, shape, batch)
    return lower, diagonal, upper, rhs


def repeated(
    read: Sequence[NDArray[Any]], shape: tuple[int, ...], batch: tuple[int, int, int]
) -> list[NDArray[Any]]:
    """Return arrays as a batch [outer, row, inner], repeated where they lack dimensions.

    What need not be repeated stays writeable, if it is: Numba compiles once more for what is not.
    """
    whole = [a if a.shape == shape else np.broadcast_to(a, shape) for a in read]
    return [dense(a).reshape(batch) for a in whole]


def residual_of(
    solver: PieceSolver, bands: Bands, solution: NDArray[Any], *, periodic: bool
) -> NDArray[np.float64]:
    """Return the backward error of each system, indexed [outer, inner]."""
    around = (solution[:, -1:], solution[:, :1]) if periodic else None
    lower, diagonal, upper, rhs = (np.broadcast_to(band, solution.shape) for band in bands)
    solved = (lower, diagonal, upper, rhs, solution)
    _, missing, scale = solver.judge(*solved, beside=around, residual=True)
    return backward_error(missing, scale)


def batch_of(dims: Sequence[str], dim: str, spans: Mapping[str, Span]) -> tuple[int, int, int]:
    """Return how many points there are before, along, and behind the dimension of the rows."""
    sizes, at = [spans[name].size for name in dims], dims.index(dim)
    return math.prod(sizes[:at]), sizes[at], math.prod(sizes[at + 1 :])


def backward_error(missing: NDArray[np.float64], scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest miss over the largest scale, and 0 where nothing is missed."""
    with np.errstate(all="ignore"):
        return np.where(missing == 0, 0.0, missing / scale)
