"""Order of loops over the points of a kernel: all rows, or columns that fit a cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["AS_FITS", "Walk", "WalkOrder"]

#: 'row' goes along whole rows. 'column' does where what rows read again fits the cache, and else
#: goes down columns of them that do (`column.py`); 'zigzag' goes down every other one from its end.
WalkOrder: TypeAlias = Literal["row", "column", "zigzag"]


@dataclass(frozen=True, slots=True)
class Walk:
    """Order of loops for a target with caches; it changes no bit of a result.

    `cache` is how many bytes a column may take; then it may be as narrow as a point. None is for a
    share of what the machine has on which the code runs, and no columns that are not worth it.
    """

    order: WalkOrder = "column"
    cache: int | None = None


#: Columns where rows do not fit, by the caches of the machine.
AS_FITS = Walk()
