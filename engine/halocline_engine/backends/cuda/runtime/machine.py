"""The machine that generated code runs on: a CUDA device, or in tests its emulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from halocline_engine.backends.base import Array, HostArray
from halocline_engine.backends.cuda.model.launch import Dim3

__all__ = ["Kernels", "Machine"]


class Kernels(Protocol):
    """Compiled code that is loaded on a machine."""

    def launch(
        self,
        name: str,
        grid: Dim3,
        block: Dim3,
        arguments: tuple[np.generic, ...],
        shared: int = 0,
    ) -> None:
        """Queue a kernel; each argument has the size and type of its parameter.

        `shared` is how many bytes of dynamic shared memory a block has.
        """
        ...

    def ready(
        self,
        name: str,
        grid: Dim3,
        block: Dim3,
        arguments: tuple[np.generic, ...],
        shared: int = 0,
        changing: Sequence[int] = (),
        *,
        follows: bool = False,
    ) -> Callable[..., None]:
        """Return what queues a kernel, given the arguments at the places `changing`, in order.

        The others, and the types of all, are those of `arguments`. Any thread may call it. With
        `follows`, the kernel waits by itself for the one before it.
        """
        ...


class Machine(Protocol):
    """Where kernels run."""

    def allocate(
        self,
        size: int,
        start: Callable[[int], int],
        shape: tuple[int, int, int],
        dtype: np.dtype[Any],
        strides: tuple[int, int, int],
    ) -> Array:
        """Return an array in newly allocated memory; sizes and strides are in bytes.

        It begins `start(address)` bytes behind the address of the `size` bytes that are allocated.
        Contents are not defined. Raises `CapacityError` where the memory does not fit.
        """
        ...

    @property
    def cache(self) -> int:
        """How many bytes the cache that all processors share holds."""
        ...

    @property
    def speed(self) -> tuple[int, float, float]:
        """Processors, cycles a second of them, and bytes a second of memory; 0 if unknown."""
        ...

    @property
    def follows(self) -> bool:
        """Whether a kernel may be brought to the processors while the one before it ends."""
        ...

    def address(self, array: Array) -> int:
        """Return the address of an array's element of index zero."""
        ...

    def upload(self, host: HostArray, into: Array) -> None:
        """Copy a host array into an array of the same shape and type."""
        ...

    def download(self, array: Array) -> HostArray:
        """Return the contents in host memory, complete."""
        ...

    def repeat(
        self, work: Callable[[], None], times: int, look: Callable[[], None] | None = None
    ) -> None:
        """Do again what `work` queues; see `backends.base.Executable`."""
        ...

    @property
    def compiler(self) -> str:
        """What compiled code depends on besides its source: the compiler and its options."""
        ...

    def compile(self, source: str) -> bytes:
        """Compile a translation unit; raises `DeviceError` if that fails or takes too long."""
        ...

    def load(self, code: bytes) -> Kernels:
        """Load compiled code; raises `DeviceError` if the machine does not take it."""
        ...
