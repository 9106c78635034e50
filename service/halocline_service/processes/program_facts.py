"""Needs and effects of a stencil program, as JSON, for its author."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from halocline_engine.analysis.extents import analyse
from halocline_engine.analysis.named import given_scalars, used_fields
from halocline_engine.analysis.warnings import unassigned_temporaries, unread_temporaries
from halocline_engine.errors import ProgramError
from halocline_engine.ir.extent import Facts
from halocline_engine.ir.nodes import Field, Program, Scalar
from halocline_engine.language.source import Place, excerpt, locate
from halocline_engine.passes.pipeline import PASSES
from halocline_engine.program_warning import ProgramWarning

__all__ = ["program_facts"]


def program_facts(
    program: Program, warnings: Iterable[ProgramWarning], text: str
) -> Mapping[str, Any]:
    """Give fields with their halos, scalars and warnings. Raises `ProgramError` with its place.

    A halo is how many cells a field is read beyond the domain, before and after it along each axis.
    """
    found = [*warnings, *unassigned_temporaries(program)]
    try:
        for rewrite in PASSES:
            program = rewrite(program)
        facts = analyse(program)
    except ProgramError as error:
        raise locate(error, text) from None
    found += unread_temporaries(program, facts)
    told = {(each.line, each.column, each.message): each for each in found}
    return {
        "name": program.name,
        "fields": [_field(field, facts) for field in used_fields(program)],
        "scalars": [_scalar(scalar) for scalar in given_scalars(program)],
        "least_levels": facts.min_levels,
        "warnings": [_warning(told[place], text) for place in sorted(told)],
    }


def _field(field: Field, facts: Facts) -> dict[str, Any]:
    extent = dict(zip("IJK", facts.fields[field.name], strict=True))
    return {
        "name": field.name,
        "dtype": field.dtype.value,
        "axes": [axis.value for axis in field.axes],
        "read": field.read,
        "written": field.written,
        "halo": {
            axis.value: [max(0, -extent[axis.value][0]), max(0, extent[axis.value][1])]
            for axis in field.axes
        },
    }


def _scalar(scalar: Scalar) -> dict[str, Any]:
    return {"name": scalar.name, "dtype": scalar.dtype.value, "default": scalar.default}


def _warning(warning: ProgramWarning, text: str) -> dict[str, Any]:
    return {
        "message": warning.message,
        "hint": warning.hint,
        "rule": warning.rule,
        "line": warning.line,
        "column": warning.column,
        "excerpt": excerpt(text, Place(warning.line, warning.column)),
    }
