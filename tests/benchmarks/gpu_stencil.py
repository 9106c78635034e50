"""Check and time generated CUDA on a real device; run by hand, prints a table and writes JSON.

    PYTHONPATH=engine python tests/benchmarks/gpu_stencil.py RESULT.json [--small] [--blocks]

Needs NumPy, CuPy and the engine, nothing else. Each case runs first on a small grid with random
input against the reference, in memory that is NaN wherever nothing was put; then it is timed.

A time is that of many calls queued one behind the other, between two events, divided by their
number; the median of 20 such times counts. A rate is the compulsory bytes (each input read once,
each output written once) over that time, and is given as a share of what copying an array of 1 GiB
reaches, measured before and after the case with the same element type.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from halocline_engine.analysis.dependence import check
from halocline_engine.analysis.extents import analyse
from halocline_engine.backends.cuda.build import CudaBackend
from halocline_engine.backends.cuda.entries import Entry
from halocline_engine.backends.cuda.launch import Block, Domain
from halocline_engine.backends.cuda.run import CudaExecutable
from halocline_engine.backends.reference.build import ReferenceBackend
from halocline_engine.cache import Cache
from halocline_engine.device.machine import CudaMachine, current_machine
from halocline_engine.ir.lower import lower
from halocline_engine.language.gtscript import parse
from halocline_engine.passes.pipeline import PASSES
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.plan import plan

REPEATS = 20
HALO = 3
BLOCKS: tuple[Block, ...] = (
    (32, 1),
    (32, 2),
    (32, 4),
    (32, 8),
    (64, 1),
    (64, 2),
    (64, 4),
    (128, 1),
    (128, 2),
    (256, 1),
)
Arrays = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A program with its size; `passes` counts compulsory reads and writes of the whole domain.

    `inputs` gives the range from which each field that is read is drawn.
    """

    name: str
    text: str
    domain: Domain
    passes: int
    inputs: Mapping[str, tuple[float, float]]
    outputs: tuple[str, ...]
    scalars: Mapping[str, float]
    origin: tuple[int, int, int] = (HALO, HALO, 0)
    halo: tuple[int, int, int] = (HALO, HALO, 0)


FIVE_POINTS = """
def five(u: Field[{dtype}], v: Field[{dtype}], w: {dtype}):
    with computation(PARALLEL), interval(...):
        v = w * (u + u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0])
"""
SEVEN_POINTS = """
def seven(u: Field[{dtype}], v: Field[{dtype}], w: {dtype}):
    with computation(PARALLEL), interval(...):
        v = w * (u + u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0] + u[0, 0, -1] + u[0, 0, 1])
"""
DIFFUSION = """
def diffusion(inp: Field[{dtype}], coeff: Field[{dtype}], out: Field[{dtype}]):
    with computation(PARALLEL), interval(...):
        lap = {dtype}(4.0) * inp - (inp[-1, 0, 0] + inp[1, 0, 0] + inp[0, -1, 0] + inp[0, 1, 0])
        flx = lap[1, 0, 0] - lap
        flx = {dtype}(0.0) if flx * (inp[1, 0, 0] - inp) > {dtype}(0.0) else flx
        fly = lap[0, 1, 0] - lap
        fly = {dtype}(0.0) if fly * (inp[0, 1, 0] - inp) > {dtype}(0.0) else fly
        out = inp - coeff * (flx - flx[-1, 0, 0] + fly - fly[0, -1, 0])
"""
ADVECTION = """
def advection(utens_stage: Field[{dtype}], u_stage: Field[{dtype}], wcon: Field[{dtype}],
              u_pos: Field[{dtype}], utens: Field[{dtype}], out: Field[{dtype}], dtr: {dtype}):
    with computation(FORWARD):
        with interval(0, 1):
            gcv = {dtype}(0.25) * (wcon[1, 0, 1] + wcon[0, 0, 1])
            cs = gcv * {dtype}(0.5)
            ccol = gcv * {dtype}(0.5)
            bcol = dtr - ccol
            corr = -cs * (u_stage[0, 0, 1] - u_stage)
            dcol = dtr * u_pos + utens + utens_stage + corr
            divided = {dtype}(1.0) / bcol
            ccol = ccol * divided
            dcol = dcol * divided
        with interval(1, -1):
            gav = {dtype}(-0.25) * (wcon[1, 0, 0] + wcon)
            gcv = {dtype}(0.25) * (wcon[1, 0, 1] + wcon[0, 0, 1])
            as_ = gav * {dtype}(0.5)
            cs = gcv * {dtype}(0.5)
            acol = gav * {dtype}(0.5)
            ccol = gcv * {dtype}(0.5)
            bcol = dtr - acol - ccol
            corr = -as_ * (u_stage[0, 0, -1] - u_stage) - cs * (u_stage[0, 0, 1] - u_stage)
            dcol = dtr * u_pos + utens + utens_stage + corr
            divided = {dtype}(1.0) / (bcol - ccol[0, 0, -1] * acol)
            ccol = ccol * divided
            dcol = (dcol - dcol[0, 0, -1] * acol) * divided
        with interval(-1, None):
            gav = {dtype}(-0.25) * (wcon[1, 0, 0] + wcon)
            as_ = gav * {dtype}(0.5)
            acol = gav * {dtype}(0.5)
            bcol = dtr - acol
            corr = -as_ * (u_stage[0, 0, -1] - u_stage)
            dcol = dtr * u_pos + utens + utens_stage + corr
            divided = {dtype}(1.0) / (bcol - ccol[0, 0, -1] * acol)
            dcol = (dcol - dcol[0, 0, -1] * acol) * divided
    with computation(BACKWARD):
        with interval(-1, None):
            data = dcol
            out = dtr * (data - u_pos)
        with interval(0, -1):
            data = dcol - ccol * data[0, 0, 1]
            out = dtr * (data - u_pos)
"""
TRIDIAGONAL = """
def solve(a: Field[{dtype}], b: Field[{dtype}], c: Field[{dtype}], d: Field[{dtype}],
          x: Field[{dtype}]):
    with computation(FORWARD):
        with interval(0, 1):
            above = c / b
            right = d / b
        with interval(1, None):
            scale = {dtype}(1.0) / (b - above[0, 0, -1] * a)
            above = c * scale
            right = (d - a * right[0, 0, -1]) * scale
    with computation(BACKWARD):
        with interval(-1, None):
            x = right
        with interval(0, -1):
            x = right - above * x[0, 0, 1]
"""
NEAR = (-3.0, 3.0)
CASES = (
    Case("2d5pt", FIVE_POINTS, (16384, 16384, 1), 2, {"u": NEAR}, ("v",), {"w": 0.2}),
    Case(
        "3d7pt",
        SEVEN_POINTS,
        (768, 768, 768),
        2,
        {"u": NEAR},
        ("v",),
        {"w": 1 / 7},
        origin=(HALO, HALO, 1),
        halo=(HALO, HALO, 1),
    ),
    Case(
        "horizontal diffusion",
        DIFFUSION,
        (1024, 1024, 128),
        3,
        {"inp": NEAR, "coeff": (0.0, 0.1)},
        ("out",),
        {},
    ),
    Case(
        "vertical advection",
        ADVECTION,
        (1024, 1024, 80),
        6,
        {
            "utens_stage": NEAR,
            "u_stage": NEAR,
            "wcon": (-0.05, 0.05),
            "u_pos": NEAR,
            "utens": (-0.1, 0.1),
        },
        ("out",),
        {"dtr": 3 / 20},
    ),
    Case(
        "tridiagonal",
        TRIDIAGONAL,
        (1024, 1024, 80),
        5,
        {"a": (-1.0, 1.0), "b": (3.0, 4.0), "c": (-1.0, 1.0), "d": NEAR},
        ("x",),
        {},
    ),
)
#: The largest difference from the reference, as a multiple of the largest value.
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}


def scheduled(text: str, dtype: str) -> Schedule:
    """Compile a text up to its schedule."""
    program = lower(parse(text.format(dtype=dtype)))
    check(program)
    for rewrite in PASSES:
        program = rewrite(program)
    return plan(program, analyse(program))


def drawn(case: Case, domain: Domain, dtype: str) -> dict[str, NDArray[Any]]:
    """Return random inputs and NaN outputs in host memory, with the case's halo."""
    shape = tuple(n + 2 * h for n, h in zip(domain, case.halo, strict=True))
    rng = np.random.default_rng(7)
    fields: dict[str, NDArray[Any]] = {
        name: rng.uniform(*bounds, shape).astype(dtype) for name, bounds in case.inputs.items()
    }
    return fields | {name: np.full(shape, np.nan, dtype) for name in case.outputs}


def call(executable: Any, case: Case, fields: Arrays, domain: Domain, dtype: str) -> None:
    scalars = {name: np.dtype(dtype).type(value).item() for name, value in case.scalars.items()}
    executable(fields, scalars, dict.fromkeys(fields, case.origin), domain)


def verified(case: Case, schedule: Schedule, executable: CudaExecutable, dtype: str) -> float:
    """Return the largest relative difference from the reference; raises where it is too large."""
    domain = (45, 21, 1 if case.domain[2] == 1 else 11)
    expected = drawn(case, domain, dtype)
    memory = executable.memory
    fields = {
        name: memory.empty(cast("Any", array.shape), array.dtype, case.origin)
        for name, array in expected.items()
    }
    for name, array in expected.items():
        memory.upload(array, fields[name])
    call(ReferenceBackend().build(schedule).load(), case, expected, domain, dtype)
    call(executable, case, fields, domain, dtype)
    worst = 0.0
    for name, array in expected.items():
        got = memory.download(fields[name])
        np.testing.assert_array_equal(np.isnan(got), np.isnan(array), err_msg=f"{case.name} {name}")
        filled = ~np.isnan(array)
        scale = float(np.abs(array[filled]).max())
        worst = max(worst, float(np.abs(got - array)[filled].max()) / scale)
    if worst > TOLERANCE[dtype]:
        raise AssertionError(f"{case.name} {dtype}: off by {worst:.2e} of the largest value.")
    return worst


class Clock:
    """Times work on the current device."""

    def __init__(self, cupy: Any, *, small: bool) -> None:
        self._cupy = cupy
        self._bytes = 2**24 if small else 2**30

    def seconds(self, work: Callable[[], object]) -> float:
        """Return the median time of a call; many calls are queued, so the host does not count."""
        cuda = self._cupy.cuda
        for _ in range(3):
            work()
        cuda.get_current_stream().synchronize()
        calls = 1 if self._once(work, 1) > 0.05 else 10
        return median(self._once(work, calls) for _ in range(REPEATS))

    def _once(self, work: Callable[[], object], calls: int) -> float:
        cuda = self._cupy.cuda
        start, end = cuda.Event(), cuda.Event()
        start.record()
        for _ in range(calls):
            work()
        end.record()
        end.synchronize()
        return float(cuda.get_elapsed_time(start, end)) / 1e3 / calls

    def copy_rate(self, dtype: str) -> float:
        """Return the bytes per second, read and written, of copying an array."""
        count = self._bytes // np.dtype(dtype).itemsize
        source = self._cupy.ones(count, dtype)
        target = self._cupy.empty_like(source)
        return 2 * self._bytes / self.seconds(lambda: self._cupy.copyto(target, source))


@dataclass(frozen=True)
class Figure:
    """One line of the table; `rate` and `copy` in GB/s, `bytes_per_point` is compulsory."""

    case: str
    dtype: str
    block: str
    milliseconds: float
    bytes_per_point: int
    rate: float
    copy: float
    share: float
    error: float


def figures(cupy: Any, machine: CudaMachine, *, small: bool, blocks: bool) -> Iterator[Figure]:
    """Check and time every case; with `blocks`, in every block shape."""
    clock = Clock(cupy, small=small)
    cache = Cache(Path.home() / ".cache" / "halocline" / "cuda")
    shapes: tuple[Block | None, ...] = (None, *BLOCKS) if blocks else (None,)
    for case in CASES:
        domain = cast("Domain", tuple(min(n, 128) for n in case.domain) if small else case.domain)
        for dtype in ("float64", "float32"):
            schedule = scheduled(case.text, dtype)
            error = verified(case, schedule, CudaExecutable(schedule, machine, cache), dtype)
            fields = filled(cupy, case, CudaExecutable(schedule, machine, cache), domain, dtype)
            for shape in shapes:
                executable = shaped(schedule, machine, cache, shape)
                yield timed(clock, case, executable, fields, domain, dtype, shape, error)
            del fields
            cupy.get_default_memory_pool().free_all_blocks()


def shaped(
    schedule: Schedule, machine: CudaMachine, cache: Cache, shape: Block | None
) -> CudaExecutable:
    if shape is None:
        return CudaExecutable(schedule, machine, cache)

    def same(_entry: Entry, _domain: Domain) -> Block:
        return shape

    return CudaExecutable(schedule, machine, cache, same)


def filled(
    cupy: Any, case: Case, executable: CudaExecutable, domain: Domain, dtype: str
) -> dict[str, Any]:
    """Return device arrays with random inputs, made on the device."""
    shape = cast("Domain", tuple(n + 2 * h for n, h in zip(domain, case.halo, strict=True)))
    fields: dict[str, Any] = {}
    for name in (*case.inputs, *case.outputs):
        array = executable.memory.empty(shape, np.dtype(dtype), case.origin)
        low, high = case.inputs.get(name, (0.0, 0.0))
        for k in range(shape[2]):
            array[:, :, k] = cupy.random.uniform(low, high, shape[:2]).astype(dtype)
        fields[name] = array
    return fields


def timed(
    clock: Clock,
    case: Case,
    executable: CudaExecutable,
    fields: Arrays,
    domain: Domain,
    dtype: str,
    shape: Block | None,
    error: float,
) -> Figure:
    before = clock.copy_rate(dtype)
    seconds = clock.seconds(lambda: call(executable, case, fields, domain, dtype))
    copy = (before + clock.copy_rate(dtype)) / 2
    points = domain[0] * domain[1] * domain[2]
    per_point = case.passes * np.dtype(dtype).itemsize
    rate = points * per_point / seconds
    return Figure(
        case=case.name,
        dtype=dtype,
        block="default" if shape is None else f"{shape[0]}x{shape[1]}",
        milliseconds=seconds * 1e3,
        bytes_per_point=per_point,
        rate=rate / 1e9,
        copy=copy / 1e9,
        share=rate / copy,
        error=error,
    )


def commit() -> str:
    """Return the commit of this tree, or 'unknown'."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Check and time generated CUDA on a device.")
    parser.add_argument("result", type=Path, help="where to write the figures as JSON")
    parser.add_argument("--small", action="store_true", help="small grids, to try the script")
    parser.add_argument("--blocks", action="store_true", help="time every block shape")
    options = parser.parse_args(arguments)
    cupy = cast("Any", importlib.import_module("cupy"))
    machine = current_machine()
    print(f"{machine.facts.name}, sm_{machine.facts.capability}, CuPy {cupy.__version__}")
    print(
        f"{'case':22}{'dtype':9}{'block':9}{'ms':>9}{'B/pt':>6}{'GB/s':>8}{'copy':>8}{'share':>7}"
    )
    found: list[Figure] = []
    for one in figures(cupy, machine, small=options.small, blocks=options.blocks):
        found.append(one)
        print(
            f"{one.case:22}{one.dtype:9}{one.block:9}{one.milliseconds:9.3f}"
            f"{one.bytes_per_point:6d}{one.rate:8.0f}{one.copy:8.0f}{one.share:7.3f}"
            f"   error {one.error:.1e}",
            flush=True,
        )
    record = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "device": asdict(machine.facts),
        "cupy": cupy.__version__,
        "cuda": cupy.cuda.runtime.runtimeGetVersion(),
        "small": options.small,
        "figures": [asdict(one) for one in found],
        "kernels": {
            case.name: CudaBackend().build(scheduled(case.text, "float64")).source for case in CASES
        },
    }
    options.result.write_text(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
