"""Loads of a column that are under way before their level is computed.

A section with many levels has a ring of registers for each stream of elements: the array and the
horizontal offset that it is read at. Each element is loaded once, `ahead` levels early, and then
handed on in variables as long as a level reads it. Sections of one level, at the ends of columns,
load theirs at the start of the pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from halocline_engine.backends.cuda.body import Scope, element
from halocline_engine.backends.cuda.carry import Pass, passes_of
from halocline_engine.backends.cuda.entries import Entry
from halocline_engine.ir.nodes import Assign, Expr, Offset, Read
from halocline_engine.ir.types import DType
from halocline_engine.ir.walk import reads, reads_of
from halocline_engine.schedule.nodes import Section

__all__ = ["Stream", "early_reads", "load", "streams_of"]


@dataclass(frozen=True, slots=True)
class Stream:
    """Elements of an array at one horizontal offset, a new one for each level.

    `newest` and `oldest` are the K offsets, in the order of visits, between which levels read it;
    `once` says that nothing else reads them while neighbours read those of other streams.
    """

    number: int
    name: str
    across: tuple[int, int]
    newest: int
    oldest: int
    once: bool

    @property
    def ring(self) -> str:
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


def early_reads(section: Section, one: Pass, arrays: frozenset[str]) -> list[Read]:
    """Return the distinct reads that each level of a section makes of what its pass never writes.

    `arrays` are those in memory. Reads under an `if` are not among them.
    """
    found: dict[tuple[str, Offset], Read] = {}
    for value in _always(section):
        for read in reads_of(value):
            if read.name in arrays and read.name not in one.written:
                found.setdefault((read.name, read.offset), read)
    return list(found.values())


def _always(section: Section) -> Iterator[Expr]:
    for statement in section.body:
        yield statement.value if isinstance(statement, Assign) else statement.condition


def streams_of(
    entry: Entry, one: Pass, section: Section, arrays: frozenset[str], first: int = 0
) -> tuple[Stream, ...]:
    """Return the streams of a section, numbered from `first`; `arrays` vary from level to level."""
    levels: dict[tuple[str, tuple[int, int]], set[int]] = {}
    for read in early_reads(section, one, arrays):
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
            once=crowded and places[name] == 1 and _passes(entry, name) == 1,
        )
        for number, ((name, across), ks) in enumerate(levels.items(), start=first)
    )


def _passes(entry: Entry, name: str) -> int:
    """Return how many passes read an array."""
    return sum(_reads(one, name) for one in passes_of(entry.kernel))


def _reads(one: Pass, name: str) -> bool:
    return any(read.name == name for section in one.sections for read in reads(section.body))


def load(scope: Scope, name: str, offset: Offset, *, once: bool) -> str:
    """Return the load of an element.

    What is read `once` is not to stay in the L1 cache, where neighbours find what they share. Where
    nothing is shared, loads without a hint are faster.
    """
    place = element(scope, name, offset)
    return f"__ldcs(&{place})" if once and scope.dtypes[name] is not DType.BOOL else place
