"""Several steps of a feedback as one computation that streams along an axis.

At each position of the stream one row of every value is made (a plane, where the axis is K). A
value lags behind the position: row `position - lag` is made, so that the rows of its sources are
there. What later rows read is kept, so many rows of each value as its `ages` say::

    position      9   10   11            2d5pt, streaming along J
    step 0 reads  9   10   11            lag 0, ages 0 to 2
    step 1 makes  8    9   10            lag 1, ages 0 to 2
    step 2 makes  7    8    9            lag 2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from halocline_engine.analysis.boundaries import UNMADE, MadeSides
from halocline_engine.ir.nodes import Expr, Read
from halocline_engine.ir.remember import remembered
from halocline_engine.ir.types import Axis, DType
from halocline_engine.ir.walk import reads_of
from halocline_engine.schedule.temporal.ghosts import Offset, inward, offsets_of
from halocline_engine.schedule.temporal.step import Step

__all__ = ["Levels", "Node", "Source", "levels_at_once", "levels_of"]


def _nothing() -> dict[Read, Mapping[Offset, Source]]:
    return {}


@dataclass(frozen=True, slots=True)
class Source:
    """A read of a value: the number of its node, how old its row is, the offsets across."""

    node: int
    age: int
    i: int
    j: int


@dataclass(frozen=True, slots=True)
class Node:
    """A value of a step: a `value` that is computed, or what is loaded of the field `name`.

    `sources` are those of the reads of its value. Where `halo` names a field, points beyond sides
    that are not open have its values in the next step, `level` + 1; `before` is that field a step
    earlier, at the same point. `around` has, for reads of what the step before made, where each of
    the cells is that they may need beyond sides, by offset; `outputs` are the fields that
    it is stored in. `low` and `high` are how many columns (and rows across the stream) at the ends
    of what is loaded have no value; it has the row `start` behind the first position, and later
    ones.
    """

    level: int
    name: str
    dtype: DType
    value: Expr | None
    sources: Mapping[Read, Source]
    lag: int = 0
    halo: str | None = None
    before: Source | None = None
    around: Mapping[Read, Mapping[Offset, Source]] = field(default_factory=_nothing)
    outputs: tuple[str, ...] = ()
    low: tuple[int, int] = (0, 0)
    high: tuple[int, int] = (0, 0)
    start: int = 0


@dataclass(frozen=True)
class Levels:
    """All values of `steps` steps, sources before what reads them; `along` is J or K.

    `ends` says how ghosts follow from cells; elsewhere steps find what the arrays of inputs hold.
    """

    step: Step
    steps: int
    along: Axis
    nodes: tuple[Node, ...]
    ends: MadeSides = UNMADE

    @property
    def low(self) -> tuple[int, int]:
        """Columns and rows that are lost at the low ends."""
        return _most([node.low for node in self.nodes if node.outputs])

    @property
    def high(self) -> tuple[int, int]:
        """Columns and rows that are lost at the high ends."""
        return _most([node.high for node in self.nodes if node.outputs])

    @property
    def start(self) -> int:
        """The first row of all outputs, counted from the first position."""
        return max(node.start for node in self.nodes if node.outputs)

    @property
    def lag(self) -> int:
        """The position behind the last row of an output at which that is made."""
        return max(node.lag for node in self.nodes if node.outputs)

    @cached_property
    def uses(self) -> tuple[tuple[Source, ...], ...]:
        """All reads of each node."""
        found: list[list[Source]] = [[] for _ in self.nodes]
        for node in self.nodes:
            for source in node.sources.values():
                found[source.node].append(source)
            for several in node.around.values():
                for source in several.values():
                    found[source.node].append(source)
            if node.before is not None:
                found[node.before.node].append(node.before)
        return tuple(map(tuple, found))


def levels_of(
    step: Step, steps: int, along: Axis, *, crosses: bool = False, ends: MadeSides = UNMADE
) -> Levels:
    """Return the values of so many steps; `crosses` where neighbours across are a position late.

    Those are rows of other threads, which have them a barrier later.
    """
    made = _Nodes(step, steps)
    made.make()
    nodes = _Lags(made, along, ends, crosses=crosses).placed()
    return Levels(step, steps, along, _margins(step, nodes, along, ends), ends)


@remembered
def levels_at_once(step: Step, steps: int, ends: MadeSides = UNMADE) -> Levels:
    """Return the values of so many steps, streaming along K where planes need one another."""
    if step.is_vertical:
        return levels_of(step, steps, Axis.K, crosses=True, ends=ends)
    return levels_of(step, steps, Axis.J, ends=ends)


def _most(pairs: list[tuple[int, int]]) -> tuple[int, int]:
    return max(one for one, _ in pairs), max(two for _, two in pairs)


def _further(
    ends: tuple[int, int], beside: tuple[tuple[int, int], tuple[int, int]], end: int
) -> tuple[int, int]:
    return ends[0] + beside[0][end], ends[1] + beside[1][end]


@dataclass(slots=True)
class _Nodes:
    """Finds the values that the outputs of the last step need, sources first."""

    step: Step
    steps: int
    nodes: list[Node] = field(default_factory=list[Node])
    sources: list[dict[str, int]] = field(default_factory=list[dict[str, int]])
    known: dict[tuple[int, str], int] = field(default_factory=dict[tuple[int, str], int])

    def make(self) -> None:
        """Find all nodes."""
        last = self.steps - 1
        for level in range(last):
            # From the first step on, so that what calls itself does not go deep.
            for name in self.step.feedback:
                if name in self.step.extents:
                    self._of(level + 1, name)
        for output, name in self.step.results.items():
            number = self._of(last, name)
            node = self.nodes[number]
            self.nodes[number] = replace(node, outputs=(*node.outputs, output))

    def _of(self, level: int, name: str) -> int:
        found = self.known.get((level, name))
        if found is None:
            found = self.known[level, name] = self._made(level, name)
        return found

    def _made(self, level: int, name: str) -> int:
        step = self.step
        stage = step.by_name.get(name)
        if stage is not None:
            copied = stage.value
            if isinstance(copied, Read) and copied.offset == (0, 0, 0) and self._may_stand(name):
                return self._of(level, copied.name)
            numbers = {r.name: self._of(level, r.name) for r in reads_of(stage.value)}
            return self._new(Node(level, name, step.dtypes[name], stage.value, {}), numbers)
        output = step.feedback.get(name)
        if output is None or level == 0:
            return self._new(Node(level, name, step.dtypes[name], None, {}), {})
        number = self._of(level - 1, step.results[output])
        if not self._is_central(name):
            self.nodes[number] = replace(self.nodes[number], halo=name)
        return number

    def _new(self, node: Node, sources: dict[str, int]) -> int:
        self.nodes.append(node)
        self.sources.append(sources)
        return len(self.nodes) - 1

    def _may_stand(self, name: str) -> bool:
        """Whether a stage that copies a value may be that value, beyond the domain too."""
        becomes = [
            old
            for old, new in self.step.feedback.items()
            if self.step.results[new] == name and old in self.step.extents
        ]
        return all(self._is_central(old) for old in becomes)

    def _is_central(self, name: str) -> bool:
        """Whether a field is read at the point alone, so that none beyond the domain matters."""
        return self.step.extents[name] == ((0, 0), (0, 0), (0, 0))


class _Lags:
    """Finds when the rows of each value are made: as early as its sources allow.

    What is made of coefficients alone is made as late as its readers allow, and so kept briefly.
    """

    def __init__(self, made: _Nodes, along: Axis, ends: MadeSides, *, crosses: bool) -> None:
        self._made, self._along, self._crosses = made, along, crosses
        self._ends = ends
        self._lags = [0] * len(made.nodes)
        self._late = self._free()
        self._readers: list[list[tuple[int, Read]]] = [[] for _ in made.nodes]
        for n, node in enumerate(made.nodes):
            for read in reads_of(node.value) if node.value is not None else ():
                self._readers[made.sources[n][read.name]].append((n, read))

    def placed(self) -> list[Node]:
        """Return the nodes with their lags, and how old the rows are that they read."""
        nodes, numbers = self._made.nodes, self._made.sources
        for n, node in enumerate(nodes):
            if node.value is not None and n not in self._late:
                self._lags[n] = max(
                    (
                        self._lags[numbers[n][r.name]] + self._ahead(n, r)
                        for r in reads_of(node.value)
                        if numbers[n][r.name] not in self._late or self._is_fed(numbers[n][r.name])
                    ),
                    default=0,
                )
        for n in reversed(range(len(nodes))):
            if n in self._late:
                self._lags[n] = min(self._wanted(n), default=0)
        return [
            replace(
                node,
                lag=self._lags[n],
                sources=self._sources(n, node),
                before=self._before(n, node),
                around=self._around(n, node),
            )
            for n, node in enumerate(nodes)
        ]

    def _before(self, number: int, node: Node) -> Source | None:
        """Return the field that a value becomes as it was a step earlier, if that is there."""
        if node.halo is None:
            return None
        source = self._made.known.get((node.level, node.halo))
        if source is None or source > number or self._lags[source] > self._lags[number]:
            return None
        return Source(source, self._lags[number] - self._lags[source], 0, 0)

    def _free(self) -> set[int]:
        """Return the nodes that can be made at any time: loads, and what is made of them alone.

        What the first step is fed sets the pace, and so does what is made of it.
        """
        found: set[int] = set()
        for n, node in enumerate(self._made.nodes):
            inner = self._made.sources[n].values()
            pure = all(m in found and not self._is_fed(m) for m in inner)
            if node.value is None or (pure and not node.outputs):
                found.add(n)
        return found

    def _is_fed(self, number: int) -> bool:
        node = self._made.nodes[number]
        return node.value is None and node.name in self._made.step.feedback

    def _wanted(self, number: int) -> list[int]:
        """Return the latest lags that each reader of a node allows."""
        return [self._lags[n] - self._ahead(n, read) for n, read in self._readers[number]]

    def _ahead(self, reader: int, read: Read) -> int:
        """Return how many positions later than a value its reader is at the earliest."""
        return max(0, *(self._late_by(at) for at in self._offsets(reader, read)))

    def _late_by(self, offset: Offset) -> int:
        _, j, k = offset
        if self._along is Axis.J:
            return j
        return k + 1 if self._crosses and j else k

    def _offsets(self, reader: int, read: Read) -> list[Offset]:
        """Return where a read may find its value; more than at its offset, if it may be a ghost."""
        node = self._made.nodes[reader]
        source = self._made.nodes[self._made.sources[reader][read.name]]
        if source.halo is None or source.level >= node.level:
            return [read.offset]
        return offsets_of(self._ends, read.offset, self._made.step.wanted[node.name])

    def _sources(self, number: int, node: Node) -> dict[Read, Source]:
        reads = reads_of(node.value) if node.value is not None else ()
        return {read: self._source(number, read, read.offset) for read in reads}

    def _around(self, number: int, node: Node) -> dict[Read, Mapping[Offset, Source]]:
        found: dict[Read, Mapping[Offset, Source]] = {}
        for read in reads_of(node.value) if node.value is not None else ():
            offsets = self._offsets(number, read)
            if len(offsets) > 1:
                found[read] = {at: self._source(number, read, at) for at in offsets}
        return found

    def _source(self, number: int, read: Read, offset: Offset) -> Source:
        source = self._made.sources[number][read.name]
        i, j, k = offset
        along = j if self._along is Axis.J else k
        age = self._lags[number] - self._lags[source] - along
        return Source(source, age, i, 0 if self._along is Axis.J else j)


def _margins(step: Step, nodes: list[Node], along: Axis, ends: MadeSides) -> tuple[Node, ...]:
    """Return the nodes with what they lack at the ends of what is loaded."""
    i, j, k = (
        (inward(high, far[1]), inward(low, -far[0]))
        for (low, high), far in zip(ends, step.reach, strict=True)
    )
    beside, stream = ((i, (0, 0)), j) if along is Axis.J else ((i, j), k)
    found: list[Node] = []
    for node in nodes:
        low = high = (0, 0)
        start = -node.lag
        for read, source in node.sources.items():
            below = found[source.node]
            low = _most([low, (below.low[0] - source.i, below.low[1] - source.j)])
            high = _most([high, (below.high[0] + source.i, below.high[1] + source.j)])
            moved = read.offset[1] if along is Axis.J else read.offset[2]
            start = max(start, below.start - moved)
        if node.halo is not None or node.outputs:
            # What a ghost of the step before is made of may be further than any point that is read.
            for below in found:
                if below.halo is not None and below.level == node.level - 1:
                    low = _most([low, _further(below.low, beside, 0)])
                    high = _most([high, _further(below.high, beside, 1)])
                    start = max(start, below.start + stream[0])
        found.append(replace(node, low=low, high=high, start=start))
    return tuple(found)
