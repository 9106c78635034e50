"""Coefficients that are eliminated once: what a worker does to factor, and to solve with them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.copies import dense
from halocline_engine.datasets.stores.sink import Sink
from halocline_engine.datasets.stores.source import Source
from halocline_engine.device.launch.streams import own_stream, wait_for_all
from halocline_engine.distribute.grid.partition import Block, Span
from halocline_engine.distribute.jobs.blocking import region_of
from halocline_engine.distribute.solves.banded import (
    Band,
    batch_of,
    read_band,
    repeated,
    status_with,
)
from halocline_engine.distribute.solves.select import tridiagonal_solver
from halocline_engine.distribute.tasks.cancel import CancelToken
from halocline_engine.distribute.tasks.model import Report, Task
from halocline_engine.kernels.tridiagonal import reference
from halocline_engine.kernels.tridiagonal.problem import Factored

__all__ = ["FACTORS", "OF_CORNERS", "PREFIX", "FactorWork", "FactoredWork"]

#: How variables with factors are called: this, and what they are.
PREFIX = "factor_"
#: What there is of each row.
FACTORS = ("lower", "reciprocal", "upper")
#: What a periodic matrix has besides, of each row and of each system.
OF_CORNERS = ("column", "share")

_Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class FactorWork:
    """Work of a worker on a block: all rows of some matrices.

    `bands` are lower, upper and diagonal; `dims` are the dimensions of the last one. Blocks may be
    arrays of CuPy, `on_device`, and so is what is made of them.
    """

    bands: tuple[Band, Band, Band]
    dims: tuple[str, ...]
    dim: str
    source: Source
    sink: Sink
    target: str
    periodic: bool
    on_device: bool

    def run(self, block: Block, cancelled: CancelToken | None = None) -> Report:
        """Read, eliminate and write a block."""
        task = Task(block, cancelled)
        with own_stream() if self.on_device else nullcontext():
            self._run(task)
        return task.report()

    def _run(self, task: Task) -> None:
        spans = dict(zip(self.dims, task.block.extra, strict=True))
        read = [task.loaded(read_band(self.source, band, self.dims, spans)) for band in self.bands]
        shape = tuple(span.size for span in spans.values())
        lower, upper, diagonal = repeated(read, shape, batch_of(self.dims, self.dim, spans))
        with task.computing():
            made = self._factor(lower, diagonal, upper)
            if self.on_device:
                wait_for_all()
        over = [name for name in self.dims if name != self.dim]
        for name, array in made.items():
            dims = self.dims if array.ndim == diagonal.ndim else over
            values = array.reshape([spans[dim].size for dim in dims])
            task.write(self.sink, PREFIX + name, region_of(dims, spans), values)

    def _factor(self, lower: _Array, diagonal: _Array, upper: _Array) -> dict[str, _Array]:
        solver = tridiagonal_solver(self.target, contiguous=False)
        nothing = np.zeros_like(diagonal)
        status = reference.diagnose(
            lower, diagonal, upper, nothing, nothing, periodic=self.periodic
        )
        if not self.periodic:
            factored = solver.factor(lower, diagonal, upper)
            return {**_named(factored), "status": status}
        matrix, column, share = reference.without_corners(lower, diagonal, upper)
        factored = solver.factor(lower, matrix, upper)
        solved = solver.solve_factored(factored, column)
        return {**_named(factored), "column": solved, "share": share, "status": status}


def _named(factored: Factored) -> dict[str, _Array]:
    return dict(zip(FACTORS, (factored.lower, factored.reciprocal, factored.upper), strict=True))


@dataclass(frozen=True, slots=True)
class FactoredWork:
    """Work of a worker on a block of right-hand sides: all rows of some systems.

    `factors` is read with the names of `FactorWork`; its variables have the dimensions `along`,
    those of each row that of the rows as well. Blocks and factors may be arrays of CuPy,
    `on_device`, and so is what is made of them.
    """

    factors: Source
    along: tuple[str, ...]
    rhs: Band
    dim: str
    source: Source
    sink: Sink
    target: str
    periodic: bool
    name: str
    status: str
    on_device: bool

    def run(self, block: Block, cancelled: CancelToken | None = None) -> Report:
        """Read, solve and write a block."""
        task = Task(block, cancelled)
        with own_stream() if self.on_device else nullcontext():
            self._run(task)
        return task.report()

    def _run(self, task: Task) -> None:
        dims = self.rhs.dims
        spans = dict(zip(dims, task.block.extra, strict=True))
        shape = tuple(span.size for span in spans.values())
        batch = batch_of(dims, self.dim, spans)
        given = task.loaded(read_band(self.source, self.rhs, dims, spans))
        names = (*FACTORS, *(OF_CORNERS[:1] if self.periodic else ()))
        rows = [task.loaded(self._of_rows(name, spans, shape, batch)) for name in names]
        systems = [
            task.loaded(self._of_systems(name, spans, batch))
            for name in ("status", *(OF_CORNERS[1:] if self.periodic else ()))
        ]
        rhs = dense(given).reshape(batch)
        with task.computing():
            solver = tridiagonal_solver(self.target, contiguous=False)
            found = solver.solve_factored(Factored(rows[0], rows[1], rows[2]), rhs)
            if self.periodic:
                found = reference.with_corners(found, rows[3], systems[1])
            status = status_with(systems[0], rhs, found)
            if self.on_device:
                wait_for_all()
        task.write(self.sink, self.name, region_of(dims, spans), found.reshape(shape))
        over = [name for name in dims if name != self.dim]
        values = status.reshape([spans[name].size for name in over])
        task.write(self.sink, self.status, region_of(over, spans), values)

    def _of_rows(
        self,
        name: str,
        spans: Mapping[str, Span],
        shape: tuple[int, ...],
        batch: tuple[int, int, int],
    ) -> _Array:
        """Return what factors hold of each row; one point where one matrix is shared by all."""
        read = read_band(self.factors, Band(PREFIX + name, self.along), self.rhs.dims, spans)
        if self.along == (self.dim,):
            return dense(read).reshape(1, batch[1], 1)
        return repeated([read], shape, batch)[0]

    def _of_systems(
        self, name: str, spans: Mapping[str, Span], batch: tuple[int, int, int]
    ) -> _Array:
        """Return what factors hold of each system, indexed [outer, inner]."""
        along = tuple(dim for dim in self.along if dim != self.dim)
        over = [dim for dim in self.rhs.dims if dim != self.dim]
        read = read_band(self.factors, Band(PREFIX + name, along), over, spans)
        shape = [spans[dim].size for dim in over]
        return np.broadcast_to(read, shape).reshape(batch[0], batch[2])
