"""Order and coalescing of axes that a program does not tell apart.

Where points read nothing of their neighbours along I and J, neither axis means more than the other:
the fastest one may be I, whatever it is called, and where memory does not part them they are one,
of longer rows with fewer edges. Where levels are computed alike as well, K is such an axis too:
arrays without padding become one row, which is aligned where their own rows are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from halocline_engine.backends.cuda.model.tile import Domain
from halocline_engine.ir.extent import CENTRE
from halocline_engine.ir.nodes import Bound, Interval
from halocline_engine.ir.remember import remembered
from halocline_engine.ir.types import Axis, Order
from halocline_engine.ir.walk import reads
from halocline_engine.schedule.nodes import Kernel, Schedule, Step

__all__ = ["ArrayLayout", "axes_alike", "coalesced"]

_ALL_LEVELS = Interval(Bound(from_end=False, offset=0), Bound(from_end=True, offset=0))
#: The most points along an axis, so that threads beyond the last one still count in 32 bits.
_MOST = 2**30
#: Bytes: rows that are a multiple of them apart are as aligned as the first one.
_ALIGNED = 16


class ArrayLayout(NamedTuple):
    """The array of a field in a call, without its address.

    `strides` are in bytes, 0 along axes that the field does not have; the domain begins at the
    index `origin`.
    """

    name: str
    itemsize: int
    shape: tuple[int, int, int]
    strides: tuple[int, int, int]
    origin: tuple[int, int, int]


@remembered
def axes_alike(schedule: Schedule) -> int:
    """Return how many axes from I on a program does not tell apart: 3, 2, or none (0).

    Indices, masks of regions and tables have places along an axis, and lack others.
    """
    program = schedule.program
    used = [field.axes for field in program.fields if field.read or field.written]
    if program.lookups or any((Axis.I in axes) is not (Axis.J in axes) for axes in used):
        return 0
    if not all(isinstance(step, Kernel) and _is_column_by_column(step) for step in schedule.steps):
        return 0
    every = all(axes == tuple(Axis) for axes in used)
    return 3 if every and all(map(_is_point_by_point, schedule.steps)) else 2


def coalesced(
    arrays: tuple[ArrayLayout, ...], domain: Domain, alike: int
) -> tuple[tuple[ArrayLayout, ...], Domain]:
    """Return a call with its first `alike` axes from the fastest one on, and as few as can be.

    It stays as it is where its arrays have these axes in different orders.

    >>> one = ArrayLayout("a", 8, (3, 5, 7), (280, 56, 8), (0, 0, 0))
    >>> coalesced((one,), (3, 5, 7), 3)[1]
    (105, 1, 1)
    >>> coalesced((one,), (3, 5, 7), 2)[1]
    (15, 1, 7)
    """
    present = [array for array in arrays if any(array.strides[:alike])]
    axes = [
        _Axis(size, tuple(_Along(a.shape[n], a.strides[n], a.origin[n]) for a in present))
        for n, size in enumerate(domain[:alike])
    ]
    # Memory knows nothing of an axis along which all arrays have one element, whatever its stride.
    seen = sorted((one for one in axes if not one.is_single), key=lambda one: one.strides)
    whole = all(stride % a.itemsize == 0 for a in present for stride in a.strides)
    if not seen or not whole or not _are_in_order(seen):
        return arrays, domain
    joined = list(_joined(seen))
    joined += [joined[-1].beyond] * (alike - len(joined))
    lying = zip(*(one.arrays for one in joined), strict=True)
    changed = {
        array.name: array._replace(
            shape=_three((*(a.size for a in along), *array.shape[alike:])),
            strides=_three((*(a.stride for a in along), *array.strides[alike:])),
            origin=_three((*(a.first for a in along), *array.origin[alike:])),
        )
        for array, along in zip(present, lying, strict=True)
    }
    points = _three((*(one.points for one in joined), *domain[alike:]))
    return tuple(changed.get(array.name, array) for array in arrays), points


class _Along(NamedTuple):
    """An array along an axis: its elements, their stride, and the one where the domain begins."""

    size: int
    stride: int
    first: int


@dataclass(frozen=True, slots=True)
class _Axis:
    """An axis of a domain, and how the arrays lie along it."""

    points: int
    arrays: tuple[_Along, ...]

    @property
    def is_single(self) -> bool:
        """Whether it has one point, and no array a second element."""
        return self.points == 1 and all(along.size == 1 for along in self.arrays)

    @property
    def strides(self) -> tuple[int, ...]:
        """The stride of each array."""
        return tuple(along.stride for along in self.arrays)

    @property
    def beyond(self) -> _Axis:
        """An axis of one point outside of this one."""
        ends = (along.size * along.stride for along in self.arrays)
        return _Axis(1, tuple(_Along(1, -(-end // _ALIGNED) * _ALIGNED, 0) for end in ends))

    def joined(self, outer: _Axis) -> _Axis | None:
        """Return one axis for this and the next one outside, or None where memory parts them."""
        pairs = list(zip(self.arrays, outer.arrays, strict=True))
        gap = any(a.size != self.points or b.stride != a.size * a.stride for a, b in pairs)
        if gap or self.points * outer.points > _MOST:
            return None
        arrays = (_Along(a.size * b.size, a.stride, a.size * b.first) for a, b in pairs)
        return _Axis(self.points * outer.points, tuple(arrays))


def _are_in_order(axes: Sequence[_Axis]) -> bool:
    """Whether each array has a larger stride along each axis than along the one before."""
    several = zip(*(axis.strides for axis in axes), strict=True)
    return all(a < b for strides in several for a, b in pairwise((0, *strides)))


def _joined(axes: Sequence[_Axis]) -> Iterator[_Axis]:
    """Yield the axes, from the fastest, with those joined that memory does not part."""
    inner = axes[0]
    for outer in axes[1:]:
        joined = inner.joined(outer)
        if joined is None:
            yield inner
        inner = joined or outer
    yield inner


def _three(numbers: Iterable[int]) -> tuple[int, int, int]:
    i, j, k = numbers
    return i, j, k


def _is_column_by_column(kernel: Kernel) -> bool:
    """Whether a kernel computes the columns of the domain, each from its own elements."""
    return kernel.extent == CENTRE and all(
        read.offset[:2] == (0, 0) for section in kernel.sections for read in reads(section.body)
    )


def _is_point_by_point(step: Step) -> bool:
    """Whether a step computes points of all levels alike, each from its own elements."""
    if not isinstance(step, Kernel) or step.order is not Order.PARALLEL or step.is_general:
        return False
    return [section.interval for section in step.sections] == [_ALL_LEVELS] and all(
        read.offset[2] == 0 for section in step.sections for read in reads(section.body)
    )
