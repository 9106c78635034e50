"""A store much larger than what workers may take is run in bounded memory."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import psutil
import xarray as xr
import zarr

from halocline_engine.distribute.tasks.events import Event, Planned
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.functions.run import run

SMOOTH = """
def smooth(inp: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = 0.5 * inp + 0.25 * (inp[1, 0, 0] + inp[0, -1, 0])
"""
MEGABYTE = 1 << 20
ALLOWED = 48 * MEGABYTE
SIDES = {"x": "periodic", "y": "edge"}


class Watch:
    """The largest resident size of some processes, sampled while it is open."""

    def __init__(self, pids: list[int]) -> None:
        self._processes = [psutil.Process(pid) for pid in pids]
        self.before = {p.pid: p.memory_info().rss for p in self._processes}
        self.peaks = dict(self.before)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(0.02):
            for process in self._processes:
                size = process.memory_info().rss
                self.peaks[process.pid] = max(size, self.peaks[process.pid])

    @property
    def growth(self) -> Mapping[int, int]:
        return {pid: peak - self.before[pid] for pid, peak in self.peaks.items()}


def test_two_hundred_megabytes(two_workers: Any, tmp_path: Path) -> None:
    source = tmp_path / "in.zarr"
    group: Any = cast(Any, zarr).create_group(str(source), zarr_format=3)
    array = group.create_array(
        "inp",
        shape=(25, 1024, 1024),
        chunks=(1, 256, 1024),
        dtype="float64",
        compressors=None,
        dimension_names=("time", "y", "x"),
    )
    rng = np.random.default_rng(2)
    for month in range(25):
        array[month] = rng.random((1024, 1024))
    arguments: dict[str, Any] = {"boundary": SIDES, "target": "cpu", "cluster": two_workers}
    warm = xr.Dataset({"inp": (("y", "x"), np.zeros((64, 64)))})
    run(SMOOTH, warm, chunks={"y": 8}, **arguments)
    pids = two_workers.run(os.getpid)
    events: list[Event] = []
    with Watch(list(pids.values())) as watch:
        result = run(
            SMOOTH,
            source,
            output=tmp_path / "out.zarr",
            on_event=events.append,
            options=Options(memory_limit=ALLOWED),
            **arguments,
        )
    assert isinstance(events[0], Planned)
    assert events[0].projected_bytes <= 2 * ALLOWED
    # Allocators and threads of libraries keep some of what blocks gave back.
    assert max(watch.growth.values()) < ALLOWED + 64 * MEGABYTE, watch.growth
    grid = array[24]
    around = np.roll(grid, -1, 1) + np.concatenate([grid[:1], grid[:-1]])
    np.testing.assert_array_equal(result["out"].values[24], 0.5 * grid + 0.25 * around)
