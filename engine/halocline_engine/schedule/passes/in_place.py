"""Let a field be changed where it lies, if a temporary holds it while narrow regions change it.

Models fill the corners of a field by a function that gets the field and returns it:
`q = f(q)` becomes `t = q`, changes of `t` in regions, and `q = t`. After this, the regions change
`q`, and nothing touches its other points.
"""

from __future__ import annotations

from collections.abc import Set

from halocline_engine.ir.extent import CENTRE
from halocline_engine.ir.nodes import Assign, Expr, If, Read
from halocline_engine.ir.types import Axis
from halocline_engine.ir.walk import rewrite_statement
from halocline_engine.schedule.rare import is_rare, narrow_masks
from halocline_engine.schedule.stages import Draft, Part, Stage, touching
from halocline_engine.schedule.storage.rename import retargeted

__all__ = ["in_place"]

_POINT = (0, 0, 0)


def in_place(draft: Draft) -> Draft:
    """Return the draft without temporaries that hold a field while regions change it."""
    masks = narrow_masks(draft.program)
    if not masks:
        return draft
    whole = {field.name for field in draft.program.fields if field.axes == tuple(Axis)}
    places = touching(draft.parts)
    parts = [
        _changed(part, whole, masks, {n for n in draft.temporaries if places.get(n) == [number]})
        for number, part in enumerate(draft.parts)
    ]
    return draft.with_parts(tuple(parts))


def _changed(part: Part, fields: Set[str], masks: Set[str], temporaries: Set[str]) -> Part:
    """Return a part that does without such temporaries; none of them is used in another one."""
    stages = list(part.stages)
    targets = dict.fromkeys(name for stage in stages for name in stage.targets)
    for name in (target for target in targets if target in temporaries):
        own = [n for n, stage in enumerate(stages) if name in stage.names]
        first, last = own[0], own[-1]
        field = _copied(stages[first], name)
        if field not in fields or first == last:
            continue
        inner = stages[first + 1 : last]
        if _copied(stages[last], field) == name and _only_regions(inner, name, field, masks):
            same = stages[first].interval
            if all(stages[n].interval == same and stages[n].extent == CENTRE for n in own):
                stages[first : last + 1] = [_renamed(stage, name, field) for stage in inner]
    return Part(part.order, tuple(stages))


def _copied(stage: Stage, target: str) -> str:
    """Return the name whose value a statement gives to the target, point by point, or nothing."""
    match stage.statement:
        case Assign(name, Read(source, offset, dtype), _, None) if name == target:
            plain = Read(source, offset, dtype) == stage.statement.value
            return source if plain and offset == _POINT else ""
        case _:
            return ""


def _only_regions(stages: list[Stage], name: str, field: str, masks: Set[str]) -> bool:
    """Whether nothing touches the field, and the name changes in narrow regions alone."""
    return all(
        field not in stage.names
        and all(offset == _POINT for read, offset in stage.reads if read == name)
        and (name not in stage.targets or _is_region(stage, masks))
        for stage in stages
    )


def _is_region(stage: Stage, masks: Set[str]) -> bool:
    statement = stage.statement
    return (
        isinstance(statement, If)
        and not statement.otherwise
        and is_rare(statement.condition, masks)
    )


def _renamed(stage: Stage, name: str, field: str) -> Stage:
    def change(expr: Expr) -> Expr:
        if isinstance(expr, Read) and expr.name == name:
            return Read(field, expr.offset, expr.dtype, expr.level)
        return expr

    statement = rewrite_statement(retargeted(stage.statement, {name: field}), change)
    return Stage(stage.interval, stage.extent, statement)
