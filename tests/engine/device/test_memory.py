"""Copies to and from a device, on a fake one that copies in host memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fake_cupy import FakeCupy

from halocline_engine.backends.cuda.runtime.memory import PitchedMemory
from halocline_engine.copies import slabs
from halocline_engine.device import machine as machine_module
from halocline_engine.device.machine import CudaMachine
from halocline_engine.device.memory import staging as memory
from halocline_engine.device.memory.staging import Staging, reserve
from halocline_engine.device.probe import DeviceFacts
from halocline_engine.errors import CapacityError
from halocline_engine.far_memory import place_of

FACTS = DeviceFacts(0, "Fake 1", "90", 132, 2**40, 50 * 2**20)


@pytest.fixture(params=[False, True], ids=["early", "late"])
def fake(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> FakeCupy:
    found = FakeCupy(late=request.param)
    monkeypatch.setattr(memory, "cupy", lambda: found)
    monkeypatch.setattr(machine_module, "cupy", lambda: found)
    return found


def some(shape: tuple[int, int, int], dtype: str = "float64") -> Any:
    numbers = np.random.default_rng(5).normal(0.0, 50.0, shape)
    return (numbers > 0) if dtype == "bool" else numbers.astype(dtype)


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 4, 3), (17, 1, 9), (4, 0, 3)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_travel_to_the_device_and_back(
    fake: FakeCupy, dtype: str, shape: tuple[int, int, int], order: Any
) -> None:
    own = PitchedMemory(CudaMachine(FACTS))
    host = np.asarray(some(shape, dtype), order=order)
    array = own.empty(shape, host.dtype, (0, 0, 0))
    own.upload(host, array)
    back = own.download(array)
    assert back.dtype == host.dtype
    np.testing.assert_array_equal(back, host)


@pytest.mark.parametrize("halo", [(0, 0, 0), (3, 2, 1)])
def test_the_first_point_behind_the_halo_is_aligned_in_every_row(
    fake: FakeCupy, halo: tuple[int, int, int]
) -> None:
    own = CudaMachine(FACTS)
    array = PitchedMemory(own).empty((21, 7, 5), np.dtype("float32"), halo)
    for j in range(7):
        for k in range(5):
            place = own.address(array) + 4 * halo[0] + j * array.strides[1] + k * array.strides[2]
            assert place % 128 == 0


def test_a_whole_array_is_one_copy(fake: FakeCupy) -> None:
    own = PitchedMemory(CudaMachine(FACTS))
    array = own.empty((21, 7, 5), np.dtype("float32"), (0, 0, 0))
    own.upload(some((21, 7, 5), "float32"), array)
    assert fake.copies == [(84, 35)]


def test_a_part_leaves_the_rest_alone(fake: FakeCupy) -> None:
    own = PitchedMemory(CudaMachine(FACTS))
    whole = some((20, 10, 6))
    array = own.empty((20, 10, 6), whole.dtype, (0, 0, 0))
    own.upload(whole, array)
    part = (slice(3, 19), slice(2, 9), slice(1, 5))
    new = some((16, 7, 4)) + 1000.0
    own.upload(new, array[part])
    np.testing.assert_array_equal(own.download(array[part]), new)
    whole[part] = new
    np.testing.assert_array_equal(own.download(array), whole)


def test_arrays_without_rows_travel_too(fake: FakeCupy) -> None:
    own = PitchedMemory(CudaMachine(FACTS))
    array = own.empty((20, 10, 6), np.dtype("float64"), (0, 0, 0))[::-1, ::2]
    host = some((20, 5, 6))
    own.upload(host, array)
    np.testing.assert_array_equal(own.download(array), host)


def test_staging_is_reused_only_when_its_copy_is_complete(
    fake: FakeCupy, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = PitchedMemory(CudaMachine(FACTS))
    host = np.empty((8, 8, 4))
    arrays = [own.empty((8, 8, 4), host.dtype, (0, 0, 0)) for _ in range(5)]
    for number, array in enumerate(arrays):
        host[...] = number
        own.upload(host, array)
    host[...] = np.nan
    fake.catch_up()
    for number, array in enumerate(arrays):
        np.testing.assert_array_equal(array.array, number)
    assert len(fake.pinned) == 2


def test_large_arrays_go_in_slabs(fake: FakeCupy, monkeypatch: pytest.MonkeyPatch) -> None:
    def small(
        shape: tuple[int, int, int], itemsize: int, threads: int
    ) -> list[tuple[slice, slice]]:
        return list(slabs(shape, itemsize, most=1000))

    monkeypatch.setattr(memory, "slabs_for", small)
    own = PitchedMemory(CudaMachine(FACTS))
    host = some((7, 6, 11))
    array = own.empty((7, 6, 11), host.dtype, (2, 0, 0))
    own.upload(host, array)
    assert [rows for _, rows in fake.copies] == [12, 12, 12, 12, 12, 6]
    np.testing.assert_array_equal(own.download(array), host)
    fake.copies.clear()
    plane = some((7, 40, 1))
    array = own.empty((7, 40, 1), plane.dtype, (0, 0, 0))
    own.upload(plane, array)
    assert [rows for _, rows in fake.copies] == [17, 17, 6]
    np.testing.assert_array_equal(own.download(array), plane)


@pytest.mark.parametrize("far", [False, True], ids=["here", "elsewhere"])
@pytest.mark.parametrize("shape", [(40, 30, 20), (40, 600, 1)])
def test_threads_copy_slabs_from_and_to_where_values_are(
    fake: FakeCupy, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int, int], far: bool
) -> None:
    def small(
        shape: tuple[int, int, int], itemsize: int, threads: int
    ) -> list[tuple[slice, slice]]:
        return list(slabs(shape, itemsize, most=4000))

    monkeypatch.setattr(memory, "slabs_for", small)
    own = PitchedMemory(CudaMachine(FACTS))
    host, back = some(shape).transpose(2, 1, 0).copy().transpose(2, 1, 0), np.zeros(shape)
    array = own.empty(shape, host.dtype, (2, 0, 0))
    own.upload(place_of(host).open() if far else host, array, 3)
    own.download(array, place_of(back).open() if far else back, 3)
    np.testing.assert_array_equal(back, host)
    assert len(fake.pinned) <= 2 * 3 + 1  # buffers are used again


def test_memory_that_does_not_fit_is_refused_with_numbers(fake: FakeCupy) -> None:
    with pytest.raises(CapacityError) as caught:
        reserve(2**41)
    assert (caught.value.needed, caught.value.available) == (2**41, 2**40)
    assert str(caught.value) == (
        f"The device has {2**40} bytes of free memory, but {2**41} are needed. Use smaller blocks."
    )


def test_size_classes_are_kept_apart(fake: FakeCupy) -> None:
    staging = Staging()
    event: Any = fake.cuda.Event(disable_timing=True)
    small: Any = [staging.take(1000) for _ in range(2)]
    for buffer in small:
        staging.give(buffer, 1000, event)
    large: Any = staging.take(2**20)
    assert large.nbytes == 2**20
    assert staging.take(60000) is small[0]
