"""Device memory between guards: any write outside of an array is seen.

As a plug-in of pytest (``PYTHONPATH=tests/support pytest -p device_guards``) it places all
memory of each test between guards, and fails a test that changed one. ``--nvrtc LIBRARY`` compiles
kernels with another compiler.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from halocline_engine.device import cupy_types
from halocline_engine.device.compile import compiler

__all__ = ["Guards", "compile_with", "guards"]

_GUARD = 1 << 16
_PATTERN = 0xA5


class Guards:
    """An allocator of CuPy; memory stays allocated until its guards are checked."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._pool: Any = cupy.cuda.MemoryPool()
        self._rooms: list[tuple[Any, int]] = []

    def allocate(self, size: int) -> Any:
        """Return a pointer to `size` bytes between two guards."""
        cuda = self._cupy.cuda
        room = self._pool.malloc(size + 2 * _GUARD)
        for start in (0, _GUARD + size):
            (room + start).memset_async(_PATTERN, _GUARD, cuda.get_current_stream())
        self._rooms.append((room, size))
        memory = cuda.UnownedMemory(room.ptr + _GUARD, size, room)
        return cuda.MemoryPointer(memory, 0)

    def count_changed(self) -> int:
        """Return the number of changed bytes in all guards, and forget the memory between them."""
        cupy = self._cupy
        cupy.cuda.Device().synchronize()
        changed = 0
        for room, size in self._rooms:
            for start in (0, _GUARD + size):
                guard = cupy.asnumpy(cupy.ndarray((_GUARD,), np.uint8, room + start))
                changed += int((guard != _PATTERN).sum())
        self._rooms.clear()
        return changed

    def release(self) -> None:
        """Give the memory that no array holds back to the device."""
        self._rooms.clear()
        gc.collect()
        self._pool.free_all_blocks()


@contextmanager
def guards(cupy: Any) -> Generator[Guards]:
    """Place device memory between guards."""
    own = Guards(cupy)
    before = cupy.cuda.get_allocator()
    cupy.cuda.set_allocator(own.allocate)
    try:
        yield own
    finally:
        cupy.cuda.set_allocator(before)
        own.release()


def compile_with(library: str) -> None:
    """Compile kernels of this process with the NVRTC at a path."""
    compiler.find_nvrtc = lambda: library  # pyright: ignore[reportAttributeAccessIssue]
    compiler.compiler_version.cache_clear()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nvrtc", help="the library that compiles kernels")


def pytest_configure(config: pytest.Config) -> None:
    library = config.getoption("--nvrtc")
    if library:
        compile_with(str(library))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Run a test between guards; arrays of fixtures that live longer have none."""
    with guards(cupy_types.cupy()) as own:
        yield
        changed = own.count_changed()
    if changed:
        pytest.fail(f"{changed} bytes outside of arrays were written by {item.name}.")
