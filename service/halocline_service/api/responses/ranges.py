"""The `Range` header (RFC 9110, section 14): which bytes of a file are asked for."""

from __future__ import annotations

import re

__all__ = ["MOST_RANGES", "normal"]

#: More are refused: each costs a seek, and no reader of Zarr asks for so many at once.
MOST_RANGES = 100
_RANGE = re.compile(r"(\d{0,19})-(\d{0,19})")


def normal(header: str, size: int) -> str | None:
    """Give a header with what it asks for that is there, or '' where it is to be ignored.

    None where there is nothing of what it asks for, or it is malformed.

    >>> normal("bytes=0-1, -3", 10), normal("bytes=8-99", 10), normal("lines=0-1", 10)
    ('bytes=0-1,7-9', 'bytes=8-9', '')
    >>> normal("bytes=10-", 10), normal("bytes=5-2", 10), normal("bytes=-0", 10)
    (None, None, None)
    """
    unit, equals, given = header.partition("=")
    if not equals or unit.strip().lower() != "bytes":
        return ""
    wanted = given.split(",")
    if len(wanted) > MOST_RANGES:
        return None
    found: list[str] = []
    for part in wanted:
        match = _RANGE.fullmatch(part.strip())
        if match is None or match[0] == "-":
            return None
        first, last = match[1], match[2]
        if first and last and int(last) < int(first):
            return None
        start = int(first) if first else max(0, size - int(last))
        end = min(int(last), size - 1) if first and last else size - 1
        if start <= end:
            found.append(f"{start}-{end}")
    return f"bytes={','.join(found)}" if found else None
