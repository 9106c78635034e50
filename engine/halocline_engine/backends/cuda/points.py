"""Kernels of PARALLEL computations: a thread computes a few rows of points."""

from __future__ import annotations

from dataclasses import replace

from halocline_engine.backends.cuda.body import Scope, element
from halocline_engine.backends.cuda.entries import Entry
from halocline_engine.backends.cuda.frame import (
    bound,
    indent,
    inside,
    offsets,
    section_body,
    signed,
)
from halocline_engine.backends.cuda.rows import loads_of
from halocline_engine.backends.cuda.spell import TYPES
from halocline_engine.schedule.nodes import Section

__all__ = ["points"]


def points(entry: Entry, scope: Scope, rows: int) -> list[str]:
    """Return the body of a kernel whose threads compute `rows` rows each.

    All rows are computed at once, where they are all there: what they read is loaded first, each
    element once, so that a thread waits for many loads together.
    """
    (i_low, i_high), (_, j_high) = entry.kernel.extent
    lines = [
        f"const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x){signed(i_low)};",
        f"const int first = row + (int)(blockIdx.y * blockDim.y + threadIdx.y) * {rows};",
        "const int k = level + (int)blockIdx.z;",
        f"const int end = nj{signed(j_high)};",
        f"if (i >= ni{signed(i_high)}) return;",
    ]
    one = [*offsets(entry.arrays, scope), *inside(scope), *_sections(entry, scope, 1)]
    if rows == 1:
        return [*lines, "const int j = first;", "if (j >= end) return;", *one]
    several = [
        "const int j = first;",
        *offsets(entry.arrays, scope),
        *inside(scope),
        *_sections(entry, scope, rows),
    ]
    return [
        *lines,
        f"if (first + {rows} <= end) {{",
        *indent(several),
        "} else {",
        *indent(["for (int j = first; j < end; ++j) {", *indent(one), "}"]),
        "}",
    ]


def _sections(entry: Entry, scope: Scope, rows: int) -> list[str]:
    """Return the bodies of all sections, each under the test of its levels if there are several."""
    sections = entry.kernel.sections
    if entry.level_at_hand or len(sections) == 1:
        return [line for section in sections for line in _rows(section, entry, scope, rows)]
    lines: list[str] = []
    for section in sections:
        start, end = bound(section.interval.start), bound(section.interval.end)
        body = _rows(section, entry, scope, rows)
        lines += [f"if (k >= {start} && k < {end}) {{", *indent(body), "}"]
    return lines


def _rows(section: Section, entry: Entry, scope: Scope, rows: int) -> list[str]:
    """Return a section's body once for each row, after the loads for all of them."""
    if rows == 1:
        return section_body(section, scope)
    lines: list[str] = []
    loads: dict[str, str] = {}
    for row in range(rows):
        for read in loads_of(section, entry):
            place = element(replace(scope, row=row), read.name, read.offset)
            if place not in loads:
                loads[place] = f"l{len(loads)}"
                lines.append(f"const {TYPES[read.dtype]} {loads[place]} = {place};")
    for row in range(rows):
        body = section_body(section, replace(scope, row=row, loads=loads))
        lines += ["{", *indent(body), "}"]
    return lines
