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
from halocline_engine.backends.cuda.kernels.columns.placement import Placement, placement_of
from halocline_engine.backends.cuda.kernels.columns.sweep import sweeps_of
from halocline_engine.backends.cuda.model.entries import Entry, Variant
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.backends.cuda.text.expressions import TYPES
from halocline_engine.backends.cuda.text.fragments import indent, inside, signed
from halocline_engine.backends.cuda.text.statements import Scope
from halocline_engine.schedule.nodes import Schedule

__all__ = ["columns_text"]


def columns_text(
    entry: Entry, schedule: Schedule, variant: Variant, scope: Scope, tile: Tile
) -> list[str]:
    """Return the body of a kernel whose threads compute columns.

    Nothing is loaded early where arrays may share memory.
    """
    (i_low, i_high), (_, j_high) = entry.kernel.extent
    placement = placement_of(entry.kernel, schedule, tile)
    tile = tile if variant.disjoint else replace(tile, ahead=0)
    flat = flat_fields(entry.kernel) if variant.disjoint and not scope.guarded else frozenset[str]()
    scope = with_flat_fields(scope, flat)
    lines = [
        f"const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x){signed(i_low)};",
        "const int j = row + (int)(blockIdx.y * blockDim.y + threadIdx.y);",
        f"if (i >= ni{signed(i_high)} || j >= nj{signed(j_high)}) return;",
        *inside(scope),
        *_shared_arrays(placement, scope, tile),
        *flat_loads(scope, flat),
    ]
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
    return [*lines, *variables, *_policies(passes), *passes, *stores]


def _policies(passes: list[str]) -> list[str]:
    """Return how long the cache is to keep what the passes load so."""
    return [
        f"const Policy {name} = policy_{name}();"
        for name in ("keep", "drop")
        if any(f", {name})" in line for line in passes)
    ]


def _shared_arrays(placement: Placement, scope: Scope, tile: Tile) -> list[str]:
    """Return the places of the thread's columns in shared memory, laid out [level][thread]."""
    if not placement.shared:
        return []
    lines = [
        "extern __shared__ __align__(16) unsigned char chip[];",
        "const int thread = (int)(threadIdx.y * blockDim.x + threadIdx.x);",
    ]
    size = 0
    for buffer in placement.shared:
        kind = TYPES[buffer.dtype]
        lines.append(
            f"{kind}* const c_{scope.arrays[buffer.name]} = "
            f"reinterpret_cast<{kind}*>(chip + {tile.levels or 'nk'} * {size}) + thread;"
        )
        size += buffer.dtype.itemsize * tile.threads
    return lines
