"""Measure the corpus on a CUDA device, worst first.

    PYTHONPATH=engine:benchmarks python tests/benchmarks/gpu_corpus.py RESULT.json [NAME ...]

A share of copy is that of copying 1 GiB in the same process. The attainable time is the larger of
the compulsory bytes at the rate of the copy and the counted operations at the measured rates of
their kinds: multiplications and additions, divisions, and functions by the example of `exp`.
Outputs are NaN before the first call, which is compared with the reference, in the first columns
where the program has no regions and otherwise in whole at a small size.
`gpu_corpus_peers.py` times other compilers beside it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import geometric_mean, median
from time import perf_counter
from typing import Any

from corpus.calls import LAYOUTS, CorpusCall, wrong
from corpus.cases import corpus

from halocline_engine.analysis.work import Operation
from halocline_engine.device.cupy_types import cupy
from halocline_engine.errors import HaloclineError

__all__ = ["CorpusFigure", "Peaks", "attainable_seconds", "first_call", "main", "peaks"]

_COLUMNS = 9
_ROUNDS, _CALLS = 5, 3
_RATES = r"""
template <typename T> __device__ T plain(T x) {{ return x * T(0.9999) + T(0.0001); }}
extern "C" __global__ void rate({type}* out, {type} x) {{
  {type} v[4] = {{x + threadIdx.x, x + 1, x + 2, x + 3}};
  for (int n = 0; n < 512; ++n)
    for (int q = 0; q < 4; ++q) {{ {step} }}
  if (v[0] + v[1] + v[2] + v[3] == {type}(-7)) *out = v[0];
}}
"""
_STEPS = {
    Operation.PLAIN: (2, "v[q] = v[q] * ({0})0.9999 + ({0})0.0001;"),
    Operation.DIVISION: (1, "v[q] = ({0})1.7 / v[q];"),
    Operation.FUNCTION: (1, "v[q] = exp(-v[q]);"),
}


@dataclass(frozen=True)
class CorpusFigure:
    """A program in one type and order of axes; shares are of copy and of what is attainable."""

    name: str
    dtype: str
    layout: str
    share: float
    attainable: float
    milliseconds: float
    megabytes: float
    bound: str
    first_seconds: float
    problem: str


@dataclass(frozen=True)
class Peaks:
    """Bytes and operations a second."""

    copy: float
    operations: dict[tuple[str, Operation], float]


def main() -> None:
    """Measure, print the table worst first, and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--commit", default="")
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    begun = perf_counter()
    device: Any = cupy()
    calls = [
        CorpusCall(case, dtype, layout, case.domain)
        for case in corpus()
        if not given.names or case.name in given.names
        for dtype in ("float64", "float32")
        for layout in LAYOUTS
    ]
    # In memory that many arrays had before, copies took a tenth longer.
    rates = peaks(device)
    with ThreadPoolExecutor(12) as threads:
        first = list(threads.map(partial(first_call, device), calls))
    device.get_default_memory_pool().free_all_blocks()
    figures: list[CorpusFigure] = []
    for call, (seconds, problem) in zip(calls, first, strict=True):
        if perf_counter() - begun > given.seconds:
            print("stopped: no time is left")
            break
        figures.append(_figure(device, call, rates, seconds, problem))
    figures.sort(key=lambda figure: figure.attainable)
    properties = device.cuda.runtime.getDeviceProperties(0)
    found = {
        "date": datetime.now(UTC).date().isoformat(),
        "device": properties["name"].decode(),
        "commit": given.commit,
        "copy": round(rates.copy / 1e9, 1),
        "operations": {
            f"{dtype} {kind.value}": round(rate / 1e9, 1)
            for (dtype, kind), rate in rates.operations.items()
        },
        "figures": [asdict(figure) for figure in figures],
    }
    given.result.write_text(json.dumps(found, indent=1) + "\n")
    for line in _table(figures):
        print(line)


def first_call(device: Any, call: CorpusCall) -> tuple[float, str]:
    """Return the seconds of a first call on the device, and what is wrong with its result."""
    try:
        small = bool(call.compiled.program.regions)
        used = call if not small else CorpusCall(call.case, call.dtype, call.layout, (45, 37, 11))
        program, arrays = used.stencil("cuda"), used.arrays(device)
        keep = tuple(n + 2 * h for n, h in zip((_COLUMNS, _COLUMNS), used.halo, strict=False))
        columns = (slice(None),) * 2 if small else tuple(slice(n) for n in keep)
        axes = used.axes

        def host() -> dict[str, Any]:
            return {
                name: device.asnumpy(
                    array[
                        tuple(columns["IJ".index(a.value)] for a in axes[name] if a.value in "IJ")
                    ]
                )
                for name, array in arrays.items()
            }

        inputs = host()
        begun = perf_counter()
        used.run(program, arrays)
        device.cuda.runtime.deviceSynchronize()
        seconds = perf_counter() - begun
        return seconds, wrong(used, host(), inputs, 0 if small else _COLUMNS)
    except (HaloclineError, RuntimeError, ValueError) as error:
        return 0.0, f"{type(error).__name__}: {error}"[:300]


def attainable_seconds(call: CorpusCall, rates: Peaks) -> float:
    """Return the seconds of a call's bytes or operations, whichever take longer."""
    return max(_bounds(call, rates))


def _bounds(call: CorpusCall, rates: Peaks) -> tuple[float, float]:
    work = call.work
    computing = sum(n / rates.operations[call.dtype, kind] for kind, n in work.operations.items())
    return work.bytes / rates.copy, computing


def _figure(
    device: Any, call: CorpusCall, rates: Peaks, seconds: float, problem: str
) -> CorpusFigure:
    moving, computing = _bounds(call, rates)
    taken = float("inf")
    if not problem:
        program, arrays = call.stencil("cuda"), call.arrays(device)
        taken = _timed(device, lambda: call.run(program, arrays))
        del arrays
        device.get_default_memory_pool().free_all_blocks()
    return CorpusFigure(
        name=call.case.name,
        dtype=call.dtype,
        layout=call.layout,
        share=round(moving / taken, 3),
        attainable=round(max(moving, computing) / taken, 3),
        milliseconds=round(taken * 1e3, 4) if problem == "" else 0.0,
        megabytes=round(call.work.bytes / 1e6, 1),
        bound="bytes" if moving >= computing else "operations",
        first_seconds=round(seconds, 2),
        problem=problem,
    )


def _timed(device: Any, work: Callable[[], None]) -> float:
    """Return the seconds of a call that is queued behind another one."""
    found: list[float] = []
    work()
    for _ in range(_ROUNDS):
        start, end = device.cuda.Event(), device.cuda.Event()
        work()
        start.record()
        for _ in range(_CALLS):
            work()
        end.record()
        end.synchronize()
        found.append(float(device.cuda.get_elapsed_time(start, end)) / 1e3 / _CALLS)
    return median(found)


def peaks(device: Any) -> Peaks:
    """Return what the device does of each kind of operation, and copies, in a second."""
    source = device.random.default_rng(1).random(1 << 27)
    into = device.empty_like(source)
    copy = 2 * source.nbytes / _timed(device, lambda: device.copyto(into, source))
    operations: dict[tuple[str, Operation], float] = {}
    for dtype, spelled in (("float64", "double"), ("float32", "float")):
        for kind, (each, step) in _STEPS.items():
            text = _RATES.format(type=spelled, step=step.format(spelled))
            kernel = device.RawKernel(text, "rate", options=("--fmad=false",))
            out, start = device.zeros(1, dtype), device.dtype(dtype).type(0.5)
            taken = _timed(device, lambda k=kernel, o=out, s=start: k((4096,), (256,), (o, s)))
            operations[dtype, kind] = 4096 * 256 * 512 * 4 * each / taken
    return Peaks(copy, operations)


def _table(figures: list[CorpusFigure]) -> Iterator[str]:
    for one in figures:
        name = f"{one.name:26} {one.dtype} {one.layout}"
        yield f"{name} {one.share:6.3f} {one.attainable:6.3f} {one.bound:10} {one.problem[:90]}"
    for layout in LAYOUTS:
        for dtype in ("float64", "float32"):
            found = [f for f in figures if (f.layout, f.dtype) == (layout, dtype) and f.share]
            if found:
                shares = [f.attainable for f in found]
                mean, least = geometric_mean(shares), min(shares)
                yield (
                    f"{layout} {dtype}: {len(found)} programs, of the attainable: median"
                    f" {median(shares):.3f}, mean {mean:.3f}, least {least:.3f}"
                )


if __name__ == "__main__":
    main()
