"""Fit the model of cuts of products to what `matmul_cuts` measured, and say what it then chooses.

    PYTHONPATH=engine python tests/benchmarks/matmul_fit.py RESULT.json ... [--cuts COUNT] [--every]

To be used again when cuts are added or the kernel changes. The costs of each cut are fitted to its
times at the given sizes of `matmul_sweep`, or with `--every` to the random ones too, which are only
judged otherwise. Then cuts are taken one by one, each in all parts that the engine has, at each
turn the one with which the model's choices have the highest shares, also where the model errs by
some per cent. Costs are printed as the engine has them, with the median and the largest error of
the model, the shares of the cuts that the engine has now with the costs fitted, and the sizes at
which the choice is worst.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np
from matmul_cuts import FURTHER
from matmul_sweep import SIZES

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from matmul_kernels.cuts import (
    VARIANTS,
    Costs,
    Shares,
    Variant,
    duration,
    padded,
    shares_of,
)

_WIDEST = 5
#: What a stage of one block takes of that of all a multiprocessor has, where a fit begins.
_ALONE = 0.57
#: How bad it is to leave that beginning, so that costs of which few times tell stay there.
_PRIOR = np.array([0.1, 0.1, 1.0, 0.1, 0.1, 0.1])
#: Shares below these count so many times more.
_GOALS = {1.0: 0.0, 0.97: 3.0, 0.92: 10.0}
#: Parts of tiles that the engine has, and how often and how far the model errs when it is judged.
_PARTS, _DRAWS, _ERROR = (0, 1, 2), 24, 0.02

Size = tuple[int, int, int]
Times = dict[Variant, list[tuple[Size, Variant, float]]]


def _cuts() -> Mapping[str, tuple[Variant, Variant]]:
    """Return each cut that may have been measured, and what it is without parts, by its name."""
    bases = dict.fromkeys(replace(one, parts=0) for one in (*VARIANTS, *FURTHER))
    every = [(replace(one, parts=parts), one) for one in bases for parts in range(_WIDEST)]
    return {one.name: (one, base) for one, base in every}


def _measured(figures: Sequence[Mapping[str, Any]], cuts: Mapping[str, Any]) -> Times:
    """Return the times of all cuts without parts, each with its parts, at all sizes."""
    found: Times = defaultdict(list)
    for figure in figures:
        m, n, k = figure["shape"]
        for one in figure["cuts"]:
            cut, base = cuts[one["cut"]]
            found[base].append(((m, n, k), cut, one["us"]))
    return found


def fitted(base: Variant, times: Sequence[tuple[Size, Variant, float]], count: int) -> Costs:
    """Return the costs with which the model is nearest to times, relative to them."""
    start = np.maximum(1e-3, astuple(base.costs))
    alone = base.resident > 1
    # From where both are the same, no step tells the fit which way is better.
    start[2] = (_ALONE if alone else 1.0) * start[1]

    def apart(factors: Any) -> Any:
        costs = _costs(start * factors, alone=alone)
        errors = [
            np.log(duration(replace(cut, costs=costs), *size, count) / spent)
            for size, cut, spent in times
        ]
        return [*errors, *(_PRIOR * (factors - 1))]

    fit: Any = importlib.import_module("scipy.optimize").least_squares
    made = fit(apart, np.ones(len(start)), bounds=(0, 8), loss="soft_l1", f_scale=0.03)
    return _costs(np.round(start * made.x, 3), alone=alone)


def _costs(values: Any, *, alone: bool) -> Costs:
    start, stage, one, left, more, odd = (float(value) for value in values)
    return Costs(start, stage, min(one, stage) if alone else stage, left, more, max(1.0, odd))


def _same(cut: Variant, base: Variant, size: Size, count: int) -> tuple[Variant, Shares]:
    """Return what two cuts have in common that are the same for a size."""
    aligned = padded(size[1]) == size[1]
    same = replace(base, costs=Costs(), direct=base.direct or aligned)
    return same, shares_of(cut, *size, count)


class Judge:
    """Shares of all cuts at all sizes, and the times that the model gives them."""

    def __init__(
        self,
        figures: Sequence[Mapping[str, Any]],
        cuts: Mapping[str, tuple[Variant, Variant]],
        costs: Mapping[Variant, Costs],
        count: int,
    ) -> None:
        self.sizes: list[Any] = [tuple(figure["shape"]) for figure in figures]
        self.seen = np.array([size in SIZES for size in self.sizes])
        names = sorted({one["cut"] for figure in figures for one in figure["cuts"]})
        self.names = [name for name in names if cuts[name][1] in costs]
        self.shares: Any = np.zeros((len(figures), len(self.names)))
        self.model: Any = np.full(self.shares.shape, np.inf)
        for row, figure in enumerate(figures):
            m, n, k = figure["shape"]
            known = {
                _same(*cuts[one["cut"]], (m, n, k), count): one["share"] for one in figure["cuts"]
            }
            for column, name in enumerate(self.names):
                cut, base = cuts[name]
                spent = duration(replace(cut, costs=costs[base]), m, n, k, count)
                self.model[row, column] = spent
                # What was not measured has what the model says.
                share = known.get(_same(cut, base, (m, n, k), count))
                self.shares[row, column] = share or figure["cublas_us"] / spent

        errors = np.random.default_rng(1).normal(0, _ERROR, (_DRAWS, *self.model.shape))
        errors[0] = 0
        self._logs = np.log(self.model) + errors
        self.bases: dict[str, list[int]] = defaultdict(list)
        for column, name in enumerate(self.names):
            cut, base = cuts[name]
            if cut.parts in _PARTS:
                self.bases[base.name].append(column)

    def chosen(self, bases: Sequence[str]) -> Any:
        """Return the column of the cut that the model takes [draw, size], in draw 0 as it is."""
        columns = [column for base in bases for column in self.bases[base]]
        return np.asarray(columns)[self._logs[:, :, columns].argmin(axis=2)]

    def share(self, bases: Sequence[str]) -> Any:
        """Return the shares of what the model takes [draw, size]."""
        return self.shares[np.arange(len(self.sizes)), self.chosen(bases)]

    def loss(self, bases: Sequence[str]) -> float:
        """Return how bad the choices are at the given sizes."""
        logs = np.log(np.maximum(1e-3, self.share(bases)[:, self.seen]))
        below = [weight * np.maximum(0, np.log(goal) - logs) for goal, weight in _GOALS.items()]
        return float((sum(below) - logs).mean())

    def tell(self, bases: Sequence[str]) -> str:
        """Return the least shares of what the model takes, and those where it errs."""
        share = self.share(bases)
        parts = [
            f"{name} least {those[0].min(initial=9):.3f}, below 0.9 {(those[0] < 0.9).sum()},"
            f" with errors {those.min(axis=1, initial=9).mean():.3f}"
            for name, those in (("given", share[:, self.seen]), ("random", share[:, ~self.seen]))
        ]
        return f"loss {self.loss(bases):.4f}; {'; '.join(parts)}"

    def taken(self, most: int) -> list[str]:
        """Return cuts, one after the other the one that helps most."""
        bases: list[str] = []
        for _ in range(most):
            losses = {one: self.loss([*bases, one]) for one in self.bases if one not in bases}
            best = min(losses, key=lambda one: losses[one])
            if bases and losses[best] >= self.loss(bases) - 1e-5:
                break
            bases.append(best)
            print(f"{len(bases):2} {best:42} {self.tell(bases)}")
        return bases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--cuts", type=int, default=10)
    parser.add_argument("--every", action="store_true")
    asked = parser.parse_args()
    results = [json.loads(path.read_text()) for path in asked.results]
    figures = [figure for result in results for figure in result["cuts"]]
    count: int = results[0]["multiprocessors"]
    cuts = _cuts()
    seen = [one for one in figures if asked.every or tuple(one["shape"]) in SIZES]
    costs: dict[Variant, Costs] = {}
    every = _measured(figures, cuts)
    for base, times in _measured(seen, cuts).items():
        costs[base] = fitted(base, times, count)
        errors = [
            abs(np.log(duration(replace(cut, costs=costs[base]), *size, count) / spent))
            for size, cut, spent in every[base]
        ]
        print(
            f"{base.name:42} {len(times):4} times, errors {np.median(errors):.3f}"
            f" to {max(errors):.3f}  {costs[base]}"
        )
    judge = Judge(figures, cuts, costs, count)
    judge.taken(asked.cuts)
    bases = [one.name for one in dict.fromkeys(replace(one, parts=0) for one in VARIANTS)]
    print(f"the engine's: {judge.tell(bases)}")
    share, chosen, best = judge.share(bases)[0], judge.chosen(bases)[0], judge.shares.argmax(axis=1)
    for row in np.argsort(share)[:15]:
        print(
            f"{'x'.join(map(str, judge.sizes[row])):16} {share[row]:.3f}"
            f" {judge.names[chosen[row]]:42} best {judge.shares[row].max():.3f}"
            f" {judge.names[best[row]]}"
        )


if __name__ == "__main__":
    main()
