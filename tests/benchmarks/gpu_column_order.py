"""Time blocks in column order beside row order, and steps that turn, on a real device.

    PYTHONPATH=engine python tests/benchmarks/gpu_column_order.py RESULT.json --commit COMMIT
        [--small] [--rounds 9]

First kernels whose threads have one point, or 16 bytes of points, on one level each: every level of
the domain exceeds the cache, so that row order reads the levels below again from memory. Then the
kernels that are usual, with the strips of the cost model and without: among them threads that march
up the levels, and rows of two dimensions, which are cut along I. Last, many steps from one array to
the other and back, where every other step may begin at the end of the one before.

A share is that of copying 1 GiB in the same rounds, counting compulsory bytes alone. Every result
is compared with the reference in its far corner.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from gpu_stencil import (
    DTYPES,
    ROUNDS,
    Clock,
    compiled_for,
    describe,
    filled,
    typed_scalars,
    verified,
)
from workloads import CASES, NEAR, Case, Domain

from halocline_engine.backends.cuda.autotune.choice import Choice
from halocline_engine.backends.cuda.kernels.choose import tiles_of
from halocline_engine.backends.cuda.model.tile import Block, Tile
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.backends.cuda.runtime.executable import CudaExecutable
from halocline_engine.cache import Cache, key_of
from halocline_engine.device.launch.graphs import record
from halocline_engine.device.machine import current_machine
from halocline_engine.schedule.nodes import Schedule

WEIGHTED = Case(
    "weighted 3d7pt",
    """
def program(u: Field[{dtype}], c: Field[{dtype}], v: Field[{dtype}]):
    with computation(PARALLEL), interval(...):
        near = u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0] + u[0, 0, -1] + u[0, 0, 1]
        v = u + c * (near - {dtype}(6.0) * u)
""",
    {"u": NEAR, "c": (0.0, 0.1)},
    ("v",),
    (1, 1, 1),
)
#: What is timed, and with which tiles.
Work: TypeAlias = tuple[Case, str, Domain, Iterable[Tile]]
NAMED = {case.name: case for case in (*CASES, WEIGHTED)}
#: Threads of a block where each has points of one level.
BLOCKS: tuple[Block, ...] = ((32, 8), (256, 1))
#: In how many strips the domain is cut.
STRIPS = (1, 4, 8, 12)
SINGLE = (("3d7pt", (2048, 2048, 128)), ("star r=4", (1440, 721, 256)))
USUAL = (
    ("3d7pt", (1024, 1024, 256)),
    ("3d7pt", (2048, 2048, 128)),
    ("weighted 3d7pt", (1024, 1024, 256)),
    ("weighted 3d7pt", (2048, 2048, 96)),
    ("3d27pt", (2048, 2048, 128)),
    ("star r=4", (1440, 721, 256)),
    ("2d5pt", (2**20, 256, 1)),
    ("2d5pt", (2**18, 1024, 1)),
    ("2d5pt", (2**14, 2**14, 1)),
)
STEPPED = (
    *(("2d5pt", (n, n, 1)) for n in (2048, 3072, 4096, 6144)),
    *(("3d7pt", (n, n, n)) for n in (160, 192, 224, 256)),
)


@dataclass(frozen=True)
class Figure:
    """Shares of copy of one kernel: by the number of strips, 1 for row order.

    `chosen` is the number of strips of the cost model, where the tile is the usual one.
    """

    case: str
    dtype: str
    domain: Domain
    tile: str
    strips: dict[int, float]
    chosen: int | None = None

    @property
    def gain(self) -> float:
        """How much the best column order is faster than row order."""
        return max(self.strips.values()) / self.strips[1]


@dataclass(frozen=True)
class Steps:
    """Shares of copy of steps that all go the same way, and of those that turn."""

    case: str
    dtype: str
    domain: Domain
    forward: float
    turning: float


class Bench:
    """One device with its clock and a new cache of compiled code."""

    def __init__(self, device: Any, folder: Path, *, small: bool, rounds: int = ROUNDS) -> None:
        self.device = device
        self.clock = Clock(device, small=small, rounds=rounds)
        self.machine = current_machine()
        self.cache = Cache(folder)

    def executable(self, schedule: Schedule, tile: Tile | None) -> CudaExecutable:
        choice = Choice() if tile is None else Choice((("kernel0", tile),))
        return CudaExecutable(schedule, self.machine, self.cache, choice.tile_for)

    def compile(self, works: Iterable[Work]) -> None:
        """Compile what will be timed, side by side; strips of any number have the same code."""
        sources: set[str] = set()
        for case, dtype, domain, tiles in works:
            schedule = schedule_of(case, dtype)
            variant = usual_variant(schedule)
            sources |= {self.executable(schedule, t).source_for(variant, domain) for t in tiles}

        def keep(source: str) -> None:
            key = key_of(source, self.machine.compiler)
            self.cache.get(key, lambda: self.machine.compile(source))

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(keep, sources))

    def shares(
        self, case: Case, dtype: str, domain: Domain, tiles: dict[int, Tile]
    ) -> dict[int, float]:
        """Return the share of copy with each tile."""
        schedule = schedule_of(case, dtype)
        fields = filled(self.device, case, self.executable(schedule, None).memory, domain, dtype)
        moved = float(np.prod(domain, dtype=np.int64)) * case.bytes_per_point(dtype)
        found: dict[int, float] = {}
        for number, tile in tiles.items():
            run = self.executable(schedule, tile)
            work = calls(run, case, fields, domain, dtype)
            for name in case.outputs:
                fields[name][...] = np.nan
            work()
            verified(case, run.memory, fields, domain, dtype)
            found[number] = self.clock.compared(work, dtype).share(moved)
        del fields
        self.device.get_default_memory_pool().free_all_blocks()
        return found

    def steps(self, case: Case, dtype: str, domain: Domain) -> Steps:
        """Time 16 steps as one graph, from one array to the other and back."""
        schedule = schedule_of(case, dtype)
        run = self.executable(schedule, None)
        fields = filled(self.device, case, run.memory, domain, dtype)
        fields["v"][...] = fields["u"]
        back = {"u": fields["v"], "v": fields["u"]}
        moved = 16.0 * float(np.prod(domain, dtype=np.int64)) * case.bytes_per_point(dtype)
        found: list[float] = []
        for other in (run, run.turned()):
            there = calls(run, case, fields, domain, dtype)
            again = calls(other, case, back, domain, dtype)

            def both(there: Any = there, again: Any = again) -> None:
                there()
                again()

            both()
            graph = record(both, 8)
            found.append(self.clock.compared(graph.launch, dtype).share(moved))
        del fields, back
        self.device.get_default_memory_pool().free_all_blocks()
        return Steps(case.name, dtype, domain, *found)


def schedule_of(case: Case, dtype: str) -> Schedule:
    artifact: Any = compiled_for(case, dtype, "cuda").artifact
    return artifact.schedule


def calls(
    run: Any, case: Case, fields: dict[str, Any], domain: Domain, dtype: str
) -> Callable[[], None]:
    scalars, origins = typed_scalars(case, dtype), dict.fromkeys(fields, case.halo)
    return lambda: run(fields, scalars, origins, domain)


def cut(tile: Tile, strips: int, domain: Domain) -> Tile:
    """Return a tile whose blocks run in so many strips; on one level, in so many columns."""
    if strips == 1:
        return replace(tile, strip=0, column=0)
    if domain[2] == 1:
        wide = tile.block[0] * tile.width
        return replace(tile, column=max(1, -(-domain[0] // (strips * wide))))
    return replace(tile, strip=max(1, -(-domain[1] // (strips * tile.block[1] * tile.rows))))


@dataclass(frozen=True)
class Plan:
    """A line to be: tiles by the number of strips."""

    case: Case
    dtype: str
    domain: Domain
    tile: str
    straight: dict[int, Tile]
    chosen: int | None = None

    def work(self) -> Work:
        return self.case, self.dtype, self.domain, tuple(self.straight.values())

    def figure(self, bench: Bench) -> Figure:
        found = bench.shares(self.case, self.dtype, self.domain, self.straight)
        return Figure(
            self.case.name,
            self.dtype,
            self.domain,
            self.tile,
            found,
            self.chosen,
        )


def single(shrink: int) -> Iterator[Plan]:
    """Yield kernels whose threads have points of one level each."""
    for (name, size), dtype in ((s, d) for s in SINGLE for d in DTYPES):
        domain = small_of(size, shrink)
        for block, width in ((b, w) for b in BLOCKS for w in (1, 16 // np.dtype(dtype).itemsize)):
            straight = {n: cut(Tile(block, width=width), n, domain) for n in STRIPS}
            words = f"{block[0]} x {block[1]} threads of {width} points"
            yield Plan(NAMED[name], dtype, domain, words, straight)


def usual(shrink: int) -> Iterator[Plan]:
    """Yield the kernels that the cost model chooses, cut in other ways as well."""
    for (name, size), dtype in ((s, d) for s in USUAL for d in DTYPES):
        case, domain = NAMED[name], small_of(size, shrink)
        schedule = schedule_of(case, dtype)
        (tile,) = tiles_of(schedule, usual_variant(schedule), domain).values()
        rows, wide = tile.block[1] * tile.rows, tile.block[0] * tile.width
        chosen = -(-domain[1] // (tile.strip * rows)) if tile.strip else 1
        if tile.column:
            chosen = -(-domain[0] // (tile.column * wide))
        words = (
            f"{tile.block[0]} x {tile.block[1]} threads, width {tile.width}, rows {tile.rows},"
            f" depth {tile.depth}, planes {tile.planes}"
        )
        straight = {n: cut(tile, n, domain) for n in (1, 2, 4, 8)} | {chosen: tile}
        yield Plan(case, dtype, domain, words, straight, chosen)


def both_ways(place: tuple[Case, str, Domain]) -> Work:
    """Return what steps need: the usual tile, and its blocks from the last to the first."""
    case, dtype, domain = place
    schedule = schedule_of(case, dtype)
    (tile,) = tiles_of(schedule, usual_variant(schedule), domain).values()
    return case, dtype, domain, (tile, replace(tile, backward=True))


def small_of(domain: Domain, shrink: int) -> Domain:
    i, j, k = domain
    return max(64, i // shrink), max(64, j // shrink), max(1, k // shrink)


def line(figure: Figure) -> str:
    """Return a figure as a line of the table."""
    size = "x".join(map(str, figure.domain))
    strips = " ".join(f"{n}:{share:.3f}" for n, share in sorted(figure.strips.items()))
    chosen = "" if figure.chosen is None else f" chosen {figure.chosen}"
    head = f"{figure.case:15}{figure.dtype:8}{size:14}"
    return f"{head} gain {figure.gain:.2f}{chosen} {strips} ({figure.tile})"


def main() -> int:
    """Print the figures and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    device: Any = importlib.import_module("cupy")
    shrink = 16 if options.small else 1
    figures: list[Figure] = []
    steps: list[Steps] = []

    def save() -> None:
        results = {
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "commit": options.commit,
            "device": describe(device),
            "figures": [asdict(f) | {"gain": f.gain} for f in figures],
            "steps": [asdict(s) for s in steps],
        }
        options.result.write_text(json.dumps(results, indent=1) + "\n")

    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(device, Path(folder), small=options.small, rounds=options.rounds)
        plans = list(chain(single(shrink), usual(shrink)))
        stepped = [(NAMED[n], d, small_of(size, shrink)) for n, size in STEPPED for d in DTYPES]
        bench.compile(chain((p.work() for p in plans), map(both_ways, stepped)))
        for plan in plans:
            figures.append(plan.figure(bench))
            print(line(figures[-1]), flush=True)
        save()
        for case, dtype, domain in stepped:
            one = bench.steps(case, dtype, domain)
            steps.append(one)
            print(
                f"{one.case:15}{one.dtype:8}{'x'.join(map(str, one.domain)):14}"
                f" steps one way {one.forward:.3f}, turning {one.turning:.3f}",
                flush=True,
            )
    save()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
