"""Descriptions of the order in which blocks go through large domains.

They show, as text and as a picture of what caches hold, what the cost models choose for the cache
of an H200; what a call has is told by its tiles.
"""

from __future__ import annotations

from collections.abc import Iterator

from halocline_engine.backends.cuda.kernels.choose import kernel_kind, tiles_of
from halocline_engine.backends.cuda.kernels.points.kind import POINTS
from halocline_engine.backends.cuda.model.entries import Entry, entries_of
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.ir.nodes import ANY_LEVEL
from halocline_engine.ir.walk import accesses_of
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.traversal.column_model import Reads
from halocline_engine.schedule.traversal.pictures import Scene, draw_text, sketch

__all__ = ["block_order_lines"]

#: Levels that no cache of a device holds a few of, and rows of one level that are as long.
_LARGE: Domain = (4096, 4096, 128)
_LONG: Domain = (1 << 20, 4096, 1)


def block_order_lines(schedule: Schedule) -> Iterator[str]:
    """Yield how blocks go through a large domain and through long rows, and draw the first order.

    There is nothing to tell of kernels whose threads or blocks stay with a column from its first
    level to its last, and of those that read what no other point does.
    """
    variant, drawn = usual_variant(schedule), False
    large, long = (tiles_of(schedule, variant, domain) for domain in (_LARGE, _LONG))
    for entry in entries_of(schedule):
        tile, scene = large[entry.name], _levels(entry)
        if scene is None:
            tile, scene = long[entry.name], _rows(entry)
        if scene is None or kernel_kind(entry, tile) is not POINTS:
            continue
        domain = _LARGE if tile is large[entry.name] else _LONG
        yield f"{entry.name} on {' x '.join(map(str, domain))} points: {_words(tile)}"
        if not drawn and tile.is_parted:
            yield from draw_text(scene).splitlines()
            drawn = True


def _words(tile: Tile) -> str:
    at_once = "a level" if tile.depth == 1 else f"{tile.depth} levels"
    if tile.strip:
        strip = f"strips of {tile.strip} along J, each up to the last level before the next"
        return f"blocks of {at_once} in {strip}"
    if tile.column:
        return f"blocks in columns of {tile.column} along I, each down all rows before the next"
    return f"blocks of {at_once} follow each other along rows, then upwards"


def _levels(entry: Entry) -> Scene | None:
    """Return levels of blocks, of which a cell is a row along I; none that read only their own."""
    _, (before, after), (below, above) = _away(entry)
    if entry.staged is not None or not below + above:
        return None
    return sketch("column", Reads((min(below, 1), min(above, 1)), (min(before, 1), min(after, 1))))


def _rows(entry: Entry) -> Scene | None:
    """Return rows of blocks, of which a cell is a block; none that read only their own."""
    (left, right), (before, after), _ = _away(entry)
    if entry.staged is not None or not before + after:
        return None
    return sketch("column", Reads((min(before, 1), min(after, 1)), (min(left, 1), min(right, 1))))


def _away(entry: Entry) -> list[tuple[int, int]]:
    """Return how far a kernel reads before and behind a point, along I, J and K."""
    places = [
        at
        for section in entry.kernel.sections
        for _, at in accesses_of(section.body)
        if at[2] != ANY_LEVEL
    ]
    return [
        (max(0, -min(along, default=0)), max(0, max(along, default=0)))
        for along in ([at[axis] for at in places] for axis in range(3))
    ]
