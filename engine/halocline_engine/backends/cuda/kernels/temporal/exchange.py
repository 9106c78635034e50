"""Access to the elements of other threads: by shuffles, and through shared memory.

Columns of other lanes come by shuffles. Each warp puts the rows that others read into shared
memory, where they find them at the next position, so that one barrier a position is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from halocline_engine.backends.cuda.kernels.temporal.form import LANES, VECTOR, Form
from halocline_engine.backends.cuda.kernels.temporal.values import Registers, loop
from halocline_engine.backends.cuda.text.expressions import TYPES
from halocline_engine.backends.cuda.text.fragments import signed

__all__ = ["Exchange", "shared_of"]

_ALL = "0xffffffffu"
#: Bytes of the place of a thread.
_PLACE = 16


def shared_of(form: Form) -> int:
    """Return the bytes of dynamic shared memory of a block."""
    several = (Registers(form, n) for n in range(len(form.levels.nodes)))
    places = _PLACE * form.tile.threads if form.vertical else 0
    return sum(Exchange(one).shared for one in several) + places


@dataclass(frozen=True)
class Exchange:
    """Registers of other threads that a value needs."""

    registers: Registers

    @property
    def form(self) -> Form:
        """The form of the code."""
        return self.registers.form

    def fetched(self, ages: range) -> list[str]:
        """Return what gets elements of other threads whose first age is one of these."""
        lines: list[str] = []
        for age in ages:
            beside = list(self._beside(age))
            if beside:
                lines += beside if self.form.rows == 1 else loop(self.form.rows, "q", beside)
            lines += self._across(age)
        return lines

    def _beside(self, age: int) -> Iterator[str]:
        width, kept = self.form.width, self.registers.kept
        kind = TYPES[self.registers.dtype]
        for verb, ages, sign in (("up", kept.left, -1), ("down", kept.right, 1)):
            for distance, (first, _) in enumerate(ages, 1):
                if first != age:
                    continue
                lanes = -(-distance // width)
                to = -distance if sign < 0 else width - 1 + distance
                source = self.registers.place(age, column="", i=to - sign * lanes * width)
                if self.registers.dtype.itemsize < 4:
                    source = f"(int){source}"
                value = f"__shfl_{verb}_sync({_ALL}, {source}, {lanes})"
                yield f"{self.registers.place(age, column='', i=to)} = ({kind}){value};"

    def _across(self, age: int) -> list[str]:
        """Return what reads rows of the warps below and above, at the first age that needs them."""
        lines: list[str] = []
        wide = self.registers.kept.across
        for sign, ages in ((-1, self.registers.kept.below), (1, self.registers.kept.above)):
            for distance, (first, _) in enumerate(ages, 1):
                if first != age:
                    continue
                j = -distance if sign < 0 else self.form.rows - 1 + distance
                q = j - sign * self.form.rows
                place = self._shared(f"warp{signed(sign)}", self._published().index(q), age)
                lines += self._exchanged(age, j, place)
                beside = [*range(wide[0], 0), *range(self.form.width, self.form.width + wide[1])]
                for column in beside:
                    target = self.registers.place(age, row="", column="", j=j, i=column)
                    lines.append(f"{target} = {place}[{column}];")
        return lines

    def _exchanged(self, age: int, row: int, place: str) -> list[str]:
        """Return what moves the own columns of a row to shared memory, or from it if it has an age.

        All of a thread's columns move together, so that no two threads wait for the same bank.
        """
        verb = "load" if age else "store"
        size = max(1, min(self.form.width, VECTOR // self.registers.dtype.itemsize))
        lines: list[str] = []
        for first in range(0, self.form.width, size):
            here = self.registers.place(age, row="", column="", j=row, i=first)
            there = f"{place}[{first}]"
            to, source = (here, there) if verb == "load" else (there, here)
            lines.append(f"{verb}<{size}>(&{to}, &{source});" if size > 1 else f"{to} = {source};")
        return lines

    def published(self) -> list[str]:
        """Return what puts new rows where other warps read them."""
        lines: list[str] = []
        for number, q in enumerate(self._published()):
            lines += self._exchanged(0, q, self._shared("warp", number, 0))
        return lines

    def _published(self) -> list[int]:
        """Return the rows that other warps read."""
        rows = self.form.rows
        low, high = len(self.registers.kept.above), len(self.registers.kept.below)
        return sorted({*range(min(low, rows)), *range(max(0, rows - high), rows)})

    @property
    def pitch(self) -> int:
        """Elements of a row in shared memory; those beside the first and the last count."""
        unit = VECTOR // self.registers.dtype.itemsize if self.registers.dtype.itemsize else 1
        wide = self.registers.kept.across
        return LANES * self.form.width + -(-max(-wide[0], wide[1], 0) // unit) * 2 * unit

    @property
    def shared(self) -> int:
        """Bytes of shared memory."""
        if not self.registers.kept.first:
            return 0
        warps = self.form.tile.block[1] + 2
        size = (self.registers.kept.first + 1) * warps * len(self._published()) * self.pitch
        return -(-size * self.registers.dtype.itemsize // VECTOR) * VECTOR

    def _shared(self, warp: str, number: int, age: int) -> str:
        """Return the first own column of a row that a warp has put in place at an age."""
        count, deep = len(self._published()), self.registers.kept.first + 1
        past = f"y{signed(-age)}"
        turn = f"({past}) & 1" if deep == 2 else f"(unsigned)({past} + {deep << 16}) % {deep}u"
        warps = self.form.tile.block[1] + 2
        row = f"(({turn}) * {warps} + {warp} + 1) * {count} + {number}"
        side = (self.pitch - LANES * self.form.width) // 2
        begin = f"({row}) * {self.pitch} + {side}"
        return f"(m{self.registers.number} + {begin} + lane * {self.form.width})"
