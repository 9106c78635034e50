"""The passes of a solve whose rows are spread over blocks: what a worker does in each.

1. `ReduceWork` reduces the pieces of rows of a block to the equations of their ends.
2. `EndsWork` solves the systems that all ends of some systems form.
3. `FillWork` solves the rows between the ends, and says how well it went.
4. `VerdictWork` puts together what is said of the pieces of a system.

A block is some pieces of some systems: its span along the rows counts pieces. What passes hand on
lies in small arrays with an element for each piece in the place of its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.copies import AnyArray, reshaped
from halocline_engine.datasets.memory.lying import cells_in, part_in
from halocline_engine.datasets.stores.sink import Sink
from halocline_engine.datasets.stores.source import Source
from halocline_engine.distribute.grid.partition import Block, Span
from halocline_engine.distribute.jobs.blocking import region_of
from halocline_engine.distribute.solves.banded import (
    Band,
    Systems,
    backward_error,
    read_band,
    repeated,
)
from halocline_engine.distribute.tasks.cancel import CancelToken
from halocline_engine.distribute.tasks.model import Report, Task
from halocline_engine.kernels.tridiagonal.pieces import (
    Pieces,
    fill_pieces,
    reduce_pieces,
    solve_ends,
    verdict,
)

__all__ = [
    "BETWEEN",
    "Across",
    "EndsWork",
    "FillWork",
    "ReduceWork",
    "SpreadSystems",
    "VerdictWork",
]

#: What passes hand on: the elements for a piece, and whether they are of the systems' own type.
BETWEEN: Mapping[str, tuple[int, str]] = {
    "ends": (6, ""),
    "known": (2, ""),
    "status": (1, "uint8"),
    "missing": (1, "float64"),
    "scale": (1, "float64"),
}

_Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadSystems(Systems):
    """Tridiagonal systems whose rows are spread, cut into `pieces`."""

    pieces: Pieces

    def rows(self, spans: Mapping[str, Span]) -> dict[str, Span]:
        """Return spans with rows in the place of pieces."""
        own = spans[self.dim]
        rows = Span(self.pieces.start(own.start), self.pieces.start(own.stop))
        return {**spans, self.dim: rows}

    def read(self, task: Task, spans: Mapping[str, Span]) -> Iterator[_Array]:
        """Yield the variables, one after the other, as a batch [outer, row, inner]."""
        return (self._read(task, band, self.rows(spans)) for band in self.bands)

    def lying(self, task: Task, spans: Mapping[str, Span]) -> Iterator[AnyArray]:
        """Yield the same where they lie in memory as such a batch does, or else a copy."""
        there = self.rows(spans)
        for band in self.bands:
            part = part_in(self.source, band.name) if band.dims == self.dims else None
            values = None if part is None else part(region_of(band.dims, there))
            found = None if values is None else reshaped(values, self.batch(there))
            if found is not None:
                task.bytes_read += found.nbytes
            yield self._read(task, band, there) if found is None else found

    def _read(self, task: Task, band: Band, there: Mapping[str, Span]) -> _Array:
        shape = tuple(there[dim].size for dim in self.dims)
        values = task.loaded(read_band(self.source, band, self.dims, there))
        return repeated([values], shape, self.batch(there))[0]

    def place(self, spans: Mapping[str, Span]) -> AnyArray | None:
        """Return where the solution of some pieces lies as a batch does; None if it does not."""
        there = self.rows(spans)
        found = cells_in(self.sink, self.name, region_of(self.dims, there))
        return None if found is None else reshaped(found, self.batch(there))

    def room(self, spans: Mapping[str, Span], dtype: np.dtype[Any]) -> AnyArray:
        """Return a new array for the solution of some pieces, as a batch."""
        return np.empty(self.batch(self.rows(spans)), dtype)

    def write_solution(self, task: Task, spans: Mapping[str, Span], solution: _Array) -> None:
        """Write the rows of some pieces."""
        there = self.rows(spans)
        shape = [there[dim].size for dim in self.dims]
        task.write(self.sink, self.name, region_of(self.dims, there), solution.reshape(shape))

    def write_verdict(
        self, task: Task, spans: Mapping[str, Span], status: _Array, worst: Sequence[_Array]
    ) -> None:
        """Write what is known about whole systems: their status, largest miss and scale."""
        over = [dim for dim in self.dims if dim != self.dim]
        shape = [spans[dim].size for dim in over]
        values = {self.status: status}
        if self.residual:
            values[self.residual] = backward_error(worst[0], worst[1])
        for name, array in values.items():
            task.write(self.sink, name, region_of(over, spans), array.reshape(shape))


@dataclass(frozen=True, slots=True)
class Across:
    """What all passes know: `kept` and `keep` read and write what is handed on."""

    systems: SpreadSystems
    kept: Source
    keep: Sink

    def take(self, name: str, spans: Mapping[str, Span]) -> _Array:
        """Return what was handed on, indexed [element, outer, piece, inner]."""
        elements = BETWEEN[name][0]
        region = (slice(0, elements), *region_of(self.systems.dims, spans))
        return self.kept.read(name, region).reshape(elements, *self.systems.batch(spans))

    def hand_on(self, name: str, spans: Mapping[str, Span], values: _Array) -> None:
        """Keep what another pass needs, indexed [element, outer, piece, inner]."""
        elements = BETWEEN[name][0]
        region = (slice(0, elements), *region_of(self.systems.dims, spans))
        shape = (elements, *(spans[dim].size for dim in self.systems.dims))
        self.keep.write(name, region, values.reshape(shape))

    def passed_on(self, task: Task, name: str, spans: Mapping[str, Span], values: _Array) -> Report:
        """Keep all that a block makes for another pass, and report."""
        self.hand_on(name, spans, values)
        task.bytes_written += values.nbytes
        return task.report()


@dataclass(frozen=True, slots=True)
class _Work:
    """What the passes do alike: a block is some pieces along each dimension."""

    across: Across

    def run(self, block: Block, cancelled: CancelToken | None = None) -> Report:
        """Do the work of a pass on a block."""
        spans = dict(zip(self.across.systems.dims, block.extra, strict=True))
        return self.done(Task(block, cancelled), spans)

    def done(self, task: Task, spans: Mapping[str, Span]) -> Report:
        """Do the work of this pass, and report."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class ReduceWork(_Work):
    """The first pass."""

    def done(self, task: Task, spans: Mapping[str, Span]) -> Report:
        """Reduce pieces to the equations of their ends."""
        across, systems = self.across, self.across.systems
        own = spans[systems.dim]
        lower, diagonal, upper, rhs = systems.read(task, spans)
        with task.computing():
            ends = reduce_pieces(
                systems.solver,
                systems.pieces,
                own.start,
                own.stop,
                (lower, diagonal, upper, rhs),
                periodic=systems.periodic,
            )
        return across.passed_on(task, "ends", spans, ends)


@dataclass(frozen=True, slots=True)
class EndsWork(_Work):
    """The second pass; its blocks have all pieces of some systems."""

    def done(self, task: Task, spans: Mapping[str, Span]) -> Report:
        """Solve for the unknowns at all ends."""
        across, systems = self.across, self.across.systems
        ends = task.loaded(across.take("ends", spans))
        with task.computing():
            known = solve_ends(ends, periodic=systems.periodic)
        return across.passed_on(task, "known", spans, known)


@dataclass(frozen=True, slots=True)
class FillWork(_Work):
    """The third pass."""

    def done(self, task: Task, spans: Mapping[str, Span]) -> Report:
        """Solve the rows between ends that are known, and write the solution."""
        across, systems = self.across, self.across.systems
        own = spans[systems.dim]
        lower, diagonal, upper, rhs = systems.read(task, spans)
        known = task.loaded(self._known(spans))
        with task.computing():
            filled = fill_pieces(
                systems.solver,
                systems.pieces,
                own.start,
                own.stop,
                (lower, diagonal, upper, rhs),
                known,
                periodic=systems.periodic,
                residual=bool(systems.residual),
            )
        systems.write_solution(task, spans, filled.solution)
        across.hand_on("status", spans, filled.status)
        if filled.missing is not None and filled.scale is not None:
            across.hand_on("missing", spans, filled.missing)
            across.hand_on("scale", spans, filled.scale)
        return task.report()

    def _known(self, spans: Mapping[str, Span]) -> _Array:
        """Return the unknowns at the ends of the pieces, of the one before and the one behind."""
        across, systems = self.across, self.across.systems
        own = spans[systems.dim]
        count = systems.pieces.count
        parts: list[_Array] = []
        for span in (Span(own.start - 1, own.start), own, Span(own.stop, own.stop + 1)):
            there = span.start >= 0 and span.stop <= count
            start = span.start % count
            at = {**spans, systems.dim: Span(start, start + span.size)}
            part = across.take("known", at)
            parts.append(part if there or systems.periodic else np.zeros_like(part))
        return np.concatenate(parts, axis=2)


@dataclass(frozen=True, slots=True)
class VerdictWork(_Work):
    """The last pass; its blocks have all pieces of some systems."""

    def done(self, task: Task, spans: Mapping[str, Span]) -> Report:
        """Write what is known about whole systems."""
        task.check()
        across, systems = self.across, self.across.systems
        status = verdict(task.loaded(across.take("status", spans))[0], 1)
        names = ("missing", "scale") if systems.residual else ()
        read = [task.loaded(across.take(name, spans)) for name in names]
        systems.write_verdict(task, spans, status, [part[0].max(axis=1) for part in read])
        return task.report()
