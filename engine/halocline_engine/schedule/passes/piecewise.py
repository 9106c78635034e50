"""Recompute temporaries whose definitions differ from interval to interval.

After this, a temporary that PARALLEL statements define on intervals side by side, and that columns
have for themselves, is gone where that leaves fewer kernels: each of its readers is cut into
intervals on which every read sees one of the definitions, and has that definition's value there. A
read at another level crosses from one interval to the next, so a reader may have more intervals
than the temporary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from halocline_engine.ir.nodes import ANY_LEVEL, Assign, Bound, Expr, Interval, Read
from halocline_engine.ir.types import Axis, Order
from halocline_engine.ir.walk import depth, expressions, rewrite_statement, walk
from halocline_engine.schedule.options import Options
from halocline_engine.schedule.passes.cost import operations
from halocline_engine.schedule.passes.fusion import fuse
from halocline_engine.schedule.passes.inline import inline, moved_value
from halocline_engine.schedule.passes.prune import prune
from halocline_engine.schedule.stages import (
    Draft,
    Part,
    Stage,
    follows,
    is_vertical,
    is_within,
    readers_of,
    writers_of,
)
from halocline_engine.schedule.storage.coverage import is_defined, moved
from halocline_engine.schedule.storage.temporaries import buffered, kernels_of

__all__ = ["inline_piecewise"]


def inline_piecewise(draft: Draft, options: Options) -> Draft:
    """Return the draft with such temporaries recomputed as far as kernels go with them."""
    found = tried = draft
    steps = fuse(draft)
    count = len(kernels_of(steps))
    several = {name for name, numbers in writers_of(draft.parts).items() if len(numbers) > 1}
    for name in buffered(draft.temporaries, steps):
        parts = _without(tried, name, options) if name in several else None
        if parts is None:
            continue
        # What its values read at their own point is now read at other levels.
        tried = inline(prune(tried.with_parts(parts)), options)
        left = len(kernels_of(fuse(tried)))
        if left < count:
            found, count = tried, left
    return found


@dataclass(frozen=True, slots=True)
class _Piece:
    """The value of a temporary on one interval, and the part that assigns it."""

    interval: Interval
    value: Expr
    part: int


def _without(draft: Draft, name: str, options: Options) -> tuple[Part, ...] | None:
    """Return the parts with the readers of a temporary computing it, if that is exact and pays."""
    parts, levels = draft.parts, draft.facts.min_levels
    writers, readers = writers_of(parts).get(name, []), readers_of(parts).get(name, [])
    pieces = [_piece(parts[n], name, n) for n in writers]
    known = [piece for piece in pieces if piece is not None]
    if len(known) < max(2, len(pieces)) or not _are_disjoint(known, levels):
        return None
    touching = [parts[n] for n in sorted({*writers, *readers})]
    if not all(is_vertical(stage) for part in touching for stage in part.stages):
        return None
    if not is_defined(touching, name, levels) or not _are_kept(parts, known, readers):
        return None
    axes = {f.name: frozenset(f.axes) for f in draft.program.fields}
    new = {n: _cut(parts[n], name, known, axes, levels) for n in readers}
    cut = {n: several for n, several in new.items() if several is not None}
    if len(cut) < len(new) or not _pays(parts, known, cut, options):
        return None
    gone = {piece.part for piece in known}
    return tuple(
        one for n, part in enumerate(parts) if n not in gone for one in cut.get(n, (part,))
    )


def _pays(
    parts: Sequence[Part],
    pieces: Sequence[_Piece],
    cut: Mapping[int, tuple[Part, ...]],
    options: Options,
) -> bool:
    """Return whether recomputing costs less than memory, at the level where it costs most."""
    if any(_is_too_large(part, options) for several in cut.values() for part in several):
        return False
    more = -max(operations([piece.value]) for piece in pieces)
    for n, several in cut.items():
        more += max(operations(_values(part)) for part in several) - operations(_values(parts[n]))
    return more <= options.recompute_limit or options.temporaries == "recompute"


def _piece(part: Part, name: str, number: int) -> _Piece | None:
    """Return what a part defines, if it assigns the temporary everywhere on its interval."""
    (stage, *_) = part.stages
    statement = stage.statement
    if part.order is not Order.PARALLEL or not isinstance(statement, Assign):
        return None
    if statement.level is not None or any(read == name for read, _ in stage.reads):
        return None
    return _Piece(stage.interval, statement.value, number)


def _are_disjoint(pieces: Sequence[_Piece], levels: int) -> bool:
    intervals = [piece.interval for piece in pieces]
    return all(
        follows(one.end, two.start, levels) or follows(two.end, one.start, levels)
        for n, one in enumerate(intervals)
        for two in intervals[n + 1 :]
    )


def _are_kept(parts: Sequence[Part], pieces: Sequence[_Piece], readers: Sequence[int]) -> bool:
    """Return whether nothing that the values read is assigned before the last reader is done."""
    last = max(readers, default=-1)
    return all(
        read not in stage.targets
        for piece in pieces
        for read, _ in parts[piece.part].stages[0].reads
        for part in parts[piece.part + 1 : last + 1]
        for stage in part.stages
    )


def _cut(
    part: Part,
    name: str,
    pieces: Sequence[_Piece],
    axes: dict[str, frozenset[Axis]],
    levels: int,
) -> tuple[Part, ...] | None:
    """Return a reader cut into parts on which each read sees one definition, with their values.

    None where this cannot be said for every number of levels. The statements of a sequential part
    follow each other on each level, so that it stays in one.
    """
    found: list[Stage] = []
    for stage in part.stages:
        away = {offset[2] for read, offset in stage.reads if read == name}
        intervals = _intervals(stage.interval, away, pieces, levels)
        if intervals is None or (part.order is not Order.PARALLEL and len(intervals) > 1):
            return None
        for interval in intervals:
            seen = {k: _seen(moved(interval, k), pieces, levels) for k in away}
            values = {k: piece.value for k, piece in seen.items() if piece is not None}
            if len(values) < len(away):
                return None
            found.append(_with_values(replace(stage, interval=interval), name, values, axes))
    if part.order is not Order.PARALLEL:
        return (Part(part.order, tuple(found)),)
    return tuple(Part(part.order, (stage,)) for stage in found)


def _intervals(
    whole: Interval, away: set[int], pieces: Sequence[_Piece], levels: int
) -> list[Interval] | None:
    """Return an interval cut where a read goes from one definition to the next."""
    if ANY_LEVEL in away:
        return None
    bounds = {b for piece in pieces for b in (piece.interval.start, piece.interval.end)}
    cuts = {Bound(b.from_end, b.offset - k) for b in bounds for k in away}
    inside = {
        cut
        for cut in cuts
        if not follows(cut, whole.start, levels) and not follows(whole.end, cut, levels)
    }
    ends = sorted({whole.start, whole.end, *inside}, key=lambda b: (b.from_end, b.offset))
    if not all(follows(one, two, levels) for one, two in pairwise(ends)):
        return None
    return [Interval(one, two) for one, two in pairwise(ends)]


def _seen(interval: Interval, pieces: Sequence[_Piece], levels: int) -> _Piece | None:
    """Return the definition that holds on all of an interval."""
    return next((p for p in pieces if is_within(interval, p.interval, levels)), None)


def _with_values(
    stage: Stage, name: str, values: dict[int, Expr], axes: dict[str, frozenset[Axis]]
) -> Stage:
    def change(expr: Expr) -> Expr:
        if isinstance(expr, Read) and expr.name == name:
            return moved_value(values[expr.offset[2]], expr.offset, axes)
        return expr

    return Stage(stage.interval, stage.extent, rewrite_statement(stage.statement, change))


def _is_too_large(part: Part, options: Options) -> bool:
    """Whether a statement has more nodes, or is deeper nested, than compilers are given."""
    return any(
        sum(1 for value in expressions((stage.statement,)) for _ in walk(value))
        > options.statement_limit
        or max(map(depth, expressions((stage.statement,)))) > options.nesting_limit
        for stage in part.stages
    )


def _values(part: Part) -> list[Expr]:
    return [value for stage in part.stages for value in expressions((stage.statement,))]
