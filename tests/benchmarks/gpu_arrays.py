"""Passes over arrays in memory, and rates of page-locked copies: for `gpu_out_of_core`."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import xarray as xr

from halocline_engine.device.cupy_types import cupy
from halocline_engine.distribute.pipeline.resources import PipelineResources, open_resources
from halocline_engine.distribute.tasks.events import Event, Finished, PassFinished
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.functions.run import run

FIVE = """
def five(u: Field[np.float32], v: Field[np.float32], w: np.float32):
    with computation(PARALLEL), interval(...):
        v = w * (u + u[1, 0, 0] + u[-1, 0, 0] + u[0, 1, 0] + u[0, -1, 0])
"""
#: The same with a field that stays as it is: two are sent for one that is fetched.
WITH_SOURCE = """
def five(u: Field[np.float32], c: Field[np.float32], v: Field[np.float32], w: np.float32):
    with computation(PARALLEL), interval(...):
        v = w * (u + u[1, 0, 0] + u[-1, 0, 0] + u[0, 1, 0] + u[0, -1, 0]) + c
"""
WIDTH = 65536
#: Rows of a chunk.
CHUNK = 256
#: Passes over a dataset in memory, each of one step, and rows of a block.
PASSES, ROWS = 5, 512
GIB = 1 << 30


@dataclass
class MemoryFigure:
    """Passes over arrays in memory; times in seconds, rates in bytes per second.

    `duplex_rate` is that of a page-locked copy to the device beside one from it.
    """

    dataset: int
    granted: int
    passes: list[float] = field(default_factory=list[float])
    lent: float = 0.0
    pinned_rate: float = 0.0
    duplex_rate: float = 0.0
    best_to_pinned: float = 0.0
    best_to_duplex: float = 0.0
    whole_run: float = 0.0


def pinned_rate(resources: PipelineResources) -> float:
    """Return the bytes per second of one large page-locked copy to the device, the best of five."""
    host = resources.queues.buffer(512 << 20).view(np.float32).reshape((-1, 1, 1), order="F")
    if type(resources.queues).__name__ == "HostQueues":
        into: Any = np.empty_like(host)
    else:
        into = cast(Any, cupy()).empty(host.shape, np.float32, order="F")
    best = 0.0
    for _ in range(5):
        begun = time.perf_counter()
        resources.queues.sending.put(lambda: resources.queues.send(host, into))
        resources.queues.synchronize()
        best = max(best, host.nbytes / (time.perf_counter() - begun))
    return best


def duplex_rate(resources: PipelineResources) -> float:
    """Return the bytes per second of page-locked copies to the device beside some from it."""
    queues = resources.queues
    host = [queues.buffer(512 << 20).view(np.float32).reshape((-1, 1, 1), order="F") for _ in "io"]
    if type(queues).__name__ == "HostQueues":
        device: list[Any] = [np.empty_like(one) for one in host]
    else:
        device = [cast(Any, cupy()).empty(one.shape, np.float32, order="F") for one in host]
    best = 0.0
    for _ in range(3):
        begun = time.perf_counter()
        for _ in range(4):
            queues.sending.put(lambda: queues.send(host[0], device[0]))
            queues.fetching.put(lambda: queues.fetch(device[1], host[1]))
        queues.synchronize()
        best = max(best, 4 * host[0].nbytes / (time.perf_counter() - begun))
    return best


def in_memory(gib: float, grant: int, target: str, inputs: int = 1) -> MemoryFigure:
    """Make passes over one or two arrays of this process; return how long each took."""
    rows = int(gib * GIB) // (4 * WIDTH) // ROWS * ROWS
    values = np.empty((rows, WIDTH), np.float32)
    base = np.random.default_rng(0).random((CHUNK, WIDTH), np.float32)

    def fill(first: int) -> None:
        part = values[first : first + CHUNK]
        np.add(base[: len(part)], np.float32(first % 97), out=part)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(fill, range(0, rows, CHUNK)))
    arrays = {"u": values, "c": values.copy()} if inputs > 1 else {"u": values}
    figure = MemoryFigure(sum(array.nbytes for array in arrays.values()), grant)
    with open_resources(target) as resources:
        figure.pinned_rate, figure.duplex_rate = pinned_rate(resources), duplex_rate(resources)
    if target == "cuda":
        cast(Any, cupy()).get_default_memory_pool().free_all_blocks()

    def tell(event: Event) -> None:
        if isinstance(event, PassFinished):
            figure.passes.append(event.seconds)
        if isinstance(event, Finished):
            figure.lent = event.bytes_zero_copy / (event.bytes_read + event.bytes_written)

    begun = time.perf_counter()
    run(
        FIVE if inputs == 1 else WITH_SOURCE,
        xr.Dataset({name: (("y", "x"), array) for name, array in arrays.items()}),
        scalars={"w": 0.2},
        boundary={"x": "periodic", "y": "edge"},
        steps=PASSES,
        feedback={"v": "u"},
        chunks={"y": ROWS, "x": WIDTH},
        target=target,
        on_event=tell,
        options=Options(steps_per_pass=1, pipeline_depth=3, device_memory_limit=grant),
    )
    figure.whole_run = time.perf_counter() - begun
    best = figure.dataset / min(figure.passes)
    figure.best_to_pinned = best / figure.pinned_rate
    figure.best_to_duplex = best / figure.duplex_rate
    return figure
