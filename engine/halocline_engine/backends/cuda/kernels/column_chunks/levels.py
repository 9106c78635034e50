"""The levels of a chunk: what each looks up in shared memory, computes, and hands on.

Levels wait for shared memory as long as for several operations, so each loads what the next one
looks up, unless it changes that itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from halocline_engine.backends.cuda.kernels.column_chunks.moves import (
    ChunkMoves,
)
from halocline_engine.backends.cuda.kernels.column_chunks.windows import (
    PassWindows,
)
from halocline_engine.backends.cuda.kernels.columns.passes import (
    Carry,
    LevelVariables,
    always_assigned,
)
from halocline_engine.backends.cuda.model.entries import Entry
from halocline_engine.backends.cuda.text.fragments import bound, indent, signed
from halocline_engine.backends.cuda.text.near_quotients import level_body
from halocline_engine.backends.cuda.text.statements import HERE, element
from halocline_engine.ir.nodes import Offset
from halocline_engine.ir.types import Order
from halocline_engine.ir.walk import Access, assignments, irregular, reads, targets_of
from halocline_engine.schedule.nodes import Section
from halocline_engine.schedule.storage.coverage import exposed

__all__ = ["ChunkLevels"]

#: The most bytes of a thread that it loads from shared memory for the next level.
_EARLY = 128


@dataclass(frozen=True, slots=True)
class ChunkLevels(LevelVariables):
    """Writes the levels of a chunk of a pass, section after section."""

    entry: Entry
    one: PassWindows
    chunk: int
    variables: frozenset[str]
    moves: ChunkMoves

    def lines(self) -> list[str]:
        """Return the levels of the chunk `m`."""
        lines: list[str] = []
        for section, carry in zip(self.one.one.sections, self.one.carried, strict=True):
            lines += ["{", *indent(self._loop(section, carry)), "}"]
        return lines

    def _early(self, section: Section, carry: Carry) -> dict[Access, str]:
        """Return what levels load from shared memory one level early, by the variable's name.

        It is there then: the level before does not assign it, and what the level itself may assign
        has a variable of its own.
        """
        found: dict[Access, str] = {}
        room = _EARLY
        for name, offset in carry.looked_up(section):
            size = self.scope.dtypes[name].itemsize
            is_here = self._place(name, offset) is not None or name in self.scope.stacked
            is_late = (name, offset) in carry.before or not self._is_there(section, name, offset)
            if is_here and not is_late and size <= room:
                found[name, offset] = f"e{len(found)}"
                room -= size
        return found

    def _is_there(self, section: Section, name: str, offset: Offset) -> bool:
        """Return whether an element has its value before the level before is computed."""
        if name not in section.assigned:
            return True
        if offset == HERE:
            return name in self._kept(section) and HERE in exposed(section, name)
        return offset[2] != self.one.one.step

    def _kept(self, section: Section) -> list[str]:
        """Return what a level has in variables of its own, which it stores at its end."""
        always, unknown = always_assigned(section), irregular(section.body)
        return [
            name
            for name in self.entry.arrays
            if name in section.assigned and name not in self.scope.outputs
            if name in always or (name not in unknown and self._place(name, HERE) is not None)
        ]

    def _early_loads(self, early: Mapping[Access, str], level: str) -> list[str]:
        """Return the loads for a level, into the variables of the next one."""
        loads = [f"{name}_next = {self._element(*access)};" for access, name in early.items()]
        return ["{", f"  const int k = {level};", *indent(loads), "}"] if early else []

    @property
    def _forward(self) -> bool:
        return self.one.one.order is Order.FORWARD

    def _loop(self, section: Section, carry: Carry) -> list[str]:
        """Return the levels of a section in a chunk."""
        start, end = bound(section.interval.start), bound(section.interval.end)
        first, begin, next_ = start, "low", "min(next, high - 1)"
        loop = "for (int k = low; k < high; ++k) {"
        if not self._forward:
            first, begin, next_ = f"{end} - 1", "high - 1", "max(next, low)"
            loop = "for (int k = high - 1; k >= low; --k) {"
        early = self._early(section, carry)
        kinds = {name: self._type(access[0]) for access, name in early.items()}
        step = f"const int next = k{signed(self.moves.sign)};"
        level = [
            *(f"const {kind} {name} = {name}_next;" for name, kind in kinds.items()),
            *([step] if early else []),
            *self._early_loads(early, next_),
            *self._level(section, carry, first, early),
        ]
        return [
            f"const int low = max(m * {self.chunk}, {start});",
            f"const int high = min(m * {self.chunk} + {self.chunk}, {end});",
            "if (low < high) {",
            *(f"  {kind} {name}_next;" for name, kind in kinds.items()),
            *indent(self._early_loads(early, begin)),
            f"  {loop}",
            *indent(indent(level)),
            "  }",
            "}",
        ]

    def _level(
        self, section: Section, carry: Carry, first: str, early: Mapping[Access, str]
    ) -> list[str]:
        """Return one level: statements, what it stores and what it hands on."""
        kept = self._kept(section)
        values = {
            (read.name, read.offset): place
            for read in reads(section.body)
            if (place := self._place(read.name, read.offset)) is not None
        }
        values |= early
        handed = [n for n in self.entry.arrays if n in carry.handed and n not in kept]
        values |= {(name, HERE): self._here(name) for name in handed}
        values |= {access: self._before(access[0]) for access in carry.before}
        written = {assign.target for assign in assignments(section.body)}
        outputs = {n: place for n in written if (place := self._place(n, HERE)) is not None}
        outputs |= {**self.scope.outputs, **{name: self._here(name) for name in kept}}
        scope = replace(self.scope, values=values, outputs=outputs)
        initial = {n: self._initial(n, section, carry, early) for n in (*kept, *handed)}
        return [
            *self._offsets(self._direct(section, carry)),
            *self._first_of(carry, first),
            *(self._declared(name, value) for name, value in initial.items()),
            *level_body(section, scope, initial, self.scope.outputs.keys()),
            *(
                f"{self._element(n, HERE)} = {self._here(n)};"
                for n in kept
                if n not in self.variables
            ),
            *(
                f"{self._before(n)} = {self._here(n)};"
                for n in self.entry.arrays
                if n in carry.handed
            ),
        ]

    def _direct(self, section: Section, carry: Carry) -> set[str]:
        """Return the arrays of a section that are looked up in memory."""
        windows = {window.name for window in self.one.windows}
        names = {name for name, _ in carry.looked_up(section)} | set(targets_of(section.body))
        return names & set(self.entry.arrays) - windows - self.variables - self.scope.outputs.keys()

    def _first_of(self, carry: Carry, first: str) -> Iterator[str]:
        """Yield the loads of what the first level of a section needs of the level before."""
        step = self.one.one.step
        test = "k > 0" if step < 0 else "k + 1 < nk"
        for name in self.entry.arrays:
            if name in carry.loaded:
                within = "" if name in self.scope.fields else f" && {test}"
                place = self._element(name, (0, 0, step))
                yield f"if (k == {first}{within}) {self._before(name)} = {place};"

    def _initial(
        self, name: str, section: Section, carry: Carry, early: Mapping[Access, str]
    ) -> str | None:
        """Return what the variable of an element holds at first, if anything."""
        if (name, HERE) in carry.before:
            return self._before(name)
        if HERE in exposed(section, name) or name not in always_assigned(section):
            return early.get((name, HERE)) or self._element(name, HERE)
        return None

    def _declared(self, name: str, initial: str | None) -> str:
        here = f"{self._type(name)} {self._here(name)}"
        return f"{here} = {initial};" if initial else f"[[maybe_unused]] {here};"

    def _place(self, name: str, offset: Offset) -> str | None:
        """Return an element in a window, or None where there is none for it."""
        for number, window in enumerate(self.one.windows):
            if window.name == name and window.across == offset[:2]:
                return f"l{number}[{self.moves.place(window, f'k{signed(offset[2])}')}]"
        return None

    def _element(self, name: str, offset: Offset) -> str:
        return self._place(name, offset) or element(self.scope, name, offset)
