"""The CUDA kernels of products, compiled, and run on the host: one sum, whatever the order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cubin import resources
from kept import device_code
from matmul_kernels.cuda import ORDERS, Ends, Multipliers, room_bytes
from matmul_kernels.cuts import VARIANTS, Variant, shares_of
from numpy.typing import NDArray

from halocline_engine.errors import InternalError

#: Small enough to be run on the host, with every turn that the large ones take.
WHOLE = Variant(64, 64, 8, 8, 8, 8, 3, 1)
SMALL = (
    WHOLE,
    Variant(64, 128, 8, 8, 16, 8, 2, 1),
    Variant(128, 32, 16, 16, 4, 4, 4, 1),
    Variant(64, 128, 8, 8, 16, 8, 2, 1, direct=True),
    Variant(64, 64, 16, 4, 4, 8, 3, 1, direct=True),
    Variant(64, 64, 16, 8, 8, 8, 3, 1, parts=1, direct=True),
)
SLICED = (
    Variant(32, 64, 16, 8, 8, 4, 3, 1, slices=4),
    Variant(64, 64, 16, 8, 8, 8, 2, 1, slices=2, direct=True),
    Variant(32, 64, 16, 8, 8, 4, 3, 1, slices=4, parts=1),
    Variant(64, 64, 16, 8, 8, 8, 2, 1, slices=2, parts=2, direct=True),
)
#: The cuts of the engine, each once.
USUAL = [one for one in VARIANTS if not one.parts]
#: The same, and with two blocks a tile, with no more blocks than may be left in their order.
FEW = [replace(one, resident=1) for one in VARIANTS if one.parts != 1]
#: Mixes up threads, and leaves up to six blocks in their order: a block may wait for those before.
IN_TURN = 95

Made = Callable[[int, int], Multipliers]


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


def room_for(variant: Variant, left: NDArray[Any], right: NDArray[Any], count: int) -> NDArray[Any]:
    """Return zeros where zeros must be, and not a number everywhere else."""
    size = room_bytes(variant, left.shape[0], right.shape[1], left.shape[1], count)
    room = np.full(size // 4, np.nan, "float32")
    room[:2048] = 0
    return aligned(room)


def poisoned(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    return aligned(np.full((left.shape[0], right.shape[1]), np.nan, left.dtype))


def by_rows(made: Made, left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    wanted = poisoned(left, right)
    made(IN_TURN, 1).in_order("rows", ends(left, right, wanted), str(left.dtype), right.shape[1])
    return wanted


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_orders_give_the_same_sum(multipliers: Made, dtype: str) -> None:
    left, right = operands(70, 45, 33, dtype)
    found: list[NDArray[Any]] = []
    for order in ORDERS:
        for width in (7, 45, 16):
            out = poisoned(left, right)
            multipliers(IN_TURN, 1).in_order(order, ends(left, right, out), dtype, width)
            found.append(out)
    assert all(np.array_equal(one, found[0]) for one in found)
    within = 33 * np.finfo(dtype).eps * (np.abs(left) @ np.abs(right))
    assert (np.abs(found[0] - left.astype("g") @ right.astype("g")) <= within).all()


@pytest.mark.parametrize("variant", SMALL, ids=lambda variant: variant.name)
def test_blocks_sum_as_single_elements_do(multipliers: Made, variant: Variant) -> None:
    for rows, columns, inner, width in ((130, 200, 35, 128), (3, 69, 17, 64), (65, 4, 8, 1000)):
        left, right = operands(rows, columns, inner, "float32")
        out, room = poisoned(left, right), room_for(variant, left, right, 1)
        multipliers(IN_TURN, 1).multiply(ends(left, right, out, room), variant, width)
        np.testing.assert_array_equal(out, by_rows(multipliers, left, right))


@pytest.mark.parametrize("variant", [*SMALL[:2], SMALL[4]], ids=lambda variant: variant.name)
@pytest.mark.parametrize("count", [2, 4, 6])
def test_shares_go_on_with_the_same_sum(multipliers: Made, variant: Variant, count: int) -> None:
    left, right = operands(130, 301, 75, "float32")
    shares = shares_of(variant, 130, 301, 75, count)
    assert shares.chained
    assert shares.split
    out, room = poisoned(left, right), room_for(variant, left, right, count)
    for _ in range(2):
        multipliers(IN_TURN, count).multiply(ends(left, right, out, room), variant, 128)
        np.testing.assert_array_equal(out, by_rows(multipliers, left, right))
        assert not room[:2048].any()
        out.fill(np.nan)


@pytest.mark.parametrize("variant", [*SMALL[:2], *SLICED, *FEW], ids=lambda one: one.name)
def test_every_term_is_added_once(multipliers: Made, variant: Variant) -> None:
    # Sums of these are exact in any order.
    for sizes, count in (
        ((60, 102, 150), 6),
        ((130, 129, 67), 5),
        ((1, 5, 40), 3),
        ((9, 70, 3), 4),
    ):
        left, right = (np.rint(4 * one) for one in operands(*sizes, "float32"))
        left, right = aligned(left), aligned(right)
        assert not shares_of(variant, *sizes, count).chained or variant.slices == 1
        out, room = poisoned(left, right), room_for(variant, left, right, count)
        multipliers(IN_TURN, count).multiply(ends(left, right, out, room), variant, 64)
        np.testing.assert_array_equal(out, left.astype("d") @ right.astype("d"))
        assert not room[:2048].any()


def test_split_sums_have_the_same_bits_again_and_are_near(multipliers: Made) -> None:
    sizes, count = (60, 102, 250), 6
    left, right = operands(*sizes, "float32")
    exact = left.astype("d") @ right.astype("d")
    within = 250 * np.finfo("float32").eps * (np.abs(left) @ np.abs(right))
    for variant in (WHOLE, SLICED[0]):
        assert not shares_of(variant, *sizes, count).chained
        found: list[NDArray[Any]] = []
        for width in (64, 64, 1000):
            out, room = poisoned(left, right), room_for(variant, left, right, count)
            multipliers(IN_TURN, count).multiply(ends(left, right, out, room), variant, width)
            found.append(out)
        assert all(np.array_equal(one, found[0]) for one in found)
        assert (np.abs(found[0] - exact) <= within).all()


def test_the_fast_kernel_needs_room(multipliers: Made) -> None:
    left, right = operands(3, 6, 4, "float32")
    with pytest.raises(InternalError) as caught:
        multipliers(IN_TURN, 1).multiply(ends(left, right, poisoned(left, right)), WHOLE, 64)
    assert str(caught.value) == "The fast kernel for products needs room, but there is none."


def test_what_is_not_a_number_stays_in_its_rows(multipliers: Made) -> None:
    left, right = operands(70, 68, 20, "float32")
    left[69, 3], right[7, 67] = np.nan, np.nan
    out, room = poisoned(left, right), room_for(WHOLE, left, right, 1)
    multipliers(IN_TURN, 1).multiply(ends(left, right, out, room), WHOLE, 64)
    assert np.isnan(out[69]).all()
    assert np.isnan(out[:, 67]).all()
    assert np.isfinite(out[:69, :67]).all()


@pytest.mark.parametrize("variant", USUAL, ids=lambda variant: variant.name)
@pytest.mark.parametrize("vector", [True, False], ids=["even", "odd"])
def test_the_cuts_keep_their_sums_in_registers(variant: Variant, vector: bool) -> None:
    for chained in (True, False) if variant.slices == 1 else (False,):
        source = variant.source(vector=vector, chained=chained)
        kernel = resources(device_code(source, "sm_90"))["multiply"]
        assert kernel.stack == 0
        assert kernel.registers * variant.threads * variant.resident <= 65536
        assert variant.shared(vector=vector) <= 227 << 10
        assert (variant.shared(vector=vector) + 1024) * variant.resident <= 228 << 10
