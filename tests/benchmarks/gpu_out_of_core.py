"""Time a stencil on a dataset larger than the memory that a device grants; prints one table.

    python tests/benchmarks/gpu_out_of_core.py RESULT.json --commit COMMIT [--seconds 60]
        [--gib 8] [--grant-gib 4] [--memory-gib 6] [--folder FOLDER] [--chunk 256] [--target cuda]
        [--only 1 16 64 128 256] [--ways buffers] [--repeats 1] [--timeline]
        [--compare 5+9 5+11 5+9/512/5 5+9/1024/3/2] [--compared 64] [--rounds 5]

A five-point stencil in float32 goes over a raw Zarr store that lies in memory, or in the folder
that is said, in chunks of so many rows of 256 KiB, some steps for each residency of a block on the
device. Each stage is timed alone, with all blocks, and the buffers and threads that it has in the
run: read, send, compute, fetch, write. Threads that copy files help each other in the run; alone, a
stage has as many as do it first. Then all of them overlap. `way` says how values get from files to
the device: straight, so that `read` ends and `write` begins there, and `send` and `fetch` are
copies of the device; or through large buffers of the host, and then those two are what goes over
the bus. `all read` and `all write` are these stages alone again, each with all threads that both
have together. Files of the result do not exist before, but the memory for them was used before.
`wall / slowest` is what all cost beside the slowest stage, and `of all` the same with the two that
have all threads; `send / pinned` is the rate of sending alone, or of reading where that ends on the
device, beside that of one large page-locked copy of the same run, and `achieved` that in the
pipeline. Peaks are what the process and the device took beyond what they had before the run, beside
the projection. At last some passes go over an array in memory, where sending and fetching are all
that takes time: `best_to_pinned` is the rate of the best of them beside that of a page-locked copy,
and `best_to_duplex` beside that of one while another one goes the other way.

`--only` takes the cases with these steps. `--compare` says variants, READ+WRITE[/ROWS[/SLOTS[/AT
ONCE]]]: threads that read and write, rows of a block, slots, and blocks that are written at once.
They are measured first, with `--compared` steps, one after the other in each of some rounds. The
division of the threads with the least median of `wall` is that of the cases, which are measured
`--repeats` times in turn. At the end there is a line for each kind of run: medians of all repeats,
of each stage and of `wall`, their ratio, and the least of each. `--timeline` tells after each run
when what began and ended, in milliseconds: in the pipeline that was timed, and in a run by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import zarr
from gpu_arrays import CHUNK, FIVE, GIB, WIDTH, in_memory, pinned_rate
from memory_watch import Watch
from out_of_core_cases import BUFFERS, CASES, Case, cases
from out_of_core_figures import HEAD, Figure, line, summaries, table
from pipeline_timeline import Timeline, watched

from halocline_engine.datasets.chunk_files.raw import RawArray, raw_array
from halocline_engine.datasets.stores.sink import ZarrSink
from halocline_engine.device.cupy_types import cupy
from halocline_engine.device.io.threaded_files import ThreadedFiles
from halocline_engine.distribute.grid.partition import Block
from halocline_engine.distribute.pipeline import resources as belts
from halocline_engine.distribute.pipeline import schedule
from halocline_engine.distribute.pipeline.resources import open_resources
from halocline_engine.distribute.pipeline.schedule import Stage
from halocline_engine.distribute.pipeline.stages import (
    Item,
    PipelinedWork,
    PipelineStages,
    items_of,
)
from halocline_engine.distribute.tasks.cancel import CancelToken
from halocline_engine.distribute.tasks.events import Event, Finished, Planned
from halocline_engine.distribute.tasks.model import Report
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.functions.run import run


@dataclass(frozen=True, eq=False)
class Measured(PipelinedWork):
    """A pipeline that is timed, after each of its stages alone."""

    figure: Figure = field(default_factory=lambda: Figure(0, 0, 0, 0, 0, 0))
    brief: bool = False

    def stream(self, blocks: Sequence[Block], cancelled: CancelToken | None) -> Iterator[Report]:
        items = items_of(self.work, blocks)
        self._note_threads()
        every = range(len(items))
        # What is lent to be sent is known of the last items only, when all were read.
        last = [every[-self.slots :][n % min(self.slots, len(items))] for n in every]
        # The first use compiles, and touches all pages of the buffers and, once, of the result.
        stages = PipelineStages(self.work, items, self.slots, self.resources, cancelled)
        some = every if self.figure.first else every[: 2 * self.slots]
        for stage in Stage:
            self._alone(stages, stage, last[: len(some)] if stage is Stage.SEND else some)
        # Stages that are timed begin with nothing recorded or locked, as the run does.
        del stages
        self._unlock()
        stages = PipelineStages(self.work, items, self.slots, self.resources, cancelled)
        here = [stage for stage in Stage if self.resources.files is None or stage not in OWN]
        for stage in here:
            if stage is Stage.WRITE:
                self._forget()
            numbers = last if stage is Stage.SEND else every
            seconds = self._alone(stages, stage, numbers)
            if stage is Stage.SEND:
                self.figure.sent = sum(map(_sent, items))
                seconds *= self.figure.sent / sum(_sent(items[n]) for n in numbers)
            self.figure.alone[stage.name.lower()] = seconds
        self.figure.locked = self.resources.pages.locked if self.resources.pages else 0
        self._forget()
        # Its arrays go back before others are made.
        del stages
        for stage, count in zip(OWN, self.figure.threads, strict=True):
            if stage not in here:
                self.figure.alone[stage.name.lower()] = self._with_threads(items, stage, count)
        self._forget()
        self._with_all_threads(items)
        self._unlock()
        timeline = Timeline()
        begun, before = time.perf_counter(), os.times()
        with watched(timeline):
            yield from PipelinedWork.stream(self, blocks, cancelled)
        timeline.mark("ended")
        TIMELINES.append(timeline)
        self.figure.unlocking = self._unlock()
        self.figure.wall = time.perf_counter() - begun
        after = os.times()
        self.figure.core_seconds = after.user + after.system - before.user - before.system

    def _note_threads(self) -> None:
        """Note how many threads read, and how many write."""
        pools: Any = (self.resources.readers, self.resources.writers)
        self.figure.at_once = schedule.AT_ONCE
        self.figure.threads = tuple(getattr(pool, "_max_workers") for pool in pools)  # noqa: B009
        if self.resources.files is not None:
            self.figure.threads = belts.io_threads(len(os.sched_getaffinity(0)))

    def _with_all_threads(self, items: Sequence[Item]) -> None:
        """Time the stages of the host again, each with the threads of both; not if brief."""
        every = len(os.sched_getaffinity(0)) if self.resources.files else sum(self.figure.threads)
        for stage in () if self.brief else OWN:
            seconds = self._with_threads(items, stage, every)
            self.figure.alone_with_all_threads[stage.name.lower()] = seconds
        self._forget()

    def _with_threads(self, items: Sequence[Item], stage: Stage, count: int) -> float:
        """Return the seconds of a stage of the host alone, with so many threads."""
        with ExitStack() as stack:
            threads = stack.enter_context(ThreadPoolExecutor(count))
            resources = replace(self.resources, readers=threads, writers=threads)
            if self.resources.files is not None:
                files = ThreadedFiles(max(1, count - 1), 1)
                stack.callback(files.close)
                resources.files = files
            stages = PipelineStages(self.work, items, self.slots, resources, None)
            every = range(len(items))
            if stage is Stage.WRITE:
                # Notes what is moved for each block.
                self._alone(stages, Stage.READ, every)
            return self._alone(stages, stage, every)

    def _unlock(self) -> float:
        """Unlock what is locked, and return how long it took."""
        begun = time.perf_counter()
        if self.resources.pages is not None:
            self.resources.pages.close()
        return time.perf_counter() - begun

    def _forget(self) -> None:
        """Remove the files of the result, so that all are new again."""
        if isinstance(self.work.sink, ZarrSink):
            for name, _ in self.work.saved:
                remove(Path(self.work.sink.path) / name / "c")

    def _alone(self, stages: PipelineStages, stage: Stage, items: Sequence[int]) -> float:
        """Return the seconds of one stage of some items, with nothing beside it."""
        queues = self.resources.queues
        work = getattr(stages, stage.name.lower())
        queue = {Stage.SEND: queues.sending, Stage.COMPUTE: queues.computing}.get(stage)
        queue = queues.fetching if stage is Stage.FETCH else queue
        slots = [item % self.slots for item in items]
        begun = time.perf_counter()
        if queue is None:
            most = schedule.AT_ONCE if stage is Stage.WRITE else stages.read_at_once
            with ThreadPoolExecutor(min(self.slots, most)) as threads:
                list(threads.map(work, items, slots))
        for item, slot in zip(items, slots, strict=True):
            if queue is not None:
                queue.put(lambda item=item, slot=slot: work(item, slot))
        queues.synchronize()
        return time.perf_counter() - begun


#: Those of the pipelines that were timed.
TIMELINES: list[Timeline] = []
#: Those of results, by their steps.
CHECKSUMS: dict[int, int] = {}
#: Stages of the host, in the order in which threads are told of.
OWN = (Stage.READ, Stage.WRITE)


def _sent(item: Item) -> int:
    """Return the bytes of an item that are sent."""
    shares = item.shares.values()
    return sum(4 * int(np.prod([side.size for side in share.fresh])) for share in shares)


def raw_store(path: Path, rows: int, threads: ThreadPoolExecutor, chunk: int = CHUNK) -> RawArray:
    """Make the dataset: uncompressed, each chunk other values."""
    group: Any = cast(Any, zarr).create_group(str(path), zarr_format=3)
    group.create_array(
        "u",
        shape=(rows, WIDTH),
        chunks=(chunk, WIDTH),
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
    folder: Path,
    source: RawArray,
    case: Case,
    grant: int,
    target: str,
    rate: float,
    *,
    brief: bool = False,
) -> Figure:
    """Run a case and return its figure; `rate` is that of a page-locked copy."""
    steps, rows, slots, way = case
    total = source.stored.sizes[0]
    figure = Figure(steps, rows, slots, 0, total * WIDTH * 4, grant, way)
    events: list[Event] = []
    streamed: Any = __import__(
        "halocline_engine.distribute.stencils.passes", fromlist=["PipelinedWork"]
    )
    plain = streamed.PipelinedWork
    streamed.PipelinedWork = partial(Measured, figure=figure, brief=brief)
    # Before the run is watched, and in memory that goes back, so that peaks are the run's own.
    figure.pinned_rate, figure.first = rate, not (folder / "out.zarr").exists()
    if target == "cuda":
        cast(Any, cupy()).get_default_memory_pool().free_all_blocks()
    output = folder / "out.zarr"
    remove(output)
    begun = time.perf_counter()
    try:
        with Watch(target) as watch:
            stencil(source, case, grant, target, output, events.append)
    finally:
        streamed.PipelinedWork = plain
    figure.whole_run = time.perf_counter() - begun
    planned, finished = events[0], events[-1]
    assert isinstance(planned, Planned)
    assert isinstance(finished, Finished)
    figure.projected, figure.blocks = planned.projected_bytes, planned.blocks
    figure.direct_io = finished.bytes_direct_io
    figure.way = way if figure.direct_io else BUFFERS
    figure.host_peak = watch.peak[0] - watch.before[0]
    figure.device_peak = watch.peak[1] - watch.before[1]
    figure.slowest = max(figure.alone, key=lambda name: figure.alone[name])
    figure.wall_to_slowest = figure.wall / figure.alone[figure.slowest]
    every = figure.alone | figure.alone_with_all_threads
    figure.wall_to_slowest_with_all_threads = figure.wall / max(every.values())
    sending = figure.alone["read" if figure.direct_io else "send"]
    figure.send_to_pinned = figure.sent / sending / figure.pinned_rate
    figure.achieved_to_pinned = figure.sent / figure.wall / figure.pinned_rate
    return figure


def stencil(
    source: RawArray,
    case: Case,
    grant: int,
    target: str,
    output: Path,
    tell: Callable[[Event], None],
) -> None:
    """Make the run of a case."""
    steps, rows, slots, way = case
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
        on_event=tell,
        options=Options(
            steps_per_pass=steps,
            pipeline_depth=slots,
            device_memory_limit=grant,
            compressed=False,
            direct_io=way != BUFFERS,
        ),
    )


def by_itself(folder: Path, source: RawArray, case: Case, grant: int, target: str) -> Timeline:
    """Make the run of a case as anyone does, with nothing but notes of when what happens."""
    remove(folder / "out.zarr")
    timeline = Timeline()

    def tell(event: Event) -> None:
        timeline.mark(f"first {type(event).__name__}")

    with watched(timeline):
        stencil(source, case, grant, target, folder / "out.zarr", tell)
    timeline.mark("returned")
    return timeline


def timelines(
    folder: Path, source: RawArray, case: Case, grant: int, target: str
) -> list[dict[str, Any]]:
    """Print and return when what happened, in the last run and in one by itself."""
    both = [TIMELINES[-1], by_itself(folder, source, case, grant, target)]
    for one in both:
        print(one.summary())
        count = len(one.stages["read"])
        print(one.items(sorted({*range(min(8, count)), *range(max(0, count - 5), count)})))
    return [asdict(one) for one in both]


def verify(folder: Path, source: RawArray, case: Case, threads: ThreadPoolExecutor) -> None:
    """Raise where a result is not that of another run of as many steps, or wrong after one step."""
    if case[0] == 1:
        made = raw_array(folder / "out.zarr", "v", "float32")
        assert made is not None
        check(source, made, case[1], threads)
    found = checksum(folder / "out.zarr")
    assert CHECKSUMS.setdefault(case[0], found) == found, f"{case}: {found:08x}"


def checksum(folder: Path) -> int:
    """Return a number for the values of some chunks of a result, which are there."""
    rows = {int(file.parent.name): file for file in (folder / "v" / "c").glob("*/0")}
    found = 0
    order = sorted(rows)
    each = rows[order[0]].stat().st_size // (4 * WIDTH)
    # Those on both sides of the edges of blocks of 512 and of 1024 rows, and the last ones.
    wanted = {edge // each + side for edge in (2048, 4096) for side in (-1, 0)}
    for at in sorted(at for at in wanted | {len(order) - 1} if at < len(order)):
        found = zlib.crc32(rows[order[at]].read_bytes(), found)
    return found


def kind_of_place(folder: Path) -> str:
    """Return the kind of file system that a folder is on, and the pages of one in memory."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    above = [one for one in mounts if folder.is_relative_to(one[1])]
    kind, options = max(above, key=lambda one: len(one[1]))[2:4]
    pages = [option for option in options.split(",") if option.startswith("huge=")]
    return " ".join([kind, *pages])


def remove(folder: Path) -> None:
    """Remove a folder, its files in several threads."""
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(Path.unlink, (file for file in folder.rglob("*") if file.is_file())))
    shutil.rmtree(folder, ignore_errors=True)


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
    parser.add_argument("--grant-gib", type=float, default=4.0)
    parser.add_argument("--memory-gib", type=float, default=6.0)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--chunk", type=int, default=CHUNK)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--only", type=int, nargs="*", default=[])
    parser.add_argument("--ways", nargs="*", default=[])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--compare", nargs="*", default=[])
    parser.add_argument("--compared", type=int, nargs="*", default=[64])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--timeline", action="store_true")
    arguments = parser.parse_args()
    begun = time.perf_counter()
    rows = int(arguments.gib * GIB) // (4 * WIDTH) // CHUNK * CHUNK
    folder = place(arguments.folder, int(2.2 * arguments.gib * GIB))
    grant = int(arguments.grant_gib * GIB)
    found: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": arguments.commit,
        "place": kind_of_place(folder.resolve()),
        "chunk": arguments.chunk,
        "figures": [],
        "timelines": [],
    }
    try:
        with ThreadPoolExecutor(8) as threads:
            source = raw_store(folder / "in.zarr", rows, threads, arguments.chunk)
            # On a disk, so that what is read is not being stored meanwhile.
            os.sync()
            chunks = f"{rows // arguments.chunk} chunks of {arguments.chunk} x {WIDTH} float32"
            print(f"{chunks} in {folder}, {found['place']}", flush=True)
            with open_resources(arguments.target) as resources:
                rate = pinned_rate(resources)
            print(HEAD + "\n|" + "---|" * (HEAD.count("|") - 1), flush=True)
            # Compiles, and makes memory for files, which no case shall pay for.
            measured(folder, source, CASES[0], grant, arguments.target, rate)
            figures: list[Figure] = []
            for case, variant in cases(arguments, figures):
                if time.perf_counter() - begun > arguments.seconds or case[1] * 2 > rows:
                    break
                with variant.used():
                    figure = measured(
                        folder, source, case, grant, arguments.target, rate, brief=variant.brief
                    )
                    figures.append(figure)
                    found["figures"].append(asdict(figure))
                    print(line(figure), flush=True)
                    verify(folder, source, case, threads)
                    if arguments.timeline:
                        found["timelines"] += timelines(
                            folder, source, case, grant, arguments.target
                        )
                found["cases"] = summaries(figures)
                arguments.result.write_text(json.dumps(found, indent=1) + "\n")
            print(table(summaries(figures)), flush=True)
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
