"""Steps and solves that stay on one GPU and on several, weak and strong; prints and writes JSON.

    PYTHONPATH=engine python tests/benchmarks/gpu_scaling.py RESULT.json --commit COMMIT
        [--devices 1 2] [--cases NAME ...] [--seconds 1.0] [--limit 240] [--target cuda]

Needs NumPy, CuPy, Dask and the engine. The rate of a case is that of its last stretches of steps,
when all code is loaded; that of a solve is of its fastest call after the first one, from arrays of
this process to arrays of it, and of its fastest pass in which rows that are on the devices are
solved there. An efficiency compares it with the rate of one device: of as many cells for each
(weak), or divided among all (strong). Results of strong cases must have the same bits. Nothing is
begun after `--limit` seconds, and a case that takes two minutes ends the script.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import xarray as xr

import halocline_engine as he
from halocline_engine.device.probe import device_count, device_facts
from halocline_engine.distribute.tasks.events import (
    Event,
    PassFinished,
    Planned,
    StepsFinished,
)

__all__ = ["main"]

Row: TypeAlias = dict[str, Any]
_HANGS = 120.0  # seconds of a case
_SOLVE = 1  # the pass of a solve in which rows are on the devices

FIVE = """
def p(u: Field[np.float32], v: Field[np.float32], w: np.float32):
    with computation(PARALLEL), interval(...):
        around = u[1, 0, 0] + u[-1, 0, 0] + u[0, 1, 0] + u[0, -1, 0]
        v = u + w * (around - np.float32(4.0) * u)
"""
SEVEN = """
def p(u: Field[np.float32], v: Field[np.float32], w: np.float32):
    with computation(PARALLEL), interval(...):
        beside = u[1, 0, 0] + u[-1, 0, 0] + u[0, 1, 0] + u[0, -1, 0]
        v = u + w * (beside + u[0, 0, 1] + u[0, 0, -1] - np.float32(6.0) * u)
"""
DIFFUSION = """
def p(u: Field[np.float32], v: Field[np.float32], w: np.float32):
    with computation(PARALLEL), interval(...):
        lap = np.float32(4.0) * u - (u[1, 0, 0] + u[-1, 0, 0] + u[0, 1, 0] + u[0, -1, 0])
        fx = lap[1, 0, 0] - lap[0, 0, 0]
        fx = np.float32(0.0) if fx * (u[1, 0, 0] - u[0, 0, 0]) > np.float32(0.0) else fx
        fy = lap[0, 1, 0] - lap[0, 0, 0]
        fy = np.float32(0.0) if fy * (u[0, 1, 0] - u[0, 0, 0]) > np.float32(0.0) else fy
        v = u - w * (fx - fx[-1, 0, 0] + fy - fy[0, -1, 0])
"""


@dataclass(frozen=True)
class Case:
    """A program on a grid: `sizes` of each device if `weak`, of all together else.

    `bundle` is how many steps lie between two exchanges, None for what the engine chooses.
    """

    name: str
    text: str
    sizes: Mapping[str, int]
    weak: bool
    bundle: int | None = None
    boundary: Mapping[str, Any] = field(default_factory=lambda: {"x": "periodic", "y": "periodic"})

    def data(self, devices: int) -> xr.Dataset:
        sizes = dict(self.sizes)
        if self.weak:
            sizes["y"] *= devices
        values = np.random.default_rng(7).random(tuple(sizes.values()), dtype=np.float32)
        return xr.Dataset({"u": (tuple(sizes), values)})


_SIDES = {"x": "periodic", "y": "periodic", "z": "edge"}
CASES = (
    Case("weak 2d5pt 8192, t = 1", FIVE, {"y": 8192, "x": 8192}, weak=True, bundle=1),
    Case("weak 2d5pt 8192", FIVE, {"y": 8192, "x": 8192}, weak=True),
    Case("weak 3d7pt 512, t = 1", SEVEN, {"z": 512, "y": 512, "x": 512}, True, 1, _SIDES),
    Case("weak 3d7pt 512", SEVEN, {"z": 512, "y": 512, "x": 512}, True, None, _SIDES),
    Case("weak diffusion, t = 1", DIFFUSION, {"z": 160, "y": 1024, "x": 1024}, True, 1, _SIDES),
    Case("weak diffusion", DIFFUSION, {"z": 160, "y": 1024, "x": 1024}, True, None, _SIDES),
    Case("strong 2d5pt 16384, t = 1", FIVE, {"y": 16384, "x": 16384}, weak=False, bundle=1),
    Case("strong 2d5pt 16384", FIVE, {"y": 16384, "x": 16384}, weak=False),
    Case("strong 3d7pt 256, t = 1", SEVEN, {"z": 256, "y": 256, "x": 256}, False, 1, _SIDES),
    Case("strong 3d7pt 256", SEVEN, {"z": 256, "y": 256, "x": 256}, False, None, _SIDES),
    Case("small 2d5pt 256, t = 1", FIVE, {"y": 256, "x": 256}, weak=True, bundle=1),
    Case("small 2d5pt 256", FIVE, {"y": 256, "x": 256}, weak=True),
)


@dataclass(frozen=True)
class Solve:
    """Tridiagonal systems along z, whose rows all devices share."""

    name: str
    sizes: Mapping[str, int]
    weak: bool = False

    def data(self, devices: int) -> xr.Dataset:
        sizes = dict(self.sizes)
        if self.weak:
            sizes["z"] *= devices
        rng = np.random.default_rng(7)
        bands = {one: rng.random(tuple(sizes.values())) for one in "abcd"}
        bands["b"] += 2.0
        return xr.Dataset({one: (tuple(sizes), values) for one, values in bands.items()})


SOLVES = (
    Solve("strong tridiagonal 2^27", {"z": 1 << 27}),
    Solve("strong tridiagonal 2^29", {"z": 1 << 29}),
    Solve("weak tridiagonal 2^26", {"z": 1 << 26}, weak=True),
    Solve("strong tridiagonal 2^20 x 64", {"z": 1 << 20, "x": 64}),
)


def timed(case: Case, data: xr.Dataset, devices: int, steps: int) -> Row:
    """Run once; return seconds a step in the last three quarters, and what was planned."""
    events: list[Event] = []
    began = time.perf_counter()
    result = he.run(
        case.text,
        data,
        scalars={"w": np.float32(0.1)},
        boundary=dict(case.boundary),
        steps=steps,
        feedback={"v": "u"},
        mode="resident",
        cluster=devices,
        chunks={"y": -(-data.sizes["y"] // devices)} if devices > 1 else {},
        options=he.Options(steps_per_pass=case.bundle),
        on_event=events.append,
    )
    wall = time.perf_counter() - began
    values = np.ascontiguousarray(result["v"].values)
    made = [one for one in events if isinstance(one, StepsFinished)]
    early = next((one for one in made if one.steps_done >= steps // 4), made[-1])
    if early is made[-1]:
        early = made[-2] if len(made) > 1 else StepsFinished(0, steps, 0.0, "", 0.0)
    planned = next(one for one in events if isinstance(one, Planned))
    last = made[-1]
    return {
        "case": case.name,
        "devices": devices,
        "steps": steps,
        "wall": wall,
        "step": (last.seconds - early.seconds) / (last.steps_done - early.steps_done),
        "cells": int(values.size),
        "steps_per_pass": planned.steps_per_pass,
        "workers": planned.workers,
        "transport": last.transport,
        "sha256": hashlib.sha256(values.tobytes()).hexdigest()[:16],
    }


def measured(case: Case, devices: int, first: Row | None, seconds: float) -> Row:
    """Return a row of as many steps as take about `seconds` on the devices of the `first` row."""
    data = case.data(devices)
    if first is None:
        short = timed(case, data, devices, 192)
        steps = max(192, int(seconds / short["step"]) // 192 * 192)
    else:
        steps = first["steps"]
    row = timed(case, data, devices, steps)
    base = row if first is None else first
    shared = 1 if case.weak else devices // base["devices"]
    row["efficiency"] = base["step"] / row["step"] / shared
    print(
        f"{case.name:28} {devices} devices {row['step'] * 1e6:10.2f} us a step"
        f" {row['cells'] / row['step'] / 1e9:9.1f} GStencil/s"
        f" efficiency {row['efficiency']:.3f} wall {row['wall']:.2f} s"
        f" {row['transport']}, {row['steps_per_pass']} steps a pass",
        flush=True,
    )
    assert case.weak or row["sha256"] == base["sha256"], "all of them have the same bits"
    return row


def solved_once(data: xr.Dataset, devices: int, target: str) -> Row:
    """Solve, and return what it took."""
    events: list[Event] = []
    how: dict[str, Any] = {"lower": "a", "diagonal": "b", "upper": "c", "rhs": "d", "dim": "z"}
    how |= {"mode": "resident", "cluster": devices, "target": target, "on_event": events.append}
    began = time.perf_counter()
    result = he.tridiagonal(data, **how)
    wall = time.perf_counter() - began
    assert not result["solution_status"].values.any(), "all of them are dominant"
    values = np.ascontiguousarray(result["solution"].values)
    planned = next(one for one in events if isinstance(one, Planned))
    return {
        "wall": wall,
        "rows": int(values.size),
        "passes": [one.seconds for one in events if isinstance(one, PassFinished)],
        "workers": planned.workers,
        "sha256": hashlib.sha256(values.tobytes()).hexdigest()[:16],
    }


def solved(case: Solve, devices: int, first: Row | None, target: str) -> Row:
    """Return a row of the fastest of some calls; `passes` are the seconds of what it does."""
    data = case.data(devices)
    rows = [solved_once(data, devices, target) for _ in range(4)]
    row: Row = {"case": case.name, "devices": devices, "first call": rows[0]["wall"]}
    row |= min(rows[1:], key=lambda one: one["wall"])
    row["rate"] = row["rows"] / row["wall"]
    row["solve"] = min(one["passes"][_SOLVE] for one in rows[1:])
    row["rate on devices"] = row["rows"] / row["solve"]
    base = row if first is None else first
    more = devices // base["devices"]
    row["efficiency"] = row["rate"] / base["rate"] / more
    row["efficiency on devices"] = row["rate on devices"] / base["rate on devices"] / more
    print(
        f"{case.name:28} {devices} devices {row['wall']:8.3f} s {row['rate'] / 1e9:6.2f} G rows/s"
        f" efficiency {row['efficiency']:.3f}; on devices {row['solve'] * 1e3:.2f} ms"
        f" {row['rate on devices'] / 1e9:.1f} G rows/s"
        f" efficiency {row['efficiency on devices']:.3f}; read, solve, write, verdict:"
        f" {', '.join(f'{one:.3f}' for one in row['passes'])} s;"
        f" first call {rows[0]['wall']:.1f} s",
        flush=True,
    )
    assert case.weak or row["sha256"] == base["sha256"], "all of them have the same bits"
    return row


def written(given: argparse.Namespace, rows: list[Row]) -> None:
    """Write what there is by now."""
    record = {
        "date": datetime.now(UTC).date().isoformat(),
        "device": device_facts().name if device_count() else "",
        "devices": device_count(),
        "commit": given.commit,
        "rows": rows,
    }
    given.result.write_text(json.dumps(record, indent=1) + "\n")


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("result", type=Path)
    parser.add_argument("--commit", default="")
    parser.add_argument("--devices", type=int, nargs="*")
    parser.add_argument("--cases", nargs="*", help="words that names contain")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--limit", type=float, default=1e9)
    parser.add_argument("--target", default="cuda", help="of solves")
    given = parser.parse_args()
    counts = given.devices or [n for n in (1, 2, 4, 8) if n <= device_count()]
    chosen = [
        case
        for case in (*CASES, *SOLVES)
        if not given.cases or any(word in case.name for word in given.cases)
    ]
    began = time.perf_counter()
    rows: list[Row] = []
    first: dict[str, Row] = {}
    for devices in counts:  # workers are those of the call before
        for case in chosen:
            if time.perf_counter() - began > given.limit:
                break
            faulthandler.dump_traceback_later(_HANGS, exit=True)
            try:
                base = first.get(case.name)
                if isinstance(case, Solve):
                    row = solved(case, devices, base, given.target)
                else:
                    row = measured(case, devices, base, given.seconds)
            except Exception as error:
                row = {"case": case.name, "devices": devices}
                row["error"] = f"{type(error).__name__}: {error}"
                print(f"{case.name:28} {row['error']}"[:600], flush=True)
            else:
                first.setdefault(case.name, row)
            faulthandler.cancel_dump_traceback_later()
            rows.append(row)
            written(given, rows)


if __name__ == "__main__":
    main()
