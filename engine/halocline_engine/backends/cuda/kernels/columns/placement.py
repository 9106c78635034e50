"""Storage placement: temporaries of a column in registers, in shared memory, or in memory.

Temporaries that no pass needs at the same time have one place for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from halocline_engine.backends.cuda.kernels.columns.passes import (
    Carry,
    always_assigned,
    carries,
    passes_of,
)
from halocline_engine.backends.cuda.model.entries import (
    Entry,
    Stride,
    Variant,
    arrays_of,
    entries_of,
)
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.backends.cuda.text.statements import Scope
from halocline_engine.ir.extent import CENTRE
from halocline_engine.ir.remember import remembered
from halocline_engine.ir.types import DType
from halocline_engine.ir.walk import accesses_of, targets_of
from halocline_engine.schedule.nodes import Buffer, Kernel, Schedule, Section
from halocline_engine.schedule.storage.column_copies import copied, copy_name, copyable
from halocline_engine.schedule.storage.column_fusion import private
from halocline_engine.schedule.storage.coverage import exposed

__all__ = [
    "ALL",
    "Placement",
    "Slot",
    "column_bytes",
    "copies_of",
    "placement_of",
    "served",
    "with_copies",
    "with_copies_named",
    "without_memory",
]


#: More bytes of a level than any column has on chip.
ALL = 1 << 20


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for all levels of a column, which temporaries of one type have one after another."""

    dtype: DType
    names: tuple[str, ...]
    last: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Storage of the buffers that each column of a kernel uses for itself.

    Those in `variables` are never looked up: each value is read on the level that makes it, on the
    next one, or by a later section before another value is made. Those in `shared` have all their
    levels in shared memory, in this order; those in `block` in memory of the block, which it uses
    for one column after the other. The rest are in memory.
    """

    variables: frozenset[str]
    shared: tuple[Slot, ...] = ()
    block: tuple[Slot, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The buffers that need no memory for all columns."""
        return self.close | {name for slot in self.block for name in slot.names}

    @property
    def close(self) -> frozenset[str]:
        """The buffers in variables or shared memory, which a level looks up when it needs them."""
        return self.variables | {name for slot in self.shared for name in slot.names}

    @property
    def on_chip(self) -> int:
        """The bytes of a level of a column in shared memory."""
        return sum(slot.dtype.itemsize for slot in self.shared)


def placement_of(kernel: Kernel, schedule: Schedule, tile: Tile) -> Placement:
    """Return where the columns of a kernel keep their own buffers under a tile."""
    variables, slots = _placed(kernel, private(schedule, kernel), tile.levels)
    shared: list[Slot] = []
    room = tile.on_chip
    for slot in slots:
        if slot.dtype.itemsize <= room:
            shared.append(slot)
            room -= slot.dtype.itemsize
    rest = tuple(slot for slot in slots if slot not in shared)
    return Placement(variables, tuple(shared), rest if tile.blocks else ())


@remembered
def _placed(
    kernel: Kernel, own: tuple[Buffer, ...], levels: int
) -> tuple[frozenset[str], tuple[Slot, ...]]:
    """Return which buffers variables serve, and the places of the others."""
    variables = served(kernel, frozenset(buffer.name for buffer in own), levels)
    return variables, _slots(kernel, [b for b in own if b.name not in variables], levels)


def _slots(kernel: Kernel, buffers: Iterable[Buffer], levels: int) -> tuple[Slot, ...]:
    """Return the places of buffers, the largest elements first.

    One pass is done before the next one begins, so a buffer may have the place of another one that
    only earlier passes use.
    """
    uses = [
        {name for s in one.sections for name in (*targets_of(s.body), *dict(accesses_of(s.body)))}
        for one in passes_of(kernel, levels)
    ]
    lives = {
        buffer: [number for number, names in enumerate(uses) if buffer.name in names]
        for buffer in buffers
    }
    slots: list[Slot] = []
    for buffer, at in sorted(lives.items(), key=lambda live: live[1][0]):
        free = (s for s in slots if s.dtype is buffer.dtype and s.last < at[0])
        slot = next(free, Slot(buffer.dtype, (), -1))
        slots = [other for other in slots if other is not slot]
        slots.append(Slot(buffer.dtype, (*slot.names, buffer.name), at[-1]))
    return tuple(sorted(slots, key=lambda slot: -slot.dtype.itemsize))


def copies_of(
    entry: Entry, schedule: Schedule, variant: Variant, levels: int
) -> Mapping[str, DType]:
    """Return the fields that columns may have copies of, those that save most first."""
    if not variant.disjoint or not levels or entry.kernel.extent != CENTRE:
        return {}
    own = {buffer.name for buffer in private(schedule, entry.kernel)}
    arrays = zip(arrays_of(schedule), variant.arrays, strict=True)
    dtypes = {
        name: dtype
        for (name, dtype), kind in arrays
        if name in entry.arrays and name not in own and Stride.NONE not in variant.kinds[kind]
    }
    return dict(_copied(entry.kernel, tuple(dtypes.items()), levels))


@remembered
def _copied(
    kernel: Kernel, dtypes: tuple[tuple[str, DType], ...], levels: int
) -> tuple[tuple[str, DType], ...]:
    known = dict(dtypes)
    return tuple((name, known[name]) for name in copyable(kernel, known, levels))


def with_copies(
    entry: Entry, schedule: Schedule, variant: Variant, tile: Tile
) -> tuple[Entry, Schedule, Variant]:
    """Return a kernel with the copies of fields that its tile has room for on chip."""
    room = tile.on_chip - column_bytes(entry.kernel, schedule, tile.levels)
    if room <= 0:
        return entry, schedule, variant
    kernel, chosen = entry.kernel, dict[str, DType]()
    for name, dtype in copies_of(entry, schedule, variant, tile.levels).items():
        if dtype.itemsize <= room and (made := copied(kernel, name, dtype, tile.levels)):
            kernel, room = made.kernel, room - dtype.itemsize
            chosen[name] = dtype
    names = tuple(map(copy_name, chosen))
    buffers = (Buffer(copy_name(name), dtype, CENTRE) for name, dtype in chosen.items())
    steps = tuple(kernel if step == entry.kernel else step for step in schedule.steps)
    places = [n for n, (name, _) in enumerate(arrays_of(schedule)) if name in chosen]
    return (
        replace(
            entry,
            kernel=kernel,
            arrays=(*entry.arrays, *names),
            written=(*entry.written, *names),
        ),
        replace(schedule, steps=steps, buffers=(*schedule.buffers, *buffers)),
        replace(
            variant,
            arrays=(*variant.arrays, *(variant.arrays[n] for n in places)),
            aligned=(*variant.aligned, *(variant.aligned[n] for n in places)),
        ),
    )


def with_copies_named(scope: Scope, entry: Entry) -> Scope:
    """Return the scope of a kernel with names for the copies among its arrays."""
    fields = {copy_name(name): name for name in scope.arrays}
    made = {name: fields[name] for name in entry.arrays if name not in scope.arrays}
    return replace(
        scope,
        arrays={**scope.arrays, **{new: f"{scope.arrays[old]}_copy" for new, old in made.items()}},
        kinds={**scope.kinds, **{new: scope.kinds[old] for new, old in made.items()}},
        dtypes={**scope.dtypes, **{new: scope.dtypes[old] for new, old in made.items()}},
    )


def without_memory(schedule: Schedule, tiles: Mapping[str, Tile]) -> frozenset[str]:
    """Return the buffers that need no memory for all columns.

    `tiles` gives the tile of each kernel by its name.
    """
    return frozenset(
        name
        for entry in entries_of(schedule)
        for name in placement_of(entry.kernel, schedule, tiles[entry.name]).names
    )


def column_bytes(kernel: Kernel, schedule: Schedule, levels: int) -> int:
    """Return the bytes that a level of a column, one of `levels`, would have in shared memory."""
    return placement_of(kernel, schedule, Tile((1, 1), on_chip=ALL, levels=levels)).on_chip


def served(kernel: Kernel, names: frozenset[str], levels: int) -> frozenset[str]:
    """Return the arrays of which variables have every value that the kernel reads.

    `names` are the arrays that may be carried, `levels` those of the domain where they are known.
    """
    places = list(_sections(kernel, names, levels))
    return frozenset(name for name in names if all(_has(name, *where) for where in places))


def _sections(
    kernel: Kernel, names: frozenset[str], levels: int
) -> Iterator[tuple[Section, Carry]]:
    passes = passes_of(kernel, levels)
    for one, carried in zip(passes, carries(passes, names, levels), strict=True):
        yield from zip(one.sections, carried, strict=True)


def _has(name: str, section: Section, carry: Carry) -> bool:
    if name in section.assigned and name not in always_assigned(section):
        return False
    needed = {(name, offset) for offset in exposed(section, name)}
    return needed <= carry.before and name not in carry.loaded
