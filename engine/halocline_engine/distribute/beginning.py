"""The first block of a pass in pieces, so that a device and those who write begin sooner.

A pipeline has nothing to compute before its first block is read, and nothing to write before that
is computed. Pieces of it go through the stages one after the other, the first one a quarter of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from halocline_engine.datasets.raw import RawArray, raw_array
from halocline_engine.datasets.sink import ZarrSink
from halocline_engine.distribute.partition import Block, Box, Span
from halocline_engine.distribute.rooms import box_bytes
from halocline_engine.distribute.task import Work

__all__ = ["both", "in_pieces"]

#: Pieces of a block, and bytes below which a piece is not worth it.
_PIECES = 4
_LEAST = 16 << 20
#: How many times the cells that are computed beside it a piece has at least, to be one of four.
_MANY = 8


def in_pieces(work: Work, block: Block) -> Sequence[Block]:
    """Return the pieces of a block, in their order; the block alone where that is no gain.

    Files of results lie in one piece each. The more steps, the more cells are computed in two
    pieces, and the fewer pieces there are.
    """
    found = _axis_and_step(work, block)
    if found is None:
        return [block]
    axis, step = found
    whole, (low, high) = block.box[axis], work.layout.reach[axis]
    size, beside = -(-whole.size // (_PIECES * step)) * step, work.steps * (high - low)
    count = _PIECES if _MANY * beside <= size else 2 if beside <= size else 1
    cuts = [whole.start + size * at for at in range(count) if size * at < whole.size]
    spans = [Span(a, b) for a, b in zip(cuts, [*cuts[1:], whole.stop], strict=True)]
    pieces = [_along(block, axis, span) for span in spans]
    uses = {use.name: use for use in work.layout.uses}
    small = any(box_bytes(uses[field], pieces[0].box) < _LEAST for _, field in work.saved)
    return [block] if small else pieces


def both(before: Box, box: Box) -> Box:
    """Return the box of two that lie side by side."""
    i, j, k = (a.hull(b) for a, b in zip(before, box, strict=True))
    return i, j, k


def _axis_and_step(work: Work, block: Block) -> tuple[int, int] | None:
    """Return along which axis a block may be cut, and between how many cells.

    It is the one that lies farthest apart in files, of those along which the data are cut anyway.
    """
    grid, uses = work.layout.grid, {use.name: use for use in work.layout.uses}
    axis, steps = None, [1]
    for variable, field in work.saved:
        raw = _files_of(work, variable, uses[field].dtype)
        if raw is None:
            return None
        places = [
            (at, n)
            for dim, n in zip(uses[field].dims, raw.stored.chunks, strict=True)
            if (at := grid.axis_of(dim)) is not None and block.box[at].size < grid.sizes[at]
        ]
        if not places or axis not in (None, places[0][0]):
            return None
        axis = places[0][0]
        steps.append(places[0][1])
    return None if axis is None else (axis, math.lcm(*steps))


def _files_of(work: Work, variable: str, dtype: str) -> RawArray | None:
    return raw_array(work.sink.path, variable, dtype) if isinstance(work.sink, ZarrSink) else None


def _along(block: Block, axis: int, span: Span) -> Block:
    i, j, k = (span if at == axis else other for at, other in enumerate(block.box))
    return replace(block, box=(i, j, k))
