"""Prefetches of loops.

Processors guess what comes next while a row goes on; they do not guess the next row, and what is
written is fetched only when it is stored to. So the innermost loop goes in parts of a few lines of
memory each, and before each part the lines that lie some parts further on in the row are asked for,
those of arrays that are written for writing; near the end of a row, lines of the next row. Of an
array that is read at several rows only the row that has not been read before is asked for. Nothing
is computed differently.

Work that lies in the caches of the cores gains nothing, and such text takes longer to compile, so
there the text is the plain one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from halocline_engine.backends.cpu.caches import Caches
from halocline_engine.ir.nodes import Program
from halocline_engine.ir.types import Axis

__all__ = [
    "LINE",
    "PARTS_AHEAD",
    "Row",
    "leading",
    "leaves_caches",
    "lines_of",
    "part_of",
    "touched",
]

#: An array, and the offsets along J and along the other axis that is not the inner one.
Row: TypeAlias = tuple[str, int, int]

#: Bytes that are asked for at once, on most processors.
LINE = 64
#: Parts between what is worked on and what is asked for: one KiB.
PARTS_AHEAD = 4
#: Bytes of a part in the array of the largest elements: a few vectors, and no loop around them.
_PART = 256
#: Of the last cache, which others use too, work that is this share is not in the cores' own.
_SHARE = 4


def part_of(sizes: Sequence[int]) -> int:
    """Return the points of a part, for the bytes of an element of each array; 0 without arrays.

    >>> part_of([8, 8]), part_of([4, 1]), part_of([])
    (32, 64, 0)
    """
    return _PART // max(sizes) if sizes else 0


def lines_of(part: int, size: int) -> int:
    """Return how many lines so many elements of a size fill."""
    return max(1, part * size // LINE)


def touched(program: Program) -> int:
    """Return the bytes of all fields at one point."""
    used = [f for f in program.fields if len(f.axes) == len(Axis) and (f.read or f.written)]
    return sum(field.dtype.itemsize for field in used)


def leaves_caches(size: int, caches: Caches) -> bool:
    """Return whether so many bytes do not stay in the cores' own caches."""
    return size > caches.last // _SHARE


def leading(rows: Iterable[Row], *, backward: bool) -> dict[str, Row]:
    """Return of each array the row that comes first of all where loops go on.

    They go along J first, then along the other axis; `backward` if along that one they go down.

    >>> leading([("a", -1, 0), ("a", 1, 0), ("a", 0, 1), ("x", 0, 0)], backward=False)
    {'a': ('a', 0, 1), 'x': ('x', 0, 0)}
    """
    found: dict[str, Row] = {}
    for row in rows:
        name, j, other = row
        known = found.get(name, row)
        gone, most = (-other, -known[2]) if backward else (other, known[2])
        if (gone, j) >= (most, known[1]):
            found[name] = row
    return found
