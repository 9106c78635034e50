"""Tiles of neighbouring systems, which Numba's kernels take from all threads.

A kernel is called with arrays [outer, row, inner], the most systems of a tile, and the range of
tiles that it solves; tiles are counted through the outer axis, then the inner one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numba

from halocline_engine.kernels.threads import spread
from halocline_engine.kernels.tridiagonal.problem import Batch

__all__ = ["WIDTH", "njit", "over_tiles", "thread_count", "tile_at"]

#: Neighbouring systems that one pass over the rows solves: their rows are whole cache lines.
WIDTH = 64

njit: Any = cast("Any", numba).njit(nogil=True, error_model="numpy")
_config: Any = cast("Any", numba).config


def thread_count() -> int:
    """Return how many threads solve a batch."""
    return int(_config.NUMBA_NUM_THREADS)


def over_tiles(
    kernel: Callable[..., None],
    arguments: tuple[Batch | bool, ...],
    like: Batch,
    then: Callable[[int, int], None] | None = None,
    *,
    most: int = WIDTH,
) -> None:
    """Call a kernel for all tiles of systems, a range of tiles in each thread.

    A tile has at most so many systems. `then` is called for the systems of each range once they are
    done, counted through the outer axis, then the inner one.
    """
    outer, _, inner = like.shape
    width = min(most, inner) or 1
    tiles = -(-inner // width)

    def part(first: int, past: int) -> None:
        kernel(*arguments, width, first, past)
        if then is not None and tiles:
            then(*(tile // tiles * inner + tile % tiles * width for tile in (first, past)))

    spread(outer * tiles, thread_count(), part)


@njit
def tile_at(tile: int, inner: int, width: int) -> tuple[int, int, int]:
    """Return where a tile is along the outer axis, and its range of systems along the inner one."""
    tiles = -(-inner // width)
    start = tile % tiles * width
    return tile // tiles, start, min(start + width, inner)
