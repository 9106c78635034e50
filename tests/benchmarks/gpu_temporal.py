"""Check and time several steps at once on one GPU; prints a table, the worst first, writes JSON.

    PYTHONPATH=engine python tests/benchmarks/gpu_temporal.py RESULT.json --commit COMMIT
        [--small] [--only NAME ...] [--seconds 200] [--arithmetic fused]

Needs NumPy, CuPy and the engine. Sizes are odd along every axis; all sides are fixed. Outputs are
NaN before each check, and their bits on the domain must be those of as many single steps, and still
NaN around it. What counts is how many times faster a step is than the roofline of one step: each
input read once and each output written once, as fast as a copy in the same run.

What it should show on an H200, as least and as aim, by type (float32, float64): 2d5pt 5.2, 5.0 and
8.5, 8.0; a coefficient for each neighbour 2.5 and 3.5 without contraction; 2d9pt 3.2, 3.0 and 4.5,
4.2; 3d7pt 2.2, 2.0 and 3.5, 3.0; wave equation 2.2, 2.0 and 3.5, 3.0; shallow water and horizontal
diffusion 1.4, 1.3 and 2.0.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "engine" / "cuda"))

from cubin import resources

from halocline_engine.backends.base import Array, Executable
from halocline_engine.backends.cuda.kernels.temporal.choose import fits, fused_tile, usual_form
from halocline_engine.backends.cuda.kernels.temporal.text import fused_text
from halocline_engine.backends.cuda.model.speed import Speed
from halocline_engine.backends.cuda.runtime.executable import CudaExecutable
from halocline_engine.backends.fusing import CLOSED
from halocline_engine.cache import Cache, key_of
from halocline_engine.device.cupy_types import cupy as imported_cupy
from halocline_engine.device.launch.stopwatch import seconds_of
from halocline_engine.device.machine import CudaMachine, current_machine
from halocline_engine.program import compile_program
from halocline_engine.schedule.temporal.levels import levels_at_once
from halocline_engine.schedule.temporal.step import Refused, Step, step_of

__all__ = ["CASES", "DTYPES", "Bench", "Case", "Domain", "main"]

Domain = tuple[int, int, int]
TIMES = (2, 3, 4, 6, 8, 12)
DTYPES = ("float32", "float64")
FIVE = """
def five(u: Field[REAL], v: Field[REAL]):
    with computation(PARALLEL), interval(...):
        v = 0.2 * (((u + u[-1, 0, 0]) + (u[1, 0, 0] + u[0, -1, 0])) + u[0, 1, 0])
"""
COEFFICIENTS = """
def coefficients(u: Field[REAL], a: Field[REAL], b: Field[REAL], c: Field[REAL], d: Field[REAL],
                 e: Field[REAL], v: Field[REAL]):
    with computation(PARALLEL), interval(...):
        v = a * u + b * u[-1, 0, 0] + c * u[1, 0, 0] + d * u[0, -1, 0] + e * u[0, 1, 0]
"""
NINE = """
def nine(u: Field[REAL], v: Field[REAL]):
    with computation(PARALLEL), interval(...):
        v = 0.1 * ((((u + u[-1, 0, 0]) + (u[1, 0, 0] + u[0, -1, 0])) + u[0, 1, 0])
                   + ((u[-1, -1, 0] + u[1, 1, 0]) + (u[-1, 1, 0] + u[1, -1, 0])))
"""
SEVEN = """
def seven(u: Field[REAL], v: Field[REAL]):
    with computation(PARALLEL), interval(...):
        v = 0.14 * ((u[-1, 0, 0] + u[1, 0, 0]) + (u[0, -1, 0] + u[0, 1, 0])
                    + (u[0, 0, -1] + u[0, 0, 1]) + u)
"""
WAVE = """
def wave(now: Field[REAL], prev: Field[REAL], nxt: Field[REAL], old: Field[REAL], c: REAL):
    with computation(PARALLEL), interval(...):
        nxt = 2.0 * now - prev + c * ((now[-1, 0, 0] + now[1, 0, 0])
                                      + (now[0, -1, 0] + now[0, 1, 0]) - 4.0 * now)
        old = now
"""
SHALLOW = """
def shallow(h: Field[REAL], u: Field[REAL], v: Field[REAL], hn: Field[REAL], un: Field[REAL],
            vn: Field[REAL], c: REAL):
    with computation(PARALLEL), interval(...):
        hn = h - c * ((u[1, 0, 0] - u[-1, 0, 0]) + (v[0, 1, 0] - v[0, -1, 0])) * (1.0 + h)
        un = u - c * (h[1, 0, 0] - h[-1, 0, 0]) - c * u * (u[1, 0, 0] - u[-1, 0, 0]) \\
            - c * v * (u[0, 1, 0] - u[0, -1, 0])
        vn = v - c * (h[0, 1, 0] - h[0, -1, 0]) - c * u * (v[1, 0, 0] - v[-1, 0, 0]) \\
            - c * v * (v[0, 1, 0] - v[0, -1, 0])
"""
DIFFUSION = """
def diffusion(inp: Field[REAL], coeff: Field[REAL], out: Field[REAL]):
    with computation(PARALLEL), interval(...):
        lap = 4.0 * inp - (inp[-1, 0, 0] + inp[1, 0, 0] + inp[0, -1, 0] + inp[0, 1, 0])
        flx = lap[1, 0, 0] - lap
        flx = 0.0 if flx * (inp[1, 0, 0] - inp) > 0.0 else flx
        fly = lap[0, 1, 0] - lap
        fly = 0.0 if fly * (inp[0, 1, 0] - inp) > 0.0 else fly
        out = inp - coeff * (flx - flx[-1, 0, 0] + fly - fly[0, -1, 0])
"""


@dataclass(frozen=True)
class Case:
    """A program that is made again and again, on a domain for each type, and what is asked of it.

    `least` and `aim` are multiples of the roofline of one step.
    """

    name: str
    text: str
    feedback: Mapping[str, str]
    domains: tuple[Domain, Domain]
    least: tuple[float, float]
    aim: tuple[float, float]

    def domain(self, dtype: str, *, small: bool) -> Domain:
        domain = self.domains[DTYPES.index(dtype)]
        if not small:
            return domain
        return min(301, domain[0]), min(157, domain[1]), min(11, domain[2])


_ONE = {"v": "u"}
_PLANE = ((15361, 16001, 1), (10867, 11311, 1))
CASES = (
    Case("2d5pt", FIVE, _ONE, _PLANE, (5.2, 5.0), (8.5, 8.0)),
    Case(
        "2d5pt, a coefficient for each neighbour",
        COEFFICIENTS,
        _ONE,
        ((9001, 9011, 1), (7001, 7019, 1)),
        (2.5, 2.5),
        (3.5, 3.5),
    ),
    Case("2d9pt", NINE, _ONE, _PLANE, (3.2, 3.0), (4.5, 4.2)),
    Case("3d7pt", SEVEN, _ONE, ((763, 771, 701), (603, 611, 557)), (2.2, 2.0), (3.5, 3.0)),
    Case("wave equation", WAVE, {"nxt": "now", "old": "prev"}, _PLANE, (2.2, 2.0), (3.5, 3.0)),
    Case(
        "shallow water",
        SHALLOW,
        {"hn": "h", "un": "u", "vn": "v"},
        _PLANE,
        (1.4, 1.3),
        (2.0, 2.0),
    ),
    Case(
        "horizontal diffusion, iterated",
        DIFFUSION,
        {"out": "inp"},
        ((1021, 1019, 263), (1021, 1019, 131)),
        (1.4, 1.3),
        (2.0, 2.0),
    ),
)
SCALARS = {"c": 0.1}


def cupy() -> Any:
    """Return CuPy, all of it."""
    return imported_cupy()


class Bench:
    """One case with one type: its arrays on the device, single steps, and several at once."""

    def __init__(
        self, case: Case, dtype: str, machine: CudaMachine, cache: Cache, given: argparse.Namespace
    ) -> None:
        self.case, self.dtype, self.machine, self.cache = case, dtype, machine, cache
        self.domain = case.domain(dtype, small=given.small)
        compiled = compile_program(
            case.text.replace("REAL", dtype),
            literal_precision={"int": 64, "float": int(dtype[-2:])},
            target="cuda",
            arithmetic=given.arithmetic,
        )
        self.program = compiled.program
        self.single = CudaExecutable(compiled.schedule, machine, cache)
        step = step_of(compiled.program, compiled.facts, case.feedback)
        assert not isinstance(step, Refused), step
        self.step: Step = step
        self.scalars = {s.name: SCALARS[s.name] for s in compiled.program.scalars}
        i, j, k = (max(map(abs, pair)) for pair in step.reach)
        self.halo = (i, j, k)
        self.origins = dict.fromkeys(step.axes, self.halo)

    def compile(self, steps: int) -> None:
        """Compile what the model chooses for so many steps; the bytes stay in the cache."""
        levels = levels_at_once(self.step, steps)
        if fits(levels):
            tile = fused_tile(levels, self.domain, Speed(*self.machine.speed).known)
            self.code(fused_text(usual_form(levels, tile)))

    def code(self, source: str) -> bytes:
        key = key_of(source, self.machine.compiler)
        return self.cache.get(key, lambda: self.machine.compile(source))

    def allocate(self) -> None:
        """Fill all arrays at random, outputs with what their inputs have."""
        i, j, k = (n + 2 * h for n, h in zip(self.domain, self.halo, strict=True))
        shape = (i, j, k)
        fresh: dict[str, Array] = {}
        outputs = self.case.feedback
        random = cupy().random.RandomState(7)
        for name in self.step.axes:
            array = self.single.memory.empty(shape, np.dtype(self.dtype), self.halo)
            if name not in outputs:
                for k in range(shape[2]):
                    array[:, :, k] = random.random_sample(shape[:2], self.dtype) * 0.2 + 0.1
            fresh[name] = array
        for new, old in outputs.items():
            fresh[new][...] = fresh[old]
        self.fields = fresh
        self.bytes = len(fresh) * np.dtype(self.dtype).itemsize * int(np.prod(self.domain))
        # Steps one by one go to and fro between arrays of their own.
        self.now = {old: self._copy(fresh[old]) for old in outputs.values()}
        self.next = {new: self._copy(fresh[new]) for new in outputs}
        self.made = 0

    def _copy(self, array: Array) -> Array:
        copy = self.single.memory.empty(array.shape, np.dtype(self.dtype), self.halo)
        copy[...] = array
        return copy

    def advance(self, steps: int) -> None:
        """Make single steps up to a number of them."""
        while self.made < steps:
            self.single({**self.fields, **self.now, **self.next}, *self._rest())
            for new, old in self.case.feedback.items():
                self.now[old], self.next[new] = self.next[new], self.now[old]
            self.made += 1

    def _rest(self) -> tuple[Any, Any, Any]:
        return self.scalars, self.origins, self.domain

    def same_bits(self, executable: Executable, steps: int) -> bool:
        """Whether several steps at once give what single steps give, and nothing else."""
        self.advance(steps)
        for new in self.case.feedback:
            self.fields[new][...] = np.nan
        executable(self.fields, *self._rest())
        inside = tuple(slice(h, h + n) for h, n in zip(self.halo, self.domain, strict=True))
        whole = "int32" if self.dtype == "float32" else "int64"
        for new, old in self.case.feedback.items():
            got, expected = self.fields[new], self.now[old]
            outside = int(cupy().isnan(got).sum()) - int(cupy().isnan(got[inside]).sum())
            if outside != got.size - int(np.prod(self.domain)):
                return False
            for k in range(self.halo[2], self.halo[2] + self.domain[2]):
                one, two = (a[inside[0], inside[1], k].T.view(whole) for a in (got, expected))
                if not bool((one == two).all()):
                    return False
        return True

    def seconds(self, executable: Any) -> float:
        call = executable.prepared(self.fields, *self._rest())
        call()
        return min(seconds_of(call) for _ in range(3))

    def copy_rate(self) -> float:
        """Return the bytes a second of copying 1 GiB."""
        count = 2**30 // np.dtype(self.dtype).itemsize
        source = cupy().ones(count, self.dtype)
        target = cupy().empty_like(source)
        return 2**31 / min(seconds_of(lambda: cupy().copyto(target, source)) for _ in range(3))

    def free(self) -> None:
        self.fields, self.now, self.next = {}, {}, {}
        cupy().get_default_memory_pool().free_all_blocks()


def figures(bench: Bench) -> Iterator[dict[str, Any]]:
    """Yield the figures of each number of steps."""
    bench.allocate()
    copy = bench.copy_rate()
    roofline = bench.bytes / copy
    one = min(bench.seconds(bench.single) for _ in range(2))
    chosen = bench.single.fused_steps(bench.case.feedback, bench.domain)
    head = {
        "case": bench.case.name,
        "dtype": bench.dtype,
        "domain": bench.domain,
        "copy": copy,
        "single_step": roofline / one,
        "chosen": chosen,
    }
    several: list[int] = sorted({*TIMES, *([chosen] if chosen > 1 else [])})
    for steps in several:
        executable = bench.single.fused(steps, bench.case.feedback, CLOSED)
        if isinstance(executable, Refused):
            yield {**head, "steps": steps, "refused": executable.reason}
            continue
        same = bench.same_bits(executable, steps)
        seconds = bench.seconds(executable)
        copy = max(copy, bench.copy_rate())
        (form,) = executable.forms()
        (needs,) = resources(bench.code(fused_text(form))).values()
        yield {
            **head,
            "steps": steps,
            "same_bits": same,
            "multiple": steps * bench.bytes / copy / seconds,
            "points_per_second": steps * int(np.prod(bench.domain)) / seconds,
            "tile": form.tile.words,
            "registers": needs.registers,
            "stack": needs.stack,
        }
    bench.free()


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("result", type=Path)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--small", action="store_true", help="small domains, to try it out")
    parser.add_argument("--arithmetic", choices=["separate", "fused"], default="separate")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--seconds", type=float, default=200.0)
    options = parser.parse_args()
    until = perf_counter() + options.seconds
    machine = current_machine()
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        cache = Cache(Path(folder))
        benches = [
            Bench(case, dtype, machine, cache, options)
            for case in CASES
            for dtype in DTYPES
            if not options.only or case.name in options.only
        ]
        with ThreadPoolExecutor(14) as pool:
            jobs = [pool.submit(one.compile, steps) for one in benches for steps in TIMES]
            for job in jobs:
                job.result()
        for bench in benches:
            if perf_counter() > until:
                found.append({"case": bench.case.name, "dtype": bench.dtype, "refused": "no time"})
                continue
            found += figures(bench)
    record = {
        "device": machine.facts.name,
        "date": datetime.now(UTC).date().isoformat(),
        "commit": options.commit,
        "arithmetic": options.arithmetic,
        "figures": found,
    }
    options.result.write_text(json.dumps(record, indent=1) + "\n")
    for line in lines(found):
        print(line)


def lines(found: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each case and type, those furthest below what is asked first."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in found:
        groups.setdefault((one["case"], one["dtype"]), []).append(one)
    rows: list[tuple[float, str]] = []
    for (name, dtype), several in groups.items():
        case = next(one for one in CASES if one.name == name)
        least = case.least[DTYPES.index(dtype)]
        timed = [one for one in several if "multiple" in one]
        if not timed:
            rows.append((0.0, f"{name}, {dtype}: {several[0]['refused']}"))
            continue
        best = max(one["multiple"] for one in timed)
        chosen = timed[0]["chosen"]
        words = " ".join(
            f"{one['steps']}{'*' if one['steps'] == chosen else ''}:{one['multiple']:.2f}"
            f"{'' if one['same_bits'] else ' OTHER BITS'}"
            f"({one['registers']}{'+' + str(one['stack']) if one['stack'] else ''})"
            for one in timed
        )
        single = timed[0]["single_step"]
        rows.append(
            (best / least, f"{best / least:5.2f} {name:40} {dtype} one {single:.2f} {words}")
        )
    yield from (line for _, line in sorted(rows))


if __name__ == "__main__":
    main()
