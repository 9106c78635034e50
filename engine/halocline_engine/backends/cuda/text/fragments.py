"""Fragments of text that kernels of several kinds share: bounds, offsets, sections."""

from __future__ import annotations

from collections.abc import Iterable

from halocline_engine.backends.cuda.model.entries import Stride
from halocline_engine.backends.cuda.text.expressions import TYPES
from halocline_engine.backends.cuda.text.statements import Scope, body_lines
from halocline_engine.ir.nodes import Bound
from halocline_engine.ir.walk import assignments, reads
from halocline_engine.schedule.nodes import Section

__all__ = ["bound", "indent", "inside", "offsets", "section_body", "signed", "touched"]


def section_body(section: Section, scope: Scope) -> list[str]:
    """Return the statements of a section, with its registers at zero before them."""
    names = touched(section)
    registers = [
        f"{TYPES[scope.dtypes[name]]} {variable} = 0;"
        for name, variable in scope.registers.items()
        if name in names
    ]
    return [*registers, *body_lines(section.body, scope)]


def touched(section: Section) -> set[str]:
    """Return the names that a section reads or writes."""
    written = {assign.target for assign in assignments(section.body)}
    return written | {read.name for read in reads(section.body)}


def offsets(arrays: Iterable[str], scope: Scope) -> list[str]:
    """Return the offset of the point for each stride kind in use."""
    kinds = dict(sorted(scope.kinds[name] for name in arrays if name not in scope.stacked))
    lines: list[str] = []
    for number, kind in kinds.items():
        terms = [
            f"(index_t){axis}" if stride is Stride.ONE else f"(index_t){axis} * s{number}{axis}"
            for axis, stride in zip("ijk", kind, strict=True)
            if stride is not Stride.NONE
        ]
        lines.append(f"const index_t o{number} = {' + '.join(terms) or '0'};")
    return lines


def inside(scope: Scope) -> list[str]:
    """Return the test that keeps fields untouched outside the domain, where one is needed."""
    if not scope.guarded:
        return []
    return ["const bool inside = i >= 0 && i < ni && j >= 0 && j < nj;"]


def bound(bound: Bound) -> str:
    """Return a level in terms of the number of levels, 'nk'."""
    return f"nk{signed(bound.offset)}" if bound.from_end else str(bound.offset)


def signed(number: int) -> str:
    """Return ' + n', ' - n' or nothing."""
    if number == 0:
        return ""
    return f" {'+' if number > 0 else '-'} {abs(number)}"


def indent(lines: list[str]) -> list[str]:
    """Return the lines one step further to the right."""
    return [f"  {line}" for line in lines]
