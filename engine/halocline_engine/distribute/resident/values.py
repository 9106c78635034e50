"""Values of resident blocks: from their sources to the memory of a target, and to their sinks."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from halocline_engine.analysis.boundaries import Kind
from halocline_engine.backends.base import Array
from halocline_engine.datasets.grids.match import Role
from halocline_engine.datasets.stores.places import PlaceSink
from halocline_engine.datasets.stores.shared import SharedArrays
from halocline_engine.datasets.stores.sink import ArraySink, Sink
from halocline_engine.datasets.stores.source import Source
from halocline_engine.datasets.untyped import is_of_device
from halocline_engine.distribute.blocks.ghosts import fill_ghosts
from halocline_engine.distribute.blocks.steps import BlockFields
from halocline_engine.distribute.grid.boundary import Line
from halocline_engine.distribute.grid.partition import Block, Box, Span, shares
from halocline_engine.distribute.grid.regions import read_box
from halocline_engine.distribute.resident.model import RankJob
from halocline_engine.ir.types import Axis

__all__ = ["load_field", "save_field"]

#: Bytes that are fetched at once from a target, to be copied to where results are.
_PART = 16 << 20


def load_field(
    job: RankJob,
    fields: BlockFields,
    block: Block,
    wraps: tuple[Line, Line, Line],
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
    use = next(use for use in job.layout.uses if use.name == name)
    inside = _unwrapped(box, wraps)
    values = read_box(source, variable, use, job.layout.grid, block, inside)
    # The block has one point of the dimensions that are looped over.
    point = values[(0,) * (values.ndim - 3)]
    into = fields.part(name, inside)
    if is_of_device(values):
        into[...] = point
    else:
        fields.executable.memory.upload(point, into)
    for lines in (wraps, *((job.layout.lines,) if use.role is Role.INPUT else ())):
        fill_ghosts(fields.arrays[name], lines, fields.cells.frames[name])
    return values.nbytes


def save_field(
    job: RankJob,
    sink: Sink,
    fields: BlockFields,
    block: Block,
    name: str,
    source: str,
    array: Array,
) -> int:
    """Write a block's own cells of a field, which `array` has now; return how many bytes.

    Into memory they go some rows after the others: small arrays of the host are used again, and
    large ones are new pages each time.
    """
    use = next(use for use in job.layout.uses if use.name == source)
    own, frame = fields.cells.own[source], fields.cells.frames[source]
    size = math.prod(span.size for span in own) * np.dtype(use.dtype).itemsize
    all_places = sink.sink if isinstance(sink, PlaceSink) else sink
    in_memory = isinstance(all_places, (ArraySink, SharedArrays)) and Axis.J in use.axes
    if isinstance(all_places, ArraySink) and is_of_device(all_places.arrays[name]):
        view = array[tuple(s.within(whole) for s, whole in zip(own, frame, strict=True))]
        return job.write(sink, name, use, block, view)
    parts = min(-(-size // _PART), own[1].size) if in_memory else 1
    if parts <= 1:
        values = fields.download(array, source)
        return job.write(sink, name, use, block, values)
    count = 0
    for rows in shares(range(own[1].start, own[1].stop), parts):
        box = (own[0], Span(rows[0], rows[-1] + 1), own[2])
        view = array[tuple(s.within(whole) for s, whole in zip(box, frame, strict=True))]
        values = fields.executable.memory.download(view)
        count += job.write(sink, name, use, replace(block, box=box), values)
    return count


def _unwrapped(box: Box, wraps: tuple[Line, Line, Line]) -> Box:
    """Return a box without the halos that a block fills from its own cells."""
    i, j, k = (
        span.meet(line.data) if line.low.kind is Kind.WRAP else span
        for span, line in zip(box, wraps, strict=True)
    )
    return i, j, k
