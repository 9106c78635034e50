"""Values of fused steps in the registers of a thread, by the age of their row.

A value n has an array `v{n}_{age}` for each age that is read. At the end of a position all become
one older.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from halocline_engine.backends.cuda.kernels.temporal.form import Form, Kept
from halocline_engine.backends.cuda.text.expressions import TYPES
from halocline_engine.backends.cuda.text.fragments import signed
from halocline_engine.ir.types import DType

__all__ = ["Registers", "loop"]


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
        """Elements that a thread has."""
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

    @property
    def beside(self) -> int:
        """Registers of 4 bytes for elements of other threads, at the age that has most of them."""
        across = len(self.kept.below) + len(self.kept.above)
        own = (len(self.kept.left) + len(self.kept.right)) * self.form.rows
        return (own + across * self.form.width) * -(-self.dtype.itemsize // 4)

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
