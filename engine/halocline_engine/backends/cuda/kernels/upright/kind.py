"""The kind of PARALLEL kernel for points that look up levels which only a run knows.

A block has a row of columns, and its threads go up them together: rows of threads have levels that
follow each other. So points find in the L1 cache what others of their column looked up, where with
blocks of one level each would load it from memory that all processors share.
"""

from __future__ import annotations

from collections.abc import Iterator

from halocline_engine.backends.cuda.kernels.kind import KernelKind
from halocline_engine.backends.cuda.kernels.points.text import point_lines
from halocline_engine.backends.cuda.model.entries import Entry, Variant
from halocline_engine.backends.cuda.model.launch import MAX_BLOCKS, Launch
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.backends.cuda.text.fragments import indent, signed
from halocline_engine.backends.cuda.text.statements import Scope
from halocline_engine.ir.extent import Range
from halocline_engine.ir.nodes import Assign
from halocline_engine.ir.types import Axis, Order
from halocline_engine.ir.walk import assignments, reads, reads_of
from halocline_engine.schedule.nodes import Schedule

__all__ = ["UPRIGHT"]

#: The columns of a block, the most threads in each, and the most levels that it goes up.
_COLUMNS, _LEVELS, _DEPTH = 32, 16, 128
_MOST_THREADS = 1024
#: Blocks that keep a large device busy.
_BUSY = 132 * 4


def _tile(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile | None:
    if not _looks_up(entry, schedule):
        return None
    # As few rounds as there can be, of as many threads each.
    rounds = -(-domain[2] // _LEVELS)
    threads = -(-domain[2] // rounds)
    is_small = -(-domain[0] // _COLUMNS) * domain[1] < _BUSY
    depth = threads if is_small else max(_DEPTH // threads, 1) * threads
    tile = Tile((_COLUMNS, threads), depth=depth, upright=True)
    return _fit(tile, entry, schedule, variant, domain)


def _looks_up(entry: Entry, schedule: Schedule) -> bool:
    """Whether points look up levels of their columns, each another one.

    Tables have nothing to do with columns, and a level that depends on the index along K and on
    scalars alone is the same for all points of a level, so that each is read once.
    """
    columns = {*entry.arrays} - {lookup.name for lookup in schedule.program.lookups}
    alike = _alike(entry, schedule)
    return any(
        read.name in columns
        and read.level is not None
        and not alike.issuperset(inner.name for inner in reads_of(read.level))
        for section in entry.kernel.sections
        for read in reads(section.body)
    )


def _alike(entry: Entry, schedule: Schedule) -> set[str]:
    """Return the names that are the same for all points of a level."""
    bodies = [section.body for section in entry.kernel.sections]
    alike = {position.name for position in schedule.program.positions if position.axis is Axis.K}
    alike |= {register.name for register in entry.kernel.registers}
    while True:
        sure = [
            one
            for body in bodies
            for one in body
            if isinstance(one, Assign) and alike.issuperset(read.name for read in reads((one,)))
        ]
        every = [one for body in bodies for one in assignments(body)]
        differing = {one.target for one in every if not any(one is same for same in sure)}
        if alike.isdisjoint(differing):
            return alike
        alike -= differing


def _fit(
    tile: Tile, entry: Entry, _schedule: Schedule, _variant: Variant, _domain: Domain
) -> Tile | None:
    if entry.kernel.order is not Order.PARALLEL or entry.level_at_hand or entry.staged is not None:
        return None
    if not 0 < tile.threads <= _MOST_THREADS or tile.depth < 1:
        return None
    return Tile(tile.block, depth=tile.depth, upright=True)


def _text(entry: Entry, scope: Scope, tile: Tile) -> list[str]:
    (i_low, i_high), (_, j_high) = entry.kernel.extent
    return [
        f"const int i1 = ni{signed(i_high)}, j1 = nj{signed(j_high)};",
        f"const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x){signed(i_low)};",
        "const int j = row + (int)blockIdx.y;",
        "if (i >= i1 || j >= j1) return;",
        f"const int k0 = level + (int)blockIdx.z * {tile.depth};",
        f"const int k1 = min(k0 + {tile.depth}, top);",
        "#pragma unroll 1",
        f"for (int k = k0 + (int)threadIdx.y; k < k1; k += {tile.block[1]}) {{",
        *indent(point_lines(entry, scope)),
        "}",
    ]


def _launches(entry: Entry, domain: Domain, tile: Tile, levels: Range) -> Iterator[Launch]:
    (i_low, i_high), (j_low, j_high) = entry.kernel.extent
    ni, nj = domain[0] + i_high - i_low, domain[1] + j_high - j_low
    first, top = levels
    if min(ni, nj, top - first) <= 0:
        return
    across, high = -(-ni // tile.block[0]), -(-(top - first) // tile.depth)
    for row in range(0, nj, MAX_BLOCKS):
        grid = (across, min(nj - row, MAX_BLOCKS), high)
        yield Launch(grid, (*tile.block, 1), row + j_low, first, top)


UPRIGHT = KernelKind(
    tile=_tile,
    fit=_fit,
    text=lambda entry, _schedule, _variant, scope, tile: _text(entry, scope, tile),
    shared_bytes=lambda _entry, _schedule, _variant, _tile, _domain: 0,
    launches=_launches,
)
