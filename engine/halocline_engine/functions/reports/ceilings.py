"""Measurement of the peak rates of workers' machines, in a few hundredths of a second.

A worker keeps its figures. The first requests measure again and the best figure counts, since other
jobs may disturb a measurement.
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

#: Number of measurements of a process, and of repetitions in each.
_MEASURED, _ROUNDS = 3, 2
#: Bytes of each of the two copied arrays, larger than the caches.
_HOST, _DEVICE = 1 << 26, 1 << 28
#: Rows of the multiplied matrices.
_ROWS = 256
_kept: dict[str, list[tuple[float, float]]] = {}
_lock = threading.Lock()


def ceilings(target: str, cluster: object = None) -> list[Ceilings]:
    """Return the peak rates of the workers that answer.

    `cluster` is None for this process, or the address of a scheduler, or a client of it.
    """
    if cluster is None:
        rates_by_worker = LocalPool().each(measured, target)
    else:
        from halocline_engine.distribute.executors.dask import connect

        with connect(cluster) as pool:
            rates_by_worker = pool.each(measured, target)
    return [Ceilings(worker, target, *rates) for worker, rates in rates_by_worker.items()]


def measured(target: str) -> tuple[float, float]:
    """Return the rate of a copy in bytes per second, and of operations per second, on a target."""
    with _lock:
        kept = _kept.setdefault(target, [])
        if len(kept) < _MEASURED:
            kept.append(_of_device() if TARGETS[target].on_device else _of_host())
        copies, products = zip(*kept, strict=True)
        return max(copies), max(products)


def _of_host() -> tuple[float, float]:
    """Measure with the number of threads that kernels use."""
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
    """Measure a copy only; a matrix product would load a library that jobs may not need."""
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
    """Return the minimum seconds of some work, after a warm-up."""
    work()
    times: list[float] = []
    for _ in range(_ROUNDS):
        began = perf_counter()
        work()
        times.append(perf_counter() - began)
    return min(times)
