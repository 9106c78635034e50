"""Check and time many steps of `he.run` on small datasets; prints a table, writes JSON.

    PYTHONPATH=engine python tests/benchmarks/gpu_steps.py RESULT.json --commit COMMIT
        [--target cuda] [--steps 1000] [--seconds 30] [--small]

Needs NumPy and the engine, and CuPy for the target cuda. Microseconds a step: of the whole call,
which compiles, plans, reads and writes; of the steps of its pass alone, which is what is asked
for; of each step more than two; and of `Stencil.repeat` on arrays with the same domain, which
makes no ghosts. Before that, 41 steps of each case in one pass are compared bit by bit with as
many passes of one step, whose ghosts are copied slice by slice. Last, how long a run lasts after
it is cancelled.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import xarray as xr

import halocline_engine as he
from halocline_engine.backends.base import Array
from halocline_engine.distribute.blocks.scalars import StepScalars
from halocline_engine.distribute.blocks.steps import BlockFields
from halocline_engine.distribute.tasks.cancel import CancelToken
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.errors import CancelledError

__all__ = ["main"]

FIVE = """
def five(u: Field[float64], v: Field[float64], w: float64):
    with computation(PARALLEL), interval(...):
        v = u + w * (u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0] - 4.0 * u)
"""
SEVEN = """
def seven(u: Field[float64], v: Field[float64], w: float64):
    with computation(PARALLEL), interval(...):
        v = u + w * (u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0] + u[0, 0, -1]
                     + u[0, 0, 1] - 6.0 * u)
"""
TWO = """
def two(a: Field[float64], p: Field[float64], b: Field[float64], q: Field[float64], w: float64):
    with computation(PARALLEL), interval(...):
        q = p + w * (a[-1, 0, 0] + a[1, 0, 0] + a[0, -1, 0] + a[0, 1, 0] - 4.0 * a)
        b = a + w * (p[-1, 0, 0] + p[1, 0, 0] + p[0, -1, 0] + p[0, 1, 0] - 4.0 * p)
"""
MIXED = {
    "x": {"low": "edge", "high": {"constant": 0.5}},
    "y": {"low": "reflect", "high": "extrapolate"},
}


@dataclass(frozen=True)
class Case:
    """A program on a grid of so many points along z, y and x; the same boundary at all ends."""

    name: str
    text: str
    shape: tuple[int, ...]
    boundary: Any
    feedback: Mapping[str, str]
    share: float = 1.0

    @property
    def dims(self) -> tuple[str, ...]:
        return ("z", "y", "x")[-len(self.shape) :]

    def dataset(self) -> xr.Dataset:
        rng = np.random.default_rng(1)
        return xr.Dataset({n: (self.dims, rng.random(self.shape)) for n in self.feedback.values()})

    def run(self, data: xr.Dataset, target: str, steps: int, **given: Any) -> xr.Dataset:
        whole = self.boundary is MIXED
        sides = MIXED if whole else dict.fromkeys(self.dims, self.boundary)
        return he.run(
            self.text,
            data,
            scalars={"w": 0.1},
            axes={"I": "x", "J": "y", "K": "z" if len(self.shape) == 3 else None},
            boundary=sides,
            steps=steps,
            feedback=self.feedback,
            target=target,
            **given,
        )


ONE = {"v": "u"}
KINDS = ("periodic", "edge", "reflect", "extrapolate", "none", {"constant": 0.5})
CASES = (
    Case("2d5pt 128 x 128, periodic", FIVE, (128, 128), "periodic", ONE),
    *(
        Case(
            f"2d5pt 512 x 512, {k if isinstance(k, str) else 'constant'}", FIVE, (512, 512), k, ONE
        )
        for k in KINDS
    ),
    Case("2d5pt 512 x 512, each end another", FIVE, (512, 512), MIXED, ONE),
    Case("two fields 512 x 512, periodic", TWO, (512, 512), "periodic", {"q": "p", "b": "a"}),
    Case("2d5pt 2048 x 2048, periodic", FIVE, (2048, 2048), "periodic", ONE),
    Case("3d7pt 64 x 64 x 64, periodic", SEVEN, (64, 64, 64), "periodic", ONE),
    Case("3d7pt 256 x 256 x 256, periodic", SEVEN, (256, 256, 256), "periodic", ONE, 0.2),
)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("result", type=Path)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--small", action="store_true", help="small grids, to try it out")
    options = parser.parse_args()
    until = perf_counter() + options.seconds
    found: list[dict[str, Any]] = []
    for one in CASES:
        small = tuple(min(16, n) for n in one.shape)
        case = Case(one.name, one.text, small, one.boundary, one.feedback) if options.small else one
        if perf_counter() > until:
            found.append({"case": case.name, "error": "no time was left"})
            continue
        steps = max(4, int(options.steps * case.share))
        row = {"case": case.name, "steps": steps, "same_bits": _same_bits(case, options.target)}
        found.append(row | _times(case, options.target, steps))
        print(_line(found[-1]), flush=True)
    record = {
        "target": options.target,
        "device": _device(options.target),
        "date": datetime.now(UTC).date().isoformat(),
        "commit": options.commit,
        "cases": found,
        "seconds_after_cancelling": _cancelled(CASES[1], options.target),
    }
    options.result.write_text(json.dumps(record, indent=1) + "\n")
    print(f"seconds after cancelling {record['seconds_after_cancelling']:.3f}")


def _same_bits(case: Case, target: str) -> bool:
    """Whether steps in one pass give what passes of one step give."""
    data, steps = case.dataset(), 41 if np.prod(case.shape) < 10**6 else 5
    several = [
        case.run(data, target, steps, options=Options(steps_per_pass=fused)) for fused in (steps, 1)
    ]
    first, second = ([done[name].values.tobytes() for name in case.feedback] for done in several)
    return first == second


def _times(case: Case, target: str, steps: int) -> dict[str, float]:
    data = case.dataset()
    few = min(_timed(case, data, target, 2)[0] for _ in range(3))
    many = [_timed(case, data, target, steps) for _ in range(3)]
    whole = min(total for total, _ in many)
    return {
        "whole_call": whole / steps * 1e6,
        "steps_of_the_pass": min(inner for _, inner in many) / steps * 1e6,
        "each_step_more": (whole - few) / (steps - 2) * 1e6,
        "kernels_alone": _alone(case, target, steps) / steps * 1e6,
    }


def _timed(case: Case, data: xr.Dataset, target: str, steps: int) -> tuple[float, float]:
    """Return the seconds of a call, and of all steps in it."""
    with _watched() as inner:
        began = perf_counter()
        case.run(data, target, steps)
        return perf_counter() - began, sum(inner)


@contextmanager
def _watched() -> Generator[list[float]]:
    """Give a list that grows with the seconds of each block's steps."""
    plain = BlockFields.advance
    found: list[float] = []

    def advance(
        self: BlockFields, scalars: StepScalars, cancelled: CancelToken | None
    ) -> Mapping[str, Array]:
        began = perf_counter()
        try:
            return plain(self, scalars, cancelled)
        finally:
            found.append(perf_counter() - began)

    BlockFields.advance = advance
    try:
        yield found
    finally:
        BlockFields.advance = plain


def _alone(case: Case, target: str, steps: int) -> float:
    """Return the seconds of as many steps on arrays, without ghosts."""
    stencil = he.stencil(case.text, target=target)
    memory = stencil.compiled.artifact.load().memory
    i, j, k = (*reversed(case.shape), 1)[:3]
    deep = int(len(case.shape) == 3)
    names = [name for pair in case.feedback.items() for name in pair]
    shape, origin = (i + 2, j + 2, k + 2 * deep), (1, 1, deep)
    arrays = {name: memory.empty(shape, np.dtype("float64"), origin) for name in names}
    for array in arrays.values():
        array[...] = 1.0

    def once() -> float:
        began = perf_counter()
        stencil.repeat(
            steps, **arrays, w=0.1, feedback=case.feedback, origin=origin, domain=(i, j, k)
        )
        memory.download(next(iter(arrays.values()))[:1, :1, :1])
        return perf_counter() - began

    once()
    return min(once() for _ in range(3))


def _cancelled(case: Case, target: str) -> float:
    """Return the seconds that a long run lasts after it was cancelled."""
    began, asked_at = perf_counter(), list[float]()

    def cancelled() -> bool:
        if perf_counter() - began > 0.3:
            asked_at.append(perf_counter())
        return bool(asked_at)

    try:
        case.run(case.dataset(), target, 10**7, cancelled=cancelled)
    except CancelledError:
        return perf_counter() - asked_at[0]
    return float("nan")


def _device(target: str) -> str:
    if target != "cuda":
        return "host"
    from halocline_engine.device.probe import device_facts

    return device_facts().name


def _line(row: Mapping[str, Any]) -> str:
    names = ("whole_call", "steps_of_the_pass", "each_step_more", "kernels_alone")
    figures = " ".join(f"{name} {row[name]:8.2f}" for name in names)
    return f"{row['case']:36} {'same bits' if row['same_bits'] else 'OTHER BITS'} {figures}"


if __name__ == "__main__":
    main()
