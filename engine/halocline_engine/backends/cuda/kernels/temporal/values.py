"""What a thread has of the values of fused steps: registers by age, and how they get there.

A value n has an array `v{n}_{age}` for each age that is read. At the end of a position all become
one older. Columns of other lanes come by shuffles; rows of other warps through shared memory, where
each warp puts those that others read, so that one barrier a position is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from halocline_engine.backends.cuda.kernels.temporal.form import LANES, VECTOR, Form, Kept
from halocline_engine.backends.cuda.text.expressions import TYPES
from halocline_engine.backends.cuda.text.fragments import signed
from halocline_engine.ir.types import DType

__all__ = ["Registers", "loop"]

_ALL = "0xffffffffu"


def loop(count: int, variable: str, body: list[str]) -> list[str]:
    """Return an unrolled loop."""
    head = f"for (int {variable} = 0; {variable} < {count}; ++{variable}) {{"
    return ["#pragma unroll", head, *(f"  {line}" for line in body), "}"]


@dataclass(frozen=True)
class Registers:
    """The registers of one value."""

    form: Form
    number: int

    @property
    def kept(self) -> Kept:
        """Which elements a thread has."""
        return self.form.kept[self.number]

    @property
    def dtype(self) -> DType:
        """The type of its elements."""
        return self.form.levels.nodes[self.number].dtype

    @property
    def flat(self) -> tuple[bool, bool]:
        """Whether it is the same for all rows of a thread, and for all columns."""
        node = self.form.levels.nodes[self.number]
        if node.value is not None or node.name in self.form.levels.step.feedback:
            return False, False
        return not self.form.is_across(node.name), not self.form.is_along(node.name)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of an array, those of other threads included."""
        kept, (flat_rows, flat_columns) = self.kept, self.flat
        rows = 1 if flat_rows else len(kept.below) + self.form.rows + len(kept.above)
        columns = 1 if flat_columns else self.left + self.form.width + self.right
        return rows, columns

    @property
    def left(self) -> int:
        """The columns before the thread's own."""
        return max(len(self.kept.left), -self.kept.across[0])

    @property
    def right(self) -> int:
        """The columns behind the thread's own."""
        return max(len(self.kept.right), self.kept.across[1])

    @property
    def words(self) -> int:
        """Registers of 4 bytes that stay from position to position."""
        own = 0
        rows, columns = (
            1 if flat else size
            for flat, size in zip(self.flat, (self.form.rows, self.form.width), strict=True)
        )
        for age in range(1, self.kept.ages):
            # An element is held on for as long as an older row reads it.
            own += rows * columns
            beside = (*self.kept.left, *self.kept.right)
            own += rows * sum(low < age <= high for low, high in beside)
            across = (*self.kept.below, *self.kept.above)
            own += columns * sum(low < age <= high for low, high in across)
        return own * -(-self.dtype.itemsize // 4)

    def place(self, age: int, row: str = "q", column: str = "e", j: int = 0, i: int = 0) -> str:
        """Return an element of a row of some age."""
        flat_rows, flat_columns = self.flat
        at_column = "0" if flat_columns else _plus(column, self.left + i)
        if self.shape[0] == 1 and self.form.rows == 1:
            return f"v{self.number}_{age}[{at_column}]"
        at_row = "0" if flat_rows else _plus(row, len(self.kept.below) + j)
        return f"v{self.number}_{age}[{at_row}][{at_column}]"

    def declared(self, age: int) -> str:
        """Return the declaration of the array of an age."""
        rows, columns = self.shape
        size = f"[{columns}]" if rows == 1 and self.form.rows == 1 else f"[{rows}][{columns}]"
        return f"{TYPES[self.dtype]} v{self.number}_{age}{size}"

    def every(self, body: list[str]) -> list[str]:
        """Return code for all own elements, row q and column e."""
        rows, columns = (
            1 if flat else size
            for flat, size in zip(self.flat, (self.form.rows, self.form.width), strict=True)
        )
        lines = loop(columns, "e", body)
        return lines if self.form.rows == 1 else loop(rows, "q", lines)

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
        width = self.form.width
        for verb, ages, sign in (("up", self.kept.left, -1), ("down", self.kept.right, 1)):
            for distance, (first, _) in enumerate(ages, 1):
                if first != age:
                    continue
                lanes = -(-distance // width)
                to = -distance if sign < 0 else width - 1 + distance
                source = self.place(age, column="", i=to - sign * lanes * width)
                if self.dtype.itemsize < 4:
                    source = f"(int){source}"
                value = f"__shfl_{verb}_sync({_ALL}, {source}, {lanes})"
                yield f"{self.place(age, column='', i=to)} = ({TYPES[self.dtype]}){value};"

    def _across(self, age: int) -> list[str]:
        """Return what reads rows of the warps below and above, at the first age that needs them."""
        lines: list[str] = []
        wide = self.kept.across
        for sign, ages in ((-1, self.kept.below), (1, self.kept.above)):
            for distance, (first, _) in enumerate(ages, 1):
                if first != age:
                    continue
                j = -distance if sign < 0 else self.form.rows - 1 + distance
                q = j - sign * self.form.rows
                place = self._shared(f"warp{signed(sign)}", self._published().index(q), age)
                lines += self._exchanged(age, j, place)
                beside = [*range(wide[0], 0), *range(self.form.width, self.form.width + wide[1])]
                for column in beside:
                    target = self.place(age, row="", column="", j=j, i=column)
                    lines.append(f"{target} = {place}[{column}];")
        return lines

    def _exchanged(self, age: int, row: int, place: str) -> list[str]:
        """Return what moves the own columns of a row to shared memory, or from it if it has an age.

        All of a thread's columns move together, so that no two threads wait for the same bank.
        """
        verb = "load" if age else "store"
        size = max(1, min(self.form.width, VECTOR // self.dtype.itemsize))
        lines: list[str] = []
        for first in range(0, self.form.width, size):
            here = self.place(age, row="", column="", j=row, i=first)
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
        low, high = len(self.kept.above), len(self.kept.below)
        return sorted({*range(min(low, rows)), *range(max(0, rows - high), rows)})

    @property
    def pitch(self) -> int:
        """Elements of a row in shared memory; those beside the first and the last count."""
        unit = VECTOR // self.dtype.itemsize if self.dtype.itemsize else 1
        wide = self.kept.across
        return LANES * self.form.width + -(-max(-wide[0], wide[1], 0) // unit) * 2 * unit

    @property
    def shared(self) -> int:
        """Bytes of shared memory."""
        if not self.kept.first:
            return 0
        warps = self.form.tile.block[1] + 2
        size = (self.kept.first + 1) * warps * len(self._published()) * self.pitch
        return -(-size * self.dtype.itemsize // VECTOR) * VECTOR

    def _shared(self, warp: str, number: int, age: int) -> str:
        """Return the first own column of a row that a warp has put in place at an age."""
        count, deep = len(self._published()), self.kept.first + 1
        past = f"y{signed(-age)}"
        turn = f"({past}) & 1" if deep == 2 else f"(unsigned)({past} + {deep << 16}) % {deep}u"
        warps = self.form.tile.block[1] + 2
        row = f"(({turn}) * {warps} + {warp} + 1) * {count} + {number}"
        side = (self.pitch - LANES * self.form.width) // 2
        return f"(m{self.number} + ({row}) * {self.pitch} + {side} + lane * {self.form.width})"

    def aged(self) -> list[str]:
        """Return what makes every row one older."""
        lines: list[str] = []
        for age in range(self.kept.ages - 1, 0, -1):
            body = [f"{self.place(age)} = {self.place(age - 1)};"]
            lines += self.every(body)
            beside = [*self._held(age)]
            if beside:
                lines += beside if self.form.rows == 1 else loop(self.form.rows, "q", beside)
            lines += self._held_across(age)
        return lines

    def _held(self, age: int) -> Iterator[str]:
        for ages, sign in ((self.kept.left, -1), (self.kept.right, 1)):
            for distance, (low, high) in enumerate(ages, 1):
                if low < age <= high:
                    i = -distance if sign < 0 else self.form.width - 1 + distance
                    place = self.place(age, column="", i=i)
                    yield f"{place} = {self.place(age - 1, column='', i=i)};"

    def _held_across(self, age: int) -> list[str]:
        lines: list[str] = []
        wide = self.kept.across
        columns = self.form.width + wide[1] - wide[0]
        for ages, sign in ((self.kept.below, -1), (self.kept.above, 1)):
            for distance, (low, high) in enumerate(ages, 1):
                if low < age <= high:
                    j = -distance if sign < 0 else self.form.rows - 1 + distance
                    ends = (self.place(a, "", "e", j, wide[0]) for a in (age, age - 1))
                    lines += loop(columns, "e", [f"{' = '.join(ends)};"])
        return lines


def _plus(variable: str, number: int) -> str:
    if not variable:
        return str(number)
    return f"{variable}{signed(number)}"
