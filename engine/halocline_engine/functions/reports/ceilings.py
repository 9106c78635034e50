"""The peak rates of the machines of workers, measured there in some hundredths of a second.

A worker keeps its figures. The first jobs that ask measure again and the best one counts, since
other jobs may have been computing meanwhile.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from halocline_engine.backends.targets import TARGETS
from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.tasks.events import Ceilings
from halocline_engine.processors import usable_processors

__all__ = ["ceilings", "measured"]

#: How often a process measures, and how often it does each thing for that.
_MEASURED, _ROUNDS = 3, 2
#: Bytes of each of the two arrays that are copied: more than caches have.
_HOST, _DEVICE = 1 << 26, 1 << 28
#: Rows of the matrices that are multiplied.
_ROWS = 256
_kept: dict[str, list[tuple[float, float]]] = {}
_lock = threading.Lock()


def ceilings(target: str, cluster: object = None) -> list[Ceilings]:
    """Return what each worker can do, of those that answer.

    `cluster` is None for this process, or the address of a scheduler, or a client of it.
    """
    if cluster is None:
        found = LocalPool().each(measured, target)
    else:
        from halocline_engine.distribute.executors.dask import connect

        with connect(cluster) as pool:
            found = pool.each(measured, target)
    return [Ceilings(worker, target, *rates) for worker, rates in found.items()]


def measured(target: str) -> tuple[float, float]:
    """Return the bytes a second of a copy, and operations a second, of this process and target."""
    with _lock:
        kept = _kept.setdefault(target, [])
        if len(kept) < _MEASURED:
            kept.append(_of_device() if TARGETS[target].on_device else _of_host())
        copies, products = zip(*kept, strict=True)
        return max(copies), max(products)


def _of_host() -> tuple[float, float]:
    """Measure with as many threads as kernels have here."""
    here = usable_processors()
    threads = min(here, int(os.environ.get("NUMBA_NUM_THREADS") or here))
    source, target = np.ones(_HOST, np.uint8), np.zeros(_HOST, np.uint8)
    parts = np.linspace(0, _HOST, threads + 1).astype(int)
    slices = [slice(start, stop) for start, stop in pairwise(parts)]

    def one(part: slice) -> None:
        np.copyto(target[part], source[part])

    with ThreadPoolExecutor(threads) as pool:
        copying = _least(lambda: [*pool.map(one, slices)])
    left = np.full((_ROWS, _ROWS), 0.5)
    product = np.empty_like(left)
    multiplying = _least(lambda: np.matmul(left, left, out=product))
    return 2 * _HOST / copying, 2 * _ROWS**3 / multiplying


def _of_device() -> tuple[float, float]:
    """Measure a copy; a product of matrices would load a library that jobs need not have."""
    from halocline_engine.device.cupy_types import cupy
    from halocline_engine.device.launch.stopwatch import seconds_of

    library: Any = cupy()
    free, _ = library.cuda.runtime.memGetInfo()
    size = min(_DEVICE, free // 8)
    source, target = (library.zeros(size, np.uint8) for _ in range(2))

    def copy() -> None:
        target[...] = source

    copy()
    return 2 * size / min(seconds_of(copy) for _ in range(_ROUNDS)), 0.0


def _least(work: Callable[[], object]) -> float:
    """Return the seconds that work takes at least, after a first time."""
    work()
    found: list[float] = []
    for _ in range(_ROUNDS):
        began = perf_counter()
        work()
        found.append(perf_counter() - began)
    return min(found)
