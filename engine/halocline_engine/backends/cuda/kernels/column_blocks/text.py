"""The body of kernels whose blocks have columns: loads, a sweep, and points, with barriers between.

Threads load what is copied, then one for each column sweeps it, then all compute points. Where
elements lie along I, threads of one level follow each other, and the levels of an array are side by
side on chip; where they lie along K, it is the other way round.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from halocline_engine.backends.cuda.kernels.column_blocks.held import Held, held_of
from halocline_engine.backends.cuda.kernels.column_blocks.tile import pitch
from halocline_engine.backends.cuda.kernels.points.text import point_lines
from halocline_engine.backends.cuda.model.entries import Entry, Variant
from halocline_engine.backends.cuda.model.intervals import level_range
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.backends.cuda.text.expressions import TYPES
from halocline_engine.backends.cuda.text.fragments import indent, offsets, section_body, touched
from halocline_engine.backends.cuda.text.statements import HERE, Scope, element
from halocline_engine.ir.types import Order
from halocline_engine.schedule.nodes import Schedule, Section

__all__ = ["column_blocks_text"]

#: Levels of a sweep that are written out, so that it hands on values in registers.
_UNROLLED = 8


def column_blocks_text(
    entry: Entry, schedule: Schedule, variant: Variant, scope: Scope, tile: Tile
) -> list[str]:
    """Return the body of a kernel."""
    code = _Code(entry, scope, tile, held_of(entry, schedule, variant, tile))
    near, far = ("j", "i") if tile.levelwise == 2 else ("i", "j")
    columns = tile.block[0]
    stages = [stage for stage in (code.loads(), code.sweep(), code.points()) if stage]
    lines = [
        f"const int wide = (n{near} + {columns - 1}) / {columns};",
        f"const int first = (int)blockIdx.x % wide * {columns};",
        f"[[maybe_unused]] const int {far} = (int)blockIdx.x / wide;",
        f"const int own = min({columns}, n{near} - first);",
        *code.memory(),
    ]
    for number, stage in enumerate(stages):
        lines += [*(["__syncthreads();"] if number else []), *stage]
    return lines


class _Code:
    """Writes the stages of one kernel."""

    def __init__(self, entry: Entry, scope: Scope, tile: Tile, held: Held) -> None:
        self._entry, self._scope, self._tile, self._held = entry, scope, tile, held
        self._near = "j" if tile.levelwise == 2 else "i"
        sections = entry.kernel.sections
        self._swept, self._rest = sections[: entry.swept], sections[entry.swept :]

    def memory(self) -> list[str]:
        """Return where each array on chip begins."""
        if not self._held.places:
            return []
        lines, at = ["extern __shared__ __align__(16) unsigned char chip[];"], 0
        for place in self._held.places:
            kind = TYPES[place.dtype]
            name = f"h_{self._scope.arrays[place.name]}"
            lines.append(f"{kind}* const {name} = reinterpret_cast<{kind}*>(chip + {at});")
            at += -(-pitch(self._tile) * place.dtype.itemsize // 16) * 16
        return lines

    def loads(self) -> list[str]:
        """Return the stage that copies fields."""
        names = self._held.copies
        if not names:
            return []
        stacked = self._stacked(names)
        body = [
            f"{element(stacked, name, HERE)} = {element(self._scope, name, HERE)};"
            for name in names
        ]
        return self._each_point([*offsets(names, self._scope), *body], names)

    def sweep(self) -> list[str]:
        """Return the stage of a thread for each column."""
        if not self._swept:
            return []
        places = [place.name for place in self._held.places if place.in_sweep]
        scope = self._stacked(places)
        lines = [f"[[maybe_unused]] const int {self._near} = first + (int)threadIdx.x;"]
        names = {name for section in self._swept for name in touched(section)}
        lines += self._columns([name for name in places if name in names], "(int)threadIdx.x")
        for section in self._swept:
            arrays = [name for name in self._entry.arrays if name in touched(section)]
            lines += [
                f"#pragma unroll {_UNROLLED}",
                self._levels(section),
                *indent([*offsets(arrays, scope), *section_body(section, scope)]),
                "}",
            ]
        return ["if (threadIdx.y == 0 && (int)threadIdx.x < own) {", *indent(lines), "}"]

    def points(self) -> list[str]:
        """Return the stage of points, on all threads."""
        places = [place.name for place in self._held.places if place.at_points]
        names = {name for section in self._rest for name in touched(section)}
        kernel = replace(self._entry.kernel, sections=self._rest)
        arrays = tuple(name for name in self._entry.arrays if name in names)
        entry = replace(self._entry, kernel=kernel, arrays=arrays)
        body = point_lines(entry, self._stacked(places))
        spans = [level_range(section.interval, self._tile.levels) for section in self._rest]
        if len(spans) == 1 and spans[0] != (0, self._tile.levels):
            body = [f"if (k >= {spans[0][0]} && k < {spans[0][1]}) {{", *indent(body), "}"]
        return self._each_point(body, [name for name in places if name in names])

    def _levels(self, section: Section) -> str:
        low, high = level_range(section.interval, self._tile.levels)
        if section.order is Order.BACKWARD:
            return f"for (int k = {high - 1}; k >= {low}; --k) {{"
        return f"for (int k = {low}; k < {high}; ++k) {{"

    def _each_point(self, body: Sequence[str], names: Iterable[str]) -> list[str]:
        """Return the loop of a thread over its share of the points of all columns."""
        (columns, across), levels = self._tile.block, self._tile.levels
        if self._tile.levelwise:
            return [
                f"for (int n = (int)(threadIdx.y * {columns} + threadIdx.x); n < own * {levels};"
                f" n += {columns * across}) {{",
                f"  [[maybe_unused]] const int column = n / {levels}, k = n % {levels};",
                f"  [[maybe_unused]] const int {self._near} = first + column;",
                *indent(self._columns(names, "column")),
                *indent(list(body)),
                "}",
            ]
        return [
            "if ((int)threadIdx.x < own) {",
            f"  [[maybe_unused]] const int {self._near} = first + (int)threadIdx.x;",
            *indent(self._columns(names, "(int)threadIdx.x")),
            f"  for (int k = (int)threadIdx.y; k < {levels}; k += {across}) {{",
            *indent(indent(list(body))),
            "  }",
            "}",
        ]

    def _columns(self, names: Iterable[str], column: str) -> list[str]:
        """Return where the column of a thread begins in the arrays on chip."""
        along = f"{column} * {self._tile.levels | 1}" if self._tile.levelwise else column
        lines: list[str] = []
        for name in names:
            kind, array = TYPES[self._scope.dtypes[name]], self._scope.arrays[name]
            lines.append(f"{kind}* const c_{array} = h_{array} + {along};")
        return lines

    def _stacked(self, names: Iterable[str]) -> Scope:
        step = 1 if self._tile.levelwise else self._tile.block[0]
        return replace(self._scope, stacked=dict.fromkeys(names, step))
