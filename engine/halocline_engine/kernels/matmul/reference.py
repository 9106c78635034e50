"""The reference: products of tiles in wider numbers, rounded once at the end."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["WIDER", "add_product"]

#: The type in which products of a type are added up: at least 11 more bits of significand.
WIDER = {"float32": np.dtype(np.float64), "float64": np.dtype(np.longdouble)}


def add_product(left: NDArray[Any], right: NDArray[Any], total: NDArray[Any], *, new: bool) -> None:
    """Add the product of `left` [b, r, i] and `right` [b, i, c] to `total` [b, r, c], of its type.

    If `new`, `total` holds nothing yet.
    """
    with np.errstate(all="ignore"):
        product = np.matmul(left.astype(total.dtype), right.astype(total.dtype))
        if new:
            total[...] = product
        else:
            total += product
