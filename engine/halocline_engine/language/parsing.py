"""Python's parser, for one thread at a time."""

from __future__ import annotations

import ast
from threading import Lock

__all__ = ["parsed"]

# Before 3.11.8 CPython counts the depth of all trees that threads are making together, and raises
# SystemError where it does not add up.
_PARSING = Lock()


def parsed(text: str) -> ast.Module:
    """Return the syntax tree of a text; raises what `ast.parse` does.

    >>> type(parsed("a = 1").body[0]).__name__
    'Assign'
    """
    with _PARSING:
        return ast.parse(text)
