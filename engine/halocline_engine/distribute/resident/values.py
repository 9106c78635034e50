"""Values of resident blocks: from their sources to the memory of a target, and to their sinks.

The next records of forcing are read while steps are made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np

from halocline_engine.analysis.boundaries import Kind
from halocline_engine.backends.base import Array
from halocline_engine.copies import AnyArray, copying_threads, of_device
from halocline_engine.datasets.grids.match import FieldUse, Role
from halocline_engine.datasets.memory.lying import cells_in, part_in
from halocline_engine.datasets.stores.sink import KeptArrays, Sink
from halocline_engine.datasets.stores.source import Region, Source
from halocline_engine.distribute.blocks.ghosts import fill_ghosts
from halocline_engine.distribute.blocks.steps import BlockFields
from halocline_engine.distribute.exchanges.halos import ResidentBlock
from halocline_engine.distribute.grid.boundary import Lines
from halocline_engine.distribute.grid.partition import Block, Box
from halocline_engine.distribute.grid.regions import grid_pieces, read_box, region_of, to_grid
from halocline_engine.distribute.resident.model import RankJob

__all__ = ["BlockRecords", "load_field", "save_field"]

#: The values of a record on each block, by field and number of the record.
_Ahead = dict[tuple[str, int], Future[dict[int, AnyArray]]]


def load_field(
    job: RankJob,
    fields: BlockFields,
    block: Block,
    wraps: Lines,
    name: str,
    source: Source,
    variable: str,
) -> int:
    """Read a block of a field, and fill the halos that follow from it; return how many bytes.

    `wraps` are the rules of halos that the block fills from its own cells.
    """
    box = fields.cells.inner[name]
    if any(span.size == 0 for span in box):
        return 0  # no step of this block computes anything
    use = _use(job, name)
    inside = _unwrapped(box, wraps)
    grid, into, memory = job.layout.grid, fields.part(name, inside), fields.executable.memory
    part = _part_in(source, variable, use)
    lacks = any(
        span.size > 1 and dim not in use.dims
        for dim, span in zip(grid.dims_of(use.dims), inside, strict=True)
    )
    # The block has one point of the dimensions that are looped over.
    point = (0,) * len(grid.extra)
    if part is None or lacks:
        values = _read(job, fields, block, wraps, name, source, variable)
        return _place(job, fields, block, wraps, name, values)
    count = 0
    for region, cells in grid_pieces(use, grid, block, inside):
        values = to_grid(part(region), use, grid)[(*point, ...)]
        memory.upload(values, into[cells], copying_threads(len(job.blocks)))
        count += values.nbytes
    _fill(job, fields, wraps, use)
    return count


def _read(
    job: RankJob,
    fields: BlockFields,
    block: Block,
    wraps: Lines,
    name: str,
    source: Source,
    variable: str,
) -> AnyArray:
    """Return the values of a field that a block reads, indexed [others..., i, j, k]."""
    inside = _unwrapped(fields.cells.inner[name], wraps)
    return read_box(source, variable, _use(job, name), job.layout.grid, block, inside)


def _place(
    job: RankJob,
    fields: BlockFields,
    block: Block,
    wraps: Lines,
    name: str,
    values: AnyArray,
) -> int:
    """Give a block the values that were read of a field, and the halos that follow from them."""
    inside = _unwrapped(fields.cells.inner[name], wraps)
    into, point = fields.part(name, inside), (0,) * len(block.extra)
    if of_device(values):
        into[...] = values[point]
    else:
        fields.executable.memory.upload(values[point], into, copying_threads(len(job.blocks)))
    _fill(job, fields, wraps, _use(job, name))
    return values.nbytes


def _fill(job: RankJob, fields: BlockFields, wraps: Lines, use: FieldUse) -> None:
    """Fill the halos that follow from the values of a block."""
    for lines in (wraps, *((job.layout.lines_of(use.name),) if use.role is Role.INPUT else ())):
        fill_ghosts(fields.arrays[use.name], lines, fields.cells.frames[use.name])


def save_field(
    job: RankJob,
    sink: Sink,
    fields: BlockFields,
    block: Block,
    name: str,
    source: str,
    array: Array,
) -> int:
    """Write a block's own cells of a field, which `array` has now; return how many bytes."""
    use, grid = _use(job, source), job.layout.grid
    found = cells_in(sink, name, region_of(use, grid, block))
    view = fields.own(array, source)
    if found is None and not isinstance(sink, KeptArrays):
        return job.write(sink, name, use, block, fields.download(array, source))
    if found is None or of_device(found):
        return job.write(sink, name, use, block, view)
    cells = to_grid(found, use, grid)[(*(0,) * len(grid.extra), ...)]
    fields.executable.memory.download(view, cells, copying_threads(len(job.blocks)))
    return cells.nbytes


def _use(job: RankJob, name: str) -> FieldUse:
    return next(use for use in job.layout.uses if use.name == name)


def _part_in(source: Source, variable: str, use: FieldUse) -> Callable[[Region], AnyArray] | None:
    """Return what gives regions of a variable, of the type of a field, without a copy."""
    part = part_in(source, variable)
    if part is None or part((slice(0, 1),) * len(use.dims)).dtype != np.dtype(use.dtype):
        return None
    return part


def _unwrapped(box: Box, wraps: Lines) -> Box:
    """Return a box without the halos that a block fills from its own cells."""
    i, j, k = (
        span.meet(line.data) if line.low.kind is Kind.WRAP else span
        for span, line in zip(box, wraps, strict=True)
    )
    return i, j, k


class BlockRecords:
    """The records that the blocks of a rank hold, those of the job's first step to begin with."""

    def __init__(
        self,
        job: RankJob,
        blocks: Iterable[tuple[Block, ResidentBlock]],
        wraps: Lines,
    ) -> None:
        self._job, self._wraps = job, wraps
        self._blocks = {block.index: (block, resident) for block, resident in blocks}
        self._held = job.forcing.records(job.done) if job.forcing.fields else {}
        self._variables = job.forcing.variables()
        sizes = {name: max(map(partial(self._nbytes, name), self._blocks)) for name in self._held}
        self._groups = job.forcing.groups(job.source, sizes) if job.source is not None else {}
        self._ahead: _Ahead = {}
        self._thread = ThreadPoolExecutor(1) if job.forcing.changes else None
        self.bytes_read = 0

    def close(self) -> None:
        """Wait for the pending reads."""
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)

    def sources(
        self, sources: Iterable[tuple[str, Source, str]]
    ) -> Iterator[tuple[str, Source, str]]:
        """Yield where fields are read at first: the same `sources`, but for forcing."""
        for name, source, variable in sources:
            groups = self._groups.get(name)
            yield name, source if groups is None else groups.record(self._held[name]), variable

    def hold(self, step: int) -> None:
        """Have the records of a step on the blocks, and begin to read the next ones."""
        if not self._held:
            return
        wanted = self._job.forcing.records(step)
        for forced in self._job.forcing.fields:
            self._exchange(forced.parts, wanted)
        for name, number in wanted.items():
            if self._held[name] != number:
                self._renew(name, number)
        if not self._ahead:
            self._read_ahead(step)

    def _exchange(self, parts: tuple[str, ...], wanted: Mapping[str, int]) -> None:
        """Give fields the arrays of others that hold their records."""
        for one in parts:
            holds = (part for part in parts if self._held[part] == wanted[one])
            other = next(holds, one)
            if self._held[one] == wanted[one] or other == one:
                continue
            for _, resident in self._blocks.values():
                resident.steps.exchange(one, other)
            self._held[one], self._held[other] = self._held[other], self._held[one]

    def _renew(self, name: str, number: int) -> None:
        read = self._ahead.pop((name, number), None)
        several = self._values(name, number) if read is None else read.result()
        for index, values in several.items():
            block, resident = self._blocks[index]
            fields = replace(resident.fields, arrays=resident.steps.arrays)
            self.bytes_read += _place(self._job, fields, block, self._wraps, name, values)
        self._held[name] = number

    def _read_ahead(self, step: int) -> None:
        """Begin to read the next records."""
        after = self._job.forcing.next_change(step)
        if self._thread is None or after >= self._job.steps:
            return
        held = {(self._variables[name], number) for name, number in self._held.items()}
        for name, number in self._job.forcing.records(int(after)).items():
            if (self._variables[name], number) not in held:
                self._ahead[name, number] = self._thread.submit(self._values, name, number)

    def _nbytes(self, name: str, index: int) -> int:
        """Return the bytes of a record on a block."""
        inner, use = self._blocks[index][1].fields.cells.inner[name], _use(self._job, name)
        return math.prod(span.size for span in inner) * np.dtype(use.dtype).itemsize

    def _values(self, name: str, number: int) -> dict[int, AnyArray]:
        """Read a record on all blocks."""
        source, variable = self._groups[name].record(number), self._variables[name]
        return {
            index: _read(self._job, resident.fields, block, self._wraps, name, source, variable)
            for index, (block, resident) in self._blocks.items()
            if all(span.size for span in resident.fields.cells.inner[name])
        }
