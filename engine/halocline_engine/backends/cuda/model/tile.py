"""Tiles: the shares of the domain that a thread and a block of a kernel compute.

The generated code depends on a tile, so tiles are part of what is compiled. They are chosen by
the cost model of each kind of kernel (`kernels/*/tile.py`), and a caller may give others, which is
how they are measured.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TypeAlias

__all__ = ["Block", "Domain", "Tile", "in_grid_order", "tile_words"]

#: Sizes along I, J and K.
Domain: TypeAlias = tuple[int, int, int]
#: Threads along I and J.
Block: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Tile:
    """The share of a thread, and the threads of a block.

    PARALLEL kernels: a thread computes `width` neighbouring points along I, in `rows` rows along J,
    on `depth` levels one after the other. Tiles along I are counted from `shift` elements before
    the domain, where memory is aligned; edges cut the first and the last.
    Where `planes` is not 0, a block keeps levels of what it reads in shared memory, and so many are
    under way.
    Where `strip` is not 0, blocks run in column order: so many along J and all along I, on level
    after level up to the last, before the next ones along J. Where `column` is not 0 instead, so
    many along I go along J and up to the last level before the next ones along I. With `backward`,
    blocks run from the last to the first. Where `line` is not 0, threads have a point each, and
    those of a row begin so far before it that warps begin at multiples of so many elements.

    PARALLEL kernels on arrays that lie along K: where `along` is not 0, a thread has a level of
    `rows` columns; a block has `depth` levels, and the columns of its threads are neighbours along
    I (1) or J (2). `share` says that threads compute each for itself (0), or share values in
    shared memory, each in its own place (1) or in places that are used again (2). Where `along` is
    0, a `share` of 3 says that threads sweep up `depth` levels with a rolling window.

    The same arrays, any kernel: where `levelwise` is not 0, a thread has a level of `width` columns
    along I and `rows` along J; neighbouring threads have neighbouring levels, and then those of the
    next columns along I (1) or J (2).

    PARALLEL kernels of points that look up levels: with `upright`, rows of a block's threads have
    levels that follow each other, and a block goes up `depth` levels of a row of columns. With
    `held`, a block has all `levels` of a row of columns, and several threads for each of them; at
    most `on_chip` bytes of a level of a column are in shared memory.

    FORWARD and BACKWARD kernels: a thread computes a column; its temporaries have at most `on_chip`
    bytes a level in shared memory, and values of `ahead` levels are loaded before they are needed.
    `levels` is the number of the domain's levels where the code may depend on it. Where `chunk` is
    not 0, arrays lie along K: a block is a warp that moves so many levels of its columns at a time
    through shared memory. Where `blocks` is not 0, so many of them go through all columns,
    each with memory of its own for the temporaries that are not on chip.
    """

    block: Block
    width: int = 1
    rows: int = 1
    depth: int = 1
    planes: int = 0
    strip: int = 0
    column: int = 0
    backward: bool = False
    line: int = 0
    shift: int = 0
    along: int = 0
    share: int = 0
    levelwise: int = 0
    upright: bool = False
    held: bool = False
    on_chip: int = 0
    ahead: int = 0
    levels: int = 0
    chunk: int = 0
    blocks: int = 0

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return self.block[0] * self.block[1]

    @property
    def is_parted(self) -> bool:
        """Whether blocks run in strips or columns, one after the other."""
        return self.strip > 0 or self.column > 0


def in_grid_order(tile: Tile) -> Tile:
    """Return the tile without what only tiles of points have: planes, an order of blocks."""
    return replace(tile, levelwise=0, planes=0, strip=0, column=0, backward=False, line=0, shift=0)


def tile_words(tile: Tile) -> str:
    """Return a tile for people.

    >>> tile_words(Tile((32, 4), width=2, rows=3, depth=8, backward=True))
    'blocks of 32 x 4 threads, width 2, rows 3, depth 8, backward'
    """
    words = [f"blocks of {tile.block[0]} x {tile.block[1]} threads"]
    for field in fields(tile):
        value = getattr(tile, field.name)
        if field.name != "block" and value != field.default:
            words.append(field.name.replace("_", " ") + ("" if value is True else f" {value}"))
    return ", ".join(words)
