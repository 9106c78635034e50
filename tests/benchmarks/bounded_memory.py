"""Run a stencil on a dataset larger than memory, and print how much memory that took.

    python tests/benchmarks/bounded_memory.py DIRECTORY [--gigabytes 8] [--workers 2] [--limit 1e9]

Makes a Zarr store of that size in DIRECTORY (used again if it is there), runs horizontal diffusion
with a flux limiter through Dask workers of `--limit` bytes each, checks some of the result against
NumPy, and prints the peak of every process. Needs twice the size on disk.
"""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import argparse
import shutil
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import distributed
import numpy as np
import psutil
import xarray as xr
import zarr

import halocline_engine as he
from halocline_engine.distribute.tasks.events import BlockFinished, Event, Finished, Planned

HDIFF = """
def hdiff(inp: Field[float], out: Field[float], coeff: float):
    with computation(PARALLEL), interval(...):
        lap = 4.0 * inp - (inp[1, 0, 0] + inp[-1, 0, 0] + inp[0, 1, 0] + inp[0, -1, 0])
        fx = lap[1, 0, 0] - lap
        fx = 0.0 if fx * (inp[1, 0, 0] - inp) > 0.0 else fx
        fy = lap[0, 1, 0] - lap
        fy = 0.0 if fy * (inp[0, 1, 0] - inp) > 0.0 else fy
        out = inp - coeff * (fx - fx[-1, 0, 0] + fy - fy[0, -1, 0])
"""
DASK: Any = cast(Any, distributed)
LEVELS, WIDTH, CHUNK = 32, 2048, 256
COEFF = 0.025


class PeakMemory:
    """The largest resident size of this process and of its children, sampled while it is open."""

    def __init__(self) -> None:
        self.peaks: dict[int, int] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Mapping[int, int]:
        self._thread.start()
        return self.peaks

    def __exit__(self, *_error: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        me = psutil.Process()
        while not self._end.wait(0.1):
            for process in (me, *me.children(recursive=True)):
                try:
                    size = process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
                self.peaks[process.pid] = max(size, self.peaks.get(process.pid, 0))


def make(path: Path, gigabytes: float) -> int:
    """Make a store of rough and smooth values, one chunk at a time; return its bytes."""
    times = max(1, round(gigabytes * 1e9 / (LEVELS * WIDTH * WIDTH * 8)))
    shape = (times, LEVELS, WIDTH, WIDTH)
    if not path.exists():
        group = cast(Any, zarr).create_group(str(path), zarr_format=3)
        array = group.create_array(
            "inp",
            shape=shape,
            chunks=(1, LEVELS, CHUNK, CHUNK),
            dtype="float64",
            compressors=None,
            dimension_names=("time", "z", "y", "x"),
        )
        rng = np.random.default_rng(1)
        wave = np.sin(np.linspace(0, 40, CHUNK))
        for t in range(times):
            for y in range(0, WIDTH, CHUNK):
                for x in range(0, WIDTH, CHUNK):
                    block = rng.random((LEVELS, CHUNK, CHUNK)) + wave + wave[:, None] + t
                    array[t, :, y : y + CHUNK, x : x + CHUNK] = block
    return int(np.prod(shape)) * 8


def hdiff(a: Any) -> Any:
    """Return the same with NumPy on [..., y, x], two cells smaller at each side."""
    lap = 4.0 * a - (
        np.roll(a, -1, -1) + np.roll(a, 1, -1) + np.roll(a, -1, -2) + np.roll(a, 1, -2)
    )
    fx = np.roll(lap, -1, -1) - lap
    fx = np.where(fx * (np.roll(a, -1, -1) - a) > 0.0, 0.0, fx)
    fy = np.roll(lap, -1, -2) - lap
    fy = np.where(fy * (np.roll(a, -1, -2) - a) > 0.0, 0.0, fy)
    out = a - COEFF * (fx - np.roll(fx, 1, -1) + fy - np.roll(fy, 1, -2))
    return out[..., 2:-2, 2:-2]


def check(source: Path, result: xr.Dataset) -> None:
    """Compare a corner that touches several blocks with NumPy."""
    with xr.open_zarr(source, chunks=None, consolidated=False) as dataset:
        last = {"time": -1, "y": slice(200, 700), "x": slice(300, 800)}
        before = dataset["inp"].isel(last).values
    inner = {"time": -1, "y": slice(202, 698), "x": slice(302, 798)}
    np.testing.assert_allclose(result["out"].isel(inner).values, hdiff(before), rtol=1e-13)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--gigabytes", type=float, default=8.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=float, default=1e9)
    parser.add_argument("--target", default="auto")
    chosen = parser.parse_args()
    source, output = chosen.directory / "source.zarr", chosen.directory / "result.zarr"
    shutil.rmtree(output, ignore_errors=True)
    started = time.perf_counter()
    size = make(source, chosen.gigabytes)
    print(f"made {size / 1e9:.2f} GB in {time.perf_counter() - started:.1f} s", flush=True)

    def tell(event: Event) -> None:
        match event:
            case Planned() | Finished():
                print(event, flush=True)
            case BlockFinished(done=done, total=total) if done % max(1, total // 10) == 0:
                print(f"block {done} of {total}", flush=True)
            case _:
                pass

    with (
        DASK.LocalCluster(
            n_workers=chosen.workers,
            threads_per_worker=2,
            memory_limit=int(chosen.limit),
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        DASK.Client(cluster) as client,
    ):
        pids = cast("dict[str, int]", client.run(lambda: __import__("os").getpid()))
        started = time.perf_counter()
        with PeakMemory() as peaks:
            result = he.run(
                HDIFF,
                source,
                scalars={"coeff": COEFF},
                target=chosen.target,
                cluster=client,
                output=output,
                on_event=tell,
            )
        seconds = time.perf_counter() - started
        check(source, result)
    for worker, pid in pids.items():
        print(f"worker {worker}: peak {peaks.get(pid, 0) / 1e6:.0f} MB")
    print(f"parent: peak {peaks[psutil.Process().pid] / 1e6:.0f} MB")
    print(f"{2 * size / seconds / 1e9:.2f} GB/s read and written, {seconds:.1f} s")


if __name__ == "__main__":
    main()
