"""A dense matrix product, and how it is cut into tiles whose products add up to it.

The product of `left` [batch, row, inner] and `right` [batch, inner, column] is

    product[b, r, c] = sum over i of left[b, r, i] right[b, i, c]

Libraries promise the same bits for the same call only: the shape of a call decides in which order
terms are added. So the cut depends on the sizes of the product and on the target, and on nothing
else; every tile is the sum of the same calls, one for each piece of the inner dimension, in
ascending order, wherever and in whatever company it is computed. Where terms are not numbers, the
sum is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["CUTS", "DTYPES", "CutSizes", "even_step"]

#: Types that can be multiplied; where two differ, both are converted to the wider one.
DTYPES = ("float32", "float64")


@dataclass(frozen=True, slots=True)
class CutSizes:
    """The largest tiles on a target: rows or columns, and inner elements; `unit` divides steps."""

    outer: int
    inner: int
    unit: int


#: The reference works in wider numbers, slowly, so its tiles are small. Threads of a processor
#: share a tile; tiles of a device are large enough for all of it, and for copies to hide behind
#: products.
CUTS: Mapping[str, CutSizes] = MappingProxyType(
    {
        "reference": CutSizes(outer=256, inner=256, unit=1),
        "cpu": CutSizes(outer=2048, inner=2048, unit=64),
        "cuda": CutSizes(outer=4096, inner=2048, unit=128),
    }
)


def even_step(size: int, most: int, unit: int) -> int:
    """Return the length of pieces, all alike but the last, that are at most `most` long.

    It is a multiple of `unit` where there are several pieces. `unit` divides `most`.

    >>> even_step(1000, 2048, 64), even_step(2049, 2048, 64), even_step(10_000, 4096, 128)
    (1000, 1088, 3456)
    """
    if size <= most:
        return max(1, size)
    pieces = -(-size // most)
    length = -(-size // pieces)
    return -(-length // unit) * unit
