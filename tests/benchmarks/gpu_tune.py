"""Time the benchmark programs as the cost model cuts them and as tuning does, on a real device.

    PYTHONPATH=engine python tests/benchmarks/gpu_tune.py RESULT.json --commit COMMIT
        [--only NAME ...] [--small] [--seconds 130]

Needs NumPy, CuPy and the engine. Both ways are timed in rounds that follow each other, after tuning
and apart from it, and their far corners are compared with the reference. Tunings and compiled code
go into a new folder, so every tuning is a cold one. After the given seconds no other program is
begun; the time that is left is shared among the programs that are left.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from gpu_stencil import (
    DTYPES,
    GRIDS,
    SIZES,
    compiled_for,
    describe,
    filled,
    typed_scalars,
    verified,
)
from workloads import CASES, Case, Domain

from halocline_engine.backends.base import Executable, Tunable, TuneMode
from halocline_engine.device.launch.stopwatch import seconds_of

ROUNDS = 9
#: Most of a case's time is compiling candidates.
LONGEST = 12.0


@dataclass(frozen=True)
class Figure:
    """One line: milliseconds of a call, and what tuning found and took.

    `gain` is the median of the rounds' ratios; `claimed` is what the tuning itself says. `wall` is
    the time of tuning, in seconds.
    """

    case: str
    dtype: str
    domain: Domain
    default: float
    tuned: float
    gain: float
    claimed: float
    choice: str
    measured: int
    failed: int
    wall: float
    failures: tuple[str, ...]


def loaded(case: Case, dtype: str, mode: TuneMode) -> Executable:
    artifact: Any = compiled_for(case, dtype).artifact
    return artifact.tuned(mode, LONGEST).load()


def figure(cupy: Any, case: Case, dtype: str, domain: Domain, seconds: float) -> Figure:
    """Tune one program, and compare it with what is usual."""
    usual, better = loaded(case, dtype, "off"), loaded(case, dtype, "cached")
    fields = filled(cupy, case, usual.memory, domain, dtype)
    scalars, origins = typed_scalars(case, dtype), dict.fromkeys(fields, case.halo)
    usual(fields, scalars, origins, domain)
    verified(case, usual.memory, fields, domain, dtype)
    if not isinstance(better, Tunable):
        raise TypeError("The target is not tuned.")
    began = perf_counter()
    tuning = better.tune(fields, scalars, origins, domain, seconds)
    wall = perf_counter() - began
    if tuning is None:
        raise ValueError("Nothing was measured.")
    for name in case.outputs:
        fields[name][...] = float("nan")
    better(fields, scalars, origins, domain)
    verified(case, usual.memory, fields, domain, dtype)
    rounds = [
        tuple(seconds_of(lambda one=one: one(fields, scalars, origins, domain)) for one in both)
        for both in [(usual, better)] * ROUNDS
    ]
    return Figure(
        case=case.name,
        dtype=dtype,
        domain=domain,
        default=median(one for one, _ in rounds) * 1e3,
        tuned=median(two for _, two in rounds) * 1e3,
        gain=median(one / two for one, two in rounds),
        claimed=tuning.gain,
        choice=tuning.label,
        measured=sum(one.seconds is not None for one in tuning.measured),
        failed=sum(one.seconds is None for one in tuning.measured),
        wall=wall,
        failures=tuple(sorted({one.failure[:200] for one in tuning.measured if one.failure})),
    )


def figures(cupy: Any, cases: list[Case], *, small: bool, until: float) -> Iterator[Figure]:
    """Tune every program at a size that is odd along every axis, as long as there is time."""
    jobs = [(case, dtype) for case in cases for dtype in DTYPES]
    for number, (case, dtype) in enumerate(jobs):
        left = until - perf_counter()
        if left <= 0:
            print(f"No time is left for {case.name} {dtype}.", flush=True)
            continue
        i, j, k = SIZES[GRIDS.get(case.name, "3-D")][1]
        domain = (min(i, 70), min(j, 41), min(k, 23)) if small else (i, j, k)
        # Filling and checking take about a third of what is left for a program.
        seconds = min(LONGEST, 0.6 * left / (len(jobs) - number))
        try:
            yield figure(cupy, case, dtype, domain, seconds)
        except Exception as error:
            print(f"{case.name} {dtype} {domain}: {error!r}"[:500], flush=True)
        cupy.get_default_memory_pool().free_all_blocks()


HEAD = (
    f"{'case':22}{'dtype':9}{'size':18}{'default':>9}{'tuned':>9}{'gain':>7}{'said':>7}"
    f"{'tried':>7}{'failed':>7}{'took':>7}  choice"
)


def line(one: Figure) -> str:
    size = "x".join(map(str, one.domain))
    return (
        f"{one.case:22}{one.dtype:9}{size:18}{one.default:9.3f}{one.tuned:9.3f}{one.gain:7.3f}"
        f"{one.claimed:7.3f}{one.measured:7d}{one.failed:7d}{one.wall:6.1f}s  {one.choice}"
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Time what tuning gains on a device.")
    parser.add_argument("result", type=Path, help="where to write the figures as JSON")
    parser.add_argument("--commit", default="unknown", help="the commit that is measured")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="the cases to run")
    parser.add_argument("--small", action="store_true", help="small grids, to try the script")
    parser.add_argument("--seconds", type=float, default=130.0, help="no program after this time")
    options = parser.parse_args(arguments)
    began = perf_counter()
    os.environ["HOME"] = tempfile.mkdtemp(prefix="halocline-bench-")
    cupy: Any = importlib.import_module("cupy")
    cases = [c for c in CASES if options.only is None or c.name in options.only]
    print(HEAD)
    ours: list[Figure] = []
    for one in figures(cupy, cases, small=options.small, until=began + options.seconds):
        ours.append(one)
        print(line(one), flush=True)
        record = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "commit": options.commit,
            "device": describe(cupy),
            "figures": [asdict(figure) for figure in ours],
            "seconds": perf_counter() - began,
        }
        options.result.write_text(json.dumps(record, indent=1) + "\n")
    if ours:
        worst = max(ours, key=lambda one: one.gain)
        print(f"Largest gain {worst.gain:.3f} ({worst.case} {worst.dtype}); 1.10 is the limit.")
    for reason in sorted({reason for one in ours for reason in one.failures}):
        print(f"  {reason}")
    print(f"{perf_counter() - began:.0f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
