"""The current device, with everything that generated code needs of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from halocline_engine.copies import AnyArray
from halocline_engine.device.compile.compiler import compile_source, compiler_identity
from halocline_engine.device.compile.modules import DeviceKernels
from halocline_engine.device.cupy_types import DeviceArray, cupy
from halocline_engine.device.launch import graphs
from halocline_engine.device.launch.streams import SideStream
from halocline_engine.device.memory import staging
from halocline_engine.device.memory.staging import Staging
from halocline_engine.device.probe import DeviceFacts, device_facts

__all__ = ["CudaMachine", "current_machine"]


#: The first compute capability of which kernels can wait by themselves for the one before.
_FOLLOWING = 90


class CudaMachine:
    """A CUDA device; every method works on the device and stream that are current."""

    def __init__(self, facts: DeviceFacts) -> None:
        self.facts = facts
        self._architecture = f"sm_{facts.capability}"
        self._staging = Staging()

    def allocate(
        self,
        size: int,
        start: Callable[[int], int],
        shape: tuple[int, int, int],
        dtype: np.dtype[Any],
        strides: tuple[int, int, int],
    ) -> DeviceArray:
        """Return an array in `size` new bytes, beginning `start(address)` bytes behind them."""
        room = staging.reserve(size)
        return cupy().ndarray(shape, dtype, room + start(room.ptr), strides)

    @property
    def cache(self) -> int:
        """Size in bytes of the cache that all processors share."""
        return self.facts.cache

    @property
    def speed(self) -> tuple[int, float, float]:
        """Processors, cycles a second of them, and bytes a second of memory; 0 if unknown."""
        return self.facts.multiprocessors, self.facts.clock, self.facts.pins

    @property
    def follows(self) -> bool:
        """Whether a kernel may be brought to the processors while the one before it ends."""
        return int(self.facts.capability) >= _FOLLOWING

    def address(self, array: DeviceArray) -> int:
        """Return the address of an array's element of index zero."""
        return array.data.ptr

    def upload(self, host: AnyArray, into: DeviceArray, threads: int = 1) -> None:
        """Copy a host array into an array of the same shape and type."""
        staging.upload(host, into, self._staging, threads)

    def download(self, array: DeviceArray, into: AnyArray | None = None, threads: int = 1) -> Any:
        """Return the contents in host memory, complete: a new array, or `into`."""
        return staging.download(array, self._staging, into, threads)

    def overlap(self) -> SideStream:
        """Return what queues work beside other work; see `backends.base.Overlapping`."""
        return SideStream()

    def repeat(
        self, work: Callable[[], None], times: int, look: Callable[[], None] | None = None
    ) -> None:
        """Do again what `work` queues on the current stream, and wait for it."""
        graphs.Repetition(work)(times, look)

    def repetition(self, work: Callable[[], None]) -> graphs.Repetition:
        """Return what does work again and again; see `backends.base.Repeating`."""
        return graphs.Repetition(work)

    @property
    def compiler(self) -> str:
        """Everything but the source that compiled code depends on: the compiler and its options."""
        return compiler_identity(self._architecture)

    def compile(self, source: str) -> bytes:
        """Return device code for a translation unit; raises `DeviceError` if that fails."""
        return compile_source(source, self._architecture)

    def load(self, code: bytes) -> DeviceKernels:
        """Load device code."""
        return DeviceKernels(code)


def current_machine() -> CudaMachine:
    """Return the current device; raises `DeviceError` where there is none."""
    return CudaMachine(device_facts())
