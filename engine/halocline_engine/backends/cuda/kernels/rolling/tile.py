"""Cost model for tiles of kernels with a rolling window: columns and levels of a thread.

For arrays that lie along I: neighbouring threads have neighbouring columns, one each. With as many
as 16 bytes hold fewer threads fit on a processor, which was slower. Columns are cut into parts
until there are enough threads.
"""

from __future__ import annotations

from dataclasses import replace

from halocline_engine.backends.cuda.model.entries import Entry, Kind, Stride, Variant, arrays_of
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.ir.nodes import Read
from halocline_engine.ir.types import Axis
from halocline_engine.schedule.levels.exchange import Form, plan_levels
from halocline_engine.schedule.levels.rolling import Rings, rings_of
from halocline_engine.schedule.nodes import Schedule

__all__ = ["ROLLING_SHARE", "rolling_fitted", "rolling_tile", "rolling_windows"]

#: What `Tile.share` is where threads keep a rolling window.
ROLLING_SHARE = 3
_VECTOR = 16
_THREADS = 128
#: Bytes of one level that keep a large device busy for a while, and levels that pay for a start.
_BUSY = 132 * 1024 * 24
_LEAST = 32
#: Levels whose loads are under way.
_AHEAD = 2
#: Registers of 4 bytes for the window.
_REGISTERS = 144


def rolling_tile(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile | None:
    """Return the tile of a kernel that sweeps up columns, or None where that gains nothing.

    It gains where levels share values, in arrays that lie along I, and points have no neighbours.
    """
    rings = rolling_windows(entry, schedule, variant, domain[2])
    if rings is None or not rings.nodes or _words(rings) > _REGISTERS:
        return None
    along = next((n for n in (8, 16, 32, 64) if domain[0] <= n), _THREADS)
    own = rings.plan.own[1] - rings.plan.own[0]
    level = domain[0] * domain[1] * min(_sizes(entry, schedule, variant).values())
    parts = max(1, min(-(-_BUSY // level), own // _LEAST))
    block, depth = (along, _THREADS // along), -(-own // parts)
    return Tile(block, depth=depth, share=ROLLING_SHARE, ahead=_AHEAD)


def rolling_fitted(
    tile: Tile, entry: Entry, schedule: Schedule, variant: Variant, domain: Domain
) -> Tile | None:
    """Return the tile cut down to what the kernel can have, or None where it has no window."""
    if rolling_windows(entry, schedule, variant, domain[2]) is None:
        return None
    width = max(1, min(tile.width, _width(entry, schedule, variant)))
    ahead = min(max(1, tile.ahead), 8)
    return replace(tile, width=width, rows=1, planes=0, strip=0, ahead=ahead, levels=domain[2])


def rolling_windows(
    entry: Entry, schedule: Schedule, variant: Variant, levels: int
) -> Rings | None:
    """Return what the threads of a kernel keep, or None where it is not for them."""
    if not entry.is_plain or not variant.disjoint:
        return None
    kinds = _kinds(schedule, variant)
    wide = [name for name in entry.arrays if Stride.NONE not in kinds[name]]
    if any(name not in wide for name in entry.written):
        return None
    if any(kinds[name][0] is not Stride.ONE for name in wide):
        return None
    flat = {f.name for f in schedule.program.fields if Axis.K not in f.axes}
    narrow = {n for n in entry.arrays if kinds[n][:2] == (Stride.NONE, Stride.NONE)}
    plan = plan_levels(entry.kernel, levels, Form.NODES, flat, narrow, close=True)
    if plan is None:
        return None
    reads = [term.node for term in plan.terms if isinstance(term.node, Read)]
    if any(read.offset[:2] != (0, 0) for read in reads):
        return None
    return rings_of(plan)


def _kinds(schedule: Schedule, variant: Variant) -> dict[str, Kind]:
    names = (name for name, _ in arrays_of(schedule))
    return {name: variant.kinds[number] for name, number in zip(names, variant.arrays, strict=True)}


def _width(entry: Entry, schedule: Schedule, variant: Variant) -> int:
    """Return how many of the smallest elements 16 bytes hold, if all are aligned."""
    aligned = dict(zip((name for name, _ in arrays_of(schedule)), variant.aligned, strict=True))
    sizes = _sizes(entry, schedule, variant)
    fit = not variant.shift and all(map(aligned.get, sizes))
    return _VECTOR // min(sizes.values()) if sizes and fit else 1


def _sizes(entry: Entry, schedule: Schedule, variant: Variant) -> dict[str, int]:
    """Return the bytes of an element of each array that lies along I, 4 at least."""
    kinds = _kinds(schedule, variant)
    return {
        name: max(4, dtype.itemsize)
        for name, dtype in arrays_of(schedule)
        if name in entry.arrays and kinds[name][0] is Stride.ONE
    }


def _words(rings: Rings) -> int:
    """Return the registers that a column needs, with an element of each stream under way."""
    terms = rings.plan.terms
    kept = [(term, ring.size + _AHEAD) for term, ring in rings.streams.items()]
    kept += [(term, ring.size) for term, ring in rings.nodes.items()]
    return sum(
        size * -(-terms[term].node.dtype.itemsize // 4) for term, size in kept if terms[term].wide
    )
