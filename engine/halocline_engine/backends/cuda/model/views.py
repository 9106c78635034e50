"""Views of a call's arrays, and the variant of the generated code that fits them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from halocline_engine.backends.cuda.model.entries import (
    H200_CACHE,
    Kind,
    Stride,
    Variant,
    arrays_of,
)
from halocline_engine.backends.cuda.model.layout import stride_kinds
from halocline_engine.backends.span import disjoint
from halocline_engine.errors import FieldError
from halocline_engine.ir.types import Axis
from halocline_engine.schedule.nodes import Schedule

__all__ = [
    "RelativeView",
    "View",
    "relative_view",
    "usual_variant",
    "variant_of",
    "view_of",
]

#: Offsets up to this fit in 32 bits.
_NARROW = 2**31 - 1
#: Bytes that one load of a thread may have at most.
_ALIGNED = 16
#: The least bytes of a number; elements with fewer are masks.
_LEAST = 4


@dataclass(frozen=True, slots=True)
class View:
    """An array as one call uses it.

    `address` is that of the domain's first point, `strides` are in elements, `first` and `last`
    are the addresses of the array's first byte and of the one past its last, and `reach` is the
    largest distance of an element from the domain's first point, in elements. `behind` is how many
    elements the domain's first point lies behind a multiple of 16 bytes, alike in all its rows, or
    None where rows differ.
    """

    address: int
    itemsize: int
    strides: tuple[int, int, int]
    first: int
    last: int
    reach: int
    behind: int | None

    @property
    def aligned(self) -> bool:
        """Whether points of the domain at multiples of 16 bytes along I have such addresses."""
        return self.behind == 0


@dataclass(frozen=True, slots=True)
class RelativeView:
    """Layout of arrays of a shape around a domain, wherever they begin.

    The domain's first point is `start` bytes behind the element of index zero, the array's first
    byte is `first` behind it and the one past its last `last`. `strides` and `reach` are those of
    a `View`; `aligned` says that rows and levels of such elements are multiples of 16 bytes apart.
    """

    start: int
    itemsize: int
    strides: tuple[int, int, int]
    first: int
    last: int
    reach: int
    aligned: bool

    def at(self, address: int) -> View:
        """Return how a call uses such an array at an address."""
        start = address + self.start
        return View(
            address=start,
            itemsize=self.itemsize,
            strides=self.strides,
            first=address + self.first,
            last=address + self.last,
            reach=self.reach,
            behind=self._behind(start),
        )

    def _behind(self, start: int) -> int | None:
        count, rest = divmod(start % _ALIGNED, self.itemsize)
        return count if self.aligned and not rest else None


def view_of(
    name: str,
    address: int,
    itemsize: int,
    shape: tuple[int, int, int],
    strides: tuple[int, int, int],
    origin: tuple[int, int, int],
    around: int = 0,
) -> View:
    """Return how a call uses an array of `shape` and `strides` (in bytes) at `address`.

    `around` is how many points beyond the array offsets may be computed, though not used.

    Raises `FieldError` if an element does not stand a whole number of elements from the first one.
    """
    return relative_view(name, itemsize, shape, strides, origin, around).at(address)


def relative_view(
    name: str,
    itemsize: int,
    shape: tuple[int, int, int],
    strides: tuple[int, int, int],
    origin: tuple[int, int, int],
    around: int = 0,
) -> RelativeView:
    """Return what `view_of` says of arrays wherever they begin; raises what that raises."""
    for axis, stride in zip(Axis, strides, strict=True):
        if stride % itemsize:
            raise FieldError(
                f"Field '{name}' has a stride of {stride} bytes along '{axis}', which is not a"
                f" multiple of its element size of {itemsize} bytes.",
                hint="Pass a copy of the array.",
            )
    steps = tuple(stride // itemsize for stride in strides)
    start = sum(o * s for o, s in zip(origin, strides, strict=True))
    spans = [stride * (size - 1) for stride, size in zip(strides, shape, strict=True)]
    reach = sum(
        abs(step) * (max(first, size - 1 - first) + around)
        for step, first, size in zip(steps, origin, shape, strict=True)
    )
    return RelativeView(
        start=start,
        itemsize=itemsize,
        strides=(steps[0], steps[1], steps[2]),
        first=sum(min(span, 0) for span in spans),
        last=sum(max(span, 0) for span in spans) + itemsize,
        reach=reach,
        aligned=all(
            stride % _ALIGNED == 0
            for stride, size in zip(strides[1:], shape[1:], strict=True)
            if size > 1
        ),
    )


def variant_of(views: Sequence[View], written: Sequence[bool], cache: int = H200_CACHE) -> Variant:
    """Return the variant of the code that fits arrays; `written` says which ones are written.

    `cache` is how many bytes the device's cache holds.
    """
    arrays = stride_kinds(view.strides for view in views)
    strides = dict(zip(arrays, (view.strides for view in views), strict=True))
    shift = _shift(views)
    return Variant(
        arrays=arrays,
        kinds=tuple(_kind(strides[number]) for number in range(len(strides))),
        wide=any(view.reach > _NARROW for view in views),
        disjoint=disjoint([(view.first, view.last) for view in views], written),
        aligned=tuple(_is_aligned(view, shift) for view in views),
        near=_near(views),
        shift=shift,
        cache=cache,
    )


def _shift(views: Sequence[View]) -> int:
    """Return how far all arrays along I lie behind multiples of 16 bytes; 0 where they differ.

    Types of less than 4 bytes do not count: they are masks beside the numbers.
    """
    lying = [one for one in views if one.strides[0] == 1 and one.itemsize >= _LEAST]
    shifts = range(_ALIGNED // min((one.itemsize for one in lying), default=_ALIGNED))
    return next((n for n in shifts if all(_is_aligned(one, n) for one in lying)), 0)


def _is_aligned(view: View, shift: int) -> bool:
    """Whether points are at multiples of 16 bytes that lie so many elements before such ones."""
    if view.behind is None:
        return False
    return (view.behind - shift) % max(1, _ALIGNED // view.itemsize) == 0


def usual_variant(schedule: Schedule) -> Variant:
    """Return the variant for arrays as `Memory` makes them: unit stride along I, nothing shared."""
    axes = {f.name: f.axes for f in schedule.program.fields}
    looks = [(axes.get(name, tuple(Axis)), dtype.itemsize) for name, dtype in arrays_of(schedule)]
    numbers: dict[tuple[tuple[Axis, ...], int], int] = {}
    arrays = tuple(numbers.setdefault(look, len(numbers)) for look in looks)
    kinds = tuple(_usual_kind(present) for present, _ in numbers)
    aligned = (True,) * len(arrays)
    return Variant(arrays=arrays, kinds=kinds, wide=False, disjoint=True, aligned=aligned)


def _kind(strides: tuple[int, int, int]) -> Kind:
    i, j, k = (Stride.NONE if stride == 0 else Stride.ANY for stride in strides)
    if strides[0] == 1:
        return (Stride.ONE, j, k)
    return (i, j, Stride.ONE if strides[2] == 1 else k)


def _near(views: Sequence[View]) -> int:
    """Return the axis of the smaller stride across most arrays that lie along K."""
    along = [view.strides for view in views if view.strides[2] == 1 != view.strides[0]]
    votes = sum(1 if 0 < abs(j) < abs(i) else -1 for i, j, _ in along if i and j)
    return int(votes > 0)


def _usual_kind(axes: tuple[Axis, ...]) -> Kind:
    i, j, k = (Stride.ANY if axis in axes else Stride.NONE for axis in Axis)
    return (Stride.ONE if i is Stride.ANY else i, j, k)
