"""Time and count rows against columns in the loops of the `cpu` target; prints one table.

    python tests/benchmarks/cpu_column_order.py [--result RESULT.json] [--commit COMMIT]
        [--rounds 15] [--count] [--only NAME ...]

Each case runs in row order, in columns as the model cuts them, and in columns of which every other
one is walked from its end, one after the other in rounds; what counts is the least of all rounds,
because other work on the machine only ever adds. All orders must give the same bits.

Sizes whose rows or planes fit are there to see that nothing is lost; where a column has all rows
and is as wide as they are, all orders run the same loops, and what differs is noise.

`--count` runs the machine code of smaller cases under `valgrind --tool=cachegrind` (`cpu_counts`),
with the first two levels of a core here; it needs `NUMBA_CPU_NAME=haswell`, because the simulator
has no wider vectors.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import numba
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from cpu_counts import PROCESSOR, Program
from cpu_stencil import versions
from lowered import lower
from processors import processor
from report_kernels import table

from halocline_engine.analysis.extents import analyse
from halocline_engine.backends.cpu.build import CpuBackend
from halocline_engine.backends.cpu.caches import Caches, read_caches
from halocline_engine.backends.cpu.columns import Cut, cut, reuse_of
from halocline_engine.ir.types import Axis
from halocline_engine.language.gtscript import parse
from halocline_engine.passes.pipeline import PASSES
from halocline_engine.schedule.nodes import Kernel, Schedule
from halocline_engine.schedule.options import Options
from halocline_engine.schedule.plan import plan
from halocline_engine.schedule.traversal.walks import Walk, WalkOrder

Domain = tuple[int, int, int]
PAGE = Path(__file__).parents[2] / "docs" / "performance" / "column-order.md"
ORDERS: tuple[WalkOrder, ...] = ("row", "column", "zigzag")


def box(radius: int) -> str:
    """Return the sum of a square of points, row by row."""
    reach = range(-radius, radius + 1)
    rows = (" + ".join(f"a[{i}, {j}, 0]" for i in reach) for j in reach)
    return " + ".join(f"({row})" for row in rows)


def star(radius: int, axes: int) -> str:
    """Return the sum of a point and its neighbours along the first axes."""
    terms = ["a"]
    for reach in range(1, radius + 1):
        for axis in range(axes):
            far = [0, 0, 0]
            far[axis] = reach
            near = [-n for n in far]
            terms.append(f"(a{far} + a{near})")
    return " + ".join(terms)


@dataclass(frozen=True)
class Shape:
    """What is summed, how far it reaches along I, J and K, and the sizes that are timed."""

    name: str
    body: str
    halo: Domain
    sizes: tuple[Domain, ...]

    @property
    def text(self) -> str:
        return (
            "def program(a: Field[np.float64], x: Field[np.float64]):\n"
            "    with computation(PARALLEL), interval(...):\n"
            f"        x = 0.125 * ({self.body})\n"
        )


FLAT: tuple[Domain, ...] = ((4096, 2000, 1), (20_000, 400, 1), (100_000, 80, 1), (1_000_000, 32, 1))
DEEP: tuple[Domain, ...] = ((256, 256, 128), (1440, 721, 24), (20_000, 16, 48), (100_000, 8, 32))
SHAPES = (
    Shape("2-D star r=1", star(1, 2), (1, 1, 0), FLAT),
    Shape("2-D star r=4", star(4, 2), (4, 4, 0), FLAT),
    Shape("2-D box 5x5", box(2), (2, 2, 0), FLAT),
    Shape("2-D box 9x9", box(4), (4, 4, 0), FLAT),
    Shape("3-D star r=1", star(1, 3), (1, 1, 1), DEEP),
    Shape("3-D star r=4", star(4, 3), (4, 4, 4), DEEP),
)
#: Sizes of which the loops take seconds where each access is simulated.
COUNTED: Mapping[str, Domain] = {
    "2-D star r=1": (100_000, 48, 1),
    "2-D star r=4": (100_000, 48, 1),
    "2-D box 5x5": (100_000, 48, 1),
    "2-D box 9x9": (100_000, 48, 1),
    "3-D star r=1": (20_000, 16, 24),
    "3-D star r=4": (20_000, 16, 24),
}


@dataclass(frozen=True)
class Time:
    """The least milliseconds of each order, and how often as fast as rows columns are.

    A column has so many `rows` and is so wide; where it has all, the orders do the same.
    """

    case: str
    domain: Domain
    threads: int
    rows: int
    width: int
    milliseconds: Mapping[str, float]
    columns_gain: float
    zigzag_gain: float


@dataclass(frozen=True)
class Count:
    """Rows and width of the columns; lines fetched into two levels in one call, for each point."""

    case: str
    domain: Domain
    order: str
    rows: int
    width: int
    level1: float
    level2: float


def scheduled(shape: Shape, order: WalkOrder) -> Schedule:
    """Return the schedule of a shape in an order."""
    program = lower(parse(shape.text))
    for rewrite in PASSES:
        program = rewrite(program)
    return plan(program, analyse(program), Options(walk=Walk(order)))


def timed(shape: Shape, domain: Domain, threads: int, rounds: int, caches: Caches) -> Time:
    """Time the orders of one case in turns, on the same arrays."""
    cast("Any", numba).set_num_threads(threads)
    random = np.random.default_rng(1)
    size = [n + 2 * h for n, h in zip(domain, shape.halo, strict=True)]
    a = random.random(size[::-1]).transpose(2, 1, 0)
    x = np.full(size[::-1], np.nan).transpose(2, 1, 0)
    origins = {"a": shape.halo, "x": shape.halo}
    runs: dict[str, Callable[[], None]] = {}
    for order in ORDERS:
        executable = CpuBackend().build(scheduled(shape, order)).load()
        runs[order] = partial(executable, {"a": a, "x": x}, {}, origins, domain)
        before = x.copy()
        x[...] = np.nan
        runs[order]()
        if order != ORDERS[0]:
            np.testing.assert_array_equal(x, before)
    best = dict.fromkeys(ORDERS, float("inf"))
    for _ in range(rounds):
        for order in ORDERS:
            began = perf_counter()
            runs[order]()
            best[order] = min(best[order], perf_counter() - began)
    found = cut_of(shape, domain, "column", caches)
    milliseconds = {order: seconds * 1e3 for order, seconds in best.items()}
    gains = (best["row"] / best[order] for order in ORDERS[1:])
    return Time(
        shape.name, domain, threads, min(domain[1], found.rows), found.width, milliseconds, *gains
    )


def cut_of(shape: Shape, domain: Domain, order: WalkOrder, caches: Caches) -> Cut:
    """Return how an order cuts the loops of a shape."""
    schedule = scheduled(shape, order)
    (kernel,) = schedule.steps
    assert isinstance(kernel, Kernel)
    return cut(reuse_of(kernel, schedule, Axis.I), kernel, domain, schedule.walk, caches)


def counted(shape: Shape, caches: Caches) -> Iterator[Count]:
    """Count what a call of each order fetches."""
    domain = COUNTED[shape.name]
    points = int(np.prod(domain))
    for order in ORDERS:
        found = cut_of(shape, domain, order, caches)
        with tempfile.TemporaryDirectory() as folder:
            program = Program.of(scheduled(shape, order), Path(folder))
            fetched = program.fetched(domain, shape.halo, found, caches)
        yield Count(
            shape.name,
            domain,
            order,
            min(domain[1], found.rows),
            found.width,
            fetched.level1 / points,
            fetched.level2 / points,
        )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Rows against columns on the CPU.")
    parser.add_argument("--result", type=Path, help="where to write the figures as JSON")
    parser.add_argument("--commit", default="unknown", help="the commit that is measured")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--count", action="store_true", help="count with cachegrind as well")
    parser.add_argument("--no-times", action="store_true", help="do not time")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="the cases to run")
    parser.add_argument("--check", type=Path, help="whether the page has the tables of a result")
    options = parser.parse_args(arguments)
    if options.check:
        return check(options.check)
    if options.count and os.environ.get("NUMBA_CPU_NAME") != PROCESSOR:
        parser.error(f"counting needs NUMBA_CPU_NAME={PROCESSOR} in the environment")
    caches = read_caches()
    shapes = [s for s in SHAPES if not options.only or s.name in options.only]
    threads = sorted({1, int(cast("Any", numba).config.NUMBA_NUM_THREADS)})
    times: list[Time] = []
    for shape in shapes if not options.no_times else ():
        for domain in shape.sizes:
            for count in threads:
                times.append(timed(shape, domain, count, options.rounds, caches))
                print(_time_line(times[-1]), flush=True)
    counts: list[Count] = []
    for shape in shapes if options.count else ():
        for count in counted(shape, caches):
            counts.append(count)
            print(_count_line(count), flush=True)
    if options.result:
        record = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "commit": options.commit,
            "processor": processor(),
            "caches": asdict(caches),
            "rounds": options.rounds,
            "versions": {k: v for k, v in versions().items() if k != "gt4py"},
            "times": [asdict(t) for t in times],
            "counts": [asdict(c) for c in counts],
        }
        options.result.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    return 0


def tables(record: Mapping[str, Any]) -> str:
    """Return the times and the counts of a record as Markdown."""
    head = ("work", "size", "threads", "rows x width", "row ms", "column ms", "zigzag ms", "gain")
    times = [
        (
            t["case"],
            " x ".join(map(str, t["domain"])),
            str(t["threads"]),
            f"{t['rows']} x {t['width']}",
            *(f"{t['milliseconds'][order]:.1f}" for order in ORDERS),
            f"{t['columns_gain']:.2f}",
        )
        for t in record["times"]
    ]
    counts: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for c in record["counts"]:
        counts.setdefault((c["case"], " x ".join(map(str, c["domain"]))), []).append(c)
    rows = [
        (*key, *(f"{c['level2']:.3f}" for c in own), f"{own[0]['level2'] / own[1]['level2']:.2f}")
        for key, own in counts.items()
    ]
    again = ("work", "size", "row", "column", "zigzag", "fewer")
    return f"{table(head, times)}\n\n{table(again, rows)}"


def check(result: Path) -> int:
    """Return 0 if the page has the tables of a result, else 1, and print them."""
    text = tables(json.loads(result.read_text("utf-8")))
    if text in PAGE.read_text("utf-8"):
        return 0
    print(text)
    return 1


def _time_line(t: Time) -> str:
    cells = "".join(f"{t.milliseconds[order]:10.2f}" for order in ORDERS)
    size = "x".join(map(str, t.domain))
    head = f"{t.case:14}{size:18}{t.threads:3}{t.rows:6}{t.width:8}"
    return f"{head}{cells}{t.columns_gain:8.2f}{t.zigzag_gain:8.2f}"


def _count_line(c: Count) -> str:
    size = "x".join(map(str, c.domain))
    cut = f"{c.order:8}{c.rows:5}{c.width:8}"
    return f"{c.case:14}{size:18}{cut}{c.level1:9.3f}{c.level2:9.3f}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
