"""Recompute temporaries where they are read, instead of keeping them in memory.

After this, a temporary that would have lived in memory is gone where its value can be computed
again at every place and time of reading, and where that costs less than writing and reading it.
The value keeps the temporary's type, so recomputing changes no bits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from halocline_engine.ir.nodes import ANY_LEVEL, Assign, Expr, Offset, Read, Statement
from halocline_engine.ir.types import Axis, Order
from halocline_engine.ir.walk import (
    depth,
    expressions,
    reads,
    rewrite_once,
    size,
    walk,
    with_expressions,
)
from halocline_engine.schedule.options import Options
from halocline_engine.schedule.passes.cost import operations
from halocline_engine.schedule.passes.fusion import fuse
from halocline_engine.schedule.passes.prune import prune
from halocline_engine.schedule.stages import Draft, Part, Stage, readers_of, writers_of
from halocline_engine.schedule.storage.coverage import is_defined
from halocline_engine.schedule.storage.temporaries import buffered

__all__ = ["inline", "moved_value"]


def inline(draft: Draft, options: Options) -> Draft:
    """Return the draft with temporaries recomputed as far as that pays and is exact."""
    while True:
        before = draft
        parts = list(draft.parts)
        uses = _Uses(readers_of(parts), writers_of(parts))
        for name in buffered(draft.temporaries, fuse(draft)):
            definition = _definition(draft, parts, uses, name)
            if definition is not None and _is_exact(parts, uses, definition):
                _inline(draft, parts, uses, definition, options)
        draft = prune(draft.with_parts(tuple(parts))) if parts != [*before.parts] else before
        if draft is before:
            return draft


@dataclass(frozen=True, slots=True)
class _Uses:
    """The numbers of the parts that read each name, and of those that assign it, ascending.

    Looking for them in all parts, for each temporary, would take time that grows with the square.
    """

    readers: dict[str, list[int]]
    writers: dict[str, list[int]]

    def move(self, definition: _Definition) -> None:
        """Follow a definition, whose part is gone, to where its name was read."""
        del self.readers[definition.name]
        del self.writers[definition.name]
        for name in definition.sources:
            others = {*self.readers[name], *definition.readers} - {definition.part}
            self.readers[name] = sorted(others)


@dataclass(frozen=True, slots=True)
class _Definition:
    """The only assignment of a temporary, what it reads, and the parts that read the temporary."""

    name: str
    value: Expr
    sources: frozenset[str]
    part: int
    readers: tuple[int, ...]


def _inline(
    draft: Draft, parts: list[Part], uses: _Uses, definition: _Definition, options: Options
) -> None:
    """Put a value where a temporary is read, and nothing in the place of its part, if that pays."""
    old = [parts[n] for n in definition.readers]
    largest = _largest(old, definition)
    if largest > options.statement_limit:
        return
    # An expression has no more levels than nodes.
    if largest > options.nesting_limit and _deepest(old, definition) > options.nesting_limit:
        return
    axes = {f.name: frozenset(f.axes) for f in draft.program.fields}
    new = [_substituted(part, definition, axes) for part in old]
    if not _pays(definition, old, new, options):
        return
    for number, part in zip(definition.readers, new, strict=True):
        parts[number] = part
    parts[definition.part] = Part(Order.PARALLEL, ())
    uses.move(definition)


def _definition(draft: Draft, parts: Sequence[Part], uses: _Uses, name: str) -> _Definition | None:
    """Return the definition of a temporary that is assigned once, before all that read it."""
    writers, readers = uses.writers.get(name, []), uses.readers.get(name, [])
    if len(writers) != 1:
        return None
    part = parts[writers[0]]
    if part.order is not Order.PARALLEL:
        return None
    (stage, *_) = part.stages
    sources = frozenset(read for read, _ in stage.reads)
    if not isinstance(stage.statement, Assign) or name in sources:
        return None
    touching = [parts[n] for n in sorted({*writers, *readers})]
    if not is_defined(touching, name, draft.facts.min_levels):
        return None
    if any(_reads(parts[n], name, ANY_LEVEL) for n in readers):
        return None
    return _Definition(name, stage.statement.value, sources, writers[0], tuple(readers))


def _reads(part: Part, name: str, level: int) -> bool:
    """Whether a part reads a name at an offset along K."""
    return any(
        read == name and level == k for stage in part.stages for read, (_, _, k) in stage.reads
    )


def _is_exact(parts: Sequence[Part], uses: _Uses, definition: _Definition) -> bool:
    """Return whether what the value reads is the same at every reader as at the definition."""
    last = max(definition.readers, default=-1)
    writers = (uses.writers.get(name, []) for name in definition.sources)
    later = (numbers[bisect_right(numbers, definition.part) :] for numbers in writers)
    first = min((numbers[0] for numbers in later if numbers), default=last + 1)
    if first != last:
        return first > last
    changed = definition.sources & {name for stage in parts[last].stages for name in stage.targets}
    return _is_in_place(parts[last], definition, changed)


def _is_in_place(part: Part, definition: _Definition, changed: Set[str]) -> bool:
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


def _largest(readers: Sequence[Part], definition: _Definition) -> int:
    """Return the nodes of the largest statement that substitution would make, without making it."""
    more = size(definition.value) - 1

    def becomes(statement: Statement) -> int:
        found = [read.name for read in reads((statement,))].count(definition.name)
        return sum(map(size, expressions((statement,)))) + more * found

    return max((becomes(stage.statement) for part in readers for stage in part.stages), default=0)


def _deepest(readers: Sequence[Part], definition: _Definition) -> int:
    """Return a bound of how deep substitution would nest the values of readers."""
    return depth(definition.value) + max(depth(value) for value in _values(readers))


def _substituted(part: Part, definition: _Definition, axes: dict[str, frozenset[Axis]]) -> Part:
    def change(expr: Expr) -> Expr:
        if isinstance(expr, Read) and expr.name == definition.name:
            return moved_value(definition.value, expr.offset, axes)
        return expr

    def substituted(stage: Stage) -> Stage:
        if all(name != definition.name for name, _ in stage.reads):
            return stage
        changed = with_expressions(stage.statement, lambda expr: rewrite_once(expr, change))
        return Stage(stage.interval, stage.extent, changed)

    return Part(part.order, tuple(substituted(stage) for stage in part.stages))


def moved_value(value: Expr, offset: Offset, axes: dict[str, frozenset[Axis]]) -> Expr:
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
        at = (i, j, k if expr.level is None else ANY_LEVEL)
        return Read(expr.name, at, expr.dtype, expr.level)

    return rewrite_once(value, change)


def _pays(
    definition: _Definition, old: Sequence[Part], new: Sequence[Part], options: Options
) -> bool:
    """Return whether the recomputed operations cost less than one temporary in memory."""
    more = operations(_values(new)) - operations(_values(old)) - operations([definition.value])
    return more <= options.recompute_limit or options.temporaries == "recompute"


def _values(parts: Iterable[Part]) -> list[Expr]:
    return [value for part in parts for s in part.stages for value in expressions((s.statement,))]
