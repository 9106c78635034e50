"""The seed's layouts and lookups, and that every conversion goes there and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from halocline_engine.errors import ArgumentError, FieldError
from halocline_engine.kernels.tree.cuda import CudaTree
from halocline_engine.kernels.tree.levels import by_levels
from halocline_engine.kernels.tree.storage import flat, interleaved, pack_parents

SIZES = [8, 7, 6, 6, 5, 5, 3]
PADDING = -1.0


def seed_values() -> Any:
    """a0 a1 ... as 10 * vector + place."""
    return np.array([10.0 * m + i for m, size in enumerate(SIZES) for i in range(size)])


def test_flat_storage_of_the_seed() -> None:
    layout = flat(SIZES)
    assert layout.offsets.tolist() == [0, 8, 15, 21, 27, 32, 37, 40]
    assert layout.total == 40
    values = seed_values()
    for m, size in enumerate(SIZES):
        found = [values[layout.index(i, m)] for i in range(size)]
        assert found == [10 * m + i for i in range(size)]


def test_interleaved_storage_of_the_seed() -> None:
    layout = interleaved(SIZES, 4, common=True)
    packed = layout.pack(flat(SIZES), seed_values(), PADDING)
    rows = packed.reshape(2, 8, 4)
    assert rows[0, 0].tolist() == [0, 10, 20, 30]
    assert rows[0, 5].tolist() == [5, 15, 25, 35]
    assert rows[0, 6].tolist() == [6, 16, PADDING, PADDING]
    assert rows[0, 7].tolist() == [7, PADDING, PADDING, PADDING]
    assert rows[1, 2].tolist() == [42, 52, 62, PADDING]
    assert rows[1, 4].tolist() == [44, 54, PADDING, PADDING]
    assert (rows[1, 5:] == PADDING).all()
    for m, size in enumerate(SIZES):
        for i in range(size):
            block = m // 4
            assert layout.index(i, m) == block * 4 * 8 + m - block * 4 + i * 4
            assert packed[layout.index(i, m)] == 10 * m + i


def test_a_length_for_each_block_saves_padding() -> None:
    layout = interleaved(SIZES, 4)
    assert layout.lengths.tolist() == [8, 5]
    assert (layout.total, interleaved(SIZES, 4, common=True).total) == (52, 64)
    assert interleaved([], 4).total == 0


def test_parents_of_the_seed() -> None:
    """The printed p_int has the smaller cell in lane 0, which the solver cannot take: sorted."""
    local = np.array([0, 0, 1, 2, 1, 4, 0, 0, 1, 2, 1, 4, 5, 4])
    layout = flat([6, 8])
    assert pack_parents(layout, local).tolist() == [0, 0, 1, 2, 1, 4, 6, 6, 7, 8, 7, 10, 11, 10]
    target = interleaved([6, 8], 4, common=True)
    packed = pack_parents(layout, local, target).reshape(8, 4)
    assert target.order.tolist() == [1, 0]
    assert packed[:, :2].tolist() == [
        [0, 1], [0, 1], [4, 5], [8, 9], [4, 5], [16, 17], [20, -1], [16, -1],
    ]  # fmt: skip
    assert (packed[:, 2:] == -1).all()


def test_parents_of_the_seed_in_the_order_that_it_prints() -> None:
    """As printed, but with the last two rows where the larger cell's lane is."""
    local = np.array([0, 0, 1, 2, 1, 4, 0, 0, 1, 2, 1, 4, 5, 4])
    base = [0, 1]
    packed = [[base[m] + 4 * p for p in local[start:stop]] for m, start, stop in
              ((0, 0, 6), (1, 6, 14))]  # fmt: skip
    assert packed[0] == [0, 0, 4, 8, 4, 16]
    assert packed[1] == [1, 1, 5, 9, 5, 17, 21, 17]


SIZES_DRAWN = st.lists(st.integers(0, 40), max_size=30)


@settings(max_examples=60, deadline=None)
@given(sizes=SIZES_DRAWN, width=st.integers(1, 9), multiple=st.integers(1, 5), common=st.booleans())
def test_round_trips(sizes: list[int], width: int, multiple: int, common: bool) -> None:
    source = flat(sizes)
    target = interleaved(sizes, width, multiple=multiple, common=common)
    values = np.random.default_rng(1).normal(size=source.total)
    packed = target.pack(source, values, np.nan)
    assert np.array_equal(target.unpack(source, packed), values)
    assert np.isnan(packed).sum() == target.total - source.total
    assert (np.diff(target.sizes) <= 0).all()
    assert target.order[target.place].tolist() == list(range(len(sizes)))
    assert (target.lengths % multiple == 0).all()
    for m in range(min(5, len(sizes))):
        if target.sizes[m]:
            last = target.index(int(target.sizes[m]) - 1, m)
            assert packed[last] == values[source.offsets[target.order[m] + 1] - 1]


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(sizes=SIZES_DRAWN, width=st.sampled_from([1, 4, 32]), dtype=st.sampled_from(["f4", "f8"]))
def test_the_device_converts_as_numpy_does(
    device: CudaTree, sizes: list[int], width: int, dtype: str
) -> None:
    source, target = flat(sizes), interleaved(sizes, width)
    values = np.random.default_rng(2).normal(size=source.total).astype(dtype)
    if not source.total:
        return
    packed = device.pack(source, target, values)
    assert np.array_equal(packed, target.pack(source, values))
    assert np.array_equal(device.unpack(source, target, packed), values)


def test_arbors_historic_sizes() -> None:
    sizes = [6, 5, 4, 4, 3, 2, 2, 1]
    source = flat(sizes)
    values = np.arange(float(source.total))
    for width in range(1, 9):
        for multiple in (1, 2, 3):
            target = interleaved(sizes, width, multiple=multiple, common=True)
            assert np.array_equal(target.unpack(source, target.pack(source, values)), values)
    many = [250] * 200 + [213] * 200 + [200] * 200 + [178] * 200 + [6] * 200
    padded = interleaved(many, 32, multiple=256, common=True)
    assert padded.total == 32 * 256 * 32
    assert interleaved(many, 32).total < padded.total


def test_levels_of_a_small_tree() -> None:
    """Branches 0-1-2-3 and, at node 1, 4-5 with 6 and 7 on 5."""
    layout = by_levels(np.array([0, 0, 1, 2, 1, 4, 5, 5]))
    assert layout.counts.tolist() == [3, 1, 1]
    assert layout.lengths.tolist() == [2, 1, 1, 2, 2]
    packed = layout.pack(np.arange(8.0), np.nan)
    assert packed[:3].tolist() == [3, 6, 7]
    assert packed[3] == 2
    assert np.isnan(packed[4:6]).all()
    assert packed[6:].tolist() == [5, 4, 1, 0]
    assert layout.unpack(packed).tolist() == list(range(8))


def test_messages() -> None:
    with pytest.raises(ArgumentError) as caught:
        interleaved([1], 0)
    assert str(caught.value) == "Arguments 'width' and 'multiple' must be at least 1, got 0 and 1."
    with pytest.raises(FieldError) as wrong:
        interleaved([2, 1], 2).pack(flat([2, 1]), np.ones(4))
    assert str(wrong.value) == (
        "Expected 3 values, one for each element of the vectors, got an array of the shape (4,)."
    )
    with pytest.raises(FieldError) as negative:
        flat([2, -1])
    assert str(negative.value) == (
        "The lengths of the vectors must be a list of whole numbers from 0."
    )
