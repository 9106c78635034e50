"""Check and time thousands of steps on small grids on one GPU; prints lines, writes JSON.

    PYTHONPATH=engine python tests/benchmarks/gpu_small_steps.py RESULT.json --commit COMMIT
        [--seconds 80] [--sweep]

Needs NumPy, CuPy and the engine. Microseconds a step: of `Stencil.repeat`, all sides fixed, and of
the steps of `he.run` on blocks that stay in memory, periodic. The bits must be those of as many
calls of one step, and of passes of one step. With `--sweep`, so many steps at once on tiles of
several shapes too, whether or not the model would choose them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import xarray as xr

import halocline_engine as he
from halocline_engine.backends.cuda.kernels.temporal.choose import usual_form
from halocline_engine.backends.cuda.kernels.temporal.text import fused_text
from halocline_engine.backends.cuda.kernels.temporal.tile import FusedTile
from halocline_engine.backends.cuda.runtime.executable import CudaExecutable
from halocline_engine.backends.cuda.runtime.fused import FusedExecutable
from halocline_engine.backends.fusing import CLOSED
from halocline_engine.cache import Cache, key_of
from halocline_engine.device.cupy_types import cupy as imported_cupy
from halocline_engine.device.machine import CudaMachine, current_machine
from halocline_engine.distribute.tasks.events import Event, StepsFinished
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.program import compile_program
from halocline_engine.schedule.temporal.levels import Levels, levels_at_once
from halocline_engine.schedule.temporal.step import Refused, step_of

__all__ = ["main"]

STEPS = 10_000
FEEDBACK = {"v": "u"}
FIVE = """
def five(u: Field[REAL], v: Field[REAL]):
    with computation(PARALLEL), interval(...):
        v = 0.2 * (((u + u[-1, 0, 0]) + (u[1, 0, 0] + u[0, -1, 0])) + u[0, 1, 0])
"""
SEVEN = """
def seven(u: Field[REAL], v: Field[REAL]):
    with computation(PARALLEL), interval(...):
        v = 0.14 * ((u[-1, 0, 0] + u[1, 0, 0]) + (u[0, -1, 0] + u[0, 1, 0])
                    + (u[0, 0, -1] + u[0, 0, 1]) + u)
"""
#: Tiles of a sweep where planes are independent: the columns of a lane and the rows of a block.
FLAT = [(width, depth) for width in (1, 2) for depth in (4, 8, 16)]
#: And where planes follow one another: columns and rows of a lane, warps, planes of a block.
TALL = [(1, 1, 16, 8), (1, 2, 8, 8), (1, 2, 16, 8), (1, 2, 16, 16), (2, 2, 16, 16)]


@dataclass(frozen=True)
class Case:
    """A program on a domain, with one type."""

    text: str
    domain: tuple[int, int, int]
    dtype: str

    @property
    def name(self) -> str:
        sizes = " x ".join(str(n) for n in self.domain if n > 1)
        return f"{'3d7pt' if self.text is SEVEN else '2d5pt'} {sizes} {self.dtype}"

    @property
    def halo(self) -> tuple[int, int, int]:
        return 1, 1, int(self.text is SEVEN)

    @property
    def program(self) -> str:
        return self.text.replace("REAL", self.dtype)

    @property
    def precision(self) -> dict[str, int]:
        return {"int": 64, "float": int(self.dtype[-2:])}


CASES = [
    Case(text, domain, dtype)
    for text, domain in (
        (FIVE, (256, 256, 1)),
        (FIVE, (512, 512, 1)),
        (SEVEN, (64, 64, 64)),
        (SEVEN, (128, 128, 128)),
    )
    for dtype in ("float32", "float64")
]


class Bench:
    """A case: its arrays on the device, in the memory of the target."""

    def __init__(self, case: Case, machine: CudaMachine, cache: Cache) -> None:
        self.case, self.machine, self.cache = case, machine, cache
        compiled = compile_program(
            case.program, literal_precision=case.precision, target="cuda", arithmetic="separate"
        )
        self.single = CudaExecutable(compiled.schedule, machine, cache)
        step = step_of(compiled.program, compiled.facts, FEEDBACK)
        assert not isinstance(step, Refused), step
        self.step = step
        self.stencil = he.stencil(
            case.program, target="cuda", literal_precision=case.precision, tune="off"
        )

    def arrays(self) -> dict[str, Any]:
        """Return equal arrays for both fields, the same at each call."""
        shape = [n + 2 * h for n, h in zip(self.case.domain, self.case.halo, strict=True)]
        values = np.random.default_rng(3).random(shape).astype(self.case.dtype)
        i, j, k = shape
        found: dict[str, Any] = {}
        for name in ("u", "v"):
            found[name] = self.single.memory.empty((i, j, k), values.dtype, self.case.halo)
            found[name][...] = imported_cupy().asarray(values)
        return found

    def repeated(self) -> dict[str, Any]:
        """Time `Stencil.repeat`, and compare its bits with those of single steps."""
        where: Any = {"origin": self.case.halo, "domain": self.case.domain}
        found: list[float] = []
        arrays: dict[str, Any] = {}
        for _ in range(3):
            arrays = self.arrays()
            began = perf_counter()
            self.stencil.repeat(STEPS, **arrays, feedback=FEEDBACK, **where)
            found.append(perf_counter() - began)
        alone = self.arrays()
        origins = dict.fromkeys(alone, self.case.halo)
        for step in range(STEPS):
            u, v = ("u", "v") if step % 2 == 0 else ("v", "u")
            self.single({"u": alone[u], "v": alone[v]}, {}, origins, self.case.domain)
        each = self.single.fused_steps_in_turns(FEEDBACK, self.case.domain, alone)
        same = all(_bits(arrays[name]) == _bits(alone[name]) for name in alone)
        return {"repeat": 1e6 * min(found) / STEPS, "at_once": each, "same_bits": same}

    def tried(self) -> list[tuple[Levels, FusedTile]]:
        """Return the numbers of steps at once and the tiles of a sweep."""
        if self.step.is_vertical:
            several, tiles = (2, 3, 4, 5), [_tall(*one) for one in TALL]
        else:
            several, tiles = (3, 5, 7, 9, 11), [FusedTile(width, depth) for width, depth in FLAT]
        return [(levels_at_once(self.step, n), tile) for n in several for tile in tiles]

    def compile(self) -> None:
        """Compile what a sweep needs; the bytes stay in the cache."""
        for source in {fused_text(usual_form(*one)) for one in self.tried()}:
            key = key_of(source, self.machine.compiler)
            self.cache.get(key, lambda source=source: self.machine.compile(source))

    def swept(self) -> Iterator[dict[str, Any]]:
        """Time steps at once on tiles of several shapes, as passes of a graph."""
        arrays = self.arrays()
        for levels, tile in self.tried():
            shown = {"steps": levels.steps, "tile": str(tile)}
            try:
                seconds = self._pass(levels, tile, arrays)
            except Exception as error:  # a tile that does not fit ends no sweep
                yield {**shown, "refused": repr(error)[:200]}
                continue
            yield {**shown, "each": 1e6 * seconds / levels.steps}

    def _pass(self, levels: Levels, tile: FusedTile, arrays: dict[str, Any]) -> float:
        def chosen(_levels: Levels, _domain: tuple[int, int, int]) -> FusedTile:
            return tile

        several = FusedExecutable(levels, self.machine, self.cache, chosen, sides=CLOSED)
        origins = dict.fromkeys(arrays, self.case.halo)
        call = several.prepared(arrays, {}, origins, self.case.domain)
        call()
        several.repeat(call, 100)
        times = 1000
        began = perf_counter()
        several.repeat(call, times)
        return (perf_counter() - began) / times

    def resident(self, bundle: int | None) -> dict[str, Any]:
        """Time the steps of a periodic run on blocks that stay in memory; say how it was cut."""
        ni, nj, nk = self.case.domain
        dims, shape = ("z", "y", "x"), (nk, nj, ni)
        if nk == 1:
            dims, shape = dims[1:], shape[1:]
        values = np.random.default_rng(3).random(shape).astype(self.case.dtype)
        data = xr.Dataset({"u": (dims, values)})
        how: dict[str, Any] = {
            "axes": {"I": "x", "J": "y", "K": "z" if nk > 1 else None},
            "boundary": dict.fromkeys(dims, "periodic"),
            "steps": STEPS,
            "feedback": FEEDBACK,
            "target": "cuda",
        }
        events: list[Event] = []
        found: list[float] = []
        result = None
        for _ in range(2):
            events.clear()
            how["options"] = Options() if bundle is None else Options(steps_per_pass=bundle)
            result = he.run(
                he.stencil(self.case.program, target="cuda", literal_precision=self.case.precision),
                data,
                mode="resident",
                on_event=events.append,
                **how,
            )
            last = [one for one in events if isinstance(one, StepsFinished)][-1]
            found.append(1e6 * last.seconds / STEPS)
        assert result is not None
        return {"bundle": bundle, "steps": min(found), "digest": hash(result["v"].values.tobytes())}


def _tall(width: int, rows: int, warps: int, depth: int) -> FusedTile:
    return FusedTile(width, depth, rows=rows, warps=warps, ahead=1)


def _bits(array: Any) -> bytes:
    return imported_cupy().asnumpy(array).tobytes()


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("result", type=Path)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--seconds", type=float, default=80.0)
    parser.add_argument("--sweep", action="store_true")
    given = parser.parse_args()
    until = perf_counter() + given.seconds
    machine = current_machine()
    cache = Cache(given.result.parent / "compiled")
    found: list[dict[str, Any]] = []
    benches = [Bench(case, machine, cache) for case in CASES]

    def note(bench: Bench, what: str, figures: dict[str, Any]) -> None:
        found.append({"case": bench.case.name, "what": what, **figures})
        print(json.dumps(found[-1]), flush=True)

    for bench in benches:
        note(bench, "repeat", bench.repeated())
    for bench in benches:
        for bundle in (None, 1, 2, 4, 8, 16):
            if perf_counter() < until:
                note(bench, "resident", bench.resident(bundle))
    swept = [bench for bench in benches if given.sweep and bench.case.domain[0] < 512]
    with ThreadPoolExecutor(14) as pool:
        for job in [pool.submit(bench.compile) for bench in swept]:
            job.result()
    for bench in swept:
        for figures in bench.swept():
            if perf_counter() > until:
                break
            note(bench, "at once", figures)
    given.result.write_text(
        json.dumps(
            {
                "device": machine.facts.name,
                "date": datetime.now(UTC).date().isoformat(),
                "commit": given.commit,
                "figures": found,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
