"""Compare, for drawn jobs, the way that mode='auto' takes with every other way that is allowed.

    python tests/benchmarks/default_paths.py RESULT.json [--jobs 20] [--seed 1] [--most-mib 64]
        [--target auto] [--workers 0 2] [--commit COMMIT]

A job is a stencil or a solve on arrays of NumPy or CuPy or on a store, with its result in memory or
in a store, in this process or on workers of this machine. Each way is timed by its least wall time
of some calls after a first one. The table names the jobs for which another way is `FACTOR` times as
fast as the one that was taken.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import halocline_engine as he
from halocline_engine.device.cupy_types import cupy
from halocline_engine.device.launch.streams import wait_for_all
from halocline_engine.device.probe import device_count, device_facts
from halocline_engine.distribute.tasks.events import Event, Planned
from halocline_engine.errors import HaloclineError

#: How many times as fast another way is that should have been taken.
FACTOR = 1.3
#: Differences below it are those of a shared machine.
LEAST_SECONDS = 2e-3
MODES = ("auto", "streamed", "resident")
FIVE = """
def five(u: Field["T"], v: Field["T"]):
    with computation(PARALLEL), interval(...):
        v = 0.25 * (u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0])
"""
SWEEP = """
def sweep(u: Field["T"], v: Field["T"]):
    with computation(FORWARD):
        with interval(0, 1):
            v = u
        with interval(1, None):
            v = 0.5 * (u + v[0, 0, -1])
"""


@dataclass(frozen=True)
class Job:
    """A drawn job; `source` is 'numpy', 'cupy' or 'store', `workers` 0 for this process."""

    kind: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    steps: int
    source: str
    output: bool
    workers: int

    @property
    def mebibytes(self) -> float:
        """Size of one of its arrays."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize / 2**20


@dataclass(frozen=True)
class Figure:
    """A job with the seconds of each way; `taken` is the one of 'auto', for `reason`."""

    job: Job
    seconds: dict[str, float]
    taken: str
    reason: str

    @property
    def ratio(self) -> float:
        """How many times as fast the fastest way is as the one of 'auto', whoever asked for it."""
        auto = min(self.seconds["auto"], self.seconds.get(self.taken, self.seconds["auto"]))
        best = min(self.seconds.values())
        return auto / best if auto - best > LEAST_SECONDS else 1.0


def drawn(rng: np.random.Generator, most_mib: float, sources: list[str], workers: list[int]) -> Job:
    """Draw a job."""
    kind = str(rng.choice(["five", "sweep", "tridiagonal"], p=[0.6, 0.15, 0.25]))
    dtype = str(rng.choice(["float32", "float64"]))
    most = math.log2(most_mib * 2**20 / np.dtype(dtype).itemsize)
    size = int(2.0 ** float(rng.uniform(12, most)))
    if kind == "tridiagonal":
        batch = int(rng.choice([1, 1, 4]))
        dims, shape = ("m", "z"), (batch, max(8, size // batch))
    else:
        dims: tuple[str, ...] = ("y", "x")
        parts: tuple[float, ...] = (1.0, float(rng.uniform(0.5, 2)))
        if kind == "sweep" or rng.random() < 0.3:
            dims, parts = ("z", *dims), (0.2, *parts)
        if rng.random() < 0.2:
            dims, parts = ("time", *dims), (0.1, *parts)
        each = (size / math.prod(parts)) ** (1 / len(parts))
        shape = tuple(max(4, int(each * part)) for part in parts)
        order = list[int](range(len(dims)))
        if rng.random() < 0.2:
            rng.shuffle(order)
        dims = tuple(dims[at] for at in order)
        shape = tuple(shape[at] for at in order)
    steps = 1 if kind != "five" else int(rng.choice([1, 1, 2, 16]))
    source = str(rng.choice(sources))
    output = source != "cupy" and bool(rng.random() < 0.3)
    count = 0 if source == "cupy" else int(rng.choice(workers))
    return Job(kind, dims, shape, dtype, steps, source, output, count)


def dataset_of(job: Job, folder: Path, seed: int) -> Any:
    """Return the data of a job, or the path of its store."""
    rng = np.random.default_rng(seed)
    names = "abcd" if job.kind == "tridiagonal" else "u"
    arrays: dict[str, Any] = {}
    for name in names:
        values = rng.random(job.shape, dtype=job.dtype)  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownVariableType]
        arrays[name] = values + 3 if name == "b" else values
    if job.source == "cupy":
        arrays = {name: cupy().asarray(values) for name, values in arrays.items()}
    data: Any = xr.Dataset({name: (job.dims, values) for name, values in arrays.items()})
    if job.source != "store":
        return data
    path = folder / "in.zarr"
    chunks = tuple(-(-size // 4) for size in job.shape)
    data.to_zarr(
        path, zarr_format=3, consolidated=False, encoding={n: {"chunks": chunks} for n in names}
    )
    return path


def call(job: Job, data: Any, mode: str, target: str, folder: Path) -> tuple[float, Planned]:
    """Run a job once; return its seconds and its plan."""
    events: list[Event] = []
    output = folder / "out.zarr" if job.output else None
    shutil.rmtree(folder / "out.zarr", ignore_errors=True)
    how: dict[str, Any] = {"mode": mode, "target": target, "cluster": job.workers or None}
    how |= {"output": output, "on_event": events.append}
    began = time.perf_counter()
    if job.kind == "tridiagonal":
        he.tridiagonal(data, lower="a", diagonal="b", upper="c", rhs="d", dim="z", **how)
    else:
        sides = {dim: "edge" for dim in job.dims if dim in ("x", "y") and job.kind == "five"}
        feedback = {"v": "u"} if job.steps > 1 else None
        program = FIVE if job.kind == "five" else SWEEP
        he.run(
            program,
            data,
            dtypes={"T": job.dtype},
            boundary=sides,
            steps=job.steps,
            feedback=feedback,
            **how,
        )
    if job.source == "cupy":
        wait_for_all()
    seconds = time.perf_counter() - began
    planned = events[0]
    assert isinstance(planned, Planned)
    return seconds, planned


def measured(job: Job, target: str, folder: Path, seed: int, calls: int) -> Figure:
    """Time all ways of a job in turns, as a shared machine changes its pace."""
    data = dataset_of(job, folder, seed)
    seconds: dict[str, list[float]] = {}
    taken = reason = ""
    for mode in MODES:
        try:
            first, planned = call(job, data, mode, target, folder)
        except HaloclineError:
            continue  # this way is not allowed
        seconds[mode] = [] if calls else [first]
        if mode == "auto":
            taken, reason = planned.mode, planned.reason
    for _ in range(calls):
        for mode, times in seconds.items():
            times.append(call(job, data, mode, target, folder)[0])
    return Figure(job, {mode: min(times) for mode, times in seconds.items()}, taken, reason)


def line(figure: Figure) -> str:
    """Return a row of the table."""
    job, shown = figure.job, {mode: f"{1e3 * s:.1f}" for mode, s in figure.seconds.items()}
    times = " | ".join(shown.get(mode, "") for mode in MODES)
    place = "store" if job.output else "memory"
    dims = " x ".join(f"{dim} {size}" for dim, size in zip(job.dims, job.shape, strict=True))
    where = f"{job.source} to {place}, {job.workers or 'no'} workers"
    mark = "**" if figure.ratio >= FACTOR else ""
    return (
        f"| {job.kind} {job.dtype} {dims}, {job.steps} steps | {where} | {figure.taken} | {times} |"
        f" {mark}{figure.ratio:.2f}{mark} |"
    )


def main() -> None:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--calls", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most-mib", type=float, default=64.0)
    parser.add_argument("--target", default="auto")
    parser.add_argument("--workers", type=int, nargs="*", default=[0])
    parser.add_argument("--sources", nargs="*", default=[])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--commit", default="not said")
    given = parser.parse_args()
    on_device = given.target in ("auto", "cuda") and device_count() > 0
    sources = given.sources or ["numpy", "store", *(["cupy"] if on_device else [])]
    rng = np.random.default_rng(given.seed)
    figures: list[Figure] = []
    print("| job | where | auto takes | auto, ms | streamed, ms | resident, ms | ratio |")
    print("|" + "---|" * 7, flush=True)
    for number in range(given.jobs):
        job = drawn(rng, given.most_mib, sources, given.workers)
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            figures.append(measured(job, given.target, Path(folder), number, given.calls))
        print(line(figures[-1]), flush=True)
    slower = [figure for figure in figures if figure.ratio >= FACTOR]
    print(f"\n{len(slower)} of {len(figures)} jobs have a way {FACTOR} times as fast.")
    record = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": device_facts().name if on_device else "cores",
        "commit": given.commit,
        "figures": [{**asdict(figure), "ratio": figure.ratio} for figure in figures],
    }
    given.result.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
