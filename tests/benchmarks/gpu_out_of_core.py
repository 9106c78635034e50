"""Time a stencil on a dataset larger than the memory that a device grants; prints one table.

    python tests/benchmarks/gpu_out_of_core.py RESULT.json --commit COMMIT [--seconds 60]
        [--gib 8] [--grant-gib 3] [--memory-gib 6] [--folder FOLDER] [--target cuda]

A five-point stencil in float32 goes over a raw Zarr store that lies in memory, some steps for each
residency of a block on the device. Each stage is timed alone, with all blocks, and the buffers and
threads of the run: read, send (host to device), compute, fetch (device to host), write. Then all of
them overlap. Files of the result do not exist before, but the memory for them was used before.
`wall / slowest` is what all cost beside the slowest stage; `send / pinned` is the rate of sending
alone beside that of one large page-locked copy of the same run, and `achieved` that of sending in
the pipeline. Peaks are what the process and the device took beyond what they had before the run,
beside the projection. At last some passes go over an array in memory, where sending and fetching
are all that takes time: `best_to_pinned` is the rate of the best of them beside that of a
page-locked copy, and `best_to_duplex` beside that of one while another one goes the other way.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import psutil
import xarray as xr
import zarr

from halocline_engine.datasets.raw import RawArray, raw_array
from halocline_engine.datasets.sink import ZarrSink
from halocline_engine.device.door import cupy
from halocline_engine.distribute import pipeline
from halocline_engine.distribute.belt import Belt, open_belt
from halocline_engine.distribute.conveyor import Conveyor, Item, PipelinedWork, items_of
from halocline_engine.distribute.events import Event, Finished, PassFinished, Planned
from halocline_engine.distribute.options import Options
from halocline_engine.distribute.partition import Block
from halocline_engine.distribute.pipeline import Stage
from halocline_engine.distribute.steps import Asked
from halocline_engine.distribute.task import Report
from halocline_engine.run import run

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
#: Rows of a chunk, and (steps of a residency, rows of a block, slots) that are measured.
CHUNK = 256
CASES = (
    (1, 512, 3),
    (64, 1024, 3),
    (128, 1024, 3),
    (256, 1024, 3),
    (16, 512, 3),
    (8, 512, 3),
)
#: Passes over a dataset in memory, each of one step, and rows of a block.
PASSES, ROWS = 5, 512
GIB = 1 << 30


@dataclass
class Figure:
    """A run; times in seconds, sizes in bytes."""

    steps: int
    rows: int
    slots: int
    blocks: int
    dataset: int
    granted: int
    alone: dict[str, float] = field(default_factory=dict[str, float])
    wall: float = 0.0
    whole_run: float = 0.0
    slowest: str = ""
    locked: int = 0
    unlocking: float = 0.0
    wall_to_slowest: float = 0.0
    sent: int = 0
    pinned_rate: float = 0.0
    send_to_pinned: float = 0.0
    achieved_to_pinned: float = 0.0
    projected: int = 0
    host_peak: int = 0
    device_peak: int = 0


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


class Watch:
    """The most memory that this process and the device have in use while it is open."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Watch:
        self.before = self.now()
        self.peak = self.before
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._end.set()
        self._thread.join()

    def now(self) -> tuple[int, int]:
        host = psutil.Process().memory_info().rss
        if self._target != "cuda":
            return host, 0
        free, total = cast(Any, cupy()).cuda.runtime.memGetInfo()
        return host, total - free

    def _run(self) -> None:
        while not self._end.wait(0.02):
            host, device = self.now()
            self.peak = (max(host, self.peak[0]), max(device, self.peak[1]))


@dataclass(frozen=True, eq=False)
class Measured(PipelinedWork):
    """A pipeline that is timed, after each of its stages alone."""

    figure: Figure = field(default_factory=lambda: Figure(0, 0, 0, 0, 0, 0))

    def stream(self, blocks: Sequence[Block], asked: Asked | None) -> Iterator[Report]:
        items = items_of(self.work, blocks)
        every = range(len(items))
        # What is lent to be sent is known of the last items only, when all were read.
        last = [every[-self.slots :][n % min(self.slots, len(items))] for n in every]
        # The first use compiles, and touches all pages of the buffers and of the result.
        conveyor = Conveyor(self.work, items, self.slots, self.belt, asked)
        for stage in Stage:
            self._alone(conveyor, stage, last if stage is Stage.SEND else every)
        # Stages that are timed begin with nothing recorded or locked, as the run does.
        del conveyor
        self._unlock()
        conveyor = Conveyor(self.work, items, self.slots, self.belt, asked)
        for stage in Stage:
            if stage is Stage.WRITE:
                self._forget()
            numbers = last if stage is Stage.SEND else every
            seconds = self._alone(conveyor, stage, numbers)
            if stage is Stage.SEND:
                self.figure.sent = sum(map(_sent, items))
                seconds *= self.figure.sent / sum(_sent(items[n]) for n in numbers)
            self.figure.alone[stage.name.lower()] = seconds
        self.figure.locked = self.belt.pages.locked if self.belt.pages else 0
        self._forget()
        del conveyor
        self._unlock()
        begun = time.perf_counter()
        yield from PipelinedWork.stream(self, blocks, asked)
        self.figure.unlocking = self._unlock()
        self.figure.wall = time.perf_counter() - begun

    def _unlock(self) -> float:
        """Unlock what is locked, and return how long it took."""
        begun = time.perf_counter()
        if self.belt.pages is not None:
            self.belt.pages.close()
        return time.perf_counter() - begun

    def _forget(self) -> None:
        """Remove the files of the result, so that all are new again."""
        if isinstance(self.work.sink, ZarrSink):
            for name, _ in self.work.saved:
                shutil.rmtree(Path(self.work.sink.path) / name / "c")

    def _alone(self, conveyor: Conveyor, stage: Stage, items: Sequence[int]) -> float:
        """Return the seconds of one stage of some items, with nothing beside it."""
        lanes = self.belt.lanes
        work = getattr(conveyor, stage.name.lower())
        lane = {Stage.SEND: lanes.sending, Stage.COMPUTE: lanes.computing}.get(stage)
        lane = lanes.fetching if stage is Stage.FETCH else lane
        slots = [item % self.slots for item in items]
        begun = time.perf_counter()
        if stage is Stage.WRITE:
            with ThreadPoolExecutor(min(self.slots, pipeline.AT_ONCE)) as threads:
                for _ in threads.map(work, items, slots):
                    pass
        for item, slot in zip(items, slots, strict=True):
            if stage is Stage.READ:
                work(item, slot)
            elif lane is not None:
                lane.put(lambda item=item, slot=slot: work(item, slot))
        lanes.settle()
        return time.perf_counter() - begun


def _sent(item: Item) -> int:
    """Return the bytes of an item that are sent."""
    shares = item.shares.values()
    return sum(4 * int(np.prod([side.size for side in share.fresh])) for share in shares)


def pinned_rate(belt: Belt) -> float:
    """Return the bytes per second of one large page-locked copy to the device, the best of five."""
    host = belt.lanes.buffer(512 << 20).view(np.float32).reshape((-1, 1, 1), order="F")
    if type(belt.lanes).__name__ == "HostLanes":
        into: Any = np.empty_like(host)
    else:
        into = cast(Any, cupy()).empty(host.shape, np.float32, order="F")
    best = 0.0
    for _ in range(5):
        begun = time.perf_counter()
        belt.lanes.sending.put(lambda: belt.lanes.send(host, into))
        belt.lanes.settle()
        best = max(best, host.nbytes / (time.perf_counter() - begun))
    return best


def duplex_rate(belt: Belt) -> float:
    """Return the bytes per second of page-locked copies to the device beside some from it."""
    lanes = belt.lanes
    host = [lanes.buffer(512 << 20).view(np.float32).reshape((-1, 1, 1), order="F") for _ in "io"]
    if type(lanes).__name__ == "HostLanes":
        device: list[Any] = [np.empty_like(one) for one in host]
    else:
        device = [cast(Any, cupy()).empty(one.shape, np.float32, order="F") for one in host]
    best = 0.0
    for _ in range(3):
        begun = time.perf_counter()
        for _ in range(4):
            lanes.sending.put(lambda: lanes.send(host[0], device[0]))
            lanes.fetching.put(lambda: lanes.fetch(device[1], host[1]))
        lanes.settle()
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
    with open_belt(target) as belt:
        figure.pinned_rate, figure.duplex_rate = pinned_rate(belt), duplex_rate(belt)
    if target == "cuda":
        cast(Any, cupy()).get_default_memory_pool().free_all_blocks()

    def tell(event: Event) -> None:
        if isinstance(event, PassFinished):
            figure.passes.append(event.seconds)
        if isinstance(event, Finished):
            figure.lent = event.bytes_lent / (event.bytes_read + event.bytes_written)

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
        options=Options(steps_per_pass=1, slots=3, device_memory=grant),
    )
    figure.whole_run = time.perf_counter() - begun
    best = figure.dataset / min(figure.passes)
    figure.best_to_pinned = best / figure.pinned_rate
    figure.best_to_duplex = best / figure.duplex_rate
    return figure


def raw_store(path: Path, rows: int, threads: ThreadPoolExecutor) -> RawArray:
    """Make the dataset: uncompressed, each chunk other values."""
    group: Any = cast(Any, zarr).create_group(str(path), zarr_format=3)
    group.create_array(
        "u",
        shape=(rows, WIDTH),
        chunks=(CHUNK, WIDTH),
        dtype="float32",
        compressors=None,
        dimension_names=("y", "x"),
    )
    array = raw_array(path, "u", "float32")
    assert array is not None
    base = np.random.default_rng(0).random((CHUNK, WIDTH), np.float32)
    for first in range(0, rows, CHUNK):
        values = base + np.float32(first % 97)
        region = (slice(first, min(rows, first + CHUNK)), slice(0, WIDTH))
        array.write(region, values[: region[0].stop - first], threads)
    return array


def check(source: RawArray, made: RawArray, rows: int, threads: ThreadPoolExecutor) -> None:
    """Raise where rows around the edge of a block are not what NumPy makes of them in one step."""
    old, new = np.empty((12, WIDTH), np.float32), np.empty((10, WIDTH), np.float32)
    first = rows - 5
    assert source.read_into((slice(first - 1, first + 11), slice(0, WIDTH)), old, threads)
    assert made.read_into((slice(first, first + 10), slice(0, WIDTH)), new, threads)
    mid = old[1:-1]
    total = mid + np.roll(mid, -1, 1) + np.roll(mid, 1, 1) + old[2:] + old[:-2]
    np.testing.assert_array_equal(new, np.float32(0.2) * total)


def measured(
    folder: Path, source: RawArray, case: tuple[int, int, int], grant: int, target: str
) -> Figure:
    """Run a case and return its figure."""
    steps, rows, slots = case
    total = source.stored.sizes[0]
    figure = Figure(steps, rows, slots, 0, total * WIDTH * 4, grant)
    events: list[Event] = []
    streamed: Any = __import__("halocline_engine.distribute.streamed", fromlist=["PipelinedWork"])
    plain = streamed.PipelinedWork
    streamed.PipelinedWork = partial(Measured, figure=figure)
    # Before the run is watched, and in memory that goes back, so that peaks are the run's own.
    with open_belt(target) as belt:
        figure.pinned_rate = pinned_rate(belt)
    if target == "cuda":
        cast(Any, cupy()).get_default_memory_pool().free_all_blocks()
    output = folder / "out.zarr"
    shutil.rmtree(output, ignore_errors=True)
    begun = time.perf_counter()
    try:
        with Watch(target) as watch:
            run(
                FIVE,
                source.path.parent,
                scalars={"w": 0.2},
                boundary={"x": "periodic", "y": "edge"},
                steps=steps,
                feedback={"v": "u"},
                chunks={"y": rows, "x": WIDTH},
                target=target,
                output=output,
                on_event=events.append,
                options=Options(
                    steps_per_pass=steps, slots=slots, device_memory=grant, compressed=False
                ),
            )
    finally:
        streamed.PipelinedWork = plain
    figure.whole_run = time.perf_counter() - begun
    assert isinstance(events[0], Planned)
    figure.projected, figure.blocks = events[0].projected_bytes, events[0].blocks
    figure.host_peak = watch.peak[0] - watch.before[0]
    figure.device_peak = watch.peak[1] - watch.before[1]
    figure.slowest = max(figure.alone, key=lambda name: figure.alone[name])
    figure.wall_to_slowest = figure.wall / figure.alone[figure.slowest]
    figure.send_to_pinned = figure.sent / figure.alone["send"] / figure.pinned_rate
    figure.achieved_to_pinned = figure.sent / figure.wall / figure.pinned_rate
    return figure


def line(figure: Figure) -> str:
    """Return a row of the table."""
    alone = " | ".join(f"{figure.alone[stage.name.lower()]:.3f}" for stage in Stage)
    return (
        f"| {figure.steps} | {figure.rows} | {figure.slots} | {figure.blocks} | {alone} |"
        f" {figure.wall:.3f} | {figure.slowest} | {figure.wall_to_slowest:.3f} |"
        f" {figure.pinned_rate / 1e9:.1f} |"
        f" {figure.send_to_pinned:.3f} | {figure.achieved_to_pinned:.3f} |"
        f" {figure.host_peak / 1e9:.2f} | {figure.device_peak / 1e9:.2f} |"
        f" {figure.projected / 1e9:.2f} | {figure.whole_run:.1f} |"
    )


HEAD = (
    "| steps | rows | slots | blocks | read | send | compute | fetch | write | wall | slowest |"
    " wall / slowest | pinned GB/s | send / pinned | achieved | host GB | device GB |"
    " projected GB | whole run |"
)


def place(wanted: Path | None, size: int) -> Path:
    """Return a folder for the dataset and its result, in memory if there is room."""
    shared = Path("/dev/shm")
    if wanted is None and shared.is_dir() and shutil.disk_usage(shared).free > size:
        wanted = shared
    return Path(tempfile.mkdtemp(prefix="out-of-core-", dir=wanted))


def main() -> None:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--commit", default="not said")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--gib", type=float, default=8.0)
    parser.add_argument("--grant-gib", type=float, default=3.0)
    parser.add_argument("--memory-gib", type=float, default=6.0)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--target", default="cuda")
    arguments = parser.parse_args()
    begun = time.perf_counter()
    rows = int(arguments.gib * GIB) // (4 * WIDTH) // CHUNK * CHUNK
    folder = place(arguments.folder, int(2.2 * arguments.gib * GIB))
    grant = int(arguments.grant_gib * GIB)
    found: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": arguments.commit,
        "place": "memory" if str(folder).startswith("/dev/shm") else "disk",
        "figures": [],
    }
    try:
        with ThreadPoolExecutor(8) as threads:
            source = raw_store(folder / "in.zarr", rows, threads)
            print(f"{rows} x {WIDTH} float32 in {folder}", flush=True)
            print(HEAD + "\n|" + "---|" * (HEAD.count("|") - 1), flush=True)
            for case in CASES:
                if time.perf_counter() - begun > arguments.seconds or case[1] * 2 > rows:
                    break
                figure = measured(folder, source, case, grant, arguments.target)
                found["figures"].append(asdict(figure))
                print(line(figure), flush=True)
                if case[0] == 1:
                    made = raw_array(folder / "out.zarr", "v", "float32")
                    assert made is not None
                    check(source, made, case[1], threads)
                arguments.result.write_text(json.dumps(found, indent=1) + "\n")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if arguments.memory_gib:
        passes: list[dict[str, Any]] = []
        found["memory"] = passes
        for inputs in (1, 2):
            figure = in_memory(arguments.memory_gib / inputs, grant, arguments.target, inputs)
            passes.append(asdict(figure))
            print(json.dumps(passes[-1]), flush=True)
            arguments.result.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
