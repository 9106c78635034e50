"""Loads of a column that are issued before their level is computed.

A section with many levels has a register queue for each stream of elements: the array and the
horizontal offset that it is read at. Each element is loaded once, `ahead` levels early, and then
handed on in variables as long as a level reads it. Sections of one level, at the ends of columns,
load theirs at the start of the pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from halocline_engine.backends.cuda.kernels.columns.latency import is_function
from halocline_engine.backends.cuda.kernels.columns.passes import Pass, passes_of
from halocline_engine.backends.cuda.model.entries import Entry
from halocline_engine.backends.cuda.model.intervals import is_single
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.backends.cuda.text.statements import HERE, Scope, element
from halocline_engine.ir.nodes import Expr, If, Interval, Offset, Read, Statement
from halocline_engine.ir.remember import remembered
from halocline_engine.ir.types import DType
from halocline_engine.ir.walk import (
    Access,
    assignments,
    expressions,
    head,
    irregular,
    reads,
    reads_of,
    walk,
)
from halocline_engine.schedule.nodes import Section
from halocline_engine.schedule.stages import follows
from halocline_engine.schedule.storage.coverage import exposed

__all__ = [
    "TEXT",
    "Hint",
    "Stream",
    "early_reads",
    "hint_of",
    "is_unchanged",
    "load",
    "loaded_bytes",
    "streams_of",
    "text_of",
]

#: The most text of an unrolled loop, in nodes of expressions: it stays in the cache of
#: instructions, and compilers' time grows with it.
TEXT = 3000
#: The text of a function besides its arguments, by the bytes of its type.
_FUNCTION = {4: 60, 8: 200}
#: The most bytes that a level loads early if some of them are perhaps not used, and how many times
#: those that it always uses they may be at most: where no level takes the branch, it takes so much
#: longer. Where many do, the loads that they wait for took up to 1.4 times as long (one H200).
_SPECULATED, _RISK = 64, 1.5


class Hint(Enum):
    """How long what is loaded is to stay in caches.

    Nothing else reads what is loaded ONCE, while neighbours read other arrays. A later pass reads
    what is loaded to KEEP again, and the last one that does may DROP it.
    """

    NONE = "none"
    ONCE = "once"
    KEEP = "keep"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Stream:
    """Elements of an array at one horizontal offset, a new one for each level.

    `newest` and `oldest` are the K offsets, in the order of visits, between which levels read it.
    """

    number: int
    name: str
    across: tuple[int, int]
    newest: int
    oldest: int
    hint: Hint

    @property
    def queue(self) -> str:
        """The variable with elements that are loaded early."""
        return f"q{self.number}"

    @property
    def ages(self) -> int:
        """For how many levels after its first one an element is kept."""
        return abs(self.newest - self.oldest)

    def at(self, age: int) -> Offset:
        """Return the offset of the element that was the newest `age` levels before."""
        step = 1 if self.newest > self.oldest else -1
        return (*self.across, self.newest - step * age)

    def variable(self, age: int) -> str:
        """Return the variable with the element of that age, while a level is computed."""
        return f"q{self.number}_{age}"


def early_reads(
    section: Section,
    one: Pass,
    varying: Mapping[str, int],
    flat: frozenset[str] = frozenset(),
) -> list[Read]:
    """Return the distinct reads of each level of a section whose values are there before the pass.

    The arrays in memory vary from level to level, with so many bytes an element, or are flat: all
    levels share an element. What the pass writes is there until its level is visited, which has
    it in a variable then. Reads of the level itself under an `if` are returned where they add
    little; other levels may not exist where the branch is not taken.
    """

    def there(values: Iterable[Expr]) -> Iterator[Read]:
        for read in (read for value in values for read in reads_of(value)):
            if read.level is not None or not (read.name in flat or read.name in varying):
                continue
            if read.name not in one.written or (
                read.name in varying and is_unchanged(read, section, one)
            ):
                yield read

    def loaded(accesses: Iterable[Access]) -> int:
        streams = {(name, offset[:2]) for name, offset in accesses if name in varying}
        return sum(varying[name] for name, _ in streams)

    found = {(read.name, read.offset): read for read in there(_always(section.body))}
    perhaps = (read for read in there(_perhaps(section.body)) if read.offset[2] == 0)
    more = found | {(read.name, read.offset): read for read in perhaps}
    if loaded(more) <= min(_SPECULATED, _RISK * loaded(found)):
        found = more
    return list(found.values())


def is_unchanged(read: Read, section: Section, one: Pass) -> bool:
    """Return whether nothing of a pass has changed an element of a column when a level begins."""
    if read.offset[:2] != (0, 0) or read.offset[2] * one.step > 0:
        return False
    if read.name in _irregular(section):
        return False
    if read.offset == HERE and HERE not in exposed(section, read.name):
        return False
    if any(read.name in _assigned_elsewhere(other) for other in one.sections):
        return False
    return all(
        other is section
        or (read.offset == HERE and _is_apart(section.interval, other.interval))
        or read.name not in other.assigned
        for other in one.sections
    )


@remembered
def _irregular(section: Section) -> frozenset[str]:
    """Return the names that a section reads or assigns at levels that only a run knows."""
    return irregular(section.body)


@remembered
def _assigned_elsewhere(section: Section) -> frozenset[str]:
    """Return the names that a section assigns at another level than its own."""
    return frozenset(a.target for a in assignments(section.body) if a.level is not None)


def _is_apart(one: Interval, other: Interval) -> bool:
    """Return whether intervals have no level in common, however many levels there are."""
    return follows(one.end, other.start, 1) or follows(other.end, one.start, 1)


def _always(body: Sequence[Statement]) -> Iterator[Expr]:
    for statement in body:
        yield from head(statement)


def _perhaps(body: Sequence[Statement]) -> Iterator[Expr]:
    """Yield the values of a body, with those under an `if`, which are not always evaluated."""
    for statement in body:
        yield from head(statement)
        if isinstance(statement, If):
            yield from _perhaps(statement.then)
            yield from _perhaps(statement.otherwise)


def streams_of(
    passes: Sequence[Pass], one: Pass, section: Section, sizes: Mapping[str, int], first: int = 0
) -> tuple[Stream, ...]:
    """Return the streams of a section of one of the passes, numbered from `first`.

    `sizes` has the bytes of an element of each array that varies from level to level.
    """
    levels: dict[tuple[str, tuple[int, int]], set[int]] = {}
    for read in early_reads(section, one, sizes):
        i, j, k = read.offset
        levels.setdefault((read.name, (i, j)), set()).add(k)
    newest, oldest = (max, min) if one.step < 0 else (min, max)
    places = Counter(name for name, _ in levels)
    crowded = max(places.values(), default=1) > 1
    return tuple(
        Stream(
            number=number,
            name=name,
            across=across,
            newest=newest(ks),
            oldest=oldest(ks),
            hint=Hint.ONCE
            if crowded and places[name] == 1 and len(_reading(passes, name)) == 1
            else Hint.NONE,
        )
        for number, ((name, across), ks) in enumerate(levels.items(), start=first)
    )


def hint_of(entry: Entry, one: Pass, name: str, tile: Tile) -> Hint:
    """Return how a pass loads what more than one pass reads and none writes; else NONE."""
    reading = _reading(passes_of(entry.kernel, tile.levels), name)
    if len(reading) < 2 or name in entry.written or one not in reading:
        return Hint.NONE
    return Hint.DROP if one == reading[-1] else Hint.KEEP


def loaded_bytes(one: Pass, passes: Sequence[Pass], sizes: Mapping[str, int]) -> int:
    """Return the bytes that the streams of a level load, in the section with most of them."""
    return max(
        (
            sum(sizes[stream.name] for stream in streams_of(passes, one, section, sizes))
            for section in one.sections
            if not is_single(section.interval)
        ),
        default=0,
    )


def text_of(section: Section) -> int:
    """Return the text of a level: the nodes of its expressions, where a function is many."""
    return sum(_text(node) for value in expressions(section.body) for node in walk(value))


def _text(node: Expr) -> int:
    return 1 + (_FUNCTION.get(node.dtype.itemsize, 0) if is_function(node) else 0)


def _reading(passes: Sequence[Pass], name: str) -> list[Pass]:
    """Return the passes that read an array."""
    return [one for one in passes if _reads(one, name)]


def _reads(one: Pass, name: str) -> bool:
    return any(read.name == name for section in one.sections for read in reads(section.body))


def load(scope: Scope, name: str, offset: Offset, hint: Hint) -> str:
    """Return the load of an element.

    What is read ONCE is not to stay in the L1 cache, where neighbours find what they share. Where
    nothing is shared, loads without a hint are faster.
    """
    place = element(scope, name, offset)
    if scope.dtypes[name] is DType.BOOL:
        return place
    match hint:
        case Hint.NONE:
            return place
        case Hint.ONCE:
            return f"__ldcs(&{place})"
        case Hint.KEEP:
            return f"policy_load(&{place}, keep)"
        case Hint.DROP:
            return f"policy_load(&{place}, drop)"
        case _:
            assert_never(hint)
