"""Give each life of a temporary a name of its own.

After this, a PARALLEL part is one statement; a temporary that is assigned anew, so that no later
read can see the older value, has a new name from there on; and a read that comes before every
assignment is the zero that it would have found. So most temporaries are assigned once, and those
that serve as scratch space in several places can live in registers. What a field holds until all
of it is assigned anew is a life as well: a temporary, which nobody finds in the field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import zip_longest

from halocline_engine.ir.nodes import Assign, Expr, Field, If, Number, Read, Statement, While
from halocline_engine.ir.types import Axis, DType, Order
from halocline_engine.ir.walk import irregular, rewrite_statement, targets_of
from halocline_engine.schedule.stages import (
    WHOLE,
    Draft,
    Names,
    Part,
    Stage,
    is_within,
    joined,
    touching,
)
from halocline_engine.schedule.storage.coverage import assigns, is_defined

__all__ = ["rename", "retargeted", "zero"]


def rename(draft: Draft) -> Draft:
    """Return the draft with the lives of temporaries told apart."""
    names = Names(draft.temporaries)
    parts = [single for part in draft.parts for single in _single(part)]
    # Renaming one temporary does not change which parts touch the others.
    places = touching(parts)
    levels = draft.facts.min_levels
    renamings = [_Renaming({}, {}) for _ in parts]
    for name, dtype in draft.temporaries.items():
        own = [parts[n] for n in places.get(name, ())]
        lives = [(start, names.fresh(name, dtype)) for start in _starts(own, name, levels, first=1)]
        _split(parts, renamings, places.get(name, ()), name, lives)
    for field in draft.program.fields:
        own = [parts[n] for n in places.get(field.name, ())]
        if field.written and _may_live(field, own):
            lives = list(_lives(own, field, names, levels))
            _split(parts, renamings, places.get(field.name, ()), field.name, lives)
    renamed = [_renamed(*both) for both in zip(parts, renamings, strict=True)]
    return Draft(draft.program, draft.facts, _without_unassigned(renamed, names), names.types)


def zero(dtype: DType) -> Number:
    """Return the zero of a type.

    >>> zero(DType.BOOL).value
    False
    """
    return Number(dtype, 0.0 if dtype.is_float else False if dtype is DType.BOOL else 0)


def _single(part: Part) -> Iterator[Part]:
    """Yield a PARALLEL part statement by statement, which is how it runs; others stay whole."""
    if part.order is Order.PARALLEL:
        yield from (Part(part.order, (stage,)) for stage in part.stages)
    else:
        yield part


def _may_live(field: Field, parts: Sequence[Part]) -> bool:
    """Return whether lives of a field may be told apart: it has levels, and all of them are known.

    What is assigned at a level that only a run knows may lie outside the domain.
    """
    return (
        field.axes == tuple(Axis)
        and "." not in field.name
        and all(field.name not in irregular((s.statement,)) for part in parts for s in part.stages)
    )


def _lives(
    parts: Sequence[Part], field: Field, names: Names, levels: int
) -> Iterator[tuple[int, str]]:
    """Yield where lives of a field begin, with the name of a temporary but for the last of them.

    One that leaves a part of its values to the next has the name of the field.
    """
    starts = _starts(parts, field.name, levels, first=0)
    for start, following in zip_longest(starts, starts[1:]):
        is_over = following is not None and _is_whole(parts[following], field.name, levels)
        yield start, names.fresh(field.name, field.dtype) if is_over else field.name


def _is_whole(part: Part, name: str, levels: int) -> bool:
    """Return whether a part assigns a name at all points of all levels."""
    own = [stage.interval for stage in part.stages if assigns((stage.statement,), name)]
    return any(is_within(WHOLE, interval, levels) for interval in joined(own, levels))


@dataclass(frozen=True, slots=True)
class _Renaming:
    """The new names of what a part reads and assigns: all are put in at once, when all are known.

    Going through the statements for each name would take time that grows with the square.
    """

    reads: dict[str, str]
    targets: dict[str, str]


def _split(
    parts: Sequence[Part],
    renamings: Sequence[_Renaming],
    places: Sequence[int],
    name: str,
    lives: Sequence[tuple[int, str]],
) -> None:
    """Rename from each part on that starts a new life of a name, up to the next such part.

    `lives` has the numbers of these parts in `places`, and the names. A single assignment that
    begins a life reads the older one to the last.
    """
    older = name
    ends = [*(start for start, _ in lives[1:]), len(places) - 1]
    for (start, new), end in zip(lives, ends, strict=False):
        for n in places[start : end + 1]:
            renamings[n].targets[name] = renamings[n].reads[name] = new
        first = places[start]
        if _reads_older(parts[first]):
            renamings[first].reads[name] = older
        older = new


def _starts(parts: Sequence[Part], name: str, levels: int, *, first: int) -> list[int]:
    """Return where a life begins: no read from there on sees what was assigned before.

    What comes after the next such place has been looked at with that. Parts before the `first` are
    not looked at.
    """
    found: list[int] = []
    end = len(parts)
    for n in range(len(parts) - 1, first - 1, -1):
        if any(name in stage.targets for stage in parts[n].stages):
            begun = _reads_older(parts[n])
            if is_defined(parts[n:end], name, levels, begun=begun):
                found.append(n)
                end = n + 1 if begun else n
    return found[::-1]


def _reads_older(part: Part) -> bool:
    """Return whether a part that begins a life reads the older one: a single assignment does."""
    return part.order is Order.PARALLEL and isinstance(part.stages[0].statement, Assign)


def _renamed(part: Part, renaming: _Renaming) -> Part:
    def change(expr: Expr) -> Expr:
        new = renaming.reads.get(expr.name) if isinstance(expr, Read) else None
        return expr if new is None else replace(expr, name=new)

    return Part(
        part.order,
        tuple(
            stage
            if stage.names.isdisjoint(renaming.targets)
            else _with(
                stage, retargeted(rewrite_statement(stage.statement, change), renaming.targets)
            )
            for stage in part.stages
        ),
    )


def _with(stage: Stage, statement: Statement) -> Stage:
    return Stage(stage.interval, stage.extent, statement)


def retargeted(statement: Statement, names: Mapping[str, str]) -> Statement:
    """Return a statement that assigns other names instead of some."""
    if names.keys().isdisjoint(targets_of((statement,))):
        return statement
    if isinstance(statement, If):
        return replace(
            statement,
            then=tuple(retargeted(inner, names) for inner in statement.then),
            otherwise=tuple(retargeted(inner, names) for inner in statement.otherwise),
        )
    if isinstance(statement, While):
        return replace(statement, body=tuple(retargeted(inner, names) for inner in statement.body))
    return replace(statement, target=names[statement.target])


def _without_unassigned(parts: list[Part], names: Names) -> tuple[Part, ...]:
    """Put zeros for reads of temporaries that no part has assigned so far."""
    assigned: set[str] = set()
    result: list[Part] = []
    for part in parts:
        own = {name for stage in part.stages for name in stage.targets}
        single = part.order is Order.PARALLEL and isinstance(part.stages[0].statement, Assign)
        reads = {name for stage in part.stages for name, _ in stage.reads}
        empty = (reads & names.types.keys()) - assigned - (set() if single else own)
        result.append(_zeroed(part, empty) if empty else part)
        assigned |= own
    return tuple(result)


def _zeroed(part: Part, empty: Set[str]) -> Part:
    def change(expr: Expr) -> Expr:
        return zero(expr.dtype) if isinstance(expr, Read) and expr.name in empty else expr

    return Part(
        part.order,
        tuple(_with(stage, rewrite_statement(stage.statement, change)) for stage in part.stages),
    )
