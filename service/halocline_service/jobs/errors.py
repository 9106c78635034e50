"""Errors of failed jobs as plain JSON, with the engine's stable codes."""

from __future__ import annotations

from typing import Any

from halocline_engine.errors import CapacityError, HaloclineError, ProgramError

__all__ = ["error_fields"]

_LONGEST = 4000  # characters; lists of names in messages may be as long as a dataset has variables


def error_fields(error: HaloclineError) -> dict[str, Any]:
    """Give what an error of the engine tells, as JSON."""
    fields: dict[str, Any] = {
        "code": error.code,
        "message": _cut(error.message),
        "hint": _cut(error.hint),
    }
    match error:
        case ProgramError():
            fields |= {
                "line": error.line,
                "column": error.column,
                "excerpt": _cut(error.excerpt),
                "rule": error.rule,
            }
            if error.others:
                fields["others"] = [error_fields(other) for other in error.others]
        case CapacityError():
            fields |= {"needed": error.needed, "available": error.available}
        case _:
            pass
    return fields


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
