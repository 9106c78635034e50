"""Time all cuts of the fast kernel for products in float32 at many sizes, beside cuBLAS.

    PYTHONPATH=engine python tests/benchmarks/matmul_cuts.py RESULT.json [--commit COMMIT]
        [--seconds 90] [--only usual|engine|all]

The sizes are those of `matmul_sweep` but the new ones. At each of them the usual
cut, the other cuts there are, and further ones that might be added, are recorded into graphs and
replayed in the same rounds as cuBLAS without TF32; shares are medians of the rounds' ratios. Cuts
that the model says are far too slow are left out. Results are poisoned before and compared with
the order by rows: bit by bit where a cut adds up in that order, otherwise within the rounding of
float32, and with a second call. Small sizes come first; at its time limit it stops with what it
has. `matmul_fit` fits the model to what this writes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import exp, prod
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from gpu_matmul import Bench
from matmul_sweep import APART, RANDOM, SIZES, Operands, Sweep, sources_of

from halocline_engine.errors import HaloclineError

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from matmul_kernels.cuda import room_bytes
from matmul_kernels.cuts import (
    VARIANTS,
    Costs,
    Shares,
    Variant,
    duration,
    padded,
    shares_of,
    usual_variant,
)

__all__ = ["FURTHER", "candidates", "table"]

_ROUNDS = 5
#: Seconds that one cut's turn in a round takes about.
_TURN, _RATE, _LAUNCH = 3e-4, 4.5e13, 3e-6


def _guess(thousands: float, start: float, blocks: int, busy: float = 0.75) -> Costs:
    """Return costs by arithmetic, for a tile of so many times 1024 elements, busy so often."""
    one = thousands * 1024 * 16 / 128 / 1755 / busy
    alone = one if blocks == 1 else one * 1.15
    return Costs(start, one * blocks, alone, 5.0, 0.4, 1.03)


def _direct(*sizes: int, slices: int = 1, busy: float = 0.75) -> Variant:
    costs = _guess(sizes[0] * sizes[1] / 1024 * sizes[2] / 16, 4.0, sizes[7], busy)
    return Variant(*sizes, slices=slices, direct=True, costs=costs)


#: Cuts that might be added to those there are, or were there once.
FURTHER: Sequence[Variant] = (
    Variant(128, 128, 16, 8, 16, 8, 3, 2, costs=_guess(16, 4.0, 2, 0.84)),
    Variant(128, 128, 16, 8, 8, 8, 3, 1, costs=_guess(16, 4.0, 1, 0.8)),
    Variant(128, 128, 16, 8, 8, 8, 4, 1, costs=_guess(16, 4.0, 1, 0.8)),
    _direct(64, 128, 16, 4, 8, 8, 4, 1),
    _direct(64, 128, 16, 8, 8, 8, 4, 3, busy=0.8),
    _direct(64, 128, 16, 8, 8, 8, 3, 1, slices=2),
    _direct(64, 64, 16, 8, 8, 8, 4, 2, slices=2),
    _direct(64, 64, 16, 8, 8, 8, 4, 3, slices=2),
    _direct(64, 64, 16, 8, 8, 8, 3, 1, slices=4, busy=0.65),
    _direct(64, 64, 16, 4, 8, 8, 4, 2, busy=0.6),
    _direct(64, 32, 16, 8, 8, 8, 4, 2, slices=4, busy=0.6),
    _direct(32, 64, 16, 8, 8, 4, 4, 2, slices=4, busy=0.6),
    _direct(32, 64, 16, 8, 8, 4, 3, 2, slices=4, busy=0.6),
    _direct(32, 64, 16, 8, 8, 4, 4, 3, slices=4, busy=0.6),
    _direct(32, 64, 16, 8, 8, 4, 4, 1, slices=8, busy=0.55),
    _direct(32, 64, 16, 8, 8, 4, 4, 4, slices=2, busy=0.55),
    _direct(32, 32, 16, 8, 4, 4, 4, 4, slices=4, busy=0.45),
    replace(_direct(128, 64, 16, 8, 8, 8, 4, 2, busy=0.8), direct=False),
    replace(_direct(64, 64, 16, 8, 8, 8, 4, 2, slices=2), direct=False),
)


@dataclass(frozen=True, slots=True)
class _Case:
    """A cut, what its blocks do, and a graph of `calls` calls that is replayed."""

    variant: Variant
    shares: Shares
    graph: Any
    calls: int
    right: bool


def candidates(
    size: tuple[int, int, int], multiprocessors: int, which: str
) -> Sequence[tuple[Variant, Shares]]:
    """Return cuts that may be the best for a size, the usual one first, each once.

    `which` is 'usual', 'engine' for those that the engine has, or 'all'.
    """
    usual = usual_variant(*size, multiprocessors)
    every = [usual]
    if which != "usual":
        bases = dict.fromkeys(replace(one, parts=0) for one in VARIANTS)
        if which == "all":
            bases |= dict.fromkeys(FURTHER)
        every += [replace(one, parts=parts) for one in bases for parts in (0, 1, 2, 3, 4)]
        every += VARIANTS
    found: dict[tuple[Variant, Shares], tuple[Variant, Shares]] = {}
    aligned = padded(size[1]) == size[1]
    for one in every:
        shares = shares_of(one, *size, multiprocessors)
        cut = replace(one, parts=0, costs=Costs(), direct=one.direct or aligned)
        found.setdefault((cut, shares), (one, shares))
    # The model is least sure of what takes few microseconds and of cuts with guessed costs.
    times = [duration(one, *size, multiprocessors) for one, _ in found.values()]
    most = times[0] * 1.2 + 10
    return [pair for pair, spent in zip(found.values(), times, strict=True) if spent <= most]


class _Cuts:
    """The kernels that are timed, and the time that is left."""

    def __init__(self, bench: Bench, which: str) -> None:
        self._bench, self._cupy, self._which = bench, bench.cupy, which
        self._sweep = Sweep(bench.cupy, bench.machine, bench.multipliers)
        self._count: int = bench.machine.facts.multiprocessors
        self.failed: list[str] = []

    def figure(self, size: tuple[int, int, int]) -> dict[str, Any]:
        """Return the figure for a size: times in microseconds, and shares of cuBLAS."""
        pairs = candidates(size, self._count, self._which)
        with self._sweep.stream:
            operands = self._operands(size, [one for one, _ in pairs])
            calls = max(1, min(24, round(_TURN / (2.0 * prod(size) / _RATE + _LAUNCH))))
            blas, cases = self._cases(size, operands, pairs, calls)
            rounds = [self._round(blas, cases, calls) for _ in range(_ROUNDS)]
        cuts = [
            {
                "cut": case.variant.name,
                "blocks": case.shares.blocks,
                "us": median(own[at] for _, own in rounds) * 1e6,
                "share": median(other / own[at] for other, own in rounds),
                "model_us": duration(case.variant, *size, self._count),
                "in_order": case.shares.chained,
                "right": case.right,
            }
            for at, case in enumerate(cases)
        ]
        best = max(cuts, key=lambda one: one["share"])
        return {
            "shape": size,
            "cublas_us": median(other for other, _ in rounds) * 1e6,
            "usual": cuts[0]["cut"],
            "share": cuts[0]["share"],
            "best": best["cut"],
            "best_share": best["share"],
            "cuts": cuts,
        }

    def _operands(self, size: tuple[int, int, int], cuts: Sequence[Variant]) -> Operands:
        return self._sweep.operands(size, max(room_bytes(one, *size, self._count) for one in cuts))

    def _cases(
        self,
        size: tuple[int, int, int],
        operands: Operands,
        pairs: Sequence[tuple[Variant, Shares]],
        calls: int,
    ) -> tuple[Any, list[_Case]]:
        """Return a graph of cuBLAS and the cases, each of whose results was compared."""
        cupy, (m, n, _) = self._cupy, size
        out, wanted, theirs = (cupy.full((m, n), cupy.nan, cupy.float32) for _ in range(3))
        left, right = operands.arrays[:2]
        bound = APART * (abs(left) @ abs(right))
        self._bench.multipliers.in_order("rows", operands.into(wanted), "float32", n)

        def other() -> None:
            self._sweep.blas.multiply(operands.into(theirs))

        other()
        blas = self._sweep.graph(other, calls)
        cases: list[_Case] = []
        for variant, shares in pairs:
            work = self._work(variant, operands, out, size)
            out.fill(cupy.nan)
            try:
                work()
            except (RuntimeError, HaloclineError) as error:
                # A cut that might be added may ask for what the device does not have.
                self.failed.append(f"{variant.name}: {error}")
                continue
            first = out.copy()
            same = first == wanted if shares.chained else abs(first - wanted) <= bound
            out.fill(cupy.nan)
            graph = self._sweep.graph(work, calls)
            done = bool(same.all()) and bool((out == first).all())
            cases.append(_Case(variant, shares, graph, calls, done))
        return blas, cases

    def _work(
        self, variant: Variant, operands: Operands, out: Any, size: tuple[int, int, int]
    ) -> Callable[[], None]:
        ends, width = operands.into(out), self._sweep.width(variant, size)
        return lambda: self._bench.multipliers.multiply(ends, variant, width)

    def _round(
        self, blas: Any, cases: Sequence[_Case], calls: int
    ) -> tuple[float, Sequence[float]]:
        """Return seconds of a call of cuBLAS, the mean of before and after, and of each case."""
        before = self._sweep.seconds(blas) / calls
        own = [self._sweep.seconds(case.graph) / case.calls for case in cases]
        return (before + self._sweep.seconds(blas) / calls) / 2, own


def table(figures: Sequence[dict[str, Any]], most: int = 15) -> list[str]:
    """Return a summary, and a line for each of the sizes with the lowest shares."""
    if not figures:
        return []
    shares, best = ([one[key] for one in figures] for key in ("share", "best_share"))
    wrong = [
        (one["shape"], cut["cut"]) for one in figures for cut in one["cuts"] if not cut["right"]
    ]
    lines = [
        f"{len(figures)} sizes; usual: least {min(shares):.3f}, median {median(shares):.3f};"
        f" best: least {min(best):.3f}, median {median(best):.3f};"
        f" mean loss {1 - exp(float(np.mean(np.log(np.divide(shares, best))))):.4f};"
        f" wrong: {wrong[:20]}"
    ]
    return lines + [
        f"{'x'.join(map(str, one['shape'])):15} cuBLAS {one['cublas_us']:7.1f} us"
        f"  {one['share']:.3f} {one['usual']:42}  best {one['best_share']:.3f} {one['best']}"
        for one in sorted(figures, key=lambda one: one["share"])[:most]
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--commit", default="")
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--only", choices=("usual", "engine", "all"), default="all")
    asked = parser.parse_args()
    started = time.monotonic()
    bench = Bench(asked.seconds)
    bench.compile(sources_of([*VARIANTS, *(FURTHER if asked.only == "all" else ())]))
    print(f"compiled after {time.monotonic() - started:.1f} s", flush=True)
    cuts, made = _Cuts(bench, asked.only), list[dict[str, Any]]()
    figures: dict[str, Any] = {
        "commit": asked.commit,
        "time": datetime.now(UTC).isoformat(),
        "device": bench.machine.facts.name,
        "multiprocessors": bench.machine.facts.multiprocessors,
        "cuts": made,
        "skipped": bench.skipped,
    }
    try:
        for size in sorted({*SIZES, *RANDOM}, key=lambda size: (prod(size), size)):
            if bench.left(f"cuts {size}"):
                made.append(cuts.figure(size))
                bench.cupy.get_default_memory_pool().free_all_blocks()
    finally:
        asked.result.write_text(json.dumps(figures, default=str))
        spent = time.monotonic() - started
        print(f"done after {spent:.1f} s; skipped: {bench.skipped}; failed: {cuts.failed}")
        print(*table(made), sep="\n")


if __name__ == "__main__":
    main()
