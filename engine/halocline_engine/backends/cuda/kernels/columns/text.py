"""The body of FORWARD and BACKWARD kernels: a thread computes a column.

It goes along the sections of the kernel, down and up again, and keeps what it hands on where
`placement` says: in variables, in its part of shared memory, or in memory. No thread needs another
one's values, so there is no barrier. See `early_loads` for the loads.
"""

from __future__ import annotations

from dataclasses import replace

from halocline_engine.backends.cuda.kernels.columns.flat_fields import (
    flat_fields,
    flat_loads,
    flat_stores,
    with_flat_fields,
)
from halocline_engine.backends.cuda.kernels.columns.placement import (
    Placement,
    Slot,
    placement_of,
    with_copies,
    with_copies_named,
)
from halocline_engine.backends.cuda.kernels.columns.sweep import sweeps_of
from halocline_engine.backends.cuda.model.entries import Entry, Variant
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.backends.cuda.text.expressions import TYPES
from halocline_engine.backends.cuda.text.fragments import indent, inside, signed
from halocline_engine.backends.cuda.text.statements import Scope
from halocline_engine.schedule.nodes import Schedule

__all__ = ["columns_text", "stacked_places"]


def columns_text(
    entry: Entry, schedule: Schedule, variant: Variant, scope: Scope, tile: Tile
) -> list[str]:
    """Return the body of a kernel whose threads compute columns.

    Nothing is loaded early where arrays may share memory.
    """
    entry, schedule, variant = with_copies(entry, schedule, variant, tile)
    scope = with_copies_named(scope, entry)
    placement = placement_of(entry.kernel, schedule, tile)
    tile = tile if variant.disjoint else replace(tile, ahead=0)
    flat = flat_fields(entry.kernel) if variant.disjoint and not scope.guarded else frozenset[str]()
    slots = (*placement.shared, *placement.block)
    stacked = dict.fromkeys((name for slot in slots for name in slot.names), tile.threads)
    scope = replace(with_flat_fields(scope, flat), stacked=stacked)
    lines = [*inside(scope), *flat_loads(scope, flat)]
    passes: list[str] = []
    sweeps = sweeps_of(entry, scope, placement, tile)
    for sweep in sweeps:
        passes += ["{", *indent(sweep.lines()), "}"]
    carried = frozenset[str]().union(*(sweep.carried for sweep in sweeps))
    variables = [
        f"{TYPES[scope.dtypes[name]]} before_{scope.arrays[name]} = 0;"
        for name in entry.arrays
        if name in carried
    ]
    stores = flat_stores(scope, flat)
    every = [*lines, *variables, *_policies(passes), *passes, *stores]
    return [*_places(placement, scope, tile), *_for_each_set(entry, tile, every)]


def stacked_places(placement: Placement, scope: Scope, tile: Tile, thread: str) -> list[str]:
    """Return where the columns of a thread lie, laid out [level][thread] on chip and in memory."""
    levels, size = tile.levels or "nk", 0
    places: list[tuple[Slot, str]] = []
    for slot in placement.shared:
        place = f"reinterpret_cast<{TYPES[slot.dtype]}*>(chip + {levels} * {size}) + {thread}"
        places.append((slot, place))
        size += slot.dtype.itemsize * tile.threads
    for slot in placement.block:
        own = f"(index_t)blockIdx.x * {levels} * {tile.threads} + {thread}"
        places.append((slot, f"{scope.arrays[slot.names[0]]} + ({own})"))
    return [
        f"{TYPES[slot.dtype]}* const c_{scope.arrays[name]} = {place};"
        for slot, place in places
        for name in slot.names
    ]


def _for_each_set(entry: Entry, tile: Tile, lines: list[str]) -> list[str]:
    """Return what a thread does in each set of columns of its block."""
    (i_low, i_high), (j_low, j_high) = entry.kernel.extent
    along, across = tile.block
    last = f"i >= ni{signed(i_high)} || j >= nj{signed(j_high)}"
    point = [
        f"const int i = set % wide * {along} + (int)threadIdx.x{signed(i_low)};",
        f"const int j = row + set / wide * {across} + (int)threadIdx.y;",
    ]
    wide = f"const int wide = (ni{signed(i_high - i_low + along - 1)}) / {along};"
    if not tile.blocks:
        return [wide, "const int set = (int)blockIdx.x;", *point, f"if ({last}) return;", *lines]
    sets = f"wide * ((nj{signed(j_high - j_low + across - 1)}) / {across})"
    return [
        wide,
        f"for (int set = (int)blockIdx.x; set < {sets}; set += (int)gridDim.x) {{",
        *indent([*point, f"if ({last}) continue;", *lines]),
        "}",
    ]


def _policies(passes: list[str]) -> list[str]:
    """Return how long the cache is to keep what the passes load so."""
    return [
        f"const Policy {name} = policy_{name}();"
        for name in ("keep", "drop")
        if any(f", {name})" in line for line in passes)
    ]


def _places(placement: Placement, scope: Scope, tile: Tile) -> list[str]:
    places = stacked_places(placement, scope, tile, "thread")
    if not places:
        return []
    chip = ["extern __shared__ __align__(16) unsigned char chip[];"] if placement.shared else []
    return [*chip, "const int thread = (int)(threadIdx.y * blockDim.x + threadIdx.x);", *places]
