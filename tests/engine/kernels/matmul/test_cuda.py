"""The CUDA kernels of products, compiled, and run on the host: one sum, whatever the order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cubin import resources
from numpy.typing import NDArray

from halocline_engine.device.compiler import compile_source
from halocline_engine.errors import InternalError
from halocline_engine.kernels.matmul.cuda import (
    ORDERS,
    VARIANTS,
    Ends,
    Multipliers,
    Variant,
    padded_bytes,
    usual_variant,
)

#: Small enough to be run on the host, with every turn that the large ones take.
SMALL = (
    Variant(64, 64, 8, 8, 8, 8, 3, 1),
    Variant(64, 128, 8, 8, 16, 8, 2, 1),
    Variant(128, 32, 16, 16, 4, 4, 4, 1),
    Variant(64, 128, 8, 8, 16, 8, 2, 1, direct=True),
    Variant(64, 64, 16, 4, 4, 8, 3, 1, direct=True),
)


def operands(rows: int, columns: int, inner: int, dtype: str) -> list[NDArray[Any]]:
    rng = np.random.default_rng(rows + inner)
    return [
        aligned(rng.normal(size=shape).astype(dtype)) for shape in ((rows, inner), (inner, columns))
    ]


def aligned(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy at a multiple of 64 bytes, as device memory is."""
    room = np.empty(array.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def ends(
    left: NDArray[Any], right: NDArray[Any], out: NDArray[Any], room: NDArray[Any] | None = None
) -> Ends:
    one, other, into = (array.ctypes.data for array in (left, right, out))
    sizes = (left.shape[0], right.shape[1], left.shape[1])
    return Ends(one, other, into, *sizes, 0 if room is None else room.ctypes.data)


def poisoned(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    return aligned(np.full((left.shape[0], right.shape[1]), np.nan, left.dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_orders_give_the_same_sum(multipliers: Callable[[int], Multipliers], dtype: str) -> None:
    left, right = operands(70, 45, 33, dtype)
    found: list[NDArray[Any]] = []
    for order in ORDERS:
        for width in (7, 45, 16):
            out = poisoned(left, right)
            multipliers(3).in_order(order, ends(left, right, out), dtype, width)
            found.append(out)
    assert all(np.array_equal(one, found[0]) for one in found)
    within = 33 * np.finfo(dtype).eps * (np.abs(left) @ np.abs(right))
    assert (np.abs(found[0] - left.astype("g") @ right.astype("g")) <= within).all()


@pytest.mark.parametrize("variant", SMALL, ids=lambda variant: variant.name)
def test_blocks_sum_as_single_elements_do(
    multipliers: Callable[[int], Multipliers], variant: Variant
) -> None:
    for rows, columns, inner, width in ((130, 200, 35, 128), (3, 69, 17, 64), (65, 4, 8, 1000)):
        left, right = operands(rows, columns, inner, "float32")
        wanted, out = poisoned(left, right), poisoned(left, right)
        multipliers(0).in_order("rows", ends(left, right, wanted), "float32", columns)
        assert (padded_bytes(columns, inner) == 0) == (columns % 4 == 0)
        size = 0 if variant.direct else padded_bytes(columns, inner)
        room = aligned(np.full(size // 4, np.nan, "float32"))
        multipliers(5).multiply(ends(left, right, out, room), variant, width)
        np.testing.assert_array_equal(out, wanted)


def test_rows_that_are_not_aligned_need_room(multipliers: Callable[[int], Multipliers]) -> None:
    left, right = operands(3, 6, 4, "float32")
    with pytest.raises(InternalError) as caught:
        multipliers(0).multiply(ends(left, right, poisoned(left, right)), SMALL[0], 64)
    assert str(caught.value) == "Rows of 6 elements need room for rows of 8, but there is none."


def test_what_is_not_a_number_stays_in_its_rows(
    multipliers: Callable[[int], Multipliers],
) -> None:
    left, right = operands(70, 68, 20, "float32")
    left[69, 3], right[7, 67] = np.nan, np.nan
    out = poisoned(left, right)
    multipliers(0).multiply(ends(left, right, out), SMALL[0], 64)
    assert np.isnan(out[69]).all()
    assert np.isnan(out[:, 67]).all()
    assert np.isfinite(out[:69, :67]).all()


def test_the_usual_cut_fits_the_sizes() -> None:
    assert usual_variant(64_000, 64_000, 132) is VARIANTS[0]
    assert usual_variant(4099, 4097, 132) is VARIANTS[-2]
    assert usual_variant(1, 1, 132) is usual_variant(1023, 1023, 132) is VARIANTS[-1]


def test_the_usual_cut_keeps_its_sums_in_registers() -> None:
    kernel = resources(compile_source(VARIANTS[0].source(vector=True), "sm_90"))["multiply"]
    assert kernel.stack == 0
    assert kernel.registers * VARIANTS[0].threads * VARIANTS[0].resident <= 65536
