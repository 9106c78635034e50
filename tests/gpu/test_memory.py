"""Memory, copies and compiled code on a real device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from device_streams import own_stream, synchronize

from halocline_engine.backends.cuda.runtime.memory import PitchedMemory
from halocline_engine.device.compile.modules import DeviceKernels
from halocline_engine.device.machine import CudaMachine
from halocline_engine.device.memory.staging import reserve
from halocline_engine.device.probe import device_facts
from halocline_engine.errors import CapacityError, DeviceError

pytestmark = pytest.mark.gpu

ADD = """
extern "C" __global__ void add(const int n, const double* a, double* b) {
  const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) b[i] = a[i] + 1.0;
}
"""


def some(shape: tuple[int, int, int], dtype: str) -> np.ndarray[Any, Any]:
    numbers = np.random.default_rng(3).normal(0.0, 40.0, shape)
    return (numbers > 0) if dtype == "bool" else numbers.astype(dtype)


def test_facts(machine: CudaMachine) -> None:
    facts = device_facts()
    assert facts == machine.facts
    assert facts.name
    assert int(facts.capability) >= 70
    assert facts.memory > 2**30
    assert facts.cache > 2**20
    assert facts.multiprocessors > 0


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 4, 3), (129, 3, 2), (7, 300, 11)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_travel_to_the_device_and_back(
    machine: CudaMachine, dtype: str, shape: tuple[int, int, int], order: Any
) -> None:
    memory = PitchedMemory(machine)
    host = np.asarray(some(shape, dtype), order=order)
    array = memory.empty(shape, host.dtype, (min(2, shape[0] - 1), 0, 0))
    assert array.strides[0] == host.itemsize
    for row in range(shape[1]):
        first = machine.address(array) + min(2, shape[0] - 1) * host.itemsize
        assert (first + row * array.strides[1]) % 128 == 0
    memory.upload(host, array)
    back = memory.download(array)
    assert back.dtype == host.dtype
    np.testing.assert_array_equal(back, host)


def test_a_part_of_an_array_leaves_the_rest_alone(machine: CudaMachine) -> None:
    memory = PitchedMemory(machine)
    whole = some((40, 30, 20), "float64")
    array = memory.empty((40, 30, 20), whole.dtype, (0, 0, 0))
    memory.upload(whole, array)
    part = (slice(3, 30), slice(5, 21), slice(2, 9))
    new = some((27, 16, 7), "float64") + 1000.0
    memory.upload(new, array[part])
    np.testing.assert_array_equal(memory.download(array[part]), new)
    whole[part] = new
    np.testing.assert_array_equal(memory.download(array), whole)


def test_arrays_without_rows_travel_too(machine: CudaMachine, cupy: Any) -> None:
    memory = PitchedMemory(machine)
    host = some((9, 8, 7), "float32")
    array = cupy.empty((9, 8, 7), "float32")[::-1, ::2]
    memory.upload(host[:, :4], array)
    np.testing.assert_array_equal(memory.download(array), host[:, :4])


def test_a_host_array_may_be_changed_as_soon_as_it_was_uploaded(machine: CudaMachine) -> None:
    memory = PitchedMemory(machine)
    host = np.empty((256, 256, 64))
    arrays = [memory.empty((256, 256, 64), host.dtype, (0, 0, 0)) for _ in range(6)]
    with own_stream():
        for number, array in enumerate(arrays):
            host[...] = number
            memory.upload(host, array)
        host[...] = np.nan
        for number, array in enumerate(arrays):
            np.testing.assert_array_equal(memory.download(array), number)


def test_more_than_one_slab(machine: CudaMachine) -> None:
    memory = PitchedMemory(machine)
    host = some((512, 512, 50), "float64")
    array = memory.empty((512, 512, 50), host.dtype, (1, 0, 0))
    memory.upload(host, array)
    np.testing.assert_array_equal(memory.download(array), host)


def test_memory_that_does_not_fit_is_refused_with_numbers(machine: CudaMachine) -> None:
    with pytest.raises(CapacityError) as caught:
        reserve(2**50)
    assert caught.value.needed == 2**50
    assert 0 < caught.value.available <= machine.facts.memory
    assert str(caught.value) == (
        f"The device has {caught.value.available} bytes of free memory, but {2**50} are needed."
        " Use smaller blocks."
    )


def test_code_is_compiled_loaded_and_run(machine: CudaMachine, cupy: Any) -> None:
    kernels = machine.load(machine.compile(ADD))
    a, b = cupy.arange(1000.0), cupy.full(1000, np.nan)
    arguments = (np.int32(1000), np.uint64(a.data.ptr), np.uint64(b.data.ptr))
    kernels.launch("add", (8, 1, 1), (128, 1, 1), arguments)
    synchronize()
    np.testing.assert_array_equal(cupy.asnumpy(b), np.arange(1000.0) + 1)
    with pytest.raises(DeviceError) as caught:
        kernels.launch("subtract", (1, 1, 1), (1, 1, 1), ())
    assert str(caught.value).startswith("Kernel 'subtract' could not be launched: ")


def test_code_that_is_not_code_is_refused(machine: CudaMachine) -> None:
    with pytest.raises(DeviceError) as caught:
        DeviceKernels(b"this is not device code" * 10)
    assert str(caught.value).startswith("The device did not load compiled code: ")
