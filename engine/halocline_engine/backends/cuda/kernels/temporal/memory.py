"""Loads and stores of fused steps: whole vectors inside, within what there is near sides.

Inside, all that a warp touches is in the arrays, and no value is a fixed one. Near a side, indices
are kept within what a caller provides, so what no result depends on is some other element.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from halocline_engine.analysis.boundaries import Kind
from halocline_engine.backends.cuda.kernels.temporal.form import Form
from halocline_engine.backends.cuda.kernels.temporal.values import Registers, loop
from halocline_engine.backends.cuda.model.entries import Stride
from halocline_engine.backends.cuda.text.fragments import indent, signed
from halocline_engine.ir.extent import Range

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
            indices = ("x", "j", "") if self.form.vertical else ("x", "", "k")
            text = _offset(number, kind, indices)
            lines.append(f"const index_t o{number} = {text};")
        return lines

    def beyond(self) -> list[str]:
        """Return which points of a thread lie beyond sides that are not open: a bit for each.

        The stream has no part in that.
        """
        test = "x + e < ilo || x + e >= ihi"
        if self.form.vertical:
            test += f" || {self._across} < jlo || {self._across} >= jhi"
        bit = self._bit
        body = loop(self.form.width, "e", [f"if ({test}) beyond |= {bit};"])
        rows = body if self.form.rows == 1 else loop(self.form.rows, "q", body)
        return ["unsigned beyond = 0u;", *rows]

    def loaded(self, registers: Registers, name: str, target: str, row: str) -> list[str]:
        """Return the loads of a row of a field, whole, into an array that is called `target`."""
        return self._rows(name, self._whole(registers, name, target, self._place(name, row)))

    def loaded_within(self, registers: Registers, name: str, target: str, row: str) -> list[str]:
        """Return the same loads, of the nearest elements where there are none."""
        along = self.form.is_along(name)
        column = "e" if along else "0"
        single = self._near(name, row, "x + e" if along else "x")
        body = [f"{self._element(registers, target, column)} = {single};"]
        if not along:
            return self._rows(name, body)
        body = loop(self.form.width, "e", body)
        if self.form.width == 1:
            return self._rows(name, body)
        low, high = _bounds(self.form.extent(name)[0], "i")
        place = self._near(name, row, "x", anyhow=True).removesuffix("]")
        return [
            f"if (x >= {low} && x + {self.form.width - 1} <= {high}) {{",
            *indent(self._rows(name, self._whole(registers, name, target, place))),
            "} else {",
            *indent(self._rows(name, body)),
            "}",
        ]

    def fixed(self, registers: Registers, name: str, row: str, before: str) -> list[str]:
        """Return what gives a new row, beyond sides that are not open, the values of a field.

        Those are `before`, an element of a step earlier, or else in memory.
        """
        value = before or self._near(name, row, "x + e")
        place = registers.place(0)
        body = [f"if (kept & ({self._bit})) {place} = {value};"]
        test = [
            f"const bool out = {self._outside(row)};",
            "const unsigned kept = out ? ~0u : beyond;",
        ]
        inner = ["if (out || some) {", *indent(registers.every(body)), "}"]
        return ["{", *indent([*test, *inner]), "}"]

    def results(self) -> list[str]:
        """Return which rows of a thread are results of its block: a bit for each."""
        if not self.form.vertical:
            return []
        bit = "1u << q" if self.form.rows > 1 else "1u"
        test = f"if (own && {self._across} >= j0 && {self._across} < j1) mine |= {bit};"
        rows = [test] if self.form.rows == 1 else loop(self.form.rows, "q", [test])
        return ["unsigned mine = 0u;", *rows]

    def stored(self, registers: Registers, name: str, row: str, *, whole: bool) -> list[str]:
        """Return the stores of a row of results; `whole` where no lane has fewer columns."""
        place = self._place(name, row)
        number, kind = self.form.kinds[name]
        step = "" if kind[0] is Stride.ONE else f" * s{number}i"
        test = "" if whole else "if (x + e < ni) "
        element = registers.place(0)
        body = loop(self.form.width, "e", [f"{test}{place} + e{step}] = {element};"])
        if kind[0] is Stride.ONE and self.form.width > 1:
            pieces = [
                _moved("store", f"{place}{signed(n)}]", registers.place(0, column=str(n)), size)
                for n, size in self._pieces(name)
            ]
            full = f"if (x + {self.form.width} <= ni) {{"
            body = pieces if whole else [full, *indent(pieces), "} else {", *indent(body), "}"]
        own = "own"
        if self.form.vertical:
            own = "mine"
            bit = "mine >> q & 1u" if self.form.rows > 1 else "mine & 1u"
            body = [f"if ({bit}) {{", *indent(body), "}"]
            body = body if self.form.rows == 1 else loop(self.form.rows, "q", body)
        return [f"if ({own} && {row} >= y0 && {row} < y1) {{", *indent(body), "}"]

    def fetched(self, name: str, row: str) -> list[str]:
        """Return what brings a row of a field to the cache that all processors share."""
        if not self.form.is_along(name):
            return []
        return self._rows(name, [f"fetch(&{self._place(name, row)}]);"])

    def _outside(self, row: str) -> str:
        """Return whether a row lies beyond a side along the stream."""
        if not self.form.vertical:
            return f"{row} < jlo || {row} >= jhi"
        low, high = (kind is Kind.NONE for kind in self.form.levels.ends[2])
        tests = [*([f"{row} < 0"] if low else ()), *([f"{row} >= nk"] if high else ())]
        return " || ".join(tests) or "false"

    @property
    def _across(self) -> str:
        return "j + q" if self.form.rows > 1 else "j"

    @property
    def _bit(self) -> str:
        return f"1u << (q * {self.form.width} + e)" if self.form.rows > 1 else "1u << e"

    def _whole(self, registers: Registers, name: str, target: str, place: str) -> list[str]:
        """Return the loads of the elements of a thread from a place on, which lacks its bracket."""
        if not self.form.is_along(name):
            return [f"{self._element(registers, target, '0')} = {place}];"]
        number, kind = self.form.kinds[name]
        if kind[0] is not Stride.ONE:
            element = self._element(registers, target, "e")
            return loop(self.form.width, "e", [f"{element} = {place} + e * s{number}i];"])
        return [
            _moved("load", self._element(registers, target, str(n)), f"{place}{signed(n)}]", size)
            for n, size in self._pieces(name)
        ]

    def _near(self, name: str, row: str, column: str, *, anyhow: bool = False) -> str:
        """Return the nearest element that an array is sure to have.

        With `anyhow`, the column is one that it has.
        """
        number, kind = self.form.kinds[name]
        i, j, k = self.form.extent(name)
        along = column if anyhow else _clamped(column, i, "i")
        if self.form.vertical:
            indices = (along, _clamped(self._across, j, "j"), _clamped(row, k, "k"))
        else:
            indices = (along, _clamped(row, j, "j"), "k")
        return f"{self.form.names[name]}[{_offset(number, kind, indices)}]"

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

    def _place(self, name: str, row: str) -> str:
        """Return an array's element at the thread's first point of a row, without the bracket."""
        number, kind = self.form.kinds[name]
        across = "q" if self.form.rows > 1 else ""
        more = ("", across, row) if self.form.vertical else ("", row, "")
        text = _offset(number, kind, more)
        return f"{self.form.names[name]}[o{number}{f' + {text}' if text != '0' else ''}"


def _moved(verb: str, to: str, source: str, size: int) -> str:
    if size == 1:
        return f"{to} = {source};"
    return f"{verb}<{size}>(&{to}, &{source});"


def _bounds(extent: Range, axis: str) -> tuple[str, str]:
    """Return the first and the last index that an array is sure to have."""
    low, high = extent
    if axis == "k":
        return str(low), f"nk{signed(high - 1)}"
    return f"{low} - {axis}grown0", f"n{axis}{signed(high - 1)} + {axis}grown1"


def _clamped(index: str, extent: Range, axis: str) -> str:
    low, high = _bounds(extent, axis)
    return f"within({index}, {low}, {high})"


def _offset(number: int, kind: tuple[Stride, Stride, Stride], indices: tuple[str, str, str]) -> str:
    """Return the offset of an element; axes without an index do not count."""
    terms: list[str] = []
    for axis, stride, index in zip("ijk", kind, indices, strict=True):
        if not index or stride is Stride.NONE:
            continue
        known = stride is Stride.ONE and axis != "k"
        terms.append(f"(index_t)({index})" + ("" if known else f" * s{number}{axis}"))
    return " + ".join(terms) or "0"
