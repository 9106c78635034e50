"""The sweep of a column: its loops over the levels of its sections, in one order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace

from halocline_engine.backends.cuda.kernels.columns.conditional_loads import (
    ConditionalText,
)
from halocline_engine.backends.cuda.kernels.columns.early_loads import (
    Hint,
    Stream,
    hint_of,
    load,
)
from halocline_engine.backends.cuda.kernels.columns.parts import SectionPart, pass_parts
from halocline_engine.backends.cuda.kernels.columns.passes import (
    Carry,
    LevelVariables,
    Pass,
    always_assigned,
)
from halocline_engine.backends.cuda.kernels.columns.placement import Placement, served
from halocline_engine.backends.cuda.model.entries import Entry, Stride
from halocline_engine.backends.cuda.model.speed import H200
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.backends.cuda.text.fragments import (
    bound,
    indent,
    section_body,
    signed,
    touched,
)
from halocline_engine.backends.cuda.text.near_quotients import level_body
from halocline_engine.backends.cuda.text.statements import HERE, Scope, element
from halocline_engine.ir.nodes import Offset
from halocline_engine.ir.types import DType, Order
from halocline_engine.schedule.nodes import Section
from halocline_engine.schedule.storage.coverage import exposed

__all__ = ["ColumnSweep", "sweeps_of"]

#: Registers of a processor, and of a thread that computes quotients side by side.
_REGISTERS, _QUOTIENTS = 65536, 96


@dataclass(frozen=True, slots=True)
class ColumnSweep(LevelVariables):
    """Writes one pass of a column kernel under a tile.

    The arrays in `carriers` may have the element of a level in a variable until the level is done.
    """

    entry: Entry
    one: Pass
    placement: Placement
    tile: Tile
    parts: tuple[SectionPart, ...]
    carriers: frozenset[str]
    served: frozenset[str]

    @property
    def carried(self) -> frozenset[str]:
        """The names of which the pass has the value of a level visited before in a variable."""
        return frozenset[str]().union(*(part.carry.names for part in self.parts))

    def lines(self) -> list[str]:
        """Return the pass: what its sections share, then one after the other.

        Loads for the first loop are under way before the sections ahead of it are computed.
        """
        first = next((part for part in self.parts if part.streams), None)
        lines = [line for part in self.parts for line in self._declared_early(part)]
        lines += [line for part in self._ahead_of(first) for line in self._early(part)]
        if first is not None:
            lines += self._fill(first)
        for part in self.parts:
            if part.streams and part is not first:
                lines += self._fill(part)
            lines += ["{", *indent(self._section(part)), "}"]
        return lines

    def _ahead_of(self, first: SectionPart | None) -> Iterator[SectionPart]:
        """Yield the sections up to the first loop, or all where there is none."""
        for part in self.parts:
            yield part
            if part is first:
                return

    def _behind(self, part: SectionPart) -> Iterator[SectionPart]:
        """Yield the sections behind a loop, up to the next one."""
        for later in self.parts[self.parts.index(part) + 1 :]:
            yield later
            if later.streams:
                return

    def _declared_early(self, part: SectionPart) -> list[str]:
        return [f"{self._type(name)} {variable};" for (name, _), variable in part.early.items()]

    def _early(self, part: SectionPart) -> list[str]:
        """Return the loads of single elements, at the first level of a section."""
        if not part.early:
            return []
        loads = [
            f"{variable} = {load(self.scope, name, offset, self._hint(name))};"
            for (name, offset), variable in part.early.items()
        ]
        names = [name for name, _ in part.early]
        level = f"[[maybe_unused]] const int k = {self._first(part)};"
        inner = [level, *self._offsets(names), *loads]
        return ["{", *indent(inner), "}"]

    def _fill(self, part: SectionPart) -> list[str]:
        """Return the register queues of a section, with the elements of its first levels."""
        lines: list[str] = []
        kept: list[str] = []
        loads: list[str] = []
        for stream in part.streams:
            kind = self._type(stream.name)
            lines.append(f"{kind} {stream.queue}[{2 * self.tile.ahead}];")
            for age in range(1, stream.ages + 1):
                lines.append(f"{kind} {stream.variable(age)};")
                kept.append(f"{stream.variable(age)} = {self._load(stream, stream.at(age))};")
            loads.append(f"{stream.queue}[q] = {self._load(stream, stream.at(0))};")
        names = [stream.name for stream in part.streams]
        if kept:
            aged = [stream.name for stream in part.streams if stream.ages]
            inner = [f"const int k = {self._first(part)};", *self._offsets(aged), *kept]
            lines += ["{", *indent(inner), "}"]
        sign = "+" if self.one.step < 0 else "-"
        inner = [
            f"const int k = {self._first(part)} {sign} min(q, {self._count(part)} - 1);",
            *self._offsets(names),
            *loads,
        ]
        return [
            *lines,
            "#pragma unroll",
            f"for (int q = 0; q < {self.tile.ahead}; ++q) {{",
            *indent(inner),
            "}",
        ]

    def _section(self, part: SectionPart) -> list[str]:
        """Return the levels of a section."""
        names = touched(part.section) - self.placement.names
        start = [
            f"[[maybe_unused]] int k = {self._first(part)};",
            *(f"[[maybe_unused]] {o.removeprefix('const ')}" for o in self._offsets(names)),
            *self._loaded(part.carry),
        ]
        if part.is_single:
            return [*start, *self._level(part)]
        steps = self._steps(names)
        if part.streams:
            return [*start, *self._rounds(part, steps)]
        low, high = bound(part.section.interval.start), bound(part.section.interval.end)
        test = f"k < {high}" if self.one.step < 0 else f"k >= {low}"
        return [*start, f"while ({test}) {{", *indent([*self._level(part), *steps]), "}"]

    def _rounds(self, part: SectionPart, steps: list[str]) -> list[str]:
        """Return the levels of a section in rounds of `ahead` levels.

        The elements of the next round are on their way, all together, while a round is computed,
        and those of the sections behind the loop with the last ones.
        """
        ahead, count = self.tile.ahead, self._count(part)
        conditional = self._under_conditions(part)
        even = [*self._level(part, 0), *steps]
        odd = [*self._level(part, ahead), *steps]
        return [
            f"const int count = {count};",
            "int at = 0;",
            *conditional.queues(),
            f"for (; at + {2 * ahead} <= count; at += {2 * ahead}) {{",
            *indent(self._next(part, ahead, ahead)),
            *indent(conditional.loads(0, ahead)),
            *indent(_unrolled(ahead, even)),
            *indent(self._next(part, 0, ahead, f"at + {2 * ahead} + q < count")),
            *indent(conditional.loads(ahead, ahead)),
            *indent(_unrolled(ahead, odd)),
            "}",
            *(line for later in self._behind(part) for line in self._early(later)),
            *self._rest(part, count, even, odd),
        ]

    def _rest(self, part: SectionPart, count: str, even: list[str], odd: list[str]) -> list[str]:
        """Return the levels that do not fill two rounds.

        Where their number is not known, each has a branch, which no load is moved across.
        """
        ahead, conditional = self.tile.ahead, self._under_conditions(part)
        if count.isdecimal():
            rest = int(count) % (2 * ahead)
            over = max(rest - ahead, 0)
            return [
                *self._next(part, ahead, over),
                *conditional.loads(0, min(rest, ahead)),
                *_unrolled(min(rest, ahead), even),
                *conditional.loads(ahead, over),
                *_unrolled(over, odd),
            ]
        return [
            *self._next(part, ahead, ahead - 1, f"at + {ahead} + q < count"),
            *conditional.loads(0, ahead, "at + q < count"),
            *_unrolled(ahead, ["if (at + q < count) {", *indent(even), "}"]),
            *conditional.loads(ahead, ahead - 1, f"at + {ahead} + q < count"),
            *_unrolled(ahead - 1, [f"if (at + {ahead} + q < count) {{", *indent(odd), "}"]),
        ]

    def _next(self, part: SectionPart, place: int, number: int, test: str = "") -> list[str]:
        """Return the loads of the next round, into the queues from a place on."""
        sign = "+" if self.one.step < 0 else "-"
        loads = [
            f"{stream.queue}[{place} + q] = {self._load(stream, stream.at(0))};"
            for stream in part.streams
        ]
        places = self._offsets([stream.name for stream in part.streams])
        lines = [
            f"const int next = k {sign} ({self.tile.ahead} + q);",
            "{",
            *indent(["const int k = next;", *places, *loads]),
            "}",
        ]
        return _unrolled(number, [f"if ({test}) {{", *indent(lines), "}"] if test else lines)

    def _under_conditions(self, part: SectionPart) -> ConditionalText:
        """Return the writer of what a section loads under conditions."""
        queues = {(s.name, s.at(0)): f"{s.queue}[{{}} + q]" for s in part.streams}
        return ConditionalText(
            conditions=part.conditions,
            first=part.first,
            scope=self.scope,
            step=self.one.step,
            ahead=self.tile.ahead,
            at_hand={**queues, **part.early},
            hints={name: self._hint(name) for name, _ in part.conditions.loads},
        )

    def _count(self, part: SectionPart) -> str:
        """Return how many levels a section has, as a number where that is known."""
        start, end = part.section.interval.start, part.section.interval.end
        levels = self.tile.levels
        if levels or start.from_end == end.from_end:
            return str(end.level(levels) - start.level(levels))
        return f"nk{signed(end.offset - start.offset)}"

    def _steps(self, names: Set[str]) -> list[str]:
        """Return the steps to the next level."""
        sign = "+" if self.one.step < 0 else "-"
        moving = names - self.scope.stacked.keys()
        kinds = dict(sorted(self.scope.kinds[n] for n in self.entry.arrays if n in moving))
        moves = [
            f"o{number} {sign}= s{number}k;"
            for number, kind in kinds.items()
            if kind[2] is not Stride.NONE
        ]
        return [*moves, f"{sign}{sign}k;"]

    def _loaded(self, carry: Carry) -> list[str]:
        """Return the loads of what the first level needs of the level before.

        A buffer has the levels of the domain only; no program reads it elsewhere, but a branch that
        the first level does not take may name it.
        """
        names = [name for name in self.entry.arrays if name in carry.loaded]
        test = "if (k > 0) " if self.one.step < 0 else "if (k + 1 < nk) "
        return [
            f"{'' if name in self.scope.fields else test}"
            f"{self._before(name)} = {element(self.scope, name, (0, 0, self.one.step))};"
            for name in names
        ]

    def _level(self, part: SectionPart, place: int = 0) -> list[str]:
        """Return one level: statements, stores, what it hands on.

        Elements that were loaded early are in the queues from `place` on.
        """
        section, carry = part.section, part.carry
        always = always_assigned(section)
        kept = [n for n in self.entry.arrays if n in always and n in self.carriers]
        changed = (part.updated | part.conditions.changed).difference(kept)
        updated = [name for name in self.entry.arrays if name in changed]
        scope = replace(
            self.scope,
            values=self._values(part),
            outputs={**self.scope.outputs, **{n: self._here(n) for n in (*kept, *updated)}},
            behind={name: self._store(name) for name in updated},
        )
        initial = {name: self._initial(name, part) for name in kept}
        handed = [name for name in self.entry.arrays if name in carry.handed]
        return [
            *(
                f"const {self._type(s.name)} {s.variable(0)} = {s.queue}[{place} + q];"
                for s in part.streams
            ),
            *(self._declared(name, value) for name, value in initial.items()),
            *(self._declared(name, self._initial(name, part)) for name in updated),
            *self._statements(section, scope, initial),
            *(self._store(name) for name in kept if name not in self.placement.variables),
            *(f"{self._before(name)} = {self._here(name)};" for name in handed),
            *self._under_conditions(part).handed_on(),
            *(line for stream in part.streams for line in _aged(stream)),
        ]

    def _statements(
        self, section: Section, scope: Scope, initial: Mapping[str, str | None]
    ) -> list[str]:
        """Return the statements of a level.

        Its quotients wait for each other where threads have no registers for several at once, as
        many blocks must fit on a processor.
        """
        threads = self.tile.threads * -(-self.tile.blocks // H200.processors)
        if threads * _QUOTIENTS > _REGISTERS:
            return section_body(section, scope)
        times = 2 * self.tile.ahead
        return level_body(section, scope, initial, self.scope.outputs.keys(), times)

    def _values(self, part: SectionPart) -> dict[tuple[str, Offset], str]:
        """Return the places of elements that are read, other than in memory."""
        values = {**part.early, **self._under_conditions(part).values()}
        for stream in part.streams:
            for age in range(stream.ages + 1):
                values[stream.name, stream.at(age)] = stream.variable(age)
        values |= {access: self._before(access[0]) for access in part.carry.before}
        return values

    def _initial(self, name: str, part: SectionPart) -> str | None:
        """Return what the variable of an element holds at first, if anything."""
        if name in part.updated or HERE in exposed(part.section, name):
            return self._values(part).get((name, HERE)) or element(self.scope, name, HERE)
        return None

    def _declared(self, name: str, initial: str | None) -> str:
        unused = "[[maybe_unused]] " if name in self.placement.variables else ""
        value = f" = {initial}" if initial else ""
        return f"{unused}{self._type(name)} {self._here(name)}{value};"

    def _store(self, name: str) -> str:
        place, here = element(self.scope, name, HERE), self._here(name)
        streamed = name in self.scope.fields and name in self.served
        if streamed and self.scope.dtypes[name] is not DType.BOOL:
            return f"__stcs(&{place}, {here});"
        return f"{place} = {here};"

    def _load(self, stream: Stream, offset: Offset) -> str:
        return load(self.scope, stream.name, offset, self._hint(stream.name))

    def _hint(self, name: str) -> Hint:
        """Return how the pass loads an array, at all levels."""
        hint = hint_of(self.entry, self.one, name, self.tile) if self.tile.on_chip else Hint.NONE
        if hint is not Hint.NONE:
            return hint
        streams = (stream for part in self.parts for stream in part.streams)
        return next((stream.hint for stream in streams if stream.name == name), Hint.NONE)

    def _first(self, part: SectionPart) -> str:
        interval = part.section.interval
        if self.one.order is Order.FORWARD:
            return bound(interval.start)
        return f"{bound(interval.end)} - 1"


def sweeps_of(
    entry: Entry, scope: Scope, placement: Placement, tile: Tile
) -> tuple[ColumnSweep, ...]:
    """Return the writers of the passes of a kernel."""
    carriers = frozenset(entry.arrays) - scope.guarded - scope.outputs.keys()
    all_of = served(entry.kernel, carriers, tile.levels)
    return tuple(
        ColumnSweep(scope, entry, made.one, placement, made.tile, made.parts, carriers, all_of)
        for made in pass_parts(entry, scope, placement, tile)
    )


def _unrolled(number: int, lines: list[str]) -> list[str]:
    """Return lines that are written out for `q` from 0 to below `number`."""
    if not number:
        return []
    return ["#pragma unroll", f"for (int q = 0; q < {number}; ++q) {{", *indent(lines), "}"]


def _aged(stream: Stream) -> Iterator[str]:
    """Yield what makes each element one level older."""
    for age in range(stream.ages, 0, -1):
        yield f"{stream.variable(age)} = {stream.variable(age - 1)};"
