"""Programs as text: from strings, files, and Python functions with everything they refer to."""

from __future__ import annotations

from typing import Any

from halocline.errors import SourceError
from halocline.inputs.arguments import by_name
from halocline_engine import errors
from halocline_engine.language.python import sources
from halocline_engine.language.python.externals import with_externals
from halocline_engine.language.python.sources import ProgramLike, Source

__all__ = ["program_and_externals", "program_source"]

_HINT = "Pass the text of a program, the path of a '.py' file that is here, or the function itself."


def program_and_externals(
    program: ProgramLike, externals: Any, name: str | None
) -> tuple[Source, dict[str, Any]]:
    """Return the text of a program and its externals; raises SourceError if there is no text."""
    given = by_name("externals", externals)
    try:
        return with_externals(program, given, name)
    except errors.SourceError as error:
        raise _source_error(error) from error


def program_source(program: ProgramLike) -> Source:
    """Return the text of a program; raises SourceError if there is none."""
    try:
        return sources.program_source(program)
    except errors.SourceError as error:
        raise _source_error(error) from error


def _source_error(error: errors.SourceError) -> SourceError:
    return SourceError(error.message, hint=error.hint or _HINT)
