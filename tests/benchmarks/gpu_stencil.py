"""Check and time generated CUDA on a real device, beside what one would use instead.

    PYTHONPATH=engine python tests/benchmarks/gpu_stencil.py RESULT.json --commit COMMIT
        [--no-peers] [--only NAME ...] [--small] [--seconds 210]

Needs NumPy, CuPy and the engine; peers are used where they are installed. The far corner of every
array that was timed is compared with the reference, in memory that was NaN wherever nothing was
put. Compiled code is kept in a new folder, so that the first compilation is a cold one.

A share is that of copying an array of 1 GiB or more with the same element type: rounds of both
follow each other, and the median of the rounds' ratios counts. The rate is that of the compulsory
bytes: each input read once and each output written once.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "engine" / "cuda"))

from cubin import resources
from gpu_peers import PEERS, Gt4pyCompilations, PeerFigure, peer_figures
from gpu_small import small_grids
from workloads import CASES, Case, Domain

from halocline_engine.backends.compiled import Compiled
from halocline_engine.program import compile_program

TARGET = "cuda"
DTYPES = ("float64", "float32")
ROUNDS = 9
#: Powers of two, and sizes that are odd along every axis.
SIZES: Mapping[str, tuple[Domain, Domain]] = {
    "2-D": ((16384, 16384, 1), (17011, 16703, 1)),
    "3-D": ((1024, 1024, 256), (771, 763, 709)),
    "levels": ((1024, 1024, 256), (1021, 1019, 263)),
    "columns": ((2048, 2048, 80), (2027, 2053, 80)),
}
GRIDS: Mapping[str, str] = {
    "copy": "2-D",
    "2d5pt": "2-D",
    "2d9pt": "2-D",
    "horizontal diffusion": "levels",
    "vertical advection": "columns",
    "tridiagonal": "columns",
}
CORNER: Domain = (37, 19, 11)
#: The largest difference from the reference, as a multiple of the largest value.
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}


@dataclass(frozen=True)
class Timing:
    """Seconds of a call, and the copy bandwidth in bytes per second beside it; one per round."""

    seconds: tuple[float, ...]
    copies: tuple[float, ...]

    def share(self, moved: float) -> float:
        """Return the rate of `moved` bytes as a share of the copy's; the median of the rounds."""
        pairs = zip(self.seconds, self.copies, strict=True)
        return median(moved / seconds / copy for seconds, copy in pairs)


class Clock:
    """Times work on the current device, beside copies of an array."""

    def __init__(self, cupy: Any, *, small: bool, rounds: int = ROUNDS) -> None:
        self._cupy = cupy
        self._rounds = rounds
        self._bytes = 2**22 if small else 2**30
        self._calls = 1 if small else 5

    def compared(
        self, work: Callable[[], object], dtype: str, finish: Callable[[], object] | None = None
    ) -> Timing:
        """Time calls that are queued one behind the other, in rounds with copies between them.

        With `finish`, which waits for the work, a clock on the wall is used instead of events.
        """
        source = self._cupy.ones(self._bytes // np.dtype(dtype).itemsize, dtype)
        target = self._cupy.empty_like(source)

        def copy() -> None:
            self._cupy.copyto(target, source)

        for warm in (work, work, copy, copy):
            warm()
        (finish or self._wait)()
        self._wait()
        slow = self._once(work, 1, finish) > 0.05
        seconds: list[float] = []
        copies: list[float] = []
        for _ in range(min(3, self._rounds) if slow else self._rounds):
            before = self._once(copy, self._calls, None)
            seconds.append(self._once(work, 1 if slow else self._calls, finish))
            after = self._once(copy, self._calls, None)
            copies.append(4 * self._bytes / (before + after))
        return Timing(tuple(seconds), tuple(copies))

    def _once(
        self, work: Callable[[], object], calls: int, finish: Callable[[], object] | None
    ) -> float:
        if finish is not None:
            began = perf_counter()
            for _ in range(calls):
                work()
            finish()
            return (perf_counter() - began) / calls
        start, end = self._cupy.cuda.Event(), self._cupy.cuda.Event()
        # One call more, so that the device is not idle while the host prepares the first one.
        work()
        start.record()
        for _ in range(calls):
            work()
        end.record()
        end.synchronize()
        return float(self._cupy.cuda.get_elapsed_time(start, end)) / 1e3 / calls

    def _wait(self) -> None:
        self._cupy.cuda.get_current_stream().synchronize()


@dataclass(frozen=True)
class Figure:
    """One line of the table; `rate` and `copy` in GB/s, `bytes_per_point` is compulsory.

    `registers` and `spilled` (bytes of stack) are the largest among the kernels in `kernels`.
    """

    case: str
    dtype: str
    domain: Domain
    milliseconds: float
    bytes_per_point: int
    rate: float
    copy: float
    share: float
    error: float
    compile_seconds: float
    registers: int
    spilled: int
    kernels: Mapping[str, tuple[int, int]]


class CodeCache:
    """The folder that the target keeps compiled code in: what came since the last look."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seen: set[Path] = set()
        self._known: dict[str, dict[str, tuple[int, int]]] = {}

    def kernels_of(self, what: str) -> dict[str, tuple[int, int]]:
        """Return registers and bytes of stack of each kernel that was compiled for this last.

        Nothing is compiled where another size made the same code.
        """
        found = self._new()
        if found:
            self._known[what] = found
        return self._known.get(what, {})

    def _new(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        for path in sorted(p for p in self._root.rglob("*") if p.is_file()):
            if path not in self._seen:
                self._seen.add(path)
                data = path.read_bytes()
                # An entry of the cache begins with its checksum.
                start = data.find(b"\x7fELF")
                if start in (0, 32):
                    kernels = resources(data[start:])
                    found |= {name: (r.registers, r.stack) for name, r in kernels.items()}
        return found


def compiled_for(case: Case, dtype: str, target: str = "") -> Compiled:
    return compile_program(case.text.format(dtype=dtype), target=target or TARGET)


def typed_scalars(case: Case, dtype: str) -> dict[str, float]:
    return {name: np.dtype(dtype).type(value).item() for name, value in case.scalars.items()}


def filled(cupy: Any, case: Case, memory: Any, domain: Domain, dtype: str) -> dict[str, Any]:
    """Return device arrays with random inputs, made on the device; the rest is NaN."""
    shape = tuple(n + 2 * h for n, h in zip(domain, case.halo, strict=True))
    fields: dict[str, Any] = {}
    for name in case.fields:
        array = memory.empty(shape, np.dtype(dtype), case.halo)
        if name in case.inputs:
            low, high = case.inputs[name]
            for k in range(shape[2]):
                level = cupy.random.random((shape[1], shape[0]), dtype=dtype)
                array[:, :, k] = (level * (high - low) + low).T
        else:
            array[...] = np.nan
        fields[name] = array
    return fields


def verified(
    case: Case, memory: Any, fields: Mapping[str, Any], domain: Domain, dtype: str
) -> float:
    """Return the largest relative difference in the far corner; raises where it is too large."""
    whole = domain[2] if GRIDS.get(case.name) == "columns" else min(domain[2], CORNER[2])
    corner = (min(CORNER[0], domain[0]), min(CORNER[1], domain[1]), whole)
    cut = tuple(slice(n - c, n + 2 * h) for n, c, h in zip(domain, corner, case.halo, strict=True))
    host = {name: memory.download(array[cut]) for name, array in fields.items()}
    expected = host | {name: np.full_like(host[name], np.nan) for name in case.outputs}
    reference = compiled_for(case, dtype, "reference").artifact.load()
    reference(expected, typed_scalars(case, dtype), dict.fromkeys(expected, case.halo), corner)
    inner = tuple(slice(h, h + c) for h, c in zip(case.halo, corner, strict=True))
    beyond = tuple(slice(h, None) for h in case.halo)
    worst = 0.0
    for name in case.outputs:
        got, right = host[name][inner], expected[name][inner]
        outside = np.count_nonzero(~np.isnan(host[name][beyond])) - got.size
        if outside or np.isnan(got).any():
            raise AssertionError(f"{case.name} {dtype}: points are missing, or outside the domain.")
        worst = max(worst, float(np.abs(got - right).max() / np.abs(right).max()))
    if worst > TOLERANCE[dtype]:
        raise AssertionError(f"{case.name} {dtype}: off by {worst:.2e} of the largest value.")
    return worst


def figure(
    cupy: Any, clock: Clock, codes: CodeCache, case: Case, dtype: str, domain: Domain
) -> Figure:
    """Check and time one case."""
    executable = compiled_for(case, dtype).artifact.load()
    fields = filled(cupy, case, executable.memory, domain, dtype)
    scalars = typed_scalars(case, dtype)
    origins = dict.fromkeys(fields, case.halo)
    began = perf_counter()
    executable(fields, scalars, origins, domain)
    cupy.cuda.get_current_stream().synchronize()
    first = perf_counter() - began
    error = verified(case, executable.memory, fields, domain, dtype)
    timing = clock.compared(lambda: executable(fields, scalars, origins, domain), dtype)
    moved = float(np.prod(domain, dtype=np.int64)) * case.bytes_per_point(dtype)
    kernels = codes.kernels_of(f"{case.name} {dtype}")
    return Figure(
        case=case.name,
        dtype=dtype,
        domain=domain,
        milliseconds=median(timing.seconds) * 1e3,
        bytes_per_point=case.bytes_per_point(dtype),
        rate=moved / median(timing.seconds) / 1e9,
        copy=median(timing.copies) / 1e9,
        share=timing.share(moved),
        error=error,
        compile_seconds=first,
        registers=max((r for r, _ in kernels.values()), default=0),
        spilled=max((s for _, s in kernels.values()), default=0),
        kernels=kernels,
    )


def domains_of(case: Case, *, small: bool) -> Iterable[Domain]:
    for i, j, k in SIZES[GRIDS.get(case.name, "3-D")]:
        yield (min(i, 70), min(j, 41), min(k, 23)) if small else (i, j, k)


def figures(
    cupy: Any, clock: Clock, codes: CodeCache, cases: Iterable[Case], *, small: bool
) -> Iterator[Figure]:
    """Check and time every case; one that fails says so and does not stop the others."""
    for case in cases:
        for dtype in DTYPES:
            for domain in domains_of(case, small=small):
                try:
                    yield figure(cupy, clock, codes, case, dtype, domain)
                except Exception as error:
                    print(f"{case.name} {dtype} {domain}: {error!r}"[:500], flush=True)
                cupy.get_default_memory_pool().free_all_blocks()


HEAD = (
    f"{'case':22}{'dtype':9}{'size':18}{'ms':>9}{'B/pt':>6}{'GB/s':>7}{'copy':>7}{'share':>7}"
    f"{'regs':>6}{'stack':>6}{'first':>7}{'error':>9}"
)


def line(one: Figure) -> str:
    size = "x".join(map(str, one.domain))
    return (
        f"{one.case:22}{one.dtype:9}{size:18}{one.milliseconds:9.3f}{one.bytes_per_point:6d}"
        f"{one.rate:7.0f}{one.copy:7.0f}{one.share:7.3f}{one.registers:6d}{one.spilled:6d}"
        f"{one.compile_seconds:6.2f}s{one.error:9.1e}"
    )


def print_peers(ours: list[Figure], peers: list[PeerFigure]) -> None:
    """Print the shares of all who ran a case at the same size, one line a case."""
    best = {(p.case, p.dtype, p.peer): p for p in peers}
    print(f"\n{'case':22}{'dtype':9}{'ours':>8}" + "".join(f"{name:>15}" for name in PEERS))
    for one in ours:
        found = [best.get((one.case, one.dtype, name)) for name in PEERS]
        if any(p is not None and p.domain == one.domain for p in found):
            shares = ["-" if p is None or p.share is None else f"{p.share:.3f}" for p in found]
            print(
                f"{one.case:22}{one.dtype:9}{one.share:8.3f}" + "".join(f"{s:>15}" for s in shares)
            )
    for reason in sorted({f"{p.peer}: {p.reason}" for p in peers if p.reason}):
        print(f"  {reason}"[:300])


def describe(cupy: Any) -> dict[str, object]:
    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    name = properties["name"]
    return {
        "name": name.decode() if isinstance(name, bytes) else name,
        "multiprocessors": properties["multiProcessorCount"],
        "memory": properties["totalGlobalMem"],
        "l2": properties["l2CacheSize"],
        "capability": f"{properties['major']}.{properties['minor']}",
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "runtime": cupy.cuda.runtime.runtimeGetVersion(),
        "cupy": cupy.__version__,
    }


def options_of(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Check and time generated CUDA on a device.")
    parser.add_argument("result", type=Path, help="where to write the figures as JSON")
    parser.add_argument("--commit", default="unknown", help="the commit that is measured")
    parser.add_argument("--no-peers", action="store_true", help="leave the peers out")
    parser.add_argument("--no-grids", action="store_true", help="leave out small grids, compiling")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="the cases to run")
    parser.add_argument("--small", action="store_true", help="small grids, to try the script")
    parser.add_argument("--seconds", type=float, default=210.0, help="no new peer after this time")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = options_of(arguments)
    began = perf_counter()
    os.environ["HOME"] = tempfile.mkdtemp(prefix="halocline-bench-")
    cupy: Any = importlib.import_module("cupy")
    clock = Clock(cupy, small=options.small)
    cases = [c for c in CASES if options.only is None or c.name in options.only]
    record: dict[str, object] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": options.commit,
        "device": describe(cupy),
    }
    extra = {} if options.no_grids else small_grids(cupy, TARGET, small=options.small)
    # Another folder, so that the first call of every case compiles, whatever was compiled above.
    os.environ["HOME"] = tempfile.mkdtemp(prefix="halocline-bench-")
    codes = CodeCache(Path(os.environ["HOME"]))
    compiling = Gt4pyCompilations([] if options.no_peers else cases)
    print(HEAD)
    ours: list[Figure] = []
    for one in figures(cupy, clock, codes, cases, small=options.small):
        ours.append(one)
        print(line(one), flush=True)
    peers: list[PeerFigure] = []
    if not options.no_peers:
        odd = {c.name: list(domains_of(c, small=options.small))[-1] for c in cases}
        late = began + options.seconds
        peers = list(peer_figures(cupy, clock.compared, cases, odd, compiling, late))
    compiling.stop()
    record |= {
        "figures": [asdict(one) for one in ours],
        "peers": [asdict(one) for one in peers],
        "small_grids_and_compiling": extra,
        "seconds": perf_counter() - began,
    }
    options.result.write_text(json.dumps(record, indent=1) + "\n")
    print("\n" + HEAD)
    for one in ours:
        print(line(one))
    print_peers(ours, peers)
    for name, value in extra.items():
        print(f"{name:60} {value}")
    print(f"{perf_counter() - began:.0f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
