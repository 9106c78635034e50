"""Ids of jobs and uploads, given in part."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["WHOLE_ID", "one_of"]

WHOLE_ID = 36  # letters
_SHORTEST = 4


def one_of(part: str, known: Sequence[str]) -> str:
    """Return the only known id that begins or ends with a text, otherwise the text.

    Ids begin with the time; the ends of ids distinguish jobs of the same minute.

    >>> one_of("2bac840e", ["01a2-2bac840e", "01a2-657cf075"])
    '01a2-2bac840e'
    """
    size = len(part)
    fitting = [each for each in known if part in (each[:size], each[-size:])]
    return fitting[0] if _SHORTEST <= size < WHOLE_ID and len(fitting) == 1 else part
