"""Text in JSON of others: bounded in depth and in the digits of its numbers before it is parsed.

Python's parser recurses, and so does whoever walks what it made; and it refuses long numbers by
an error of its own.
"""

from __future__ import annotations

import re

import numpy as np

__all__ = ["DEEPEST", "MOST_DIGITS", "check_json"]

DEEPEST = 64
#: Any number of so many digits fits a float.
MOST_DIGITS = 300
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % (MOST_DIGITS + 1))
_LIST, _OBJECT = b"[{"
_ALL_BUT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def check_json(data: bytes) -> None:
    """Raise `ValueError` where a text is beyond the bounds; time grows with its length only.

    >>> check_json(b'{"a": [1, "[[[[", 2.5e3]}')
    """
    plain = _STRING.sub(b"", data)
    if _LONG_NUMBER.search(plain):
        raise ValueError(f"it has a number of more than {MOST_DIGITS} digits")
    brackets = np.frombuffer(plain.translate(None, _ALL_BUT_BRACKETS), dtype=np.uint8)
    depth = np.cumsum(np.where((brackets == _LIST) | (brackets == _OBJECT), 1, -1))
    if depth.max(initial=0) > DEEPEST:
        raise ValueError(f"its lists and objects are nested more than {DEEPEST} levels deep")
