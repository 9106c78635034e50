"""Between variables with named dimensions and host arrays indexed [others..., i, j, k]."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.copies import AnyArray
from halocline_engine.datasets.grids.match import FieldUse, Grid
from halocline_engine.datasets.stores.sink import Sink
from halocline_engine.datasets.stores.source import Region, Source
from halocline_engine.distribute.grid.partition import Block, Box, Span

__all__ = [
    "grid_pieces",
    "pieces_of",
    "read_box",
    "region_of",
    "regions_of",
    "segments",
    "to_grid",
    "to_variable",
    "write_box",
]


def segments(span: Span, size: int) -> list[slice]:
    """Return the slices of an axis of `size` cells that a span covers, the axis repeated endlessly.

    >>> segments(Span(-2, 3), 10)
    [slice(8, 10, None), slice(0, 3, None)]
    """
    parts: list[slice] = []
    at = span.start
    while at < span.stop:
        start = at % size
        length = min(size - start, span.stop - at)
        parts.append(slice(start, start + length))
        at += length
    return parts


def regions_of(use: FieldUse, grid: Grid, block: Block, box: Box) -> Iterator[Region]:
    """Yield the regions of a variable that `read_box` reads, in that order."""
    return itertools.product(*(_dim_segments(dim, grid, block, box) for dim in use.dims))


def pieces_of(use: FieldUse, grid: Grid, block: Block, box: Box) -> Iterator[tuple[Region, Region]]:
    """Yield the regions of a variable that a box is made of, and where each lies in the box.

    Both have the variable's dimensions in its own order.
    """
    places: list[list[tuple[slice, slice]]] = []
    for dim in use.dims:
        at, along = 0, list[tuple[slice, slice]]()
        for part in _dim_segments(dim, grid, block, box):
            size = part.stop - part.start
            along.append((part, slice(at, at + size)))
            at += size
        places.append(along)
    for piece in itertools.product(*places):
        yield tuple(part for part, _ in piece), tuple(there for _, there in piece)


def grid_pieces(
    use: FieldUse, grid: Grid, block: Block, box: Box
) -> Iterator[tuple[Region, tuple[slice, ...]]]:
    """Yield the regions of a variable that a box is made of, and which cells [i, j, k] those are.

    Along an axis that the variable does not have, they are all.
    """
    for region, there in pieces_of(use, grid, block, box):
        along = dict(zip(use.dims, there, strict=True))
        cells = (
            slice(None) if dim is None else along.get(dim, slice(None))
            for dim in grid.dims_of(use.dims)
        )
        yield region, tuple(cells)


def read_box(
    source: Source, name: str, use: FieldUse, grid: Grid, block: Block, box: Box
) -> NDArray[Any]:
    """Return a field's values in a box, for the block's points of the other dimensions.

    The result is indexed [others..., i, j, k] with all of the grid's other dimensions, and has one
    point along those that the variable does not have; along an axis of the field that the variable
    lacks, its values are repeated.
    """
    parts = [_dim_segments(dim, grid, block, box) for dim in use.dims]
    values = _join(source, name, parts, ())
    values = values.astype(use.dtype, copy=False)
    return np.broadcast_to(to_grid(values, use, grid), _shape(use, grid, block, box))


def to_grid(values: AnyArray, use: FieldUse, grid: Grid) -> Any:
    """Return a view of a part of a variable indexed [others..., i, j, k], as `read_box` does."""
    order = [*grid.extra, *grid.dims_of(use.dims)]
    there = [dim for dim in order if dim is not None and dim in use.dims]
    ordered = values.transpose([use.dims.index(dim) for dim in there])
    return ordered[tuple(slice(None) if dim in there else None for dim in order)]


def write_box(
    sink: Sink, name: str, use: FieldUse, grid: Grid, block: Block, values: NDArray[Any]
) -> int:
    """Write a block's values, indexed [others..., i, j, k]; return how many bytes they have."""
    data = to_variable(values, use, grid)
    sink.write(name, region_of(use, grid, block), data)
    return data.nbytes


def to_variable(values: NDArray[Any], use: FieldUse, grid: Grid) -> NDArray[Any]:
    """Return a view of values indexed [others..., i, j, k] with the variable's dimensions."""
    order = [*grid.extra, *grid.dims_of(use.dims)]
    there = [at for at, dim in enumerate(order) if dim in use.dims]
    absent = tuple(at for at in range(len(order)) if at not in there)
    kept = [order[at] for at in there]
    squeezed = values.squeeze(axis=absent)
    return squeezed.transpose([kept.index(dim) for dim in use.dims])


def region_of(use: FieldUse, grid: Grid, block: Block) -> Region:
    """Return the region of a variable that a block's own cells are."""
    spans = [
        _dim_span(dim, grid, block, block.box).meet(Span(0, grid.size_of(dim))) for dim in use.dims
    ]
    return tuple(slice(span.start, span.stop) for span in spans)


def _dim_span(dim: str, grid: Grid, block: Block, box: Box) -> Span:
    axis = grid.axis_of(dim)
    return block.extra[grid.extra.index(dim)] if axis is None else box[axis]


def _dim_segments(dim: str, grid: Grid, block: Block, box: Box) -> list[slice]:
    return segments(_dim_span(dim, grid, block, box), grid.size_of(dim))


def _join(source: Source, name: str, parts: list[list[slice]], done: Region) -> NDArray[Any]:
    """Read the product of the segments of all dimensions and put it together."""
    if len(done) == len(parts):
        return source.read(name, done)
    pieces = [_join(source, name, parts, (*done, part)) for part in parts[len(done)]]
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis=len(done))


def _shape(use: FieldUse, grid: Grid, block: Block, box: Box) -> tuple[int, ...]:
    others = [
        span.size if dim in use.dims else 1
        for dim, span in zip(grid.extra, block.extra, strict=True)
    ]
    return (*others, *(span.size for span in box))
