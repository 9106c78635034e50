"""Loads and stores of fused steps: whole vectors inside, element by element near sides.

Inside, all that a warp touches is in the arrays, and no value is a fixed one. Near a side, indices
are kept within what a caller provides, so what no result depends on is some other element.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from halocline_engine.backends.cuda.kernels.temporal.form import Form
from halocline_engine.backends.cuda.kernels.temporal.values import Registers, loop
from halocline_engine.backends.cuda.model.entries import Stride
from halocline_engine.backends.cuda.text.fragments import indent, signed

__all__ = ["Elements"]


@dataclass(frozen=True)
class Elements:
    """The elements of the arrays of a form; rows across are `j` + q, positions are given."""

    form: Form

    def bases(self) -> list[str]:
        """Return the offsets of a thread's first point in arrays of each kind, without the stream.

        Those of planes have the level; rows across come with each access.
        """
        lines: list[str] = []
        for number, kind in sorted({self.form.kinds[name] for name in self.form.arrays}):
            terms = [_term("x", number, "i", kind[0])]
            if self.form.vertical:
                terms.append(_term("j", number, "j", kind[1]))
            else:
                terms.append(_term("k", number, "k", kind[2]))
            text = " + ".join(term for term in terms if term) or "0"
            lines.append(f"const index_t o{number} = {text};")
        return lines

    def loaded(self, registers: Registers, name: str, target: str, row: str) -> list[str]:
        """Return the loads of a row of a field, whole, into an array that is called `target`."""
        place = self._place(name, row)
        if not self.form.is_along(name):
            body = [f"{self._element(registers, target, '0')} = {place}];"]
            return self._rows(name, body)
        if self.form.kinds[name][1][0] is not Stride.ONE:
            step = f"{place} + e * s{self.form.kinds[name][0]}i]"
            body = loop(
                self.form.width, "e", [f"{self._element(registers, target, 'e')} = {step};"]
            )
            return self._rows(name, body)
        body = [
            self._moved("load", self._element(registers, target, str(first)), f"{place}{signed(first)}]", size)
            for first, size in self._pieces(name)
        ]
        return self._rows(name, body)

    def loaded_within(self, registers: Registers, name: str, target: str, row: str) -> list[str]:
        """Return the same loads, element by element, of the nearest elements that there are."""
        column = "e" if self.form.is_along(name) else "0"
        element = self._element(registers, target, column)
        body = [f"{element} = {self._within(name, row, column)};"]
        if self.form.is_along(name):
            body = loop(self.form.width, "e", body)
        return self._rows(name, body)

    def fixed(self, registers: Registers, name: str, row: str) -> list[str]:
        """Return what gives a new row, beyond sides that are not open, the values of a field."""
        beyond = "x + e < ilo || x + e >= ihi"
        if self.form.vertical:
            across = "j + q" if self.form.rows > 1 else "j"
            rows = f"{row} < 0 || {row} >= nk || {across} < jlo || {across} >= jhi"
        else:
            rows = f"{row} < jlo || {row} >= jhi"
        column = "e"
        place = registers.place(0)
        body = [f"if ({rows} || {beyond}) {place} = {self._within(name, row, column)};"]
        return registers.every(body)

    def stored(self, registers: Registers, name: str, row: str, age: int = 0) -> list[str]:
        """Return the stores of a row of results."""
        place = self._place(name, row)
        stride = self.form.kinds[name][1][0]
        element = registers.place(age, column="e")
        step = "" if stride is Stride.ONE else f" * s{self.form.kinds[name][0]}i"
        single = loop(
            self.form.width, "e", [f"if (x + e < ni) {place} + e{step}] = {element};"]
        )
        pieces = [
            self._moved("store", f"{place}{signed(first)}]", registers.place(age, column=str(first)), size)
            for first, size in self._pieces(name)
        ]
        whole = single
        if stride is Stride.ONE and self.form.width > 1:
            whole = [
                f"if (x + {self.form.width} <= ni) {{",
                *indent(pieces),
                "} else {",
                *indent(single),
                "}",
            ]
        if not self.form.vertical:
            return [f"if (own && {row} >= y0 && {row} < y1) {{", *indent(whole), "}"]
        inside = f"j{' + q' if self.form.rows > 1 else ''}"
        body = [f"if ({inside} >= j0 && {inside} < j1) {{", *indent(whole), "}"]
        rows = body if self.form.rows == 1 else loop(self.form.rows, "q", body)
        return [f"if (own && {row} >= y0 && {row} < y1) {{", *indent(rows), "}"]

    def _rows(self, name: str, body: list[str]) -> list[str]:
        """Return code for each row that an array has of a thread."""
        if self.form.rows == 1:
            return body
        return loop(self.form.rows if self.form.is_across(name) else 1, "q", body)

    def _element(self, registers: Registers, target: str, column: str) -> str:
        """Return an own element of the newest row, or of one that is under way."""
        if not target:
            return registers.place(0, column=column)
        row = "" if self.form.rows == 1 else f"[{'0' if registers.flat[0] else 'q'}]"
        return f"{target}{row}[{'0' if registers.flat[1] else column}]"

    def _pieces(self, name: str) -> Iterator[tuple[int, int]]:
        size = self.form.piece(name)
        yield from ((first, size) for first in range(0, self.form.width, size))

    def _moved(self, verb: str, to: str, source: str, size: int) -> str:
        if size == 1:
            return f"{to} = {source};"
        return f"{verb}<{size}>(&{to}, &{source});"

    def _place(self, name: str, row: str) -> str:
        """Return an array's element at the thread's first point of a row, without the bracket."""
        number, kind = self.form.kinds[name]
        text = f"o{number}"
        if not self.form.vertical:
            text += _further(row, number, "j", kind[1])
        else:
            text += _further(row, number, "k", kind[2])
            if self.form.rows > 1:
                text += _further("q", number, "j", kind[1])
        return f"{self.form.names[name]}[{text}"

    def _within(self, name: str, row: str, column: str) -> str:
        """Return the nearest element that an array is sure to have."""
        number, kind = self.form.kinds[name]
        i, j, k = self.form.extent(name)
        along = f"x{f' + {column}' if column != '0' else ''}"
        terms = [_term(_clamped(along, i, "i"), number, "i", kind[0])]
        if self.form.vertical:
            across = f"j{' + q' if self.form.rows > 1 else ''}"
            terms.append(_term(_clamped(across, j, "j"), number, "j", kind[1]))
            terms.append(_term(_clamped(row, k, "k"), number, "k", kind[2]))
        else:
            terms.append(_term(_clamped(row, j, "j"), number, "j", kind[1]))
            terms.append(_term("k", number, "k", kind[2]))
        return f"{self.form.names[name]}[{' + '.join(term for term in terms if term) or '0'}]"


def _clamped(index: str, extent: tuple[int, int], axis: str) -> str:
    """Return an index that is at most as far beyond the points that are computed as is read."""
    low, high = extent
    if axis == "k":
        return f"within({index}, {low}, nk{signed(high - 1)})"
    return f"within({index}, {low} - {axis}grown0, n{axis}{signed(high - 1)} + {axis}grown1)"


def _term(index: str, number: int, axis: str, stride: Stride) -> str:
    match stride:
        case Stride.NONE:
            return ""
        case Stride.ONE:
            return f"(index_t)({index})" if axis != "k" else f"(index_t)({index}) * s{number}k"
        case Stride.ANY:
            return f"(index_t)({index}) * s{number}{axis}"


def _further(index: str, number: int, axis: str, stride: Stride) -> str:
    term = _term(index, number, axis, stride)
    return f" + {term}" if term else ""


