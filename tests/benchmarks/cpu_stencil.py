"""Print one table: generated and hand-written loops, as shares of the copy bandwidth.

    python tests/benchmarks/cpu_stencil.py [ni nj nk]

Bytes are counted as each array that must be touched, once; rounds are interleaved and the best of
each is taken, because other work on the machine only ever adds time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from cpu_cases import CASES, Case
from differential import front

from halocline_engine.backends.cpu.build import CpuBackend
from halocline_engine.schedule.plan import plan

ROUNDS = 15


def prepared(
    case: Case, domain: tuple[int, int, int]
) -> tuple[Callable[[], None], Callable[[], None], float]:
    """Return both ways to run a case, and the seconds that the first call of ours took."""
    random = np.random.default_rng(3)
    program, facts = front(case.text)
    shape = [n + 2 * case.halo for n in reversed(domain)]
    made: dict[str, Any] = {f.name: random.random(shape) for f in program.fields}
    if "b" in made:
        made["b"] += 4.0
    executable = CpuBackend().build(plan(program, facts)).load()
    fields = {name: array.transpose(2, 1, 0) for name, array in made.items()}
    origins = dict.fromkeys(fields, (case.halo, case.halo, case.halo))
    start = perf_counter()
    executable(fields, {}, origins, domain)
    compiling = perf_counter() - start
    case.by_hand(*made.values())
    return (
        lambda: executable(fields, {}, origins, domain),
        lambda: case.by_hand(*made.values()),
        compiling,
    )


def timed(call: Callable[[], None]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def main(domain: tuple[int, int, int]) -> None:
    """Time all cases and print them."""
    points = int(np.prod(domain))
    runs = {case.name: prepared(case, domain) for case in CASES}
    best: dict[tuple[str, int], float] = {}
    for _ in range(ROUNDS):
        for name, (ours, theirs, _) in runs.items():
            for number, call in enumerate((ours, theirs)):
                best[name, number] = min(best.get((name, number), np.inf), timed(call))
    copy = 2 * 8 * points / min(best["copy", 0], best["copy", 1])
    print(f"{domain}: copy {copy / 1e9:.1f} GB/s")
    print("case         ours ms   share   by hand ms   share   first call s")
    for case in CASES:
        share = [case.arrays * 8 * points / best[case.name, n] / copy for n in (0, 1)]
        print(
            f"{case.name:<12} {best[case.name, 0] * 1e3:7.2f} {share[0]:7.2f}"
            f" {best[case.name, 1] * 1e3:12.2f} {share[1]:7.2f} {runs[case.name][2]:14.2f}"
        )


if __name__ == "__main__":
    sizes = [int(word) for word in sys.argv[1:]] or [256, 256, 64]
    main((sizes[0], sizes[1], sizes[2]))
