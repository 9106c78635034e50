"""Memory of a block, by arithmetic, before anything is run."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from halocline_engine.datasets.grids.match import FieldUse, Grid
from halocline_engine.distribute.grid.geometry import Geometry, Layout, geometry
from halocline_engine.distribute.grid.partition import Block, Span
from halocline_engine.distribute.jobs.outputs import field_bytes
from halocline_engine.distribute.jobs.reading import decoding_bytes
from halocline_engine.ir.extent import Horizontal

__all__ = ["Cost", "Temporaries", "cost_of", "held_bytes", "sample_blocks"]

#: (bytes of an element, extent) of each temporary of a program.
Temporaries = tuple[tuple[int, Horizontal], ...]

# The pass that first writes to arrays which another one has read.
_RETURNING = 3


@dataclass(frozen=True, slots=True)
class Cost:
    """Bytes that a block needs, and the work that it does.

    `host` is memory of the process while the block is at hand, `target` memory where it is
    computed. `read` is what the block gets and `fetched` what the store's chunks hold that it
    touches; `cell_steps` is how many cells its steps compute, over all dimensions. `frames` are the
    bytes of its fields in `target`.
    """

    host: int
    target: int
    read: int
    fetched: int
    written: int
    cell_steps: int
    frames: int = 0


def cost_of(
    layout: Layout,
    block: Block,
    steps: int,
    temporaries: Temporaries,
    expression_arrays: int,
) -> Cost:
    """Return what a block costs that makes `steps` steps.

    `expression_arrays` is how many whole arrays the target needs for one statement.
    """
    cells = geometry(layout, block, steps)
    outer = math.prod(span.size for span in block.extra)
    loaded = [use for use in layout.uses if use.loaded]
    decode = sum(_decode_bytes(layout, use, cells, block) for use in loaded)
    fetched = sum(_fetched_bytes(layout, use, cells, block) for use in loaded)
    read = sum(_read_bytes(layout, use, cells, block) for use in loaded)
    saved = [use for use in layout.uses if use.result]
    written = outer * sum(_bytes(cells.own[use.name], use.dtype) for use in saved)
    frames = sum(_bytes(cells.frames[use.name], use.dtype) for use in layout.uses)
    widest = max((np.dtype(use.dtype).itemsize for use in layout.uses), default=8)
    first = cells.domains[0]
    inside = sum(size * _widened(first, extent) for size, extent in temporaries)
    inside += expression_arrays * widest * math.prod(span.size for span in first)
    # Steps that compute the same cells follow each other.
    steps_cells = sum(
        math.prod(span.size for span in box) * sum(1 for _ in alike)
        for box, alike in groupby(cells.domains)
    )
    return Cost(
        host=read + 2 * written + decode,
        target=frames + inside,
        read=read,
        fetched=fetched,
        written=written,
        cell_steps=outer * steps_cells,
        frames=frames,
    )


def held_bytes(uses: Iterable[FieldUse], grid: Grid, passes: int, *, results: bool) -> int:
    """Return the bytes of the arrays of this process that some passes write to.

    The second pass reads what the first one wrote. From the third one on, a pass writes to what the
    one before it read; so does the last one, as far as results are like something there. `results`
    says that these stay in memory.
    """
    several = list(uses)
    made = [use for use in several if use.result] if results else []
    kept = [use for use in several if use.kept] if passes > 1 else []
    held = field_bytes([*made, *kept], grid)
    if passes < _RETURNING:
        return held
    spare = [(use.dims, use.dtype) for use in kept]
    for use in made:
        if (use.dims, use.dtype) in spare:
            spare.remove((use.dims, use.dtype))
            held -= field_bytes([use], grid)
    return held + field_bytes(kept, grid)


def sample_blocks(grid: Grid, block: tuple[int, int, int], extra: tuple[int, ...]) -> list[Block]:
    """Return some blocks of which one is among the largest: the first, one inside, the last."""
    sizes, steps = (*grid.cut_sizes, *grid.extra_sizes), (*block, *extra)
    wholes = (*grid.sizes, *grid.extra_sizes)
    counts = [-(-size // step) for size, step in zip(sizes, steps, strict=True)]
    places = {tuple(int(part * (n - 1)) for n in counts) for part in (0.0, 0.5, 1.0)}
    found: list[Block] = []
    for index, place in enumerate(sorted(places)):
        i, j, k, *others = (
            Span(at * step, (at + 1) * step if (at + 1) * step < size else whole)
            for at, size, step, whole in zip(place, sizes, steps, wholes, strict=True)
        )
        found.append(Block(index, (i, j, k), tuple(others)))
    return found


def _bytes(box: Iterable[Span], dtype: str) -> int:
    return math.prod(span.size for span in box) * np.dtype(dtype).itemsize


def _widened(box: Iterable[Span], extent: Horizontal) -> int:
    spans = list(box)
    wide = [span.widen(*along) for span, along in zip(spans, extent, strict=False)]
    return math.prod(span.size for span in (*wide, spans[2]))


def _read_bytes(layout: Layout, use: FieldUse, cells: Geometry, block: Block) -> int:
    return math.prod(_extents(layout, use, cells, block)) * np.dtype(use.dtype).itemsize


def _decode_bytes(layout: Layout, use: FieldUse, cells: Geometry, block: Block) -> int:
    """Return what the source's chunks take while they are decoded."""
    if not use.chunks:
        return 0
    touched = math.prod(_touched(layout, use, cells, block))
    return decoding_bytes(touched, _chunk_bytes(layout, use))


def _fetched_bytes(layout: Layout, use: FieldUse, cells: Geometry, block: Block) -> int:
    """Return the bytes of all chunks that a block touches; without chunks, what it reads."""
    if not use.chunks:
        return _read_bytes(layout, use, cells, block)
    return math.prod(_touched(layout, use, cells, block)) * _chunk_bytes(layout, use)


def _touched(layout: Layout, use: FieldUse, cells: Geometry, block: Block) -> list[int]:
    """Return how many of the source's chunks a block touches along each dimension, at most."""
    counts: list[int] = []
    for dim, extent, chunk in zip(
        use.dims, _extents(layout, use, cells, block), use.chunks, strict=True
    ):
        whole = -(-layout.grid.size_of(dim) // chunk)
        aligned = extent % chunk == 0
        counts.append(min(whole, -(-extent // chunk) + (0 if aligned else 1)))
    return counts


def _chunk_bytes(layout: Layout, use: FieldUse) -> int:
    cells = math.prod(
        min(chunk, layout.grid.size_of(dim))
        for dim, chunk in zip(use.dims, use.chunks, strict=True)
    )
    return cells * use.records * np.dtype(use.dtype).itemsize


def _extents(layout: Layout, use: FieldUse, cells: Geometry, block: Block) -> list[int]:
    """Return how many points of each of a variable's dimensions a block reads."""
    grid = layout.grid
    sizes: list[int] = []
    for dim in use.dims:
        axis = grid.axis_of(dim)
        span = block.extra[grid.extra.index(dim)] if axis is None else cells.inner[use.name][axis]
        sizes.append(span.size)
    return sizes
