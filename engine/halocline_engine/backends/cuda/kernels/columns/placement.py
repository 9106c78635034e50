"""Storage placement: temporaries of a column in registers, in shared memory, or in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from halocline_engine.backends.cuda.kernels.columns.passes import (
    Carry,
    always_assigned,
    carries,
    passes_of,
)
from halocline_engine.backends.cuda.model.entries import entries_of
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.ir.walk import targets_of
from halocline_engine.schedule.nodes import Buffer, Kernel, Schedule, Section
from halocline_engine.schedule.storage.column_fusion import private
from halocline_engine.schedule.storage.coverage import exposed

__all__ = ["Placement", "column_bytes", "placement_of", "served", "without_memory"]


@dataclass(frozen=True, slots=True)
class Placement:
    """Storage of the buffers that each column of a kernel uses for itself.

    Those in `variables` are never looked up: each value is read on the level that makes it, on the
    next one, or by a later section before another value is made. Those in `shared` have all their
    levels in shared memory, in this order; those in `block` in memory of the block, which it uses
    for one column after the other. The rest are in memory.
    """

    variables: frozenset[str]
    shared: tuple[Buffer, ...] = ()
    block: tuple[Buffer, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The buffers that need no memory for all columns."""
        return self.variables | {buffer.name for buffer in (*self.shared, *self.block)}


def placement_of(kernel: Kernel, schedule: Schedule, tile: Tile) -> Placement:
    """Return where the columns of a kernel keep their own buffers under a tile."""
    own = private(schedule, kernel)
    names = frozenset(buffer.name for buffer in own)
    variables = served(kernel, names, tile.levels)
    rest = [buffer for buffer in own if buffer.name not in variables]
    rest.sort(key=lambda buffer: -buffer.dtype.itemsize)
    if tile.blocks:
        return Placement(variables, block=tuple(rest))
    return Placement(variables, shared=tuple(rest) if tile.on_chip else ())


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
    shared = placement_of(kernel, schedule, Tile((1, 1), on_chip=True, levels=levels)).shared
    return sum(buffer.dtype.itemsize for buffer in shared)


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
    if name in targets_of(section.body) and name not in always_assigned(section):
        return False
    needed = {(name, offset) for offset in exposed(section.body, name)}
    return needed <= carry.before and name not in carry.loaded
