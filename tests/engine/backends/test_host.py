"""NumPy arrays with aligned rows."""

from __future__ import annotations

import numpy as np
import pytest

from halocline_engine.backends.host import ALIGNMENT, HostMemory

DTYPES = ["bool", "int8", "int16", "int32", "int64", "float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(12, 34, 12), (1, 1, 1), (64, 3, 2), (65, 2, 1)])
@pytest.mark.parametrize("halo", [(0, 0, 0), (3, 4, 5), (1, 0, 0)])
def test_the_first_inner_point_of_every_row_is_aligned(
    dtype: str, shape: tuple[int, int, int], halo: tuple[int, int, int]
) -> None:
    array = HostMemory().empty(shape, np.dtype(dtype), halo)
    assert array.shape == shape
    assert array.dtype == dtype
    address = int(array.__array_interface__["data"][0])
    i, j, k = array.strides
    assert i == array.itemsize
    assert j % ALIGNMENT == 0
    assert j >= shape[0] * i
    assert k == j * shape[1]
    for row in range(shape[1]):
        for level in range(shape[2]):
            assert (address + halo[0] * i + row * j + level * k) % ALIGNMENT == 0


def test_all_of_it_can_be_written_and_read() -> None:
    memory = HostMemory()
    values = np.random.default_rng(0).normal(size=(7, 5, 3))
    array = memory.empty((7, 5, 3), values.dtype, (2, 2, 0))
    array[...] = np.nan
    memory.upload(values, array)
    assert np.array_equal(array, values)
    copy = memory.download(array)
    array[...] = 0.0
    assert np.array_equal(copy, values)
    assert copy.flags.f_contiguous


def test_empty_shapes() -> None:
    assert HostMemory().empty((0, 4, 5), np.dtype("float64"), (0, 0, 0)).size == 0
