"""Count how often chunks are read when blocks follow each other in several orders; prints a table.

    python tests/benchmarks/cpu_chunk_order.py [--result RESULT.json] [--commit COMMIT] [--small]

A star of reach 1 goes over a dataset of three dimensions in a Zarr store, a block a chunk along I
and J. Every order has the same cache of decoded chunks: what the model asks for columns of half the
width, and what it asks for whole rows. The counts do not depend on the machine; the times are those
of one run, with chunks that are compressed. All results are the same bits.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np
import xarray as xr
import zarr

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from column_formulas import fetch_bound

from halocline_engine.distribute.stencils.order import BlockGrid, whole_rows
from halocline_engine.distribute.tasks.events import Event, Finished, Planned
from halocline_engine.distribute.tasks.options import ORDERS, Options
from halocline_engine.functions.run import run
from halocline_engine.schedule.traversal.column_model import Reads, Work, working_set

STAR = """
def star(inp: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = inp[1, 0, 0] + inp[-1, 0, 0] + inp[0, 1, 0] + inp[0, -1, 0] - 4.0 * inp
"""
AROUND = Reads((1, 1), (1, 1))


@dataclass(frozen=True)
class Figure:
    """A run: chunks of the store, those that were predicted and fetched, and how often each was."""

    order: str
    rows: int
    length: int
    cache_chunks: int
    width: int
    chunks: int
    bound: int | None
    predicted: int
    fetched: int
    times: float
    seconds: float


def stored(path: Path, rows: int, length: int, side: int, levels: int) -> int:
    """Write the dataset, with two chunks along the levels; return the bytes of a decoded chunk."""
    shape = (levels, rows * side, length * side)
    group: Any = cast(Any, zarr).create_group(str(path), zarr_format=3)
    array = group.create_array(
        "inp",
        shape=shape,
        chunks=(levels // 2, side, side),
        dtype="float64",
        dimension_names=("z", "y", "x"),
    )
    random = np.random.default_rng(0)
    for level in range(0, levels, levels // 2):
        array[level : level + levels // 2] = random.normal(size=(levels // 2, *shape[1:])).round(2)
    return levels // 2 * side * side * 8


def figure(path: Path, order: str, sides: tuple[int, int, int], cache: int, chunk: int) -> Any:
    """Run in an order; return the figure and the result."""
    rows, length, side = sides
    events: list[Event] = []
    begun = time.perf_counter()
    result = run(
        STAR,
        path,
        chunks={"y": side, "x": side},
        target="cpu",
        on_event=events.append,
        options=Options(chunk_cache=cache, order=order),
    )
    seconds = time.perf_counter() - begun
    planned, finished = events[0], events[-1]
    assert isinstance(planned, Planned)
    assert isinstance(finished, Finished)
    assert planned.predicted_fetches is not None
    work = Work(2 * chunk, AROUND)
    bounded = planned.order in ("column", "zigzag")
    return Figure(
        order=order if order != "auto" else f"auto ({planned.order})",
        rows=rows,
        length=length,
        cache_chunks=cache // chunk,
        width=planned.width,
        chunks=planned.chunks,
        bound=2 * fetch_bound(work, rows, length, planned.width, line=1) if bounded else None,
        predicted=planned.predicted_fetches,
        fetched=finished.fetches,
        times=finished.fetches / planned.chunks,
        seconds=seconds,
    ), result


def measured(folder: Path, *, small: bool) -> list[Figure]:
    """Return the figures of all orders and caches."""
    rows, length, side, levels = (12, 40, 4, 4) if small else (24, 40, 32, 32)
    chunk = stored(folder / "in.zarr", rows, length, side, levels)
    grid = BlockGrid((length, rows), (), 2 * chunk, ((1, 1), (1, 1)), 2)
    figures: list[Figure] = []
    expected: list[xr.Dataset] = []
    for cache in (working_set(grid.work(1), length // 2), whole_rows(grid)):
        for order in (*ORDERS[1:], "auto"):
            one, result = figure(folder / "in.zarr", order, (rows, length, side), cache, chunk)
            expected.append(result)
            assert expected[0]["out"].identical(result["out"])
            figures.append(one)
    return figures


def table(figures: list[Figure]) -> str:
    """Return the figures as a table."""
    lines = [
        "| order | blocks | cache, chunks | width | chunks | bound | predicted | fetched |"
        " times | s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {f.order} | {f.length} x {f.rows} | {f.cache_chunks} | {f.width} | {f.chunks} |"
        f" {f.bound or ''} | {f.predicted} | {f.fetched} | {f.times:.3f} | {f.seconds:.1f} |"
        for f in figures
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--result", type=Path)
    parser.add_argument("--commit", default="not said")
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measured(Path(folder), small=arguments.small)
    print(table(figures))
    if arguments.result:
        found = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "commit": arguments.commit,
            "figures": [asdict(one) for one in figures],
        }
        arguments.result.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
