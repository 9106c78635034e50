"""The order of blocks along K: those beside a side of the domain come first of all.

They take longer, so none should be the last. What is left are blocks that take as long as each
other, which go from plane to plane together and find in the cache what their neighbours read.
Everything is computed of uniform values, and divisions are products with what the host knows, so
that the compiler keeps the results out of the registers of threads.
"""

from __future__ import annotations

from halocline_engine.backends.cuda.model.launch import Dim3

__all__ = ["INVERSES", "SIDES_FIRST", "inverses_of"]

#: Parameters that divide by the number of strips between both ends, of rows of blocks, and of
#: those between both edges.
INVERSES = ("by_between", "by_lines", "by_middle")
#: Declares `strip`, `line` and `chunk`: the place of a block along I, J and K.
SIDES_FIRST = (
    "const int strips = (int)gridDim.x, lines = (int)gridDim.y, chunks = (int)gridDim.z;",
    "const int ends = min(strips, 2), between = strips - ends, edges = min(lines, 2);",
    "const int of_ends = ends * lines * chunks, of_edges = of_ends + between * edges * chunks;",
    "const int number = (int)blockIdx.x + strips * ((int)blockIdx.y + lines * (int)blockIdx.z);",
    "const bool at_end = number < of_ends, at_edge = number < of_edges;",
    "const int place = number - (at_end ? 0 : at_edge ? of_ends : of_edges);",
    "const int wide = at_end ? ends : between;",
    "const int tall = at_end ? lines : at_edge ? edges : lines - edges;",
    "const int by_wide = at_end ? 0x7fffffff >> (ends - 1) : by_between;",
    "const int by_tall = at_end ? by_lines : at_edge ? 0x7fffffff >> (edges - 1) : by_middle;",
    "const int rest = divided(place, wide, by_wide), chunk = divided(rest, tall, by_tall);",
    "const int along = place - rest * wide, across = rest - chunk * tall;",
    "const int strip = at_end ? along * (strips - 1) : 1 + along;",
    "const int line = at_end ? across : at_edge ? across * (lines - 1) : 1 + across;",
)


def inverses_of(grid: Dim3) -> tuple[int, int, int]:
    """Return the values of `INVERSES` for a grid.

    >>> inverses_of((14, 2, 6))
    (178956970, 1073741823, 2147483647)
    """
    strips, lines, _ = grid
    return _inverse(strips - 2), _inverse(lines), _inverse(lines - 2)


def _inverse(number: int) -> int:
    return (2**31 - 1) // max(1, number)
