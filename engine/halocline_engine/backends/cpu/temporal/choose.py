"""Cost model of fused steps on a core: how many are worth it.

A step by itself computes while it moves its arrays from memory and back. Steps at once move them
once, while the first and the last of them compute, the others in the cache; but they compute again
what other tiles compute too.
"""

from __future__ import annotations

from math import prod

from halocline_engine.backends.cpu.caches import Caches
from halocline_engine.backends.cpu.calls import Domain
from halocline_engine.backends.cpu.temporal.tiles import Reach, shape_of, work_of
from halocline_engine.backends.fusing import Costs, Gains
from halocline_engine.ir.nodes import FMA
from halocline_engine.ir.types import Axis
from halocline_engine.ir.walk import distinct
from halocline_engine.schedule.temporal.step import Step

__all__ = ["gains_of", "points_of_tile"]

#: Steps that are looked at.
_STEPS = range(2, 13)
#: Bytes a second of memory, and of a core's own cache.
_MEMORY, _CACHE = 29e9, 58e9
#: Bytes of elements on which a core does an operation in a second.
_OPERATIONS = 190e9
#: Of the last cache, which others use too, fields that are this share stay in the cores' own.
_OWN = 4
#: What a tile may take of the cache; the rest is for what comes and goes.
_SHARE = 0.7
_COSTS = Costs({FMA: 1, "abs": 1, "min": 2, "max": 2}, function=30, division=8)


def gains_of(
    step: Step, domain: Domain, caches: Caches, between: int, reach: Reach | None = None
) -> Gains:
    """Return what fusing steps should gain where a step has `between` bytes of temporaries.

    `reach` is that of the step, unless ghosts need more.
    """
    reach = reach or step.reach
    fields = [name for name in (*step.inputs, *step.results) if _is_whole(step, name)]
    read = sum(step.dtypes[name].itemsize for name in fields if name not in step.results)
    written = sum(step.dtypes[name].itemsize for name in step.results)
    # What is written is fetched first.
    moved = read + 2 * written
    if prod(domain) * (read + written) <= caches.last // _OWN:
        return Gains({})
    near = max((moved + 3 * between) / _CACHE, _operations(step) / _OPERATIONS)
    far = moved / _MEMORY
    points = points_of_tile(step, caches, between)
    found: dict[int, float] = {}
    for steps in _STEPS:
        shape = shape_of(domain, reach, steps, points, 0)
        again = work_of(shape, reach, steps)
        found[steps] = max(far, near) / (far / steps + again * near)
    return Gains(found)


def points_of_tile(step: Step, caches: Caches, between: int) -> int:
    """Return the points of a tile whose values of two steps stay in the cache of a core."""
    fed = sum(step.dtypes[name].itemsize for name in step.feedback.values())
    others = {*step.inputs, *step.results} - {*step.feedback, *step.feedback.values()}
    rest = sum(step.dtypes[name].itemsize for name in others if _is_whole(step, name))
    return max(1, int(_SHARE * caches.level2) // max(1, 2 * fed + rest + between))


def _is_whole(step: Step, name: str) -> bool:
    return len(step.axes[name]) == len(Axis)


def _operations(step: Step) -> float:
    """Return the operations of a point, times the bytes of an element of each."""
    values = distinct(stage.value for stage in step.stages)
    return sum(_COSTS.of(expr) * expr.dtype.itemsize for expr in values)
