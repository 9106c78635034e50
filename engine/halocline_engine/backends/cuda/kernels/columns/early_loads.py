"""Loads of a column that are issued before their level is computed.

A section with many levels has a register queue for each stream of elements: the array and the
horizontal offset that it is read at. Each element is loaded once, `ahead` levels early, and then
handed on in variables as long as a level reads it. Sections of one level, at the ends of columns,
load theirs at the start of the pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from halocline_engine.backends.cuda.kernels.columns.passes import Pass, passes_of
from halocline_engine.backends.cuda.model.entries import Entry
from halocline_engine.backends.cuda.model.intervals import is_single
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.backends.cuda.text.statements import Scope, element
from halocline_engine.ir.nodes import Expr, Offset, Read
from halocline_engine.ir.types import DType
from halocline_engine.ir.walk import expressions, head, reads, reads_of, walk
from halocline_engine.schedule.nodes import Section

__all__ = [
    "NODES",
    "Hint",
    "Stream",
    "early_reads",
    "hint_of",
    "load",
    "loaded_bytes",
    "nodes_of",
    "streams_of",
]

#: Nodes of expressions in an unrolled loop: compilers' time grows with the text.
NODES = 3000


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


def early_reads(section: Section, one: Pass, arrays: frozenset[str]) -> list[Read]:
    """Return the distinct reads that each level of a section makes of what its pass never writes.

    `arrays` are those in memory. Reads under an `if` are not among them.
    """
    found: dict[tuple[str, Offset], Read] = {}
    for value in _always(section):
        for read in reads_of(value):
            known = read.name in arrays and read.name not in one.written
            if known and read.level is None:
                found.setdefault((read.name, read.offset), read)
    return list(found.values())


def _always(section: Section) -> Iterator[Expr]:
    for statement in section.body:
        yield from head(statement)


def streams_of(
    passes: Sequence[Pass], one: Pass, section: Section, arrays: frozenset[str], first: int = 0
) -> tuple[Stream, ...]:
    """Return the streams of a section of one of the passes, numbered from `first`.

    `arrays` vary from level to level.
    """
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


def loaded_bytes(
    one: Pass, passes: Sequence[Pass], arrays: frozenset[str], sizes: Mapping[str, int]
) -> int:
    """Return the bytes that the streams of a level load, in the section with most of them."""
    return max(
        (
            sum(sizes[stream.name] for stream in streams_of(passes, one, section, arrays))
            for section in one.sections
            if not is_single(section.interval)
        ),
        default=0,
    )


def nodes_of(section: Section) -> int:
    """Return the nodes of the expressions of a level."""
    return sum(1 for value in expressions(section.body) for _ in walk(value))


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
