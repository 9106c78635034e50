"""Recompute temporaries where they are read, instead of keeping them in memory.

After this, a temporary that would have lived in memory is gone where its value can be computed
again at every place and time of reading, and where that costs less than writing and reading it.
The value keeps the temporary's type, so recomputing changes no bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from halocline_engine.ir.nodes import ANY_LEVEL, Assign, Expr, Offset, Read, Statement
from halocline_engine.ir.types import Axis, Order
from halocline_engine.ir.walk import expressions, rewrite, rewrite_statement, walk
from halocline_engine.schedule.options import Options
from halocline_engine.schedule.passes.cost import operations
from halocline_engine.schedule.passes.fusion import fuse
from halocline_engine.schedule.passes.prune import prune
from halocline_engine.schedule.stages import Draft, Part, Stage
from halocline_engine.schedule.storage.coverage import is_defined
from halocline_engine.schedule.storage.temporaries import buffered

__all__ = ["inline"]


def inline(draft: Draft, options: Options) -> Draft:
    """Return the draft with temporaries recomputed as far as that pays and is exact."""
    while True:
        before = draft
        for name in buffered(draft.temporaries, fuse(draft)):
            draft = _inlined(draft, name, options)
        if draft is before:
            return draft


@dataclass(frozen=True, slots=True)
class _Definition:
    """The only assignment of a temporary, and the parts that read it."""

    name: str
    value: Expr
    part: int
    readers: tuple[int, ...]


def _inlined(draft: Draft, name: str, options: Options) -> Draft:
    definition = _definition(draft, name)
    if definition is None or not _is_exact(draft, definition):
        return draft
    if _largest(draft, definition) > options.statement_limit:
        return draft
    axes = {f.name: frozenset(f.axes) for f in draft.program.fields}
    parts = list(draft.parts)
    for number in definition.readers:
        parts[number] = _substituted(parts[number], definition, axes)
    old = [draft.parts[n] for n in definition.readers]
    new = [parts[n] for n in definition.readers]
    if not _pays(definition, old, new, options):
        return draft
    return prune(draft.with_parts(tuple(parts)))


def _definition(draft: Draft, name: str) -> _Definition | None:
    """Return the definition of a temporary that is assigned once, before all that read it."""
    writers = [n for n, p in enumerate(draft.parts) if any(name in s.targets for s in p.stages)]
    if len(writers) != 1:
        return None
    part = draft.parts[writers[0]]
    if part.order is not Order.PARALLEL:
        return None
    statement = part.stages[0].statement
    if not isinstance(statement, Assign) or any(read == name for read, _ in part.stages[0].reads):
        return None
    if not is_defined(draft.parts, name, draft.facts.min_levels):
        return None
    readers = tuple(n for n, p in enumerate(draft.parts) if _reads(p, name))
    if any(_reads(draft.parts[n], name, ANY_LEVEL) for n in readers):
        return None
    return _Definition(name, statement.value, writers[0], readers)


def _reads(part: Part, name: str, level: int | None = None) -> bool:
    """Whether a part reads a name, or if it is given at an offset along K."""
    return any(
        read == name and level in (None, k)
        for stage in part.stages
        for read, (_, _, k) in stage.reads
    )


def _is_exact(draft: Draft, definition: _Definition) -> bool:
    """Return whether what the value reads is the same at every reader as at the definition."""
    sources = {read.name for read in _reads_in(definition.value)}
    for number in range(definition.part + 1, max(definition.readers, default=-1) + 1):
        part = draft.parts[number]
        changed = sources & {name for stage in part.stages for name in stage.targets}
        if not changed:
            continue
        if number < max(definition.readers) or not _is_in_place(part, definition, changed):
            return False
    return True


def _is_in_place(part: Part, definition: _Definition, changed: set[str]) -> bool:
    """Return whether a single assignment overwrites only what it reads at its own point."""
    if part.order is not Order.PARALLEL or not isinstance(part.stages[0].statement, Assign):
        return False
    at = [offset for name, offset in part.stages[0].reads if name == definition.name]
    inside = [read.offset for read in _reads_in(definition.value) if read.name in changed]
    return all(_sum(one, two) == (0, 0, 0) for one in at for two in inside)


def _reads_in(value: Expr) -> Iterable[Read]:
    return (node for node in walk(value) if isinstance(node, Read))


def _sum(one: Offset, two: Offset) -> Offset:
    return one[0] + two[0], one[1] + two[1], one[2] + two[2]


def _largest(draft: Draft, definition: _Definition) -> int:
    """Return the nodes of the largest statement that substitution would make, without making it."""
    more = sum(1 for _ in walk(definition.value)) - 1
    return max(
        (
            sum(1 + more * _is_read(node, definition.name) for node in _nodes(stage.statement))
            for number in definition.readers
            for stage in draft.parts[number].stages
        ),
        default=0,
    )


def _is_read(node: Expr, name: str) -> bool:
    return isinstance(node, Read) and node.name == name


def _substituted(part: Part, definition: _Definition, axes: dict[str, frozenset[Axis]]) -> Part:
    def change(expr: Expr) -> Expr:
        if isinstance(expr, Read) and expr.name == definition.name:
            return _moved(definition.value, expr.offset, axes)
        return expr

    def substituted(stage: Stage) -> Stage:
        if all(name != definition.name for name, _ in stage.reads):
            return stage
        return Stage(stage.interval, stage.extent, rewrite_statement(stage.statement, change))

    return Part(part.order, tuple(substituted(stage) for stage in part.stages))


def _moved(value: Expr, offset: Offset, axes: dict[str, frozenset[Axis]]) -> Expr:
    """Return the value at another point; fields stay where they are along axes they lack."""
    if offset == (0, 0, 0):
        return value

    def change(expr: Expr) -> Expr:
        if not isinstance(expr, Read):
            return expr
        own = axes.get(expr.name, frozenset(Axis))
        i, j, k = (
            old + (step if axis in own else 0)
            for axis, old, step in zip(Axis, expr.offset, offset, strict=True)
        )
        return replace(expr, offset=(i, j, k if expr.level is None else ANY_LEVEL))

    return rewrite(value, change)


def _pays(
    definition: _Definition, old: Sequence[Part], new: Sequence[Part], options: Options
) -> bool:
    """Return whether the recomputed operations cost less than one temporary in memory."""
    more = operations(_values(new)) - operations(_values(old)) - operations([definition.value])
    return more <= options.recompute_limit or options.temporaries == "recompute"


def _values(parts: Iterable[Part]) -> list[Expr]:
    return [value for part in parts for s in part.stages for value in expressions((s.statement,))]


def _nodes(statement: Statement) -> Iterable[Expr]:
    return (node for value in expressions((statement,)) for node in walk(value))
