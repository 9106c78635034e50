"""Programs of users as text: strings, files, and Python functions with all that they refer to."""

from __future__ import annotations

from halocline.errors import ProgramError, SourceError
from halocline_engine import errors
from halocline_engine.language.python import sources
from halocline_engine.language.python.sources import ProgramLike, Source

__all__ = ["program_source", "with_place"]

_HINT = "Pass the text of a program, the path of a '.py' file that is here, or the function itself."


def program_source(program: ProgramLike) -> Source:
    """Return the text of a program; raises SourceError if it has none."""
    try:
        return sources.program_source(program)
    except errors.SourceError as error:
        raise SourceError(error.message, hint=error.hint or _HINT) from error


def with_place(error: ProgramError, source: Source) -> ProgramError:
    """Set the file and the line where an error's place is in the caller's own file, if known."""
    for each in (error, *error.others):
        found = source.origin(each.line)
        if found is not None:
            each.file, each.file_line = found
    return error
