"""Check and time matrix products on a real device; prints tables, writes JSON.

    PYTHONPATH=engine python tests/benchmarks/gpu_matmul.py RESULT.json --commit COMMIT
        [--seconds 60] [--place /dev/shm] [--only sweep|kernels|far ...]

Needs NumPy, CuPy and the engine. `kernels`, float32: the orders of the seed (a thread an element,
by rows, by tiles, down columns), cuBLAS without TF32, and all cuts of the fast kernel, in rounds
that follow each other; shares are those of cuBLAS's rate, medians of the rounds' ratios. Every
kernel's result is compared bit by bit with that of the order by rows. `sweep`, float32: the usual
cut for many sizes, see `matmul_sweep`. `far`, float64: `matmul`
from Zarr to Zarr in `--place`, with less device memory, and less host memory, granted than the
operands take, and once from arrays to an array; the rate is that of the whole call, and of the
stream of panels in it, as shares of cuBLAS's rate for the same product in the device's memory. A
call before warms up page-locked memory. Rows of the result are compared with cuBLAS's.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import xarray as xr

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import matmul_sweep
from column_formulas import order_width
from matmul_kernels.cuda import ORDERS, Ends, Multipliers, room_bytes
from matmul_kernels.cuts import VARIANTS, Variant, shares_of, usual_variant

import halocline_engine as he
from halocline_engine.datasets.untyped import ZARR
from halocline_engine.device.io.copy_threads import CopyThreads
from halocline_engine.device.launch.calls import system_calls
from halocline_engine.device.machine import current_machine
from halocline_engine.device.memory.zero_copy import PinnedRows
from halocline_engine.distribute.products.work import tile_threads
from halocline_engine.distribute.tasks.events import Event, Finished, Planned
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.kernels.machine import Library

#: Rows, columns and inner size; those of odd sizes have rows that are not aligned.
SHAPES = (
    (1024, 1024, 1024),
    (1023, 1023, 1023),
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (6000, 5000, 7001),
    (4099, 4097, 4101),
)
ROUNDS = 5
CHUNK = 2048
#: Rounds of a stage by itself, of which the best counts: the first one finds cold memory.
_RATE_ROUNDS = 4


class Bench:
    """The device and its kernels, compiled side by side, and the time that is left."""

    def __init__(self, seconds: float) -> None:
        self.cupy: Any = importlib.import_module("cupy")
        self.cublas: Any = importlib.import_module("cupy.cublas")
        self.machine = current_machine()
        self._code: dict[str, bytes] = {}
        count = self.machine.facts.multiprocessors
        self.multipliers = Multipliers(Library(self.machine, self._kept), count)
        self.end = time.monotonic() + seconds
        self.skipped: list[str] = []

    def _kept(self, name: tuple[str, str], make: Callable[[], bytes]) -> bytes:
        return self._code[name[0]] if name[0] in self._code else make()

    def compile(self, sources: Sequence[str]) -> None:
        with ThreadPoolExecutor(16) as pool:
            self._code.update(zip(sources, pool.map(self.machine.compile, sources), strict=True))

    def left(self, case: str) -> bool:
        there = time.monotonic() < self.end
        if not there:
            self.skipped.append(case)
        return there

    def seconds(self, work: Callable[[], object], calls: int) -> float:
        start, stop = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        start.record()
        for _ in range(calls):
            work()
        stop.record()
        stop.synchronize()
        return float(self.cupy.cuda.get_elapsed_time(start, stop)) / 1e3 / calls


def kernels(bench: Bench) -> list[dict[str, Any]]:
    """Return a figure for each kernel and shape."""
    bench.compile(matmul_sweep.sources())
    rows: list[dict[str, Any]] = []
    for shape in SHAPES:
        if bench.left(f"kernels {shape}"):
            rows += _kernels_of(bench, shape)
    return rows


def _kernels_of(bench: Bench, shape: tuple[int, int, int]) -> list[dict[str, Any]]:
    cupy = bench.cupy
    m, n, k = shape
    left = cupy.random.standard_normal((m, k), dtype=cupy.float32)
    right = cupy.random.standard_normal((k, n), dtype=cupy.float32)
    out, wanted, theirs = (cupy.empty((m, n), cupy.float32) for _ in range(3))
    places = (left.data.ptr, right.data.ptr)
    facts = bench.machine.facts
    size = max(room_bytes(cut, *shape, facts.multiprocessors) for cut in VARIANTS)
    room = cupy.zeros(size, cupy.uint8)
    ends = Ends(*places, out.data.ptr, m, n, k, room.data.ptr)
    wide = order_width(4, k, n, facts.multiprocessors * 2048, facts.cache)

    def cublas() -> None:
        bench.cublas.gemm("N", "N", left, right, out=theirs)

    bench.multipliers.in_order("rows", Ends(*places, wanted.data.ptr, m, n, k), "float32", n)
    cublas()
    exact = left[:64].astype(cupy.float64) @ right.astype(cupy.float64)
    scale = abs(left[:64]).astype(cupy.float64) @ abs(right).astype(cupy.float64)
    works: list[tuple[str, Callable[[], None]]] = [
        (order, _order(bench, order, ends, wide)) for order in ORDERS
    ]
    works += [
        (f"{variant.name} w{width}", _fast(bench, variant, ends, width))
        for variant in VARIANTS
        for width in _widths(bench, variant, n, k)
    ]
    # Cuts that add sums of parts have bits of their own.
    count = facts.multiprocessors
    parts = {cut.name for cut in VARIANTS if not shares_of(cut, *shape, count).chained}
    found: list[dict[str, Any]] = []
    usual = usual_variant(*shape, count)
    flop = 2.0 * m * n * k
    for name, work in works:
        if not bench.left(f"{name} {shape}"):
            continue
        out.fill(cupy.nan)
        work()
        same = None if name.split(" ")[0] in parts else bool((out == wanted).all())
        slow = name in ORDERS
        calls = 10 if flop < 1e10 else 1 if slow or flop > 5e11 else 3
        pairs = [
            (bench.seconds(work, calls), bench.seconds(cublas, calls))
            for _ in range(1 if slow and flop > 5e11 else ROUNDS)
        ]
        error = float((abs(out[:64] - exact) / scale).max())
        found.append(
            {
                "shape": shape,
                "kernel": name,
                "usual": name.split(" ")[0] == usual.name,
                "tflops": flop / median(own for own, _ in pairs) / 1e12,
                "cublas": flop / median(other for _, other in pairs) / 1e12,
                "share": median(other / own for own, other in pairs),
                "same_bits": same,
                "error": error,
            }
        )
    return found


def _order(bench: Bench, order: str, ends: Ends, width: int) -> Callable[[], None]:
    return lambda: bench.multipliers.in_order(order, ends, "float32", width)


def _fast(bench: Bench, variant: Variant, ends: Ends, width: int) -> Callable[[], None]:
    return lambda: bench.multipliers.multiply(ends, variant, width)


def _widths(bench: Bench, variant: Variant, n: int, k: int) -> list[int]:
    """Return widths of columns: that of the model, a narrow one, and that of rows."""
    facts = bench.machine.facts
    active = facts.multiprocessors * variant.resident * variant.rows * variant.columns
    model = order_width(4, k, n, active, facts.cache)
    most = -(-n // variant.columns)
    blocks = [min(most, max(1, model // variant.columns)), most]
    kept = dict.fromkeys(blocks)
    return [count * variant.columns for count in kept]


def far(bench: Bench, place: Path) -> list[dict[str, Any]]:
    """Return a figure for each product that is larger than what is granted."""
    found: list[dict[str, Any]] = []
    inside: dict[tuple[int, int], tuple[float, dict[int, Any]]] = {}
    rates: dict[str, float] = {}
    for m, k, device, host, calls, arrays in (
        (16384, 16384, 4.2e9, None, 6, False),
        (16384, 16384, 4.2e9, 2.0e9, 3, False),
        (16384, 16384, 4.2e9, None, 6, True),
        (32768, 16384, 8.4e9, None, 2, False),
        (49152, 16384, 12.5e9, None, 1, False),
        (32768, 32768, 14e9, None, 1, False),
    ):
        case = f"far {m} x {m}, inner {k}"
        space = shutil.disk_usage(place).free
        if space < 8.2 * (m * m + 2 * m * k):
            bench.skipped.append(f"{case}: {space} bytes free in {place}")
        elif bench.left(case):
            store = _operands(place, m, k)
            pool = bench.cupy.get_default_memory_pool()
            pool.free_all_blocks()
            if not found:
                rates.update(_rates(bench, store))
            if (m, k) not in inside:
                inside[m, k] = _inside(bench, store, m, k)
                pool.free_all_blocks()
            operands = _loaded(store, m, k) if arrays else store
            found.append(_far(operands, (m, k), inside[m, k], (device, host), calls))
            del operands
            found[-1]["bounds"] = _bounds(found[-1], m, k, rates)
            print(found[-1], flush=True)
    return found


def _loaded(store: Path, m: int, k: int) -> xr.Dataset:
    """Return the matrices of a store as arrays."""
    found: dict[str, Any] = {}
    for name, dims, shape in (("a", ("m", "k"), (m, k)), ("b", ("k", "n"), (k, m))):
        into = np.empty(shape)
        array = ZARR.open_array(str(store), path=name, mode="r")

        def read(
            at: tuple[int, int], name: str = name, into: Any = into, array: Any = array
        ) -> None:
            file = store / name / array.metadata.encode_chunk_key(at)
            row, column = (CHUNK * place for place in at)
            chunk = np.fromfile(file).reshape(CHUNK, CHUNK)
            into[row : row + CHUNK, column : column + CHUNK] = chunk

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(read, np.ndindex(*(size // CHUNK for size in shape))))
        found[name] = (dims, into)
    return xr.Dataset(found)


def _far(
    operands: Path | xr.Dataset,
    size: tuple[int, int],
    known: tuple[float, dict[int, Any]],
    limits: tuple[float, float | None],
    calls: int,
) -> dict[str, Any]:
    n, k = size
    flop, error = 2.0 * n * n * k, math.nan
    (inside, product_rows), (device, host) = known, limits
    granted = Options(
        device_memory_limit=int(device), memory_limit=None if host is None else int(host)
    )
    times: list[tuple[float, float]] = []
    planned: list[Planned] = []
    for call in range(calls + 1):
        output = None
        if isinstance(operands, Path):
            output = operands.with_name(f"product-{n}-{call}.zarr")
        done: list[float] = []

        def tell(event: Event, done: list[float] = done) -> None:
            if isinstance(event, Planned):
                planned.append(event)
            if isinstance(event, Finished):
                done.append(event.seconds)

        started = time.perf_counter()
        result = he.matmul(
            operands,
            left="a",
            right="b",
            dim="k",
            target="cuda",
            output=output,
            options=granted,
            on_event=tell,
        )
        times.append((time.perf_counter() - started, done[0]))
        if call == 0:
            error = max(
                float(np.abs(result["product"][row].values - values).max())
                for row, values in product_rows.items()
            )
            times.clear()
        del result
        if output is not None:
            shutil.rmtree(output)
    whole, stream = (min(one[at] for one in times) for at in (0, 1))
    return {
        "from": "files" if isinstance(operands, Path) else "arrays",
        "rows_and_columns": n,
        "inner": k,
        "granted_device": device,
        "granted_host": host,
        "operands": 2 * n * k * 8,
        "plan": planned[0].reason,
        "projected": planned[0].projected_bytes,
        "inside_tflops": inside,
        "whole_tflops": flop / whole / 1e12,
        "whole_share": flop / whole / 1e12 / inside,
        "stream_tflops": flop / stream / 1e12,
        "stream_share": flop / stream / 1e12 / inside,
        "seconds": times,
        "error": error,
        "error_bound": 1e-13 * k,
    }


def _operands(place: Path, m: int, k: int) -> Path:
    """Return a store of two random matrices in plain chunks; it is made once."""
    store = place / f"operands-{os.getpid()}-{m}-{k}.zarr"
    if store.exists():
        return store
    for old in place.glob(f"operands-{os.getpid()}-*.zarr"):
        shutil.rmtree(old)
    ZARR.create_group(str(store), zarr_format=3)
    rng = np.random.default_rng(m)
    base = [rng.standard_normal((CHUNK, CHUNK)) for _ in range(4)]
    files: list[tuple[Path, int]] = []
    for name, dims, shape in (("a", ("m", "k"), (m, k)), ("b", ("k", "n"), (k, m))):
        array = ZARR.create_array(
            store=str(store),
            name=name,
            shape=shape,
            chunks=(CHUNK, CHUNK),
            dtype="float64",
            compressors=None,
            dimension_names=dims,
            zarr_format=3,
        )
        for at in np.ndindex(shape[0] // CHUNK, shape[1] // CHUNK):
            file = store / name / array.metadata.encode_chunk_key(at)
            file.parent.mkdir(parents=True, exist_ok=True)
            files.append((file, len(files)))

    def write(item: tuple[Path, int]) -> None:
        file, number = item
        np.roll(base[number % 4], number, axis=0).tofile(file)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(write, files))
    return store


def _inside(bench: Bench, store: Path, m: int, k: int) -> tuple[float, dict[int, Any]]:
    """Return cuBLAS's rate for the product in the device's memory, and some rows of it."""
    cupy = bench.cupy
    arrays = [_uploaded(bench, store, name) for name in "ab"]
    out = cupy.empty((m, m))

    def multiply() -> None:
        bench.cublas.gemm("N", "N", *arrays, out=out)

    multiply()
    rate = 2.0 * m * m * k / min(bench.seconds(multiply, 1) for _ in range(2)) / 1e12
    return rate, {row: cupy.asnumpy(out[row]) for row in (0, 1, m // 2 + 77, m - 1)}


def _uploaded(bench: Bench, store: Path, name: str) -> Any:
    """Return a matrix in device memory."""
    array = ZARR.open_array(str(store), path=name, mode="r")
    into = bench.cupy.empty(array.shape)

    def bring(at: tuple[int, int]) -> None:
        file = store / name / array.metadata.encode_chunk_key(at)
        row, column = (CHUNK * place for place in at)
        chunk = bench.cupy.asarray(np.fromfile(file).reshape(CHUNK, CHUNK))
        into[row : row + CHUNK, column : column + CHUNK] = chunk

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(bring, np.ndindex(*(size // CHUNK for size in array.shape))))
    bench.cupy.cuda.Device().synchronize()
    return into


def _rates(bench: Bench, store: Path) -> dict[str, float]:
    """Return bytes a second of each stage by itself: files to the device, and so on."""
    threads, size = tile_threads("cuda"), 16 << 20
    device, stream = (
        bench.cupy.empty(size, bench.cupy.uint8),
        bench.cupy.cuda.Stream(non_blocking=True),
    )
    there, event = device.data.ptr, bench.cupy.cuda.Event(disable_timing=True)
    files = sorted((store / "a").rglob("c/*/*"))
    made = [store.with_name(f"written-{number}") for number in range(8 * threads)]
    parts = [(file, at) for file in files for at in range(0, file.stat().st_size, size)]
    found: dict[str, float] = {}
    for name, lents in (
        ("read", [PinnedRows(1, size, at, size, path=file) for file, at in parts]),
        ("write", [PinnedRows(1, size, 0, size, path=file, size=size) for file in made]),
    ):
        copy_threads = CopyThreads(threads, system_calls(), out=name == "write", name=name)
        copies = [(lent, there, size) for lent in lents]
        for _ in range(_RATE_ROUNDS):
            for file in made:
                file.unlink(missing_ok=True)
            started = time.perf_counter()
            nbytes = copy_threads.put(copies, stream, event).result(60)
            stream.synchronize()
            rate = nbytes / (time.perf_counter() - started)
            found[name] = max(rate, found.get(name, 0.0))
        copy_threads.close()
    for file in made:
        file.unlink()
    buffer = bench.cupy.cuda.alloc_pinned_memory(size)
    runtime = bench.cupy.cuda.runtime
    for name, kind in (("up", runtime.memcpyHostToDevice), ("down", runtime.memcpyDeviceToHost)):
        ends = (there, buffer.ptr)
        to, of = ends if name == "up" else ends[::-1]

        def copy(to: int = to, of: int = of, kind: int = kind) -> None:
            runtime.memcpyAsync(to, of, size, kind, bench.cupy.cuda.get_current_stream().ptr)

        copy()
        found[name] = size / bench.seconds(copy, 20)
    print({name: f"{rate / 1e9:.1f} GB/s" for name, rate in found.items()}, flush=True)
    return found


def _bounds(figure: dict[str, Any], m: int, k: int, rates: dict[str, float]) -> dict[str, float]:
    """Return the seconds that each stage would take by itself."""
    read, written = int(figure["plan"].split(",")[-1].split()[0]), 8 * m * m
    return {
        "read": read / rates["read"],
        "up": read / rates["up"],
        "multiply": 2.0 * m * m * k / figure["inside_tflops"] / 1e12,
        "down": written / rates["down"],
        "write": written / rates["write"],
    }


def _table(figures: dict[str, Any]) -> None:
    for one in sorted(figures.get("kernels", []), key=lambda f: (f["shape"], -f["share"])):
        shape = "x".join(map(str, one["shape"]))
        print(
            f"{shape:18} {one['kernel']:40} {one['tflops']:7.2f} TFLOP/s"
            f" {one['share']:6.3f} of {one['cublas']:6.2f}"
            f"{'  OTHER BITS' if one['same_bits'] is False else ''} {one['error']:.1e}"
            f"{'  usual' if one['usual'] else ''}"
        )
    print(*matmul_sweep.lines(figures.get("sweep", [])), sep="\n")
    for one in figures.get("far", []):
        print({key: value for key, value in one.items() if key != "seconds"})
    best = [f for f in figures.get("kernels", []) if math.prod(f["shape"]) >= 4096**3]
    print(
        "skipped:", figures["skipped"], "; best large:", max((f["share"] for f in best), default=0)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--commit", default="")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--place", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--only", nargs="*", default=("far", "kernels", "sweep"))
    asked = parser.parse_args()
    bench = Bench(asked.seconds)
    figures: dict[str, Any] = {
        "commit": asked.commit,
        "time": datetime.now(UTC).isoformat(),
        "device": bench.machine.facts.name,
    }

    def save() -> None:
        figures["skipped"] = bench.skipped
        asked.result.write_text(json.dumps(figures, indent=1, default=str))

    if "sweep" in asked.only:
        figures |= matmul_sweep.figures(bench)
        save()
    if "kernels" in asked.only:
        figures["kernels"] = kernels(bench)
        save()
        _table(figures)
    if "far" in asked.only:
        with tempfile.TemporaryDirectory(prefix="halocline-", dir=asked.place) as folder:
            figures["far"] = far(bench, Path(folder))
    save()
    _table(figures)


if __name__ == "__main__":
    main()
