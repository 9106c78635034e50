"""NumPy's BLAS with one thread a call, so that results do not depend on how many it has.

OpenBLAS cuts a product differently for several threads than for one, and then adds up terms in
another order. Calls from several threads of ours, each of them with one of BLAS, are as fast.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

__all__ = ["one_thread"]

#: What OpenBLAS calls the functions, in NumPy's wheels and elsewhere.
_NAMES = (
    "scipy_openblas_{}_num_threads64_",
    "scipy_openblas_{}_num_threads",
    "openblas_{}_num_threads64_",
    "openblas_{}_num_threads",
)


@contextmanager
def one_thread() -> Generator[None]:
    """Let OpenBLAS use one thread a call, in the whole process, until the end.

    Where NumPy has another BLAS, nothing changes.
    """
    found = _threads()
    if found is None:
        yield
        return
    get, put = found
    before = get()
    put(1)
    try:
        yield
    finally:
        put(before)


@functools.cache
def _threads() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """Return what gives and what sets the number of threads of the BLAS that NumPy has loaded."""
    for path in _loaded():
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        for name in _NAMES:
            get = getattr(library, name.format("get"), None)
            put = getattr(library, name.format("set"), None)
            if get is not None and put is not None:
                get.restype, put.restype, put.argtypes = ctypes.c_int, None, [ctypes.c_int]
                return get, put
    return None


def _loaded() -> list[str]:
    """Return the files of OpenBLAS that this process has loaded."""
    beside = Path(np.__file__).parent
    places = (beside.parent / "numpy.libs", beside / ".dylibs")
    found = [str(file) for place in places for file in place.glob("*openblas*")]
    maps = Path("/proc/self/maps")
    if maps.exists():
        files = (line.split(maxsplit=5) for line in maps.read_text().splitlines())
        found += [parts[5] for parts in files if len(parts) > 5 and "openblas" in parts[5]]
    return list(dict.fromkeys(found))
