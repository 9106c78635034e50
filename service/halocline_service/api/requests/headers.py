"""Whole numbers in headers."""

from __future__ import annotations

import re

__all__ = ["LARGEST", "whole_number"]

LARGEST = 2**63 - 1
_DIGITS = re.compile(r"[0-9]{1,19}")


def whole_number(text: str) -> int | None:
    """Return the number in a header; None unless it is a whole number from 0 to `LARGEST`.

    >>> whole_number("12"), whole_number("-1"), whole_number("²"), whole_number("9" * 5000)
    (12, None, None, None)
    """
    number = int(text) if _DIGITS.fullmatch(text) else -1
    return number if 0 <= number <= LARGEST else None
