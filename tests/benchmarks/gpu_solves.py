"""Check and time tridiagonal and tree solves on a real device; prints tables, writes JSON.

    PYTHONPATH=engine python tests/benchmarks/gpu_solves.py RESULT.json --commit COMMIT
        [--rows 83886080] [--cells 10000] [--seconds 240] [--only PART ...]

Needs NumPy, CuPy, Numba and the engine; cuSPARSE (through ctypes) and JAX are peers where they are
installed. Every solution is put back into its equations on the device before it is timed.

Shares are compulsory bytes (each input read once, the solution written once) over the time, as a
share of what copying an array of 1 GiB of the same type reaches: rounds of both follow each other,
and the median of the rounds' ratios counts. Four calls are timed behind one that is under way, so
that the device does not wait for the first. cuSPARSE destroys its inputs: they are restored before
each call, which is not counted, and what restoring costs is a line of its own. What does not fit in
the time is left out and named. The last table has what must hold.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from solves_figures import BEST, USUAL, Figure, verdicts
from solves_peers import cusparse_solves, jax_solves
from solves_trees import ragged_trees, uniform_trees

from halocline_engine.device.machine import current_machine
from halocline_engine.kernels.machine import Arena, Library, most_shared, source_of
from halocline_engine.kernels.tridiagonal import cuda as tridiagonal_cuda
from halocline_engine.kernels.tridiagonal import reference
from halocline_engine.kernels.tridiagonal.cuda import CudaTridiagonal
from halocline_engine.kernels.tridiagonal.launching import (
    Layout,
    Plan,
    plan_contiguous,
    plan_factored,
    plan_thomas,
)

FOLDER = Path(tridiagonal_cuda.__file__).parent
ROUNDS = 5
KINDS = ("float64", "float32")
WRONG = {"float64": 1e-13, "float32": 1e-5}
INTERLEAVED = (20, 80, 128, 256, 512)
CONTIGUOUS = (63, 64, 80, 100, 128, 500, 512)


class Bench:
    """What all parts need: the device, the kernels, how much is solved, how long it may take."""

    def __init__(self, *, rows: int, cells: int, seconds: float) -> None:
        self.cupy: Any = importlib.import_module("cupy")
        self.rows, self.cells = rows, cells
        self.machine = current_machine()
        self.shared = most_shared(self.machine.facts.capability)
        self._code: dict[str, bytes] = {}
        self.library = Library(self.machine, self._kept)
        self.solver = CudaTridiagonal(self.machine, self.library, self.shared)
        self._end = time.monotonic() + seconds
        self.skipped: list[str] = []

    def _kept(self, name: tuple[str, str], make: Callable[[], bytes]) -> bytes:
        source = name[0]
        return self._code[source] if source in self._code else make()

    def compile(self, file: str, plans: Sequence[Plan]) -> None:
        """Compile a file for several plans at once, each in a process of its own."""
        sources = {source_of(FOLDER / file, **dict(plan.constants)) for plan in plans}
        with ThreadPoolExecutor(8) as pool:
            self._code.update(zip(sources, pool.map(self.machine.compile, sources), strict=True))

    def time_for(self, case: str) -> bool:
        """Return whether there is time for one more case; what is left out is remembered."""
        left = time.monotonic() < self._end
        if not left:
            self.skipped.append(case)
        return left

    def seconds(self, work: Callable[[], object], calls: int = 4) -> float:
        """Return the time of a call; several are queued behind one that is under way."""
        start, end = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        if calls > 1:
            work()
        start.record()
        for _ in range(calls):
            work()
        end.record()
        end.synchronize()
        return float(self.cupy.cuda.get_elapsed_time(start, end)) / 1e3 / calls

    def share(
        self,
        moved: int,
        dtype: str,
        work: Callable[[], object],
        restore: Callable[[], object] | None = None,
    ) -> tuple[float, float]:
        """Return the milliseconds of some work and its share of the copy bandwidth."""
        size = 2**30 if self.rows > 2**24 else 2**20
        copied = self.cupy.ones(size // np.dtype(dtype).itemsize, dtype)
        copy = self.cupy.empty_like(copied)
        copying = partial(self.cupy.copyto, copy, copied)

        pairs: list[tuple[float, float]] = []
        for number in range(ROUNDS + 1):
            if restore is not None:
                restore()
            own = self.seconds(work, 4 if restore is None else 1)
            if number:
                pairs.append((own, self.seconds(copying, 3)))
            else:
                copying()
        shares = [moved / own / (2 * size / other) for own, other in pairs]
        del copied, copy, copying
        self.free()
        return median(own for own, _ in pairs) * 1e3, median(shares)

    def free(self) -> None:
        self.cupy.get_default_memory_pool().free_all_blocks()

    def systems(self, outer: int, rows: int, inner: int, dtype: str) -> list[Any]:
        """Return lower, diagonal, upper and rhs of dominant systems."""
        shape = (outer, rows, inner)
        made = [self.cupy.random.random(shape, dtype=np.dtype(dtype)) for _ in range(4)]
        made[1] += 3
        return made

    def check(self, bands: Sequence[Any], x: Any, dtype: str) -> None:
        """Put solutions [outer, row, inner] back into their equations."""
        lower, diagonal, upper, rhs = bands
        found = diagonal * x - rhs
        found[:, 1:] += lower[:, 1:] * x[:, :-1]
        found[:, :-1] += upper[:, :-1] * x[:, 1:]
        worst = float(self.cupy.abs(found).max())
        if not worst < WRONG[dtype]:
            raise AssertionError(f"The equations are missed by {worst}.")
        del found
        self.free()


def places_of(arrays: Sequence[Any]) -> tuple[np.uint64, ...]:
    """Return addresses as kernels take them."""
    return tuple(np.uint64(array.data.ptr) for array in arrays)


Queue = Callable[[Layout, tuple[np.uint64, ...], Arena, Plan | None], None]


def timed(
    bench: Bench,
    part: str,
    layout: Layout,
    bands: Sequence[Any],
    queue: Queue,
    tried: Sequence[tuple[str, Plan]] = (),
) -> Iterator[Figure]:
    """Check and time the usual plan and others."""
    cupy, dtype = bench.cupy, layout.dtype
    x = cupy.empty_like(bands[3])
    status = cupy.empty(layout.systems, np.uint8)
    places = places_of((*bands, x, status))
    case = f"{layout.rows} rows {dtype}"
    moved = 5 * x.nbytes
    found: list[Figure] = []
    for how, plan in [(USUAL, None), *tried]:
        x.fill(np.nan)
        status.fill(255)

        def work(plan: Plan | None = plan) -> None:
            queue(layout, places, Arena(bench.machine), plan)

        work()
        bench.check(bands, x, dtype)
        assert not bool(status.any()), "a system is reported"
        found.append(Figure(part, case, how, *bench.share(moved, dtype, work)))
    yield found[0]
    if tried:
        top = max(found, key=lambda one: one.share)
        yield Figure(part, case, f"{BEST} {top.how}", top.milliseconds, top.share)


def peer(figures: Iterator[Figure]) -> Iterator[Figure]:
    """Yield a peer's figures; say so where it fails, and go on without it."""
    try:
        yield from figures
    except Exception as error:  # whatever other libraries raise
        print(f"a peer failed: {error!r}")


def interleaved(bench: Bench) -> Iterator[Figure]:
    """Interleaved systems: a thread each."""
    for dtype in KINDS:
        for rows in INTERLEAVED:
            if not bench.time_for(f"interleaved {rows} rows {dtype}"):
                continue
            layout = Layout(1, rows, bench.rows // rows // 32 * 32, dtype)
            bands = bench.systems(1, rows, layout.inner, dtype)
            tried = [
                (f"threads {threads}, depth {depth}", plan)
                for threads in (32, 64, 128)
                for depth in (4, 8, 16)
                if (plan := plan_thomas(layout, bench.shared, threads=threads, depth=depth)).on_chip
            ]
            tried = tried if rows == 80 else []
            bench.compile("thomas.cu", [plan for _, plan in tried])
            yield from timed(bench, "interleaved", layout, bands, bench.solver.interleaved, tried)
            if rows == 80:
                yield from peer(cusparse_solves(bench, layout, bands, interleaved=True))
            del bands
            bench.free()


def contiguous(bench: Bench) -> Iterator[Figure]:
    """Systems whose rows lie side by side: some lanes of a warp each."""
    for dtype in KINDS:
        for rows in CONTIGUOUS:
            if not bench.time_for(f"contiguous {rows} rows {dtype}"):
                continue
            layout = Layout(bench.rows // rows, rows, 1, dtype)
            bands = bench.systems(layout.outer, rows, 1, dtype)
            tried = [(f"warps {n}", plan_contiguous(layout, warps=n)) for n in (1, 4)]
            bench.compile("contiguous.cu", [plan for _, plan in tried])
            yield from timed(bench, "contiguous", layout, bands, bench.solver.contiguous, tried)
            if rows == 80:
                yield from peer(cusparse_solves(bench, layout, bands, interleaved=False))
                yield from peer(jax_solves(bench, layout, bands))
            del bands
            bench.free()


def long(bench: Bench) -> Iterator[Figure]:
    """One system of 10 million rows: the partition method, queued, and as a CUDA graph."""
    cupy, rows = bench.cupy, min(10_000_000, bench.rows)
    for dtype in KINDS:
        if not bench.time_for(f"long {dtype}"):
            continue
        layout = Layout(1, rows, 1, dtype)
        bands = bench.systems(1, rows, 1, dtype)
        yield from timed(bench, "long", layout, bands, bench.solver.contiguous)
        x, status = cupy.empty_like(bands[3]), cupy.empty(1, np.uint8)
        places = places_of((*bands, x, status))
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            bench.solver.contiguous(layout, places, Arena(bench.machine))
            stream.synchronize()
            kept = Arena(bench.machine)
            stream.begin_capture()
            bench.solver.contiguous(layout, places, kept)
            graph = stream.end_capture()
            x.fill(np.nan)
            graph.launch()
            stream.synchronize()
            bench.check(bands, x, dtype)
            moved = 5 * x.nbytes
            figures = bench.share(moved, dtype, graph.launch)
        yield Figure("long", f"{rows} rows {dtype}", f"{BEST} as a graph", *figures)
        del bands, x, graph, kept
        bench.free()


def prefactored(bench: Bench) -> Iterator[Figure]:
    """Interleaved systems with one matrix, which is eliminated before."""
    cupy, rows = bench.cupy, 80
    for dtype in KINDS:
        if not bench.time_for(f"prefactored {dtype}"):
            continue
        layout = Layout(1, rows, bench.rows // rows // 32 * 32, dtype)
        rhs = cupy.random.random((1, rows, layout.inner), dtype=np.dtype(dtype))
        x = cupy.empty_like(rhs)
        bands = [cupy.asnumpy(band) for band in bench.systems(1, rows, 1, dtype)[:3]]
        factored = reference.factor(*bands)
        factors = (factored.lower, factored.reciprocal, factored.upper)
        held = [cupy.asarray(one) for one in factors]
        places = places_of([*held, rhs, x])
        several = (32, 64, 128, 256)
        plans: list[tuple[str, Plan | None]] = [(USUAL, None)]
        for threads in several:
            plan = plan_factored(layout, bench.shared, shared=True, threads=threads)
            if plan.on_chip:
                plans.append((f"threads {threads}", plan))
        bench.compile("prefactored.cu", [plan for _, plan in plans if plan is not None])
        found: list[Figure] = []
        for how, plan in plans:
            x.fill(np.nan)
            work = partial(bench.solver.prefactored, layout, places, shared=True, plan=plan)
            work()
            bench.check([cupy.asarray(band) for band in bands] + [rhs], x, dtype)
            figures = bench.share(2 * x.nbytes, dtype, work)
            found.append(Figure("prefactored", f"{rows} rows {dtype}", how, *figures))
        yield found[0]
        top = max(found, key=lambda one: one.share)
        yield Figure(top.part, top.case, f"{BEST} {top.how}", top.milliseconds, top.share)
        del rhs, x, held
        bench.free()


PARTS: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    "interleaved": interleaved,
    "contiguous": contiguous,
    "long": long,
    "prefactored": prefactored,
    "uniform": uniform_trees,
    "ragged": ragged_trees,
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Check and time solves on a device.")
    parser.add_argument("result", type=Path, help="where to write the figures as JSON")
    parser.add_argument("--commit", default="unknown", help="the commit that is measured")
    parser.add_argument("--rows", type=int, default=80 << 20, help="rows of all systems together")
    parser.add_argument("--cells", type=int, default=10_000, help="cells of the ragged batch")
    parser.add_argument("--seconds", type=float, default=240, help="start no case after these")
    parser.add_argument("--only", choices=list(PARTS), action="append", help="only these parts")
    options = parser.parse_args(arguments)
    bench = Bench(rows=options.rows, cells=options.cells, seconds=options.seconds)
    facts = bench.machine.facts
    print(f"{facts.name}, sm_{facts.capability}, CuPy {bench.cupy.__version__}")
    found: list[Figure] = []
    for name in options.only or PARTS:
        start = time.monotonic()
        for one in PARTS[name](bench):
            found.append(one)
            line = f"{one.part:11} {one.case:22} {one.milliseconds:9.3f} ms {one.share:6.3f}  "
            print(line + one.how, flush=True)
        bench.free()
        print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)
    record: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": options.commit,
        "device": asdict(facts),
        "cupy": bench.cupy.__version__,
        "rows": options.rows,
        "cells": options.cells,
        "left out": bench.skipped,
        "figures": [asdict(one) for one in found],
    }
    options.result.write_text(json.dumps(record, indent=1) + "\n")
    print(*verdicts(found), sep="\n")
    for case in bench.skipped:
        print(f"left out: {case}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
