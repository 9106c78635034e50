"""Status of each system of a batch: a byte each, so that a bad one affects no other."""

from __future__ import annotations

from enum import IntFlag
from typing import Any

__all__ = ["Status", "status_attributes"]


class Status(IntFlag):
    """Fault of a system; 0 where there is none.

    ZERO_DIAGONAL: some diagonal element is zero. NOT_DOMINANT: in some row the diagonal element is
    smaller than the others together, so that elimination without pivoting may lose accuracy.
    NOT_FINITE: a coefficient or the right-hand side is infinite or not a number. FAILED: all of
    them are finite, and the solution is not. SKIPPED: the system was left as it was.
    """

    FINE = 0
    ZERO_DIAGONAL = 1
    NOT_DOMINANT = 2
    NOT_FINITE = 4
    FAILED = 8
    SKIPPED = 16


def status_attributes() -> dict[str, Any]:
    """Return the CF attributes of a variable that holds such bytes.

    >>> status_attributes()["flag_meanings"]
    'zero_diagonal not_dominant not_finite failed skipped'
    """
    import numpy as np

    flags = list(Status)
    return {
        "long_name": "what is wrong with a system",
        "flag_masks": np.array([flag.value for flag in flags], np.uint8),
        "flag_meanings": " ".join(str(flag.name).lower() for flag in flags),
    }
