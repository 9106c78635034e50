"""Cost model of fused steps: how many are worth it, and the tile of each; no device is asked.

A pass takes as long as its bytes or its instructions do, whichever is longer. More steps need fewer
passes, but more is computed that other blocks compute too, and more registers leave less room for
the warps that hide each other's waits. The constants are those of an H200.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf, prod

from halocline_engine.backends.cuda.kernels.temporal.form import LANES, VECTOR, Form, arrays_of_steps
from halocline_engine.backends.cuda.kernels.temporal.text import shared_of
from halocline_engine.backends.cuda.kernels.temporal.tile import FusedTile
from halocline_engine.backends.cuda.kernels.temporal.values import Registers
from halocline_engine.backends.cuda.model.entries import Kind, Stride
from halocline_engine.backends.cuda.model.tile import Domain
from halocline_engine.ir.nodes import Binary, Call, Expr, Number, Parameter, Read
from halocline_engine.ir.types import Axis, DType
from halocline_engine.ir.walk import children
from halocline_engine.schedule.temporal.levels import Levels, Node, levels_at_once
from halocline_engine.schedule.temporal.step import Step

__all__ = ["Gains", "fits", "fused_tile", "gains_of"]

#: Steps that are looked at.
_STEPS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
#: Registers of a thread, of a processor, and bytes of shared memory of a block.
_REGISTERS, _PROCESSOR, _SHARED = 255, 65536, 227 * 1024
_PROCESSORS, _SCHEDULERS = 132, 4
_CLOCK = 1.7e9
#: Bytes a second of memory, as copies and as fused steps reach them, and of the cache.
_MEMORY, _REACHED, _CACHE = 4.2e12, 0.85, 8e12
#: Bytes that stay in the cache from step to step.
_CACHED = 40 << 20
#: The share of cycles in which instructions are issued where enough warps are there, and cycles that
#: a step waits where only one is.
_ISSUED, _WAIT = 0.72, 45
#: What a launch takes, in seconds; and how much faster fused steps must be.
_LAUNCH, _GAIN = 1.3e-6, 1.15
_HEAVY = {"sqrt": 10, "abs": 1, "min": 2, "max": 2, "floor": 1, "ceil": 1, "trunc": 1, "round": 1}
_FUNCTION, _DIVISION = 30, 10


@dataclass(frozen=True, slots=True)
class Gains:
    """How much faster than one by one so many steps at once should be."""

    by_steps: Mapping[int, float]

    @property
    def most(self) -> int:
        """The most steps that are known."""
        return max(self.by_steps, default=1)

    def best(self, steps: Iterable[int]) -> int:
        """Return the number of steps that gains most, or 1 where none gains much."""
        found = max(steps, key=lambda n: (self.by_steps.get(n, 0.0), -n), default=1)
        return found if self.by_steps.get(found, 0.0) >= _GAIN else 1


def gains_of(step: Step, domain: Domain) -> Gains:
    """Return what fusing steps should gain on a domain, in arrays as the target makes them."""
    one = _single(step, domain)
    found: dict[int, float] = {}
    for steps in _STEPS[1:]:
        levels = levels_at_once(step, steps)
        if not fits(levels):
            break
        _, seconds = _best(levels, domain)
        found[steps] = one * steps / seconds
    return Gains(found)


def fits(levels: Levels) -> bool:
    """Whether a thread has registers for the narrowest tile."""
    return any(True for _ in _candidates(levels))


def fused_tile(levels: Levels, domain: Domain) -> FusedTile:
    """Return the tile that should be the fastest."""
    return _best(levels, domain)[0]


def _best(levels: Levels, domain: Domain) -> tuple[FusedTile, float]:
    several = [_cut(form, domain) for form in _candidates(levels)]
    return min(several, key=lambda one: one[1])


def _single(step: Step, domain: Domain) -> float:
    """Return the seconds of one step by itself."""
    moved = _bytes(step, domain)
    rate = _CACHE if moved <= _CACHED else _MEMORY * 0.95
    return max(_LAUNCH, moved / rate)


def _bytes(step: Step, domain: Domain) -> float:
    """Return the bytes of all arrays of a step on a domain."""
    names = arrays_of_steps(levels_at_once(step, 1))
    sizes = dict(zip(Axis, domain, strict=True))
    return sum(
        step.dtypes[name].itemsize * prod(sizes[axis] for axis in step.axes[name])
        for name in names
    )


def _candidates(levels: Levels) -> Iterator[Form]:
    """Yield the forms for which a thread has registers."""
    size = max(levels.step.dtypes[name].itemsize for name in arrays_of_steps(levels))
    unit = VECTOR // size
    if levels.along is Axis.J:
        tiles = [FusedTile(width, 1) for width in (2 * unit, unit, max(1, unit // 2))]
    else:
        tiles = [
            FusedTile(unit, 1, rows=rows, warps=warps, ahead=1)
            for rows, warps in ((4, 8), (2, 16), (3, 12), (4, 12), (2, 12), (1, 24))
        ]
    for tile in dict.fromkeys(tiles):
        form = usual_form(levels, tile)
        if _is_fit(form):
            yield form


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
    tall = max(
        max(len(kept.below), len(kept.above)) for kept in form.kept
    )
    return (
        form.columns > 0
        and form.lines > 0
        and tall <= form.rows
        and shared_of(form) <= _SHARED
        and _registers(form) <= min(_REGISTERS, _PROCESSOR // form.tile.threads)
    )


def _registers(form: Form) -> int:
    """Return about how many registers the compiler needs."""
    words = sum(Registers(form, n).words for n in range(len(form.levels.nodes)))
    return 40 + words + words // 3


def _resident(form: Form) -> int:
    """Return how many warps a processor has room for."""
    warps = form.tile.warps
    registers = min(_REGISTERS, _registers(form))
    blocks = min(_PROCESSOR // (registers * form.tile.threads), 32)
    shared = shared_of(form)
    if shared:
        blocks = min(blocks, _SHARED // shared)
    return max(1, blocks) * warps


def _cut(form: Form, domain: Domain) -> tuple[FusedTile, float]:
    """Return the tile of a form cut along the stream, and the seconds of a pass."""
    ni, nj, nk = domain
    across = -(-nj // form.lines) if form.vertical else nk
    length = nk if form.vertical else nj
    strips = -(-ni // form.columns) * across * form.tile.warps
    resident = _resident(form)
    slots = _PROCESSORS * resident
    extra = form.levels.start + form.levels.lag
    cycles = _position(form)
    best = (form.tile, inf)
    for waves in range(1, 13):
        chunks = max(1, min(length, slots * waves // strips))
        depth = -(-length // chunks)
        turns = -(-strips * -(-length // depth) // slots)
        alone = min(resident, -(-strips * -(-length // depth) // _PROCESSORS))
        each = max(
            cycles * alone / _SCHEDULERS / _ISSUED, cycles + _WAIT * form.levels.steps
        )
        computing = turns * (depth + extra) * each / _CLOCK
        seconds = _LAUNCH + max(computing, _moving(form, domain, depth))
        if seconds < best[1]:
            best = (replace(form.tile, depth=depth), seconds)
        if chunks == length:
            break
    return best


def _moving(form: Form, domain: Domain, depth: int) -> float:
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
    rate = _CACHE if moved <= _CACHED else _MEMORY * _REACHED
    return moved / rate


def _position(form: Form) -> float:
    """Return the issue slots of a warp for one position."""
    total = 8.0
    for number, node in enumerate(form.levels.nodes):
        registers = Registers(form, number)
        kept = registers.kept
        own = form.rows * form.width
        words = max(1, node.dtype.itemsize // 4)
        total += (len(kept.left) + len(kept.right)) * form.rows * words
        total += (len(kept.below) + len(kept.above)) * form.width * 1.5
        if node.value is None:
            total += 4 + own * words / 2
        else:
            total += own * _arithmetic(node)
        total += own * words / 4 if node.outputs else 0
    return total


def _arithmetic(node: Node) -> float:
    """Return the issue slots of an expression; equal parts count once."""
    seen: set[Expr] = set()
    pending = [node.value]
    total = 0.0
    while pending:
        expr = pending.pop()
        if expr is None or expr in seen:
            continue
        seen.add(expr)
        total += _slots(expr)
        pending.extend(children(expr))
    return total


def _slots(expr: Expr) -> float:
    double = 2 if expr.dtype is DType.FLOAT64 else 1
    match expr:
        case Number() | Parameter() | Read():
            return 0
        case Binary("/" | "%"):
            return _DIVISION * double
        case Call(function):
            return _HEAVY.get(function, _FUNCTION) * double
        case _:
            return double
