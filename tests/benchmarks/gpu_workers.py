"""Time a stencil by one process, and by a cluster of one worker for each device; prints one table.

    python tests/benchmarks/gpu_workers.py RESULT.json --commit COMMIT [--gib 4] [--workers 1 2]
        [--target cuda]

A five-point stencil in float32 goes twice, sixteen steps each time, over a raw Zarr store that lies
in memory. `seconds` are those of the run, as its last event tells them; `began` is when the first
block was told of, with the workers' start, their imports and the first kernels before it. Results
must have the same bits, whoever computed them, and what was fetched must be what was predicted.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np
import zarr
from gpu_out_of_core import CHUNK, FIVE, GIB, WIDTH, place, raw_store

from halocline_engine.device.probe import device_count, device_facts
from halocline_engine.distribute.tasks.events import Event, Finished, Planned
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.functions.run import run

HEAD = "| workers | seconds | began | blocks | fetched | predicted | bits |"


@dataclass(frozen=True)
class Figure:
    """A run; `workers` is 0 for one process without a cluster."""

    workers: int
    seconds: float
    began: float
    blocks: int
    fetches: int | None
    predicted: int | None
    bits: str


def measured(folder: Path, workers: int, target: str) -> Figure:
    """Run once and return its figure."""
    told: list[tuple[float, Event]] = []
    output = folder / "out.zarr"
    shutil.rmtree(output, ignore_errors=True)
    begun = time.perf_counter()
    run(
        FIVE,
        folder / "in.zarr",
        scalars={"w": 0.2},
        boundary={"x": "periodic", "y": "edge"},
        steps=32,
        feedback={"v": "u"},
        chunks={"y": 2 * CHUNK, "x": WIDTH},
        target=target,
        mode="streamed",
        cluster=workers or None,
        output=output,
        on_event=lambda event: told.append((time.perf_counter() - begun, event)),
        options=Options(steps_per_pass=16, compressed=False),
    )
    planned, finished = told[0][1], told[-1][1]
    assert isinstance(planned, Planned)
    assert isinstance(finished, Finished)
    return Figure(
        workers=workers,
        seconds=finished.seconds,
        began=told[1][0],
        blocks=planned.blocks,
        fetches=finished.fetches,
        predicted=planned.predicted_fetches,
        bits=digest(output),
    )


def digest(output: Path) -> str:
    """Return what names the bits of a result."""
    values: Any = cast(Any, zarr).open_group(output, mode="r")["v"]
    found = hashlib.blake2b(digest_size=8)
    for first in range(0, values.shape[0], CHUNK):
        found.update(np.ascontiguousarray(values[first : first + CHUNK]).data)
    return found.hexdigest()


def line(figure: Figure) -> str:
    """Return a row of the table."""
    return (
        f"| {figure.workers or 'none'} | {figure.seconds:.2f} | {figure.began:.2f} |"
        f" {figure.blocks} | {figure.fetches} | {figure.predicted} | {figure.bits} |"
    )


def main() -> None:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--commit", default="not said")
    parser.add_argument("--gib", type=float, default=4.0)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--target", default="cuda")
    arguments = parser.parse_args()
    rows = int(arguments.gib * GIB) // (4 * WIDTH) // CHUNK * CHUNK
    folder = place(None, int(3.2 * arguments.gib * GIB))
    figures: list[Figure] = []
    try:
        with ThreadPoolExecutor(8) as threads:
            raw_store(folder / "in.zarr", rows, threads)
        print(f"{rows} x {WIDTH} float32\n{HEAD}", flush=True)
        print("|" + "---|" * (HEAD.count("|") - 1), flush=True)
        for workers in (0, *arguments.workers):
            figures.append(measured(folder, workers, arguments.target))
            print(line(figures[-1]), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    found = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": arguments.commit,
        "device": device_facts().name,
        "devices": device_count(),
        "cores": os.cpu_count(),
        "bytes": rows * WIDTH * 4,
        "figures": [asdict(figure) for figure in figures],
    }
    arguments.result.write_text(json.dumps(found, indent=1) + "\n")
    assert len({figure.bits for figure in figures}) == 1, "results differ"


if __name__ == "__main__":
    main()
