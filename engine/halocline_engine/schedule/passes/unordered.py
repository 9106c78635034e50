"""Levels that do not wait for each other: FORWARD and BACKWARD become PARALLEL.

Where a computation reads what it writes on the level itself only, the order of its levels does not
matter, and its points may run side by side: there are many times more of them than columns.
"""

from __future__ import annotations

from halocline_engine.ir.types import Order
from halocline_engine.ir.walk import assignments
from halocline_engine.schedule.stages import Draft, Part

__all__ = ["unordered"]


def unordered(draft: Draft) -> Draft:
    """Return the draft with those parts PARALLEL whose levels are independent."""
    return draft.with_parts(tuple(_unordered(part, draft.flat) for part in draft.parts))


def _unordered(part: Part, flat: frozenset[str]) -> Part:
    body = [stage.statement for stage in part.stages]
    written = {name for stage in part.stages for name in stage.targets}
    if written & flat or any(one.level is not None for one in assignments(body)):
        return part
    if any(name in written and k for stage in part.stages for name, (_, _, k) in stage.reads):
        return part
    return Part(Order.PARALLEL, part.stages)
