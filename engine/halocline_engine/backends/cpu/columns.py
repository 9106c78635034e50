"""Widths of the columns that loops traverse, so that what they read again is cached.

The loops of a kernel over points go along the inner axis, then along J, then along the third axis.
What a row reads is read again by the rows beside it, and what a plane reads by the planes beside
it. Where planes do not fit in the cache, they are cut into blocks of rows that do, which are walked
from plane to plane; where so few rows would fit that they are read mostly for their neighbours'
sake, the rows are cut as well. What is too much for a core's own cache is cut for a share of the
last one, which others use too. Where there is one plane, or none is read twice, rows that do not
fit are cut and walked from row to row. Kernels over columns with the levels outside their inner
loop read levels twice, and are cut as if levels were rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from halocline_engine.backends.cpu.caches import Caches
from halocline_engine.ir.nodes import ANY_LEVEL
from halocline_engine.ir.types import Axis, Order
from halocline_engine.ir.walk import accesses_of, targets_of
from halocline_engine.schedule.nodes import Kernel, Schedule
from halocline_engine.schedule.traversal.column_model import Reads, Work, fitting_width
from halocline_engine.schedule.traversal.walks import Walk

__all__ = ["Cut", "Reuse", "Sizes", "cut", "reuse_of"]

#: Points along the inner axis, along J and along the third axis.
Sizes: TypeAlias = tuple[int, int, int]

#: Fewer rows than this are read mostly for their neighbours' sake.
_LEAST_ROWS = 8
#: Shorter rows than this take longer to begin than the cache saves.
_LEAST_WIDTH = 1024
_ALL = 1 << 30
#: A pile of all that is needed at one point of a row, or at one row of planes.
_ALONE = Reads((0, 0), (0, 0))

_Seen: TypeAlias = Mapping[tuple[str, int], Sequence[tuple[int, int, int]]]


@dataclass(frozen=True, slots=True)
class Reuse:
    """Bytes that a kernel reads again for each point; 0 where nothing is read twice.

    `planes`: for each point of a plane, between one plane and the next; `beside` for each point of
    the rows beside those that are worked on. `rows`: for each point of a row, between one row and
    the next; between one level and the next in kernels over columns. `around_row` and `around` are
    how many rows and points more than its own a point reads.
    """

    planes: int
    beside: int
    rows: int
    around_row: int
    around: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Rows, and points of a row, that loops finish in all planes before they go on to the next."""

    rows: int
    width: int


def reuse_of(kernel: Kernel, schedule: Schedule, inner: Axis) -> Reuse:
    """Return what the loops of a kernel read again if `inner` is their innermost axis."""
    seen = _offsets(kernel, schedule)
    third = Axis.K if inner is Axis.I else Axis.I
    far = {name: [at for at in offsets if at[1]] for name, offsets in seen.items()}
    if kernel.order is Order.PARALLEL:
        planes, rows = _kept(seen, third), _kept(seen, Axis.J)
    else:
        planes, rows = 0, _kept(seen, Axis.K) if inner is Axis.I else 0
    beside = sum(size * _span(far[name, size], third) for name, size in seen)
    around_row, around = (
        max(_span(offsets, axis) - 1 for offsets in seen.values()) for axis in (Axis.J, inner)
    )
    return Reuse(planes, beside, rows, around_row, around)


def cut(reuse: Reuse, kernel: Kernel, sizes: Sizes, walk: Walk, caches: Caches) -> Cut:
    """Return how a kernel walks through so many points.

    What was measured: three eighths of a core's second level do best, all of it is better than
    rows below 1024 points, and levels of columns come well from the last level.
    """
    length, rows, planes = sizes
    if walk.order == "row":
        return Cut(_ALL, length)
    parallel = kernel.order is Order.PARALLEL
    if walk.cache is None:
        own = caches.level2
        least_rows, least_width = min(_LEAST_ROWS, rows), min(_LEAST_WIDTH, length)
        rooms, enough = (own * 3 // 8, own, caches.last // 8), own if parallel else 4 * own
    else:
        least_rows, least_width, rooms, enough = 1, 1, (walk.cache,), walk.cache
    if parallel:
        for number, room in enumerate(rooms if reuse.planes and planes > 1 else ()):
            found = _blocks(reuse, length, room, least_rows, most=least_rows if number else _ALL)
            if found is not None and found.width >= least_width:
                return found
        if rows == 1:
            return Cut(_ALL, length)
    if reuse.rows * length <= enough:
        return Cut(_ALL, length)
    return _strips(reuse, length, rooms[0], least_width)


def _blocks(reuse: Reuse, length: int, room: int, least_rows: int, most: int) -> Cut | None:
    """Return a cut for planes that are read twice; None where no block fits."""
    beside = reuse.beside * reuse.around_row
    rows = fitting_width(Work(reuse.planes * length, _ALONE), room - beside * length)
    if rows is not None and rows >= least_rows:
        return Cut(min(rows, most), length)
    pile = Work(reuse.planes * least_rows + beside, Reads((0, 0), (0, reuse.around)))
    width = fitting_width(pile, room)
    return None if width is None else Cut(least_rows, _even(length, width))


def _strips(reuse: Reuse, length: int, room: int, least_width: int) -> Cut:
    """Return a cut for rows that are read twice and do not fit."""
    width = fitting_width(Work(reuse.rows, Reads((0, 0), (0, reuse.around))), room) or 1
    return Cut(_ALL, _even(length, max(width, least_width)))


def _even(length: int, width: int) -> int:
    """Return a width that is not larger and makes no column much narrower than the others.

    >>> _even(10000, 8192), _even(10, 4), _even(100, 3000)
    (5000, 4, 100)
    """
    return min(length, -(-length // -(-length // width)))


def _offsets(kernel: Kernel, schedule: Schedule) -> _Seen:
    """Return the offsets at which the kernel touches each array, by name and bytes of an element.

    Along axes that an array does not have, they are 0.
    """
    program = schedule.program
    stored = {f.name: (f.dtype.itemsize, f.axes) for f in program.fields}
    stored |= {b.name: (b.dtype.itemsize, tuple(Axis)) for b in schedule.buffers}
    found: dict[tuple[str, int], list[tuple[int, int, int]]] = {}
    for section in kernel.sections:
        for name, (i, j, k) in (
            *accesses_of(section.body),
            *((target, (0, 0, 0)) for target in targets_of(section.body)),
        ):
            if name in stored:
                size, axes = stored[name]
                up = 0 if k == ANY_LEVEL else k
                at = (i if Axis.I in axes else 0, j if Axis.J in axes else 0, up)
                found.setdefault((name, size), []).append(at if Axis.K in axes else (*at[:2], 0))
    return found


def _kept(seen: _Seen, axis: Axis) -> int:
    """Return the bytes for each point across an axis that are needed from step to step along it."""
    depths = [(_span(offsets, axis), size) for (_, size), offsets in seen.items()]
    if all(depth == 1 for depth, _ in depths):
        return 0
    return sum(depth * size for depth, size in depths)


def _span(offsets: Sequence[tuple[int, int, int]], axis: Axis) -> int:
    """Return how many places along an axis lie between the outermost offsets, both included."""
    places = [at[list(Axis).index(axis)] for at in offsets]
    return max(places) - min(places) + 1 if places else 0
