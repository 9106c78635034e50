"""Places in a program's text, and errors that point at them.

Lines and columns count from 1; a column counts characters, as an editor does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from halocline_engine.errors import ProgramError, SyntaxRuleError

__all__ = ["START", "Place", "excerpt", "fault", "locate", "no_return"]

_Fault = TypeVar("_Fault", bound=ProgramError)

_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Place:
    """Position in the text."""

    line: int
    column: int


START = Place(1, 1)


def fault(kind: type[_Fault], place: Place, rule: str, message: str, hint: str = "") -> _Fault:
    """Return an error of one class that points at a place; the caller raises it."""
    return kind(message, hint=hint, rule=rule, line=place.line, column=place.column)


def no_return(function: str, place: Place) -> SyntaxRuleError:
    """Return the error for a function that does not end with its one `return`."""
    message = (
        f"The function '{function}' must have one 'return' with a value, as its last statement."
    )
    hint = "Assign the result to a temporary in each branch, and return that."
    return fault(SyntaxRuleError, place, "functions", message, hint)


def locate(error: _Fault, text: str) -> _Fault:
    """Return the same error, with its excerpt filled in from its line and column.

    An error without a line, or with one that the text does not have, stays without an excerpt.

    >>> from halocline_engine.errors import NameRuleError
    >>> print(locate(NameRuleError("No.", line=1, column=5), "out = q"))
    line 1, column 5: No.
    out = q
        ^
    """
    for each in (error, *error.others):
        if each.line and not each.excerpt:
            each.excerpt = excerpt(text, Place(each.line, each.column))
    return error


def excerpt(text: str, place: Place) -> str:
    """Return the line at a place with a caret under the column, or "" for a line without text.

    Of a long line only the part around the column is shown; what cannot be printed becomes "?".
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not 1 <= place.line <= len(lines):
        return ""
    line = lines[place.line - 1].expandtabs(1)
    if not line.strip():
        return ""
    column = min(max(place.column, 1), len(line) + 1)
    first = max(0, column - 1 - _WIDTH * 3 // 4) if len(line) > _WIDTH else 0
    shown = "".join(c if c.isprintable() else "?" for c in line[first : first + _WIDTH])
    return f"{shown.rstrip()}\n{' ' * (column - 1 - first)}^"
