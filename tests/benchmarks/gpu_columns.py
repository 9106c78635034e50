"""Check and time a composed column expression on a real device, in both layouts and every form.

    PYTHONPATH=engine python tests/benchmarks/gpu_columns.py RESULT.json --commit COMMIT
        [--small] [--sweep] [--points] [--seconds 110]

`DivergenceF2C(f * GradientC2F(a * b))` with a flux of 0 through both ends, over 64, 128, 300 and
1000 levels, at least 1 GiB of fields. Elements lie along K or along I. What threads share in shared
memory is a variant: each value in its own place, all in places used again, or nothing. Along I,
threads climb and keep it in registers. With `--points`, kernels of points follow.
`--sweep` tries more sizes of blocks and of the share of a thread.

A share is that of copying 1 GiB with the same element type: calls that are queued behind one under
way, between CUDA events, in rounds with copies before and after; the median of the rounds' ratios.
The bytes are the compulsory ones: a and b on the centres and f on the inner faces once in, the
result once out. The first and last columns of every result are compared with the reference, bit by
bit, in memory that was NaN.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from column_cases import lowered, stretched
from gpu_stencil import describe

from halocline_engine.analysis.extents import analyse
from halocline_engine.backends.base import Memory
from halocline_engine.backends.cuda.kernels.choose import TileFor, tile_for
from halocline_engine.backends.cuda.kernels.levels.tile import levels_tile
from halocline_engine.backends.cuda.kernels.points.tile import points_tile
from halocline_engine.backends.cuda.kernels.rolling.tile import rolling_tile
from halocline_engine.backends.cuda.model.entries import Entry, Variant
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.backends.cuda.runtime.executable import CudaExecutable
from halocline_engine.backends.reference.build import ReferenceBackend
from halocline_engine.cache import Cache
from halocline_engine.device.cupy_types import cupy
from halocline_engine.device.machine import current_machine
from halocline_engine.ir.columns.formulas.metric import CENTRE_WIDTH, FACE_WIDTH
from halocline_engine.ir.columns.table import At
from halocline_engine.schedule.levels.exchange import Form
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.plan import plan

TEXT = "DivergenceF2C(bottom=SetValue(0.0), top=SetValue(0.0))(f * GradientC2F()(a * b))"
PLACES = {"a": At.CENTRE, "b": At.CENTRE, "f": At.FACE}
LEVELS = (64, 128, 300, 1000)
DTYPES = ("float64", "float32")
LAYOUTS = ("K", "I")
BYTES = 2**30
ROUNDS = 7
CALLS = 5
#: Columns along I and J that are compared, at the first and at the last corner.
CORNER = (19, 7)


@dataclass(frozen=True)
class Line:
    """One line of the table; `share` of the copy's rate, which is in GB/s."""

    layout: str
    levels: int
    dtype: str
    variant: str
    tile: str
    share: float
    milliseconds: float
    copy: float
    seconds: float


def shared(form: Form, rows: int = 0, threads: int = 0) -> TileFor:
    """Return the choice of threads along K that share as `form` says."""

    def choose(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile:
        found = levels_tile(entry, schedule, variant, domain, form, rows, threads)
        if found is None:
            raise ValueError("the threads of this kernel cannot lie along K")
        return found

    return choose


def climbing(**parts: Any) -> TileFor:
    """Return the choice of threads that climb, with some parts of the tile replaced."""

    def choose(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile:
        found = rolling_tile(entry, schedule, variant, domain)
        if found is None:
            raise ValueError("the threads of this kernel cannot climb")
        return replace(found, **parts)

    return choose


def variants(layout: str, *, sweep: bool, points: bool = False) -> Iterator[tuple[str, TileFor]]:
    """Yield what is compared in a layout, by name."""
    yield "as chosen", tile_for
    if layout == "I":
        yield "one level ahead", climbing(ahead=1)
        yield "parts of 32", climbing(depth=32)
        yield "16 bytes a thread", climbing(width=4)
        if sweep:
            for ahead, depth in ((n, d) for n in (1, 2, 3, 4) for d in (16, 48, 64, 128)):
                yield "swept", climbing(ahead=ahead, depth=depth)
    else:
        for form in Form:
            yield form.value, shared(form)
        yield "direct, 1 column", shared(Form.DIRECT, 1)
        for threads in (256, 512):
            yield f"nodes, {threads} threads", shared(Form.NODES, 0, threads)
        if sweep:
            for threads in (96, 128, 192, 256, 384, 512):
                for rows in (2, 4, 8):
                    yield "swept", shared(Form.NODES, rows, threads)
    if points:
        yield "points", points_tile


def sizes(levels: int, itemsize: int, *, small: bool) -> tuple[int, int]:
    """Return numbers of columns along I and J: a and b, f and the result are 1 GiB or more."""
    columns = 300 if small else -(-BYTES // (4 * levels * itemsize))
    wide = 19 if small else 1021
    return wide, -(-columns // wide)


def fields_for(
    device: Any, memory: Memory, layout: str, dtype: str, shape: tuple[int, int, int]
) -> dict[str, Any]:
    """Return fields on the device, indexed [i, j, level]; the result is NaN."""
    wide, deep, levels = shape
    column = stretched(levels, 0.0, 1.0, 0.5)
    made: dict[str, Any] = {}
    for name, count in (("a", levels), ("b", levels), ("f", levels + 1), ("result", levels)):
        if layout == "K":
            array = device.empty((wide, deep, count), dtype)
        else:
            array = memory.empty((wide, deep, count), np.dtype(dtype), (0, 0, 0))
        if name == "result":
            array[...] = np.nan
        else:
            for i in range(wide):
                array[i] = device.random.random((deep, count), dtype=dtype) + 0.5
        made[name] = array
    for name, widths in ((CENTRE_WIDTH, column.centre_widths), (FACE_WIDTH, column.face_widths)):
        made[name] = device.asarray(widths.astype(dtype))[None, None]
    return made


def wrong(device: Any, schedule: Schedule, fields: Mapping[str, Any], domain: Domain) -> str:
    """Return how the first or the last columns differ from the reference, or nothing."""
    wide, deep = (min(c, n) for c, n in zip(CORNER, domain, strict=False))
    for cut in ((slice(wide), slice(deep)), (slice(-wide, None), slice(-deep, None))):
        host = {name: device.asnumpy(array[cut]) for name, array in fields.items()}
        for name in (CENTRE_WIDTH, FACE_WIDTH):
            host[name] = host[name][0, 0][None, None]
        got = host["result"]
        expected = {**host, "result": np.full_like(got, np.nan)}
        origins = dict.fromkeys(host, (0, 0, 0))
        run = ReferenceBackend().build(schedule).load()
        run(expected, {}, origins, (wide, deep, domain[2]))
        bad = np.argwhere(~(got == expected["result"]))
        if len(bad):
            i, j, k = bad[0]
            pair = f"{got[i, j, k]} for {expected['result'][i, j, k]}"
            missing = np.count_nonzero(np.isnan(got))
            return f"{len(bad)} of {got.size} wrong, {missing} missing, first {i, j, k}: {pair}"
    return ""


def timed(device: Any, work: Callable[[], object], calls: int = CALLS) -> float:
    """Return the seconds of a call, of several queued behind one that is under way."""
    start, end = device.cuda.Event(), device.cuda.Event()
    work()
    start.record()
    for _ in range(calls):
        work()
    end.record()
    end.synchronize()
    return float(device.cuda.get_elapsed_time(start, end)) / 1e3 / calls


def compared(
    device: Any, work: Callable[[], object], dtype: str, *, small: bool
) -> tuple[list[float], list[float]]:
    """Return the seconds of each round, and the rates of the copies around it."""
    source = device.ones((2**20 if small else BYTES) // np.dtype(dtype).itemsize, dtype)
    target = device.empty_like(source)

    def copy() -> None:
        device.copyto(target, source)

    seconds: list[float] = []
    copies: list[float] = []
    for warm in (work, copy):
        timed(device, warm, 1)
    for _ in range(2 if small else ROUNDS):
        before = timed(device, copy)
        seconds.append(timed(device, work))
        after = timed(device, copy)
        copies.append(4 * source.nbytes / (before + after))
    return seconds, copies


@dataclass(frozen=True)
class Trial:
    """A variant that is alive: `tiles` are those that it chose, `seconds` its first call's."""

    name: str
    run: CudaExecutable
    tiles: list[Tile]
    seconds: float


def trial(
    schedule: Schedule, cache: Path, name: str, choose: TileFor, call: Callable[..., object]
) -> Trial | str:
    """Return a variant after its first call, or why there is none."""
    tiles: list[Tile] = []

    def noted(entry: Entry, made: Schedule, variant: Variant, domain: Domain) -> Tile:
        tiles.append(choose(entry, made, variant, domain))
        return tiles[-1]

    began = perf_counter()
    try:
        run = CudaExecutable(schedule, current_machine(), Cache(cache), noted)
        call(run)
    except Exception as error:  # a variant that fails says so, and stops no other
        return f"{name}: {error!r}"[:400]
    return Trial(name, run, tiles, perf_counter() - began)


def lines(options: argparse.Namespace, cache: Path, began: float) -> Iterator[Line]:
    """Yield the lines of the table; the variants of a case are compiled side by side."""
    device: Any = cupy()
    cases = [(y, n, d) for y in LAYOUTS for n in LEVELS for d in DTYPES]
    for layout, levels, dtype in cases:
        if perf_counter() - began > options.seconds:
            return
        wide, deep = sizes(levels, np.dtype(dtype).itemsize, small=options.small)
        program = lowered(TEXT, PLACES, stretched(levels, 0.0, 1.0, 0.5).shape, dtype=dtype)
        schedule = plan(program, analyse(program))
        domain = (wide, deep, levels + 1)
        memory = CudaExecutable(schedule, current_machine(), Cache(cache)).memory
        fields = fields_for(device, memory, layout, dtype, (wide, deep, levels))

        def call(run: CudaExecutable, fields: Any = fields, domain: Domain = domain) -> None:
            run(fields, {}, dict.fromkeys(fields, (0, 0, 0)), domain)

        with ThreadPoolExecutor(16) as pool:
            made = [
                pool.submit(trial, schedule, cache, name, choose, call)
                for name, choose in variants(layout, sweep=options.sweep, points=options.points)
            ]
        for each in made:
            found = each.result()
            if isinstance(found, str):
                print(f"{layout} {levels} {dtype} {found}", flush=True)
                continue
            if perf_counter() - began > options.seconds:
                return
            fields["result"][...] = np.nan
            call(found.run)
            different = wrong(device, schedule, fields, domain)
            if different:
                print(f"{layout} {levels} {dtype} {found.name}: {different}", flush=True)
                continue
            work = partial(call, found.run)
            seconds, copies = compared(device, work, dtype, small=options.small)
            moved = wide * deep * (4 * levels - 1) * np.dtype(dtype).itemsize
            pairs = zip(seconds, copies, strict=True)
            yield Line(
                layout,
                levels,
                dtype,
                found.name,
                words(found.tiles[-1]),
                median(moved / time / rate for time, rate in pairs),
                1e3 * median(seconds),
                median(copies) / 1e9,
                found.seconds,
            )
        fields.clear()
        device.get_default_memory_pool().free_all_blocks()


def words(tile: Tile) -> str:
    """Return what a thread and a block have."""
    kind = ("direct", "nodes", "staging", "rings")[tile.share]
    start = f"{kind}, ahead {tile.ahead}, width {tile.width}"
    start = kind if tile.along else start if tile.share else f"points, width {tile.width}"
    return f"{start}, {tile.block[0]}x{tile.block[1]}, rows {tile.rows}, depth {tile.depth}"


def text_of(one: Line) -> str:
    start = f"{one.layout:7}{one.levels:7d} {one.dtype:9}{one.share:7.3f}{one.milliseconds:8.3f}"
    return f"{start}{one.copy:7.0f}{one.seconds:6.2f}s  {one.variant} ({one.tile})"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Time column expressions on a device.")
    parser.add_argument("result", type=Path, help="where to write the figures as JSON")
    parser.add_argument("--commit", default="unknown", help="the commit that is measured")
    parser.add_argument("--small", action="store_true", help="small fields, to try the script")
    parser.add_argument("--sweep", action="store_true", help="more variants")
    parser.add_argument("--points", action="store_true", help="kernels of points as well")
    parser.add_argument("--seconds", type=float, default=110.0, help="no new one after this time")
    options = parser.parse_args(arguments)
    began = perf_counter()
    made: list[Line] = []
    print(
        f"{'layout':7}{'levels':>7} {'dtype':9}{'share':>7}{'ms':>8}{'copy':>7}{'first':>7}  what"
    )
    with tempfile.TemporaryDirectory(prefix="halocline-bench-") as folder:
        for one in lines(options, Path(folder), began):
            made.append(one)
            print(text_of(one), flush=True)
    record = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": options.commit,
        "device": describe(cupy()),
        "text": TEXT,
        "bytes": "4 n - 1 elements a column of n levels",
        "lines": [asdict(one) for one in made],
    }
    options.result.write_text(json.dumps(record, indent=1) + "\n")
    return 0 if made else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
