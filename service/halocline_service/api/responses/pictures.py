"""The scene that a job's plan is drawn as: a corner of its blocks, and the numbers of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from halocline_engine.schedule.traversal.column_model import Reads, Work, turning, working_set
from halocline_engine.schedule.traversal.pictures import Scene

__all__ = ["scene_of"]

#: What of a grid of blocks is drawn.
_ROWS, _LENGTH = 8, 16
#: A block reads chunks of those around it.
_AROUND = Reads((1, 1), (1, 1))


def scene_of(plan: Mapping[str, Any]) -> Scene:
    """Return the scene of a plan as its event has it; of many blocks, the first ones.

    Blocks stand for their chunks, and the cache is as wide as the columns, where there is one.
    """
    rows, length = int(plan.get("rows", 1)), int(plan.get("length", 1))
    if rows * length == 1:
        length = max(1, int(plan["blocks"]))
    width = int(plan.get("width", 1))
    order = str(plan.get("order", "row"))
    shown, wide = min(rows, _ROWS), min(length, _LENGTH)
    across = min(wide if order == "row" else width, wide)
    turns = order == "zigzag" and across < wide
    work = turning(Work(1, _AROUND)) if turns else Work(1, _AROUND)
    cache = working_set(work, across) if plan.get("cache_bytes") else 0
    notes = tuple(_notes(plan, rows, length, shown * wide < rows * length))
    return Scene(order, shown, wide, across, _AROUND, cache, notes)


def _notes(plan: Mapping[str, Any], rows: int, length: int, part: bool) -> Iterator[str]:
    if part:
        yield f"drawn: the first blocks of {rows} rows of {length}"
    chunks, predicted = plan.get("chunks"), plan.get("predicted_fetches")
    if not chunks:
        return
    cache = f"a cache of {int(plan['cache_bytes']) / 2**20:.1f} MiB a worker"
    expected = "fetches not predicted" if predicted is None else f"{predicted} fetches predicted"
    yield f"in all: {chunks} chunks, {cache}, {expected}"
    if plan.get("fetches") is not None:
        yield f"counted: {plan['fetches']} fetches"
