"""Values of resident blocks: from their sources to the memory of a target, and to their sinks."""

from __future__ import annotations

from collections.abc import Callable

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
from halocline_engine.distribute.grid.boundary import Lines
from halocline_engine.distribute.grid.partition import Block, Box
from halocline_engine.distribute.grid.regions import grid_pieces, read_box, region_of, to_grid
from halocline_engine.distribute.resident.model import RankJob

__all__ = ["load_field", "save_field"]


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
        values = read_box(source, variable, use, grid, block, inside)
        count = values.nbytes
        if of_device(values):
            into[...] = values[point]
        else:
            memory.upload(values[point], into, copying_threads(len(job.blocks)))
    else:
        count = 0
        for region, cells in grid_pieces(use, grid, block, inside):
            values = to_grid(part(region), use, grid)[(*point, ...)]
            memory.upload(values, into[cells], copying_threads(len(job.blocks)))
            count += values.nbytes
    for lines in (wraps, *((job.layout.lines_of(name),) if use.role is Role.INPUT else ())):
        fill_ghosts(fields.arrays[name], lines, fields.cells.frames[name])
    return count


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
