"""What runs over arrays in memory take, beside what is projected; prints a table.

    python tests/benchmarks/gpu_in_memory.py RESULT.json --commit COMMIT
        [--gib 2] [--grant-gib 3] [--target cuda]

A five-point stencil in float32 goes over one array, or two, of this process, in blocks of some
rows that overlap on the device. Peaks are what the process and the device took beyond what they
had before the run; those of the host are pages that the run made, its result and what goes from
pass to pass. Afterwards a run is cancelled in its midst, and one ends by an error of its caller:
`locked` counts the places of arrays whose pages are locked then, and `same` says that the run that
follows has the bits of the first one.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np
import xarray as xr
from gpu_arrays import FIVE, WITH_SOURCE
from memory_watch import Watch
from numpy.typing import NDArray

from halocline_engine.device.cupy_types import cupy
from halocline_engine.distribute.tasks.events import BlockFinished, Event, Finished, Planned
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.errors import CancelledError
from halocline_engine.functions.run import run

WIDTH, ROWS, CHUNK = 32768, 512, 256
GIB = 1 << 30
#: Names of arrays, steps, steps of a pass.
CASES = (("u", 1, 1), ("u", 3, 1), ("uc", 4, 1), ("u", 32, 16))
_HOST_MEMORY = 1


@dataclass
class Figure:
    """A run; sizes in bytes."""

    arrays: int
    steps: int
    steps_per_pass: int
    projected: int
    host_peak: int
    device_peak: int
    lent: float
    seconds: float


@dataclass(frozen=True)
class Bench:
    """Arrays of this process, and where and with how much of the device they are computed."""

    arrays: dict[str, NDArray[np.float32]]
    target: str
    grant: int

    def run(
        self,
        names: str,
        steps: int,
        each: int,
        tell: Callable[[Event], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> NDArray[np.float32]:
        """Make steps on some of the arrays."""
        made = run(
            FIVE if names == "u" else WITH_SOURCE,
            xr.Dataset({name: (("y", "x"), self.arrays[name]) for name in names}),
            scalars={"w": 0.2},
            boundary={"x": "periodic", "y": "edge"},
            steps=steps,
            feedback={"v": "u"},
            chunks={"y": ROWS, "x": WIDTH},
            target=self.target,
            on_event=tell,
            cancelled=cancelled,
            options=Options(steps_per_pass=each, pipeline_depth=3, device_memory_limit=self.grant),
        )
        return made["v"].values

    def locked(self) -> int:
        """Return at how many of 64 places of each array pages are locked."""
        if self.target != "cuda":
            return 0
        ask = cast(Any, cupy()).cuda.runtime.pointerGetAttributes
        places = (
            array.__array_interface__["data"][0] + at
            for array in self.arrays.values()
            for at in range(0, array.nbytes, array.nbytes // 64)
        )
        return sum(ask(place).type == _HOST_MEMORY for place in places)


def filled(rows: int) -> NDArray[np.float32]:
    """Return an array whose pages are all there."""
    values = np.empty((rows, WIDTH), np.float32)
    base = np.random.default_rng(0).random((CHUNK, WIDTH), np.float32)

    def fill(first: int) -> None:
        part = values[first : first + CHUNK]
        np.add(base[: len(part)], np.float32(first % 97), out=part)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(fill, range(0, rows, CHUNK)))
    return values


def measured(bench: Bench, names: str, steps: int, each: int) -> Figure:
    """Run a case and return its figure."""
    events: list[Event] = []
    if bench.target == "cuda":
        cast(Any, cupy()).get_default_memory_pool().free_all_blocks()
    with Watch(bench.target) as watch:
        begun = time.perf_counter()
        bench.run(names, steps, each, events.append)
        seconds = time.perf_counter() - begun
    planned, end = events[0], events[-1]
    assert isinstance(planned, Planned)
    assert isinstance(end, Finished)
    return Figure(
        arrays=len(names),
        steps=steps,
        steps_per_pass=each,
        projected=planned.projected_bytes,
        host_peak=watch.peak[0] - watch.before[0],
        device_peak=watch.peak[1] - watch.before[1],
        lent=end.bytes_zero_copy / (end.bytes_read + end.bytes_written),
        seconds=seconds,
    )


def broken_off(bench: Bench) -> dict[str, Any]:
    """End runs in their midst; return what is locked then, and whether others are as before."""
    expected = bench.run("u", 2, 1)[::37].copy()
    blocks = 0

    def count(event: Event) -> None:
        nonlocal blocks
        blocks += isinstance(event, BlockFinished)

    def fail(event: Event) -> None:
        if isinstance(event, BlockFinished) and event.pass_index == 1:
            raise KeyboardInterrupt

    found: dict[str, Any] = {"locked": []}
    with suppress(CancelledError):
        bench.run("u", 2, 1, count, lambda: blocks >= 2)
    found["locked"].append(bench.locked())
    with suppress(KeyboardInterrupt):
        bench.run("u", 2, 1, fail)
    found["locked"].append(bench.locked())
    found["same"] = bool(np.array_equal(bench.run("u", 2, 1)[::37], expected))
    return found


def main() -> None:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--commit", default="not said")
    parser.add_argument("--gib", type=float, default=2.0)
    parser.add_argument("--grant-gib", type=float, default=3.0)
    parser.add_argument("--target", default="cuda")
    arguments = parser.parse_args()
    rows = int(arguments.gib * GIB) // (4 * WIDTH) // ROWS * ROWS
    grant = int(arguments.grant_gib * GIB)
    bench = Bench({name: filled(rows) for name in "uc"}, arguments.target, grant)
    # The first use compiles, and makes the context of the device.
    few = Bench(
        {name: array[: 2 * ROWS] for name, array in bench.arrays.items()}, bench.target, grant
    )
    for names in ("u", "uc"):
        few.run(names, 2, 1)
    figures = [measured(bench, *case) for case in CASES]
    print("| arrays | steps | of a pass | projected GB | host GB | device GB | share | lent | s |")
    print("|" + "---|" * 9)
    for one in figures:
        taken = one.host_peak + one.device_peak
        sizes = " | ".join(
            f"{size / 1e9:.2f}" for size in (one.projected, one.host_peak, one.device_peak)
        )
        print(
            f"| {one.arrays} | {one.steps} | {one.steps_per_pass} | {sizes} |"
            f" {taken / one.projected:.2f} | {one.lent:.2f} | {one.seconds:.2f} |"
        )
    ended = broken_off(bench)
    print(ended)
    found = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": arguments.commit,
        "figures": [asdict(one) for one in figures],
        "broken_off": ended,
    }
    arguments.result.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
