"""Run the analytic columns in time to their end on one target, and write what came out.

    PYTHONPATH=engine python tests/benchmarks/columns_in_full.py RESULT.json --target cpu
        [--only NAME ...] [--commit COMMIT]

For each case of `column_runs`: the figures that it is judged by, each state after `EARLY` steps,
which a test makes again, and the last one. Air at rest takes 864 000 steps, which is half a minute
with "cpu" and most of an hour with "reference". Exits with 1 where a bound is not kept.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from datetime import UTC, datetime
from itertools import pairwise
from math import log2
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from column_runs import CASES, Case, States, run_case

from halocline_engine.device.probe import device_facts

__all__ = ["EARLY", "ORDERS", "beyond", "main", "orders"]

#: Steps to the states that a test makes again.
EARLY = 40
#: What the order of transport and diffusion together must lie between.
ORDERS = (1.4, 2.6)


def main() -> None:
    """Run the cases, print their figures, write them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("result", type=Path)
    parser.add_argument("--target", choices=("reference", "cpu", "cuda"), default="cpu")
    parser.add_argument("--only", nargs="+", choices=tuple(CASES), default=tuple(CASES))
    parser.add_argument("--commit", default="unknown")
    options = parser.parse_args()
    record: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": options.commit,
        "target": options.target,
        "device": device_facts().name if options.target == "cuda" else platform.machine(),
        "python": platform.python_version(),
        "cases": {},
    }
    faults: list[str] = []
    for name in options.only:
        case = CASES[name]()
        found = _whole(case, options.target)
        record["cases"][name] = found
        faults += beyond(case, found["figures"])
        print(name, f"{found['seconds']:.1f} s", found["figures"], flush=True)
        options.result.write_text(json.dumps(record, indent=1) + "\n")
    falling = orders({name: one["figures"] for name, one in record["cases"].items()})
    print("orders", falling)
    faults += [f"order {one:.3f}" for one in falling if not ORDERS[0] < one < ORDERS[1]]
    if faults:
        sys.exit("; ".join(faults))


def _whole(case: Case, target: str) -> dict[str, Any]:
    early = dict(run_case(case, target, steps=EARLY, every=EARLY))
    started = perf_counter()
    states = dict(run_case(case, target))
    return {
        "steps": case.steps,
        "step": case.step,
        "seconds": round(perf_counter() - started, 2),
        "figures": case.judge(states),
        "early": _plain(early[max(early)]),
        "last": _plain(states[max(states)]),
    }


def _plain(state: States) -> dict[str, list[float]]:
    return {name: values.tolist() for name, values in state.items()}


def beyond(case: Case, figures: dict[str, float]) -> list[str]:
    """Return which figures are not what they must be, in words."""
    found = [
        f"{case.name}: {name} is {figures[name]:.3g}, not below {bound:g}"
        for name, bound in case.bounds.items()
        if not abs(figures[name]) < bound
    ]
    for name, (expected, share) in case.near.items():
        if not abs(figures[name] - expected) <= share * abs(expected):
            found.append(f"{case.name}: {name} is {figures[name]:.5g}, not {expected:.5g}")
    return found


def orders(figures: dict[str, dict[str, float]]) -> list[float]:
    """Return how fast the error of transport and diffusion falls per halving of the cells."""
    errors = [one["error"] for name, one in figures.items() if name.startswith("carried")]
    return [log2(coarse / fine) for coarse, fine in pairwise(errors)]


if __name__ == "__main__":
    main()
