"""A small cache that forgets what was used longest ago, and the work whose fetches it counts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

from halocline_engine.schedule.traversal.column_model import Reads

__all__ = ["chunk_reads", "misses", "padded_reads"]


def misses(uses: Iterable[int], capacity: int) -> int:
    """Return how many lines are fetched into a cache of `capacity` lines."""
    lines: OrderedDict[int, None] = OrderedDict()
    fetched = 0
    for line in uses:
        if line in lines:
            lines.move_to_end(line)
            continue
        fetched += 1
        lines[line] = None
        if len(lines) > capacity:
            lines.popitem(last=False)
    return fetched


def padded_reads(order: Sequence[int], length: int, reads: Reads, line: int) -> Iterator[int]:
    """Yield the lines that cells read in turn; what lies around the cells is stored with them."""
    pitch = length + reads.width - 1
    for cell in order:
        row, place = divmod(cell, length)
        for other in range(row, row + reads.height):
            first = other * pitch + place
            yield from range(first // line, (first + reads.width - 1) // line + 1)


def chunk_reads(order: Sequence[int], rows: int, length: int, reads: Reads) -> Iterator[int]:
    """Yield the cells that cells read in turn; nothing lies around them."""
    for cell in order:
        row, place = divmod(cell, length)
        low, high = max(place - reads.cells[0], 0), min(place + reads.cells[1] + 1, length)
        for other in range(max(row - reads.rows[0], 0), min(row + reads.rows[1] + 1, rows)):
            yield from range(other * length + low, other * length + high)
