"""Programs of users as text: strings, files, and Python functions with all that they refer to."""

from __future__ import annotations

from halocline.errors import SourceError
from halocline_engine import errors
from halocline_engine.language.python import sources
from halocline_engine.language.python.sources import ProgramLike, Source

__all__ = ["program_source"]

_HINT = "Pass the text of a program, the path of a '.py' file that is here, or the function itself."


def program_source(program: ProgramLike) -> Source:
    """Return the text of a program; raises SourceError if it has none."""
    try:
        return sources.program_source(program)
    except errors.SourceError as error:
        raise SourceError(error.message, hint=error.hint or _HINT) from error
