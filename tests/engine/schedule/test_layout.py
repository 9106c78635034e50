from __future__ import annotations

from itertools import product

import pytest

from halocline_engine.backends.cuda.model.layout import (
    DEVICE_ALIGNMENT,
    DEVICE_LAYOUT,
    StorageInfo,
    alignment_unit,
    stride_kinds,
)
from halocline_engine.errors import InternalError

SHAPE = (3, 4, 5)


@pytest.mark.parametrize(
    ("layout", "alignment", "strides"),
    [
        ((0, 1, 2), 1, (20, 5, 1)),
        ((2, 0, 1), 1, (1, 15, 3)),
        ((-1, 0, 1), 1, (0, 5, 1)),
        ((0, 1, 2), 32, (128, 32, 1)),
        ((2, 0, 1), 32, (1, 160, 32)),
        ((-1, 0, 1), 32, (0, 32, 1)),
    ],
)
def test_strides_of_the_published_vectors(
    layout: tuple[int, ...], alignment: int, strides: tuple[int, ...]
) -> None:
    assert StorageInfo(SHAPE, layout, alignment).strides == strides


@pytest.mark.parametrize(
    ("layout", "length"), [((0, 1, 2), 60), ((2, 0, 1), 60), ((-1, 0, 1), 20), ((0, -1, -1), 3)]
)
def test_length_counts_up_to_the_last_element(layout: tuple[int, ...], length: int) -> None:
    assert StorageInfo(SHAPE, layout).length == length


def test_length_leaves_out_the_padding_behind_the_last_element() -> None:
    info = StorageInfo(SHAPE, (0, 1, 2), 32)
    assert info.length == info.index((2, 3, 4)) + 1 == 2 * 128 + 3 * 32 + 4 + 1
    assert info.allocation == info.length + 32


def test_length_of_an_empty_array_is_zero() -> None:
    assert StorageInfo((3, 0, 5), (0, 1, 2)).length == 0


def test_a_single_dimension_is_not_padded() -> None:
    assert StorageInfo((3, 4, 5), (-1, 0, -1), 32).padded == (1, 4, 1)


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
@pytest.mark.parametrize("layout", [(2, 1, 0), (0, 1, 2), (0, 2, 1)])
@pytest.mark.parametrize("byte_alignment", [32, 64, 128])
def test_the_first_non_halo_point_of_every_row_is_aligned(
    itemsize: int, layout: tuple[int, ...], byte_alignment: int
) -> None:
    unit = alignment_unit(itemsize, byte_alignment)
    info = StorageInfo((12, 34, 12), layout, unit, halo=(3, 4, 5))
    fast = layout.index(2)
    rows = [p for p in product(range(12), range(34), range(12)) if p[fast] == info.halo[fast]]
    places = [info.index(point) * itemsize for point in rows]
    for address in (0, 4, 36, byte_alignment, 3 * byte_alignment - 4):
        shift = info.shift(address, itemsize, byte_alignment)
        assert 0 <= shift < byte_alignment
        assert shift + info.length * itemsize <= info.allocation * itemsize
        assert {(address + shift + place) % byte_alignment for place in places} == {0}


def test_elements_do_not_share_a_place() -> None:
    info = StorageInfo((5, 3, 4), DEVICE_LAYOUT, alignment_unit(8, DEVICE_ALIGNMENT))
    places = {info.index(point) for point in product(range(5), range(3), range(4))}
    assert len(places) == 60
    assert max(places) == info.length - 1


def test_equal_strides_share_a_kind_by_content() -> None:
    assert stride_kinds([(1, 8, 64), (1, 8, 0), (1, 8, 64), (8, 1, 64), (1, 8, 0)]) == (
        0,
        1,
        0,
        2,
        1,
    )


@pytest.mark.parametrize(
    ("layout", "halo", "message"),
    [
        (
            (0, 0, 1),
            (),
            "Invalid layout '(0, 0, 1)' of 3 dimensions: expected the numbers from 0 up, each"
            " once, and -1 for masked dimensions.",
        ),
        (
            (0, 1, 2),
            (1,),
            "Invalid halo '(1,)': expected 3 numbers, got 1.",
        ),
        (
            (0, 1, 2),
            (0, -1, 0),
            "Invalid storage: expected an alignment of at least 1 and no negative sizes, got"
            " alignment 1, sizes (3, 4, 5) and halo (0, -1, 0).",
        ),
    ],
)
def test_impossible_storage_is_refused(
    layout: tuple[int, ...], halo: tuple[int, ...], message: str
) -> None:
    with pytest.raises(InternalError) as caught:
        StorageInfo(SHAPE, layout, halo=halo)
    assert str(caught.value) == message
