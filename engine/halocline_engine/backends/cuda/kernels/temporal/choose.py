"""Cost model of fused steps: how many are worth it, and the tile of each; no device is asked.

A pass takes as long as its bytes or its instructions do, whichever is longer. More steps need fewer
passes, but more is computed that other blocks compute too, and more registers leave less room for
the warps that hide each other's waits. What depends on the device comes from its driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from halocline_engine.analysis.boundaries import UNMADE, MadeSides
from halocline_engine.backends.cuda.kernels.temporal.exchange import shared_of
from halocline_engine.backends.cuda.kernels.temporal.form import (
    LANES,
    VECTOR,
    Form,
    arrays_of_steps,
)
from halocline_engine.backends.cuda.kernels.temporal.tile import FusedTile
from halocline_engine.backends.cuda.kernels.temporal.turns import turns
from halocline_engine.backends.cuda.kernels.temporal.values import Registers
from halocline_engine.backends.cuda.model.entries import Kind, Stride
from halocline_engine.backends.cuda.model.speed import H200, Speed
from halocline_engine.backends.cuda.model.tile import Domain
from halocline_engine.backends.fusing import Costs, Gains
from halocline_engine.ir.extent import Extent
from halocline_engine.ir.nodes import FMA
from halocline_engine.ir.types import Axis, DType
from halocline_engine.ir.walk import distinct
from halocline_engine.schedule.temporal.levels import Levels, Node, levels_at_once
from halocline_engine.schedule.temporal.step import Step

__all__ = [
    "fits",
    "fused_tile",
    "gains_of",
    "seconds_of_pass",
    "steps_between_fills",
    "usual_form",
]

#: Steps that are looked at.
_STEPS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
#: Registers of a thread, of a processor, and bytes of shared memory of a block.
_REGISTERS, _PROCESSOR, _SHARED = 255, 65536, 227 * 1024
_SCHEDULERS = 4
#: Shares of the rate of copies that single and fused steps reach; bytes a second of the cache.
_SINGLE_REACHED, _REACHED, _CACHE = 0.95, 0.75, 8e12
#: Bytes that stay in the cache from step to step, those in the cache of a processor, and those of a
#: step up to which steps one by one are hardly slower.
_CACHED, _NEAR_CACHE, _SMALL = 40 << 20, 150 << 10, 16 << 20
#: The share of cycles in which instructions are issued: at most, with no warps, and more with each;
#: that of the units for doubles; and cycles that a step waits where a warp is alone.
_ISSUED, _ALONE, _EACH, _DOUBLE, _WAIT = 1.0, 0.52, 0.033, 1.0, 45
#: Cycles that the warps of a processor wait for rows where one is under way.
_LATENCY = 900
#: Instructions more near a side: for an element that is loaded, and 4 bytes of a step's values.
_CLAMPED, _KEPT = 4, 4
#: After how many blocks one after the other a pass may end, and how much of one is waited for then.
_TURNS, _TAIL = 16, 0.6
#: Warps of a processor that threads with all registers leave room for, and how many more registers
#: the compiler would take than it needs: freely, and before it keeps some in memory.
_FEWEST, _SQUEEZED, _OVER = 8, 1.05, 1.02
#: Coefficients of a step that are loaded without many registers for them.
_FEW = 2
#: What a launch of several steps takes beside its work, in seconds, one of a single step, and one
#: that fills ghosts between two others; bytes a second that a single step reaches in the cache.
_LAUNCH, _BEGUN, _FILL, _SINGLE_CACHE = 1.3e-6, 1.0e-6, 1.1e-6, 6.5e12
_SINGLE = (FMA, "abs", "floor", "ceil", "trunc", "round")
_COSTS = Costs(
    {"sqrt": 10, "min": 2, "max": 2, **dict.fromkeys(_SINGLE, 1)}, function=30, division=10
)


def gains_of(step: Step, domain: Domain, speed: Speed = H200, ends: MadeSides = UNMADE) -> Gains:
    """Return what fusing steps should gain on a domain, in arrays as the target makes them."""
    if _bytes(step, domain) < _SMALL:
        return Gains({})
    one = _single(step, domain, speed)
    found: dict[int, float] = {}
    for steps in _STEPS[1:]:
        levels = levels_at_once(step, steps, ends)
        if not fits(levels):
            break
        _, seconds = _best(levels, domain, speed)
        found[steps] = one * steps / seconds
    return Gains(found)


def steps_between_fills(step: Step, domain: Domain, most: int, speed: Speed = H200) -> int:
    """Return after how many single steps halos should be filled that all steps before shrink.

    A domain that grows for earlier steps costs nothing as long as a launch takes longer.
    """
    if 0 in domain:
        return 1

    def seconds(steps: int) -> float:
        each = [_single(step, _grown(domain, step.reach, left), speed) for left in range(steps)]
        return (sum(each) + _FILL) / steps

    return min(range(1, most + 1), key=seconds)


def _grown(domain: Domain, reach: Extent, steps: int) -> Domain:
    i, j, k = (size + steps * (high - low) for size, (low, high) in zip(domain, reach, strict=True))
    return i, j, k


def fits(levels: Levels) -> bool:
    """Whether a thread has registers for the narrowest tile."""
    return any(True for _ in _candidates(levels))


def fused_tile(levels: Levels, domain: Domain, speed: Speed = H200) -> FusedTile:
    """Return the tile that should be the fastest."""
    return _best(levels, domain, speed)[0]


def _best(levels: Levels, domain: Domain, speed: Speed) -> tuple[FusedTile, float]:
    several = [_cut(form, domain, speed) for form in _candidates(levels)]
    return min(several, key=lambda one: one[1])


def _single(step: Step, domain: Domain, speed: Speed) -> float:
    """Return the seconds of one step by itself."""
    moved = _bytes(step, domain)
    rate = _SINGLE_CACHE if moved <= _CACHED else speed.memory * _SINGLE_REACHED
    return _BEGUN + moved / rate


def _bytes(step: Step, domain: Domain) -> float:
    """Return the bytes of all arrays of a step on a domain."""
    names = arrays_of_steps(levels_at_once(step, 1))
    sizes = dict(zip(Axis, domain, strict=True))
    return sum(
        step.dtypes[name].itemsize * prod(sizes[axis] for axis in step.axes[name]) for name in names
    )


def _candidates(levels: Levels) -> Iterator[Form]:
    """Yield the forms for which a thread has registers."""
    size = max(levels.step.dtypes[name].itemsize for name in arrays_of_steps(levels))
    unit = VECTOR // size
    early = sum(node.value is None and node.level == 0 for node in levels.nodes)
    if levels.along is Axis.J:
        ahead, unroll = {1: (3, 3), 2: (2, 2), 3: (2, 2)}.get(early, (1, 2))
        # Wider lanes keep more in registers than the warps that are left can hide.
        widths = [unit >> n for n in range(unit.bit_length())]
        tiles = [FusedTile(width, 1, ahead=ahead, unroll=unroll) for width in widths]
    else:
        shapes = ((4, 16), (3, 16), (3, 12), (5, 8), (4, 12), (4, 8), (2, 16), (3, 8), (2, 8))
        tiles = [
            FusedTile(width, 1, rows=rows, warps=warps, ahead=1, unroll=3)
            for width in dict.fromkeys((unit, max(1, unit // 2)))
            for rows, warps in shapes
        ]
    width = 0
    for tile in tiles:
        if width > tile.width and levels.along is Axis.J:
            return
        form = usual_form(levels, tile)
        if _is_fit(form):
            width = tile.width
            yield replace(form, tile=replace(tile, resident=_asked(form)))


def usual_form(levels: Levels, tile: FusedTile) -> Form:
    """Return the form for arrays as the target's memory makes them."""
    step = levels.step
    numbers: dict[tuple[tuple[Axis, ...], int], int] = {}
    kinds: dict[str, tuple[int, Kind]] = {}
    for name in arrays_of_steps(levels):
        look = (step.axes[name], step.dtypes[name].itemsize)
        i, j, k = (Stride.ANY if axis in look[0] else Stride.NONE for axis in Axis)
        kind = (Stride.ONE if i is Stride.ANY else i, j, k)
        kinds[name] = (numbers.setdefault(look, len(numbers)), kind)
    return Form(levels, kinds, frozenset(kinds), wide=False, tile=tile, alternate=False)


def _is_fit(form: Form) -> bool:
    tall = max(max(len(kept.below), len(kept.above)) for kept in form.kept)
    return (
        form.columns > 0
        and form.rows * form.width <= LANES
        and form.lines > 0
        and tall <= form.rows
        and shared_of(form) <= _SHARED
        and _registers(form) <= _OVER * min(_REGISTERS, _PROCESSOR // form.tile.threads)
    )


def _registers(form: Form) -> int:
    """Return about how many registers the compiler needs."""
    several = [Registers(form, n) for n in range(len(form.levels.nodes))]
    early = [
        one
        for one, node in zip(several, form.levels.nodes, strict=True)
        if node.value is None and not node.level
    ]
    states = sum(node.halo is not None and not node.level for node in form.levels.nodes)
    points = form.rows * form.width * max(one.dtype.itemsize for one in several) // 4
    waiting = len(early) * form.tile.ahead * points
    # About half of those of other threads are there at a time, and of one value after the other.
    beside = max(one.beside for one in several) // 2
    kept = sum(one.words for one in several) * 6 // 5
    return 35 + kept + beside + waiting + 3 * points * max(0, states - 1)


def _resident(form: Form) -> int:
    """Return how many warps a processor has room for, as the compiler is asked to make it."""
    if form.tile.resident:
        return form.tile.resident
    if not form.vertical:
        return _FEWEST
    blocks = _PROCESSOR // (min(_REGISTERS, _registers(form)) * form.tile.threads)
    shared = shared_of(form)
    if shared:
        blocks = min(blocks, _SHARED // shared)
    return max(1, blocks) * form.tile.warps


def _asked(form: Form) -> int:
    """Return for how many warps the compiler should leave room; 0 for as many as it likes.

    Where a step loads many coefficients, those are under way in registers that others do not need.
    """
    if form.vertical:
        return _resident(form)
    again = sum(node.value is None and node.level == 1 for node in form.levels.nodes)
    if again > _FEW:
        return 0
    needed = _registers(form)
    for warps in (16, 12):
        if needed <= _SQUEEZED * (_PROCESSOR // (LANES * warps)):
            return warps
    return 0


def _cut(form: Form, domain: Domain, speed: Speed) -> tuple[FusedTile, float]:
    """Return the tile of a form cut along the stream, and the seconds of a pass."""
    length = domain[2] if form.vertical else domain[1]
    usual, longer = _ends(form, domain)
    slots = _slots(form, speed)
    cuts: dict[int, float] = {}
    for turns_ in range(1, _TURNS + 1):
        chunks = int(slots * turns_ / (usual + longer * _near(form)))
        depth = -(-length // max(1, min(length, chunks)))
        cuts[depth] = seconds_of_pass(form, domain, depth, speed)
    best = min(cuts, key=lambda depth: (cuts[depth], depth))
    return replace(form.tile, depth=best), cuts[best]


def _slots(form: Form, speed: Speed) -> int:
    """Return how many blocks the device has room for."""
    return speed.processors * _resident(form) // form.tile.warps


def _ends(form: Form, domain: Domain) -> tuple[int, int]:
    """Return how many blocks are beside one another inside, and near sides across the stream."""
    along, across = _across(form, domain)
    ends = min(along, 2) * across
    if form.vertical:
        ends += max(0, along - 2) * min(across, 2)
    return along * across - ends, ends


def _near(form: Form) -> float:
    """Return how much longer a position takes near a side."""
    own = form.rows * form.width
    more = 0.0
    for node in form.levels.nodes:
        more += _CLAMPED * (1 + own) if node.value is None else 0
        more += _KEPT * own * node.dtype.itemsize / 4 if node.halo is not None else 0
    return 1 + more / _position(form)[0]


def _across(form: Form, domain: Domain) -> tuple[int, int]:
    """Return how many blocks there are along I, and how many rows of them or planes."""
    ni, nj, nk = domain
    return -(-ni // form.columns), -(-nj // form.lines) if form.vertical else nk


def seconds_of_pass(form: Form, domain: Domain, depth: int, speed: Speed) -> float:
    """Return the seconds of a pass whose blocks have so many positions."""
    length = domain[2] if form.vertical else domain[1]
    chunks = -(-length // depth)
    usual, longer = _ends(form, domain)
    slots, resident = _slots(form, speed), _resident(form)
    near = _near(form)
    last = turns(slots, usual * chunks, longer * chunks, near) + _TAIL
    # Memory waits as well while the last blocks leave processors idle.
    stretched = last / max(1, (usual + longer * near) * chunks / slots)
    positions = depth + form.levels.start + form.levels.lag
    alone = min(resident, -(-(usual + longer) * chunks * form.tile.warps // speed.processors))
    issue, double = _position(form)
    busy = max(issue / min(_ISSUED, _ALONE + _EACH * alone), double / _DOUBLE)
    each = max(busy * alone / _SCHEDULERS, issue + double + _WAIT * form.levels.steps)
    each += _LATENCY / max(1, form.tile.ahead)
    moving = _moving(form, domain, depth, speed) * stretched
    return _LAUNCH + max(last * positions * each / speed.cycles, moving)


def _moving(form: Form, domain: Domain, depth: int, speed: Speed) -> float:
    """Return the seconds that memory needs for a pass."""
    step = form.levels.step
    sizes = dict(zip(Axis, domain, strict=True))
    extra = form.levels.start + form.levels.lag
    again = (LANES * form.width / form.columns) * (1 + extra / depth)
    if form.vertical:
        again *= form.rows * form.tile.warps / form.lines
    moved = 0.0
    for name in form.arrays:
        size = step.dtypes[name].itemsize * prod(sizes[axis] for axis in step.axes[name])
        # Half of what is read again is still in the cache.
        moved += size if name in step.results else size * (1 + again) / 2
    rate = _CACHE if moved <= _CACHED else speed.memory * _REACHED
    return max(moved / rate, _fetching(form, domain))


def _fetching(form: Form, domain: Domain) -> float:
    """Return the seconds for coefficients that later steps fetch anew, where they do not stay near.

    Between two steps that read them as many rows pass as the second one lags behind.
    """
    nodes = form.levels.nodes
    later = [node.dtype.itemsize for node in nodes if node.value is None and node.level]
    first = [node.dtype.itemsize for node in nodes if node.value is None and not node.level]
    rows = form.levels.lag * LANES * form.width * form.rows * sum(first)
    if not later or rows * _resident(form) <= _NEAR_CACHE:
        return 0.0
    return sum(later) * prod(domain) / _CACHE


def _position(form: Form) -> tuple[float, float]:
    """Return the instructions of a warp for one position, and the cycles of units for doubles."""
    issue, double = 8.0, 0.0
    for number, node in enumerate(form.levels.nodes):
        registers = Registers(form, number)
        kept = registers.kept
        own = form.rows * form.width
        words = max(1, node.dtype.itemsize // 4)
        issue += (len(kept.left) + len(kept.right)) * form.rows * words
        issue += (len(kept.below) + len(kept.above)) * form.width * 1.5
        issue += own * words / 4 if node.outputs else 0
        if node.value is None:
            issue += 4 + own * words / 2
            continue
        singles, doubles = _arithmetic(node)
        issue += own * (singles + doubles)
        double += 2 * own * doubles
    return issue, double


def _arithmetic(node: Node) -> tuple[float, float]:
    """Return the instructions of an expression, and those on doubles; equal parts count once."""
    found = [0.0, 0.0]
    for expr in distinct(() if node.value is None else (node.value,)):
        found[expr.dtype is DType.FLOAT64] += _COSTS.of(expr)
    return found[0], found[1]
