"""Which variant of the code a call needs: strides, index width, shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from programs import MASKED, scheduled

from halocline_engine.backends.cuda.model.entries import Stride
from halocline_engine.backends.cuda.model.views import View, usual_variant, variant_of, view_of

ANY, ONE, NONE = Stride.ANY, Stride.ONE, Stride.NONE


def seen(array: NDArray[Any], origin: tuple[int, int, int] = (0, 0, 0), around: int = 0) -> View:
    address = array.__array_interface__["data"][0]
    i, j, k = array.shape
    a, b, c = array.strides
    return view_of("f", address, array.itemsize, (i, j, k), (a, b, c), origin, around)


def test_a_view_begins_at_the_domain() -> None:
    array = np.zeros((4, 5, 6))
    view = seen(array, (1, 2, 3))
    assert view.address == array[1, 2, 3:].__array_interface__["data"][0]
    assert view.strides == (30, 6, 1)
    assert view.last - view.first == array.nbytes
    assert view.reach == 2 * 30 + 2 * 6 + 3


def test_a_view_with_negative_strides_spans_the_same_bytes() -> None:
    array = np.zeros((4, 5, 6))
    there, back = seen(array), seen(array[::-1, :, ::-1])
    assert (there.first, there.last) == (back.first, back.last)
    assert back.strides == (-30, 6, -1)
    assert back.reach == there.reach


def test_offsets_beyond_32_bits_make_a_call_wide() -> None:
    def far(size: int) -> View:
        return view_of("f", 0, 4, (size, 1, 1), (4, 4, 4), (0, 0, 0))

    assert not variant_of([far(2**31)], [True]).wide
    assert variant_of([far(2**31 + 1)], [True]).wide
    assert variant_of([view_of("f", 0, 4, (2**31 - 1, 1, 1), (4, 0, 0), (0, 0, 0), 2)], [True]).wide


def test_kinds_are_by_content() -> None:
    a, b = np.zeros((4, 5, 6)), np.asfortranarray(np.zeros((4, 5, 6)))
    flat = np.broadcast_to(np.zeros((4, 5, 1)), (4, 5, 6))
    variant = variant_of([seen(a), seen(b), seen(a.copy()), seen(flat)], [False] * 4)
    assert variant.arrays == (0, 1, 0, 2)
    assert variant.kinds == ((ANY, ANY, ONE), (ONE, ANY, ANY), (ANY, ANY, NONE))


def test_columns_lie_beside_each_other_along_the_smaller_stride() -> None:
    along_j, along_i = np.zeros((4, 5, 6)), np.zeros((5, 4, 6)).transpose(1, 0, 2)
    assert variant_of([seen(along_j)], [True]).near == 1
    assert variant_of([seen(along_i)] * 2 + [seen(along_j)], [False] * 3).near == 0
    assert variant_of([seen(np.asfortranarray(along_j))], [True]).near == 0


@pytest.mark.parametrize(
    ("written", "disjoint"),
    [((False, False, False), True), ((True, False, False), False), ((False, False, True), True)],
)
def test_memory_is_shared_only_where_something_is_written(
    written: tuple[bool, bool, bool], disjoint: bool
) -> None:
    whole, other = np.zeros((4, 5, 6)), np.zeros((4, 5, 6))
    views = [seen(whole), seen(whole[1:3]), seen(other)]
    assert variant_of(views, written).disjoint is disjoint


def test_neighbours_in_one_array_do_not_share_memory() -> None:
    whole = np.zeros((4, 5, 6))
    assert variant_of([seen(whole[:2]), seen(whole[2:])], [True, True]).disjoint
    assert not variant_of([seen(whole[:, :2]), seen(whole[:, 2:])], [True, True]).disjoint


def test_the_usual_variant_shares_strides_by_axes_and_size() -> None:
    variant = usual_variant(scheduled(MASKED))
    assert variant.arrays == (0, 1, 2, 0)
    assert variant.kinds == ((ONE, ANY, ANY), (NONE, NONE, ANY), (ONE, ANY, NONE))
    assert variant.disjoint
    assert not variant.wide
