"""Block swizzle: strips of blocks that are computed up to the last level, one after the other.

Blocks of some levels read a few levels of the blocks below them again. The cache of the device has
those still, unless a level is so large that the blocks in between pushed them out; then the domain
is cut along J into strips of equal height, and each is computed up to the last level. This is the
column schedule of `schedule/traversal/column.py` with levels for rows, and rows of points for
cells: a strip is a column, as wide as the model of `schedule/traversal/column_model.py` says. On
one level rows of points are rows, and columns are cut along I.
"""

from __future__ import annotations

from dataclasses import dataclass

from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.schedule.traversal.column_model import Reads, Work, fitting_width

__all__ = ["Reuse", "column_of", "strip_of", "worth_reversing"]

#: Where less than this share of what blocks touch is read again, it may be lost at times.
_LITTLE = 0.4
#: The shares of the cache that blocks of the same levels fill when strips begin to be worth their
#: own halos, and that those of a strip fill; measured on an H200, see decision 0022.
_MOST, _AIM = 1.0, 0.7
_MOST_OF_TALL = 1.5
_MOST_IF_MUCH, _AIM_IF_MUCH = 0.4, 0.33
_MOST_FLAT, _AIM_FLAT = 0.6, 0.33
#: Rows of a thread from which on blocks share little along J.
_TALL = 4
#: The least share of traffic that strips must save.
_LEAST = 0.1
#: How often the cache holds what a step reads and writes where the next one had better begin at
#: its end: less is there anyway, and of more too little is; on one level order costs nothing else.
_REVERSING, _REVERSING_FLAT = (1.0, 4.0), (1.0, 10.0)


@dataclass(frozen=True, slots=True)
class Reuse:
    """Levels that blocks read again: `levels` of them, and a distance along J.

    `columns` is how far along I. `shared` are the bytes of a point in arrays that are read at
    several levels, `beside` in those read in several rows, `all` in all.
    """

    levels: int
    rows: tuple[int, int]
    columns: tuple[int, int]
    shared: int
    beside: int
    all: int


def strip_of(tile: Tile, reuse: Reuse, domain: Domain, cache: int) -> int:
    """Return how many blocks along J make a strip, or 0 for row order.

    >>> tile, two = Tile((32, 4), width=2, rows=2, depth=4), Reuse(2, (1, 1), (1, 1), 8, 8, 16)
    >>> [strip_of(tile, two, (n, n, 256), 60 << 20) for n in (768, 1024, 2048)]
    [0, 64, 32]
    """
    if tile.depth >= domain[2]:
        return 0
    once = tile.depth * reuse.all
    twice = reuse.levels * reuse.shared
    little = twice < _LITTLE * once
    most = (_MOST_OF_TALL if tile.rows >= _TALL else _MOST) if little else _MOST_IF_MUCH
    if twice < _LEAST * once or domain[0] * domain[1] * (once + twice) <= most * cache:
        return 0
    row = Work(domain[0] * (once + twice), Reads((0, 0), reuse.rows))
    rows = fitting_width(row, int((_AIM if little else _AIM_IF_MUCH) * cache)) or 1
    strips = -(-domain[1] // rows)
    return max(1, -(-domain[1] // (strips * tile.block[1] * tile.rows)))


def column_of(tile: Tile, reuse: Reuse, domain: Domain, cache: int) -> int:
    """Return how many blocks along I make a column, or 0 for row order; for one level.

    >>> tile, two = Tile((32, 4), width=2, rows=2), Reuse(0, (1, 1), (1, 1), 0, 8, 16)
    >>> [column_of(tile, two, (n, 256, 1), 60 << 20) for n in (1 << 14, 1 << 20)]
    [0, 2048]
    """
    once = tile.block[1] * tile.rows * reuse.all
    twice = sum(reuse.rows) * reuse.beside
    if domain[2] > 1 or twice == 0 or domain[0] * (once + twice) <= _MOST_FLAT * cache:
        return 0
    work = Work(once + twice, Reads((0, 0), reuse.columns))
    width = fitting_width(work, int(_AIM_FLAT * cache)) or 1
    columns = -(-domain[0] // width)
    return max(1, -(-domain[0] // (columns * tile.block[0] * tile.width)))


def worth_reversing(size: int, levels: int, cache: int) -> bool:
    """Whether every other step had better go through the domain from its end.

    `size` is how many bytes a step reads and writes. What was written last is in the cache still,
    but blocks that sweep up do not hand on levels to the blocks below them.

    >>> [worth_reversing(size << 20, 80, 60 << 20) for size in (40, 100, 400)]
    [False, True, False]
    """
    least, most = _REVERSING_FLAT if levels == 1 else _REVERSING
    return least * cache < size <= most * cache
