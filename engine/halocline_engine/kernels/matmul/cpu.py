"""Products of tiles by BLAS, in pieces of one shape that threads share."""

from __future__ import annotations

import itertools
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from halocline_engine.kernels.matmul.blas import one_thread
from halocline_engine.kernels.threads import spread

__all__ = ["add_product", "cores"]

#: Rows and columns of a product that one call computes. Its columns lie in a cache of the second
#: level while they are added up.
_ROWS, _COLUMNS = 128, 1024


def cores() -> int:
    """Return how many threads of this process may multiply, as for loops that Numba compiles."""
    from numba import config

    return int(cast("Any", config).NUMBA_NUM_THREADS)


def add_product(
    left: NDArray[Any], right: NDArray[Any], total: NDArray[Any], *, new: bool, threads: int
) -> None:
    """Add the product of `left` [b, r, i] and `right` [b, i, c] to `total` [b, r, c].

    If `new`, `total` holds nothing yet. The bits do not depend on the number of threads.
    """
    batch, rows, columns = total.shape
    pieces = list(
        itertools.product(range(batch), range(0, rows, _ROWS), range(0, columns, _COLUMNS))
    )

    def work(first: int, past: int) -> None:
        with np.errstate(all="ignore"):
            for one, row, column in pieces[first:past]:
                across = slice(column, column + _COLUMNS)
                down = slice(row, row + _ROWS)
                part = np.matmul(left[one, down], right[one, :, across])
                if new:
                    total[one, down, across] = part
                else:
                    total[one, down, across] += part

    with one_thread():
        spread(len(pieces), threads, work)
