"""The interface between generated code and its callers: kernels and their parameters.

`emit` writes parameter lists from `parameters`, and `runtime.calls` packs arguments from it, so
that the two cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias, assert_never

from halocline_engine.backends.cuda.model.staged import Staged, between, merged, staged_at
from halocline_engine.backends.cuda.model.swept import Swept, swept_at
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.ir.extent import CENTRE
from halocline_engine.ir.nodes import Assign, Interval, Parameter
from halocline_engine.ir.remember import remembered
from halocline_engine.ir.types import DType, Order
from halocline_engine.ir.walk import assignments, expressions, reads, walk
from halocline_engine.schedule.nodes import Kernel, Levels, Schedule
from halocline_engine.schedule.rare import narrow_masks

__all__ = [
    "H200_CACHE",
    "Arg",
    "BlockPointer",
    "Entry",
    "Kind",
    "Loop",
    "Pointer",
    "ScalarValue",
    "Size",
    "Step",
    "Stride",
    "StrideValue",
    "Variant",
    "arrays_of",
    "columns_read",
    "entries_of",
    "is_guarded",
    "lies_along_k",
    "parameters",
    "steps_of",
]

#: Bytes that the cache of an H200 holds, which all processors share.
H200_CACHE = 60 << 20


class Stride(StrEnum):
    """Knowledge of a stride at the time when code is generated."""

    NONE = "none"
    """It is 0: the array is the same all along the axis."""
    ONE = "one"
    """It is 1; the stride along K is looked at for this where that along I is another one."""
    ANY = "any"
    """It is a parameter of the kernel."""


#: The strides along I, J and K of the arrays that share them.
Kind: TypeAlias = tuple[Stride, Stride, Stride]


@dataclass(frozen=True, slots=True)
class Variant:
    """Layout of the arrays of a call in memory, as far as the generated code depends on it.

    `arrays` gives the number of the stride kind for each of `arrays_of(schedule)`; `wide` says
    that an offset needs more than 32 bits; `disjoint` that no array that is written shares memory
    with another one; `aligned`, for each array, that points along I at multiples of 16 bytes have
    such addresses, counted from `shift` elements before the domain. `near` is the axis, 0 for I and
    1 for J, along which neighbouring columns lie where elements lie along K. `cache` is how many
    bytes the cache that all processors of the device share holds, an H200's if it is not known: the
    order of blocks depends on it.
    """

    arrays: tuple[int, ...]
    kinds: tuple[Kind, ...]
    wide: bool
    disjoint: bool
    aligned: tuple[bool, ...]
    near: int = 0
    shift: int = 0
    cache: int = H200_CACHE


@dataclass(frozen=True, slots=True)
class Entry:
    """A kernel with its name in the generated code.

    `arrays` are the fields and buffers that it touches, `written` those of them that it writes and
    `scalars` the scalar arguments that it reads, each in the order of the schedule. `level_at_hand`
    says that it runs on the one level that it is launched for; `staged` what its blocks run one
    after the other. Where it reads what it writes, `maybe_constant` are the arrays that it writes
    nowhere or under conditions alone, which may never hold. `narrow` are the masks that hold in few
    rows or columns. The first sections, `swept` of them, are those of a sweep that each column has
    behind it before its points are computed; only columns of this kernel touch what is in `own`.
    """

    name: str
    kernel: Kernel
    level_at_hand: bool
    arrays: tuple[str, ...]
    written: tuple[str, ...]
    scalars: tuple[str, ...]
    staged: Staged | None = None
    maybe_constant: frozenset[str] = frozenset()
    narrow: frozenset[str] = frozenset()
    swept: int = 0
    own: frozenset[str] = frozenset()

    @property
    def is_plain(self) -> bool:
        """Whether it does all levels of the domain, and nothing more, in any order."""
        alone = self.staged is None and not self.level_at_hand
        return alone and self.kernel.order is Order.PARALLEL and self.kernel.extent == CENTRE


@dataclass(frozen=True, slots=True)
class Loop:
    """Entries for each level of each interval, level after level."""

    order: Order
    levels: tuple[tuple[Interval, tuple[Entry, ...]], ...]


Step: TypeAlias = Entry | Loop


@dataclass(frozen=True, slots=True)
class Size:
    """A number of a launch by its name in the code.

    'ni', 'nj' and 'nk' are the sizes of the domain, 'row' and 'level' the first row and level of
    the launch, and 'top' the level behind its last. Where blocks run in strips or columns, 'deep'
    of them are above each other, and 'inverse' divides by that number.
    """

    name: str


@dataclass(frozen=True, slots=True)
class StrideValue:
    """The stride of a kind along an axis (0, 1 or 2), in elements."""

    kind: int
    axis: int


@dataclass(frozen=True, slots=True)
class Pointer:
    """The address of the domain's first point in an array."""

    array: str


@dataclass(frozen=True, slots=True)
class ScalarValue:
    """A scalar argument of the program."""

    name: str


@dataclass(frozen=True, slots=True)
class BlockPointer:
    """The address of memory that blocks keep a temporary in, by its name in the code."""

    array: str
    dtype: DType


Arg: TypeAlias = Size | StrideValue | Pointer | ScalarValue | BlockPointer

_SIZES = tuple(map(Size, ("ni", "nj", "nk", "row", "level", "top")))
_PARTS = (Size("deep"), Size("inverse"))


@remembered
def arrays_of(schedule: Schedule) -> tuple[tuple[str, DType], ...]:
    """Return the fields that are used and the buffers, in the order of the schedule."""
    fields = ((f.name, f.dtype) for f in schedule.program.fields if f.read or f.written)
    buffers = ((b.name, b.dtype) for b in between(schedule))
    return (*fields, *buffers)


@remembered
def steps_of(schedule: Schedule) -> tuple[Step, ...]:
    """Return what to launch, in order, with names 'kernel0', 'kernel1', ... in text order."""
    counter = iter(range(_count(schedule)))

    def entry(kernel: Kernel, *, level_at_hand: bool) -> Entry:
        return _entry(schedule, kernel, f"kernel{next(counter)}", level_at_hand=level_at_hand)

    steps: list[Step] = []
    passed = 0
    for number, step in enumerate(schedule.steps):
        staged = staged_at(schedule, number)
        if staged is not None:
            passed = number + len(staged.stages)
            united = entry(merged(staged), level_at_hand=False)
            steps.append(replace(united, staged=staged))
        if number < passed:
            continue
        swept = swept_at(schedule, number)
        if swept is not None and (swept.steps == 1 or staged_at(schedule, number + 1) is None):
            passed = number + swept.steps
            steps.append(_with_sweep(entry(swept.kernel, level_at_hand=False), swept))
            continue
        match step:
            case Kernel():
                steps.append(entry(step, level_at_hand=False))
            case Levels(order, levels):
                steps.append(
                    Loop(
                        order,
                        tuple(
                            (
                                level.interval,
                                tuple(
                                    entry(kernel, level_at_hand=True) for kernel in level.kernels
                                ),
                            )
                            for level in levels
                        ),
                    )
                )
            case _:
                assert_never(step)
    return tuple(steps)


def entries_of(schedule: Schedule) -> Iterator[Entry]:
    """Yield every kernel in text order."""
    for step in steps_of(schedule):
        match step:
            case Entry():
                yield step
            case Loop(_, levels):
                for _, entries in levels:
                    yield from entries
            case _:
                assert_never(step)


def parameters(
    entry: Entry, schedule: Schedule, variant: Variant, tile: Tile | None = None
) -> tuple[Arg, ...]:
    """Return the parameters of a kernel in order: sizes, strides, addresses, scalars.

    There are more sizes where the blocks of its `tile` run in strips or columns.
    Arrays of one kind share one set of strides; strides that are known are left out, but for one
    along K, which most kernels look up all the same.
    """
    kind_of = {
        name: kind for (name, _), kind in zip(arrays_of(schedule), variant.arrays, strict=True)
    }
    kinds = sorted({kind_of[name] for name in entry.arrays})
    strides = (
        StrideValue(kind, axis)
        for kind in kinds
        for axis, stride in enumerate(variant.kinds[kind])
        if stride is Stride.ANY or (axis == 2 and stride is Stride.ONE)
    )
    return (
        *_SIZES,
        *(_PARTS if tile is not None and tile.is_parted else ()),
        *strides,
        *map(Pointer, entry.arrays),
        *map(ScalarValue, entry.scalars),
        *_block_pointers(entry),
    )


def _block_pointers(entry: Entry) -> Iterator[BlockPointer]:
    if entry.staged is not None and entry.staged.pointers:
        for pointer, buffer in zip(entry.staged.pointers, entry.staged.temporaries, strict=True):
            yield BlockPointer(pointer, buffer.dtype)


def is_guarded(entry: Entry, fields: Collection[str]) -> bool:
    """Whether a kernel computes points outside the domain, where it must not write its fields."""
    return entry.kernel.extent != CENTRE and any(name in fields for name in entry.written)


def lies_along_k(entry: Entry, schedule: Schedule, variant: Variant) -> bool:
    """Whether most bytes of the arrays with all axes that a kernel touches lie along K."""
    arrays = arrays_of(schedule)
    kinds = {name: variant.kinds[n] for (name, _), n in zip(arrays, variant.arrays, strict=True)}
    sizes = {
        name: dtype.itemsize
        for name, dtype in arrays
        if name in entry.arrays and Stride.NONE not in kinds[name]
    }
    along = sum(size for name, size in sizes.items() if kinds[name][2] is Stride.ONE)
    return 2 * along > sum(sizes.values())


def columns_read(entry: Entry) -> float:
    """Return how many columns of each array a point reads, on average of all that it touches."""
    places = {
        (read.name, read.offset[:2])
        for section in entry.kernel.sections
        for read in reads(section.body)
        if read.name in entry.arrays
    }
    return len(places) / max(len(entry.arrays), 1)


def _with_sweep(entry: Entry, swept: Swept) -> Entry:
    """Return the entry of a sweep and points, where own buffers are nothing that it reads back."""
    sections, own = entry.kernel.sections, swept.own
    arrays, written = {*entry.arrays} - own, {*entry.written} - own
    found = {read.name for section in sections for read in reads(section.body)}
    surely = {s.target for one in sections for s in one.body if isinstance(s, Assign)}
    back = arrays - surely if written & found else ()
    return replace(entry, swept=swept.sections, own=own, maybe_constant=frozenset(back))


def _count(schedule: Schedule) -> int:
    return sum(
        1 if isinstance(step, Kernel) else sum(len(level.kernels) for level in step.levels)
        for step in schedule.steps
    )


def _entry(schedule: Schedule, kernel: Kernel, name: str, *, level_at_hand: bool) -> Entry:
    bodies = [section.body for section in kernel.sections]
    written = {assign.target for body in bodies for assign in assignments(body)}
    found = {read.name for body in bodies for read in reads(body)}
    touched = written | found
    surely = {one.target for body in bodies for one in body if isinstance(one, Assign)}
    parameters_read = {
        node.name
        for body in bodies
        for expr in expressions(body)
        for node in walk(expr)
        if isinstance(node, Parameter)
    }
    arrays = tuple(array for array, _ in arrays_of(schedule) if array in touched)
    return Entry(
        name=name,
        kernel=kernel,
        level_at_hand=level_at_hand,
        arrays=arrays,
        written=tuple(array for array in arrays if array in written),
        scalars=tuple(s.name for s in schedule.program.scalars if s.name in parameters_read),
        maybe_constant=frozenset(touched - surely if written & found else ()),
        narrow=narrow_masks(schedule.program) & found,
    )
