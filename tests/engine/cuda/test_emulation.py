"""The emulation itself: right kernels run, and wrong ones are seen to fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulation.machine import EmulatedMachine, EmulationError
from kept import device_code
from numpy.typing import NDArray

from halocline_engine.backends.cuda.text.prelude import prelude

Array = NDArray[Any]
ORDERS: dict[str, dict[str, Any]] = {
    "ascending": {},
    "descending": {"descending": True},
    "shuffled": {"shuffled": 3},
}
N = 256

#: Each kernel takes 256 numbers in two blocks of 128; SYNC stands where a barrier belongs.
TEXT = r"""
template <class T> struct Sum { T value; };
template <class T> __device__ T around(const T *in, T *tile) {
  const int t = threadIdx.x;
  tile[t] = in[blockIdx.x * blockDim.x + t];
  SYNC
  return tile[(t + 127) % 128] + tile[t] + tile[(t + 1) % 128];
}
#define KERNEL(name, T) extern "C" __global__ void __launch_bounds__(128) name(const T *in, T *out)
KERNEL(fixed, double) {
  __shared__ double tile[128]; // a comment; with a semicolon
  out[blockIdx.x * 128 + threadIdx.x] = around(in, tile);
}
KERNEL(dynamic, float) {
  extern __shared__ __align__(16) unsigned char room[];
  out[blockIdx.x * 128 + threadIdx.x] = around(in, reinterpret_cast<float *>(room));
}
KERNEL(rolling, double) {
  __shared__ alignas(16) double tile[128];
  const int t = threadIdx.x, at = blockIdx.x * 128 + t;
  double value = in[at];
  for (int n = 0; n < 3; ++n) {
    tile[t] = value;
    __syncthreads();
    value += tile[(t + 1) % 128];
    SYNC
  }
  out[at] = value;
}
KERNEL(warps, double) {
  __shared__ Sum<double> sums[4], all;
  const int t = threadIdx.x, lane = t % warpSize;
  double value = in[blockIdx.x * 128 + t];
  for (int by = 16; by; by /= 2) value += __shfl_xor_sync(0xffffffffu, value, by);
  if (lane == 0) sums[t / 32].value = value;
  SYNC
  if (t < 32) {
    value = t < 4 ? sums[t].value : 0;
    for (int by = 2; by; by /= 2) value += __shfl_down_sync(0xffffffffu, value, by, 4);
    if (t == 0) all.value = value;
  }
  __syncthreads();
  out[blockIdx.x * 128 + t] = all.value;
}
KERNEL(flying, double) {
  __shared__ double2 tile[2][64];
  const int t = threadIdx.x, pair = t / 2;
  if (t % 2 == 0) copy_async16(&tile[0][pair], in + blockIdx.x * 128 + t);
  copy_async_commit();
  if (t % 2 == 1) copy_async8(&tile[1][pair].x, in + blockIdx.x * 128 + t);
  copy_async_commit();
  WAIT
  __syncthreads();
  const double2 one = tile[0][(pair + 1) % 64];
  copy_async_wait_all();
  __syncthreads();
  out[blockIdx.x * 128 + t] = one.x + one.y + tile[1][63 - pair].x;
}
"""


def text(sync: str = "__syncthreads();", wait: str = "copy_async_wait<1>();") -> str:
    source = TEXT.replace("SYNC", sync).replace("WAIT", wait)
    return prelude(source) + source


def neighbours(a: Array) -> Array:
    b = a.reshape(2, 128)
    return (np.roll(b, 1, 1) + b + np.roll(b, -1, 1)).ravel()


def rolled(a: Array) -> Array:
    b = a.reshape(2, 128)
    for _ in range(3):
        b = b + np.roll(b, -1, 1)
    return b.ravel()


def copied(a: Array) -> Array:
    b = a.reshape(2, 64, 2)
    sums = np.roll(b.sum(2), -1, 1) + b[:, ::-1, 1]
    return np.repeat(sums, 2, 1).ravel()


EXPECTED: dict[str, Callable[[Array], Array]] = {
    "fixed": neighbours,
    "dynamic": neighbours,
    "rolling": rolled,
    "warps": lambda a: np.repeat(a.reshape(2, 128).sum(1), 128),
    "flying": copied,
}


def outcome(folder: Path, source: str, name: str, order: str) -> tuple[Array, Array]:
    """Return what a kernel gives on whole numbers, and what is right."""
    kind = np.float32 if name == "dynamic" else np.float64
    given = np.random.default_rng(1).integers(-99, 99, N).astype(kind)
    got = np.full(N, np.nan, kind)
    machine = EmulatedMachine(folder, **ORDERS[order])
    machine.run(source, name, (2, 1, 1), (128, 1, 1), given, got, shared=512)
    return got, EXPECTED[name](given)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", EXPECTED)
def test_threads_work_together(emulation_folder: Path, name: str, order: str) -> None:
    np.testing.assert_array_equal(*outcome(emulation_folder, text(), name, order))


def test_nvidias_compiler_takes_the_same_text() -> None:
    assert device_code(text(), "sm_90")
    named = "named_arrive(1, 64); named_sync(1, 64);"
    named = f'extern "C" __global__ void one() {{ {named} copy_async_wait_all(); }}'
    assert device_code(prelude(named) + named, "sm_80")


@pytest.mark.parametrize("name", ["fixed", "dynamic", "rolling", "warps"])
def test_a_missing_barrier_shows_in_some_order(emulation_folder: Path, name: str) -> None:
    results = [outcome(emulation_folder, text(sync=""), name, order) for order in ORDERS]
    assert any(not np.array_equal(got, right) for got, right in results)


def test_a_copy_arrives_no_earlier_than_at_the_wait(emulation_folder: Path) -> None:
    for order in ORDERS:
        got, _ = outcome(emulation_folder, text(wait=""), "flying", order)
        assert np.isnan(got).any()


def small(body: str) -> str:
    code = f'extern "C" __global__ void one(double *a, const int n) {{\n{body}\n}}\n'
    return f"{prelude(code)}\n#line 1\n{code}"


WRONG: dict[str, tuple[str, str]] = {
    "a branch around a barrier": (
        "if (threadIdx.x != 3) __syncthreads();",
        "Block (0, 0, 0) cannot go on: thread 0 waits for the block (line 2) and thread 3 has"
        " ended (line 0).",
    ),
    "barriers in two branches": (
        "if (threadIdx.x < 40) {\n  __syncthreads();\n} else {\n  __syncthreads();\n}",
        "Block (0, 0, 0) cannot go on: thread 0 waits for the block (line 3) and thread 40 waits"
        " for the block (line 5).",
    ),
    "a lane that does not come": (
        "if (threadIdx.x % 32 != 5) a[0] = __shfl_sync(~0u, a[0], 0); else __syncthreads();",
        "Block (0, 0, 0) cannot go on: thread 0 waits for its warp (line 2) and thread 5 waits"
        " for the block (line 2).",
    ),
    "a lane outside its mask": ("__syncwarp(1);", "Lane 1 is not in the mask 00000001 of line 2."),
    "two exchanges at once": (
        "if (threadIdx.x % 2)\n  __syncwarp();\nelse\n  __syncwarp();",
        "Lanes of one warp exchange values in lines 5 and 3.",
    ),
    "a write behind shared memory": (
        "extern __shared__ double room[];\nroom[n] = 0; __syncthreads();",
        "Something was written 4 bytes behind the 28 bytes of shared memory.",
    ),
    "a copy that nobody waits for": (
        "__shared__ double b[64];\ncopy_async8(b + threadIdx.x, a + threadIdx.x);",
        "A thread ended before it waited for its copies.",
    ),
    "a copy to a wrong address": (
        "__shared__ double2 b[64];\ncopy_async16(&b[threadIdx.x].y, a);\ncopy_async_wait_all();",
        "An access of 16 bytes at an address that is 8 bytes behind a multiple.",
    ),
    "a vector at a wrong address": (
        "const double2 b = __ldg(reinterpret_cast<const double2 *>(a + 1)); a[0] = b.x;",
        "An access of 16 bytes at an address that is 8 bytes behind a multiple.",
    ),
    "too much static shared memory": (
        "__shared__ double b[6145];\nb[0] = 0; __syncthreads();",
        "Static shared memory takes 49160 bytes: there are 49152, in at most 64 arrays.",
    ),
    "warps that do not meet": (
        "if (threadIdx.x < 32) named_sync(1, 64);",
        "Block (0, 0, 0) cannot go on: thread 0 waits at a numbered barrier (line 2) and thread"
        " 32 has ended (line 0).",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_no_device_lets_through_is_reported(emulation_folder: Path, name: str) -> None:
    body, message = WRONG[name]
    machine = EmulatedMachine(emulation_folder)
    room = np.zeros(66)
    array = room[room.ctypes.data // 8 % 2 :][:64]
    with pytest.raises(EmulationError) as caught:
        machine.run(small(body), "one", (1, 1, 1), (64, 1, 1), array, np.int32(4), shared=28)
    assert str(caught.value) == f"Kernel 'one': {message}"


def test_votes_and_counts(emulation_folder: Path) -> None:
    body = """
  const int t = threadIdx.x, half = t / 16 % 2;
  const unsigned mask = half ? 0xffff0000u : 0x0000ffffu;
  int sum = __popc(__ballot_sync(mask, t % 3 == 0));
  sum += 100 * __any_sync(mask, t == 5) + 1000 * __all_sync(mask, t < 48);
  sum += 10000 * __syncthreads_count(t % 2) + 1000000 * __shfl_up_sync(~0u, t, 1, 8);
  a[t] = sum;
  atomicAdd(a + 64, 1); atomicMax(a + 65, t); atomicMin(a + 66, -t); atomicCAS(a + 67, 0, t + 1);
  __syncwarp();
  a[t] += __popc(__activemask()) * 0 + __ldg(a + 63 - t) * 0;"""
    a = np.zeros(68)
    machine = EmulatedMachine(emulation_folder, descending=True)
    machine.run(small(body), "one", (1, 1, 1), (64, 1, 1), a, np.int32(0))
    t = np.arange(64)
    group = t // 16
    expected = np.array([(group[t % 3 == 0] == g).sum() for g in group]) + 100.0 * (group == 0)
    expected += 1000 * (group < 3) + 320000 + 1e6 * np.where(t % 8, t - 1, t)
    np.testing.assert_array_equal(a[:67], [*expected, 64, 63, -63])
    assert 1 <= a[67] <= 64


def test_warps_of_two_tasks_meet_at_a_named_barrier(emulation_folder: Path) -> None:
    body = """
  __shared__ double ring[32];
  const int t = threadIdx.x;
  for (int n = 0; n < 3; ++n)
    if (t < 32) {
      if (n) named_sync(2, 64);
      ring[t] = a[t] + n;
      named_arrive(1, 64);
    } else {
      named_sync(1, 64);
      a[t] += ring[63 - t];
      if (n < 2) named_arrive(2, 64);
    }"""
    for order in ORDERS.values():
        a = np.arange(64.0)
        machine = EmulatedMachine(emulation_folder, **order)
        machine.run(small(body), "one", (1, 1, 1), (64, 1, 1), a, np.int32(0))
        expected = np.arange(64.0)
        expected[32:] += 3 * np.arange(32.0)[::-1] + 3
        np.testing.assert_array_equal(a, expected)


def test_a_failed_launch_leaves_nothing_behind(emulation_folder: Path) -> None:
    """The fibers that a failure left in the middle of a kernel begin anew."""
    body = "if (n == 0 || threadIdx.x) __syncthreads();\na[threadIdx.x] += 1;"
    machine = EmulatedMachine(emulation_folder)
    a = np.zeros(64)
    with pytest.raises(EmulationError):
        machine.run(small(body), "one", (1, 1, 1), (64, 1, 1), a, np.int32(1))
    a[:] = 0
    machine.run(small(body), "one", (3, 1, 1), (64, 1, 1), a, np.int32(0))
    np.testing.assert_array_equal(a, np.full(64, 3.0))


@pytest.mark.parametrize("total", [1, 2, 31, 64, 1000])
def test_every_order_runs_each_thread_once(emulation_folder: Path, total: int) -> None:
    body = "const int t = blockIdx.x * blockDim.x + threadIdx.x;\nif (t < n) a[t] += t;"
    for seed in range(4):
        a = np.zeros(total)
        machine = EmulatedMachine(emulation_folder, shuffled=seed)
        machine.run(small(body), "one", (-(-total // 32), 1, 1), (32, 1, 1), a, np.int32(total))
        np.testing.assert_array_equal(a, np.arange(total))
