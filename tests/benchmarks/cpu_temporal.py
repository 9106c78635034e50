"""Many steps on cores: several at once beside one by one, and two processes beside one.

Every figure is the median of rounds in which all that is compared takes turns, and the best one.
One thread by itself is timed by what it had of its core, so that other work disturbs it less.

Usage: cpu_temporal.py RESULT.json [--commit COMMIT] [--side SIDE] [--rounds ROUNDS] [--steps STEPS]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, thread_time
from typing import Any, cast

import numba
import numpy as np
import xarray as xr
from distributed import Client
from processors import processor, threads
from quiet import Watch

import halocline_engine as he
from halocline_engine.backends.cpu.run import CpuExecutable
from halocline_engine.backends.fusing import CLOSED
from halocline_engine.distribute.executors.dask import worker_processes
from halocline_engine.distribute.tasks.events import Event, StepsFinished
from halocline_engine.schedule.temporal.step import Refused

_numba: Any = numba
FEEDBACK = {"v": "u"}
AT_ONCE = (2, 3, 4, 6, 8, 12)


def text_of(dtype: str) -> str:
    return f"""
def five(u: Field[np.{dtype}], v: Field[np.{dtype}], w: np.{dtype}):
    with computation(PARALLEL), interval(...):
        around = u[1, 0, 0] + u[-1, 0, 0] + u[0, 1, 0] + u[0, -1, 0]
        v = u + w * (around - np.{dtype}(4.0) * u)
"""


def in_turns(
    several: Mapping[str, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = perf_counter,
) -> dict[str, list[float]]:
    """Return the seconds of each, which take turns; the first round warms up."""
    found: dict[str, list[float]] = {name: [] for name in several}
    for number in range(rounds + 1):
        for name, work in several.items():
            began = clock()
            work()
            if number:
                found[name].append(clock() - began)
    return found


def fused(dtype: str, side: int, count: int, rounds: int) -> dict[str, Any]:
    """Return billions of points a second by steps at once; 1 is one by one."""
    _numba.set_num_threads(count)
    domain, halo = (side + 1, side - 1, 1), (1, 1, 0)
    executable = he.stencil(text_of(dtype), target="cpu").compiled.artifact.load()
    assert isinstance(executable, CpuExecutable)
    u, v = (executable.memory.empty((side + 3, side + 1, 1), np.dtype(dtype), halo) for _ in "uv")
    u[...] = np.random.default_rng(1).random(u.shape)
    v[...] = u
    there, back = {"u": u, "v": v}, {"u": v, "v": u}
    rest = ({"w": 0.2}, {"u": halo, "v": halo}, domain)
    ones = [executable.prepared(arrays, *rest) for arrays in (there, back)]
    works: dict[str, Callable[[], object]] = {"1": lambda: [one() for one in ones]}
    for steps in AT_ONCE:
        several = executable.fused(steps, FEEDBACK, CLOSED)
        assert not isinstance(several, Refused)
        works[str(steps)] = several.prepared(there, *rest)
    seconds = in_turns(works, rounds, thread_time if count == 1 else perf_counter)
    points = np.prod(domain) / 1e9
    made = {name: 2 if name == "1" else int(name) for name in works}
    return {
        "dtype": dtype,
        "domain": domain,
        "threads": count,
        "chosen": executable.fused_steps(FEEDBACK, domain),
        "median": {n: points * made[n] / median(all_) for n, all_ in seconds.items()},
        "best": {n: points * made[n] / min(all_) for n, all_ in seconds.items()},
        "gain": {
            n: made[n] / 2 * median(a / b for a, b in zip(seconds["1"], all_, strict=True))
            for n, all_ in seconds.items()
        },
    }


@_numba.njit(nogil=True)
def _triad(a: Any, b: Any, c: Any) -> None:
    for n in range(a.size):
        c[n] = a[n] + 3.0 * b[n]


def stream(rounds: int) -> dict[str, Any]:
    """Return billions of bytes a second of the STREAM triad, by one core and by two."""
    arrays = [[np.ones(16_000_000) for _ in range(3)] for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:

        def by(count: int) -> None:
            for done in [pool.submit(_triad, *arrays[n]) for n in range(count)]:
                done.result()

        seconds = in_turns({str(n): partial(by, n) for n in (1, 2)}, rounds)
    size = 3 * arrays[0][0].nbytes / 1e9
    found = {
        how: {n: int(n) * size / choose(all_) for n, all_ in seconds.items()}
        for how, choose in (("median", median), ("best", min))
    }
    return {**found, "ratio": {how: rates["2"] / rates["1"] for how, rates in found.items()}}


def workers(dtype: str, side: int, steps: int, rounds: int) -> dict[str, Any]:
    """Return billions of points a second of `run` on one worker and on two, of a thread each."""
    random = np.random.default_rng(2)
    data = xr.Dataset({"u": (("y", "x"), random.random((side, side)).astype(dtype))})
    one = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    rates: dict[str, list[float]] = {}
    digests: set[bytes] = set()
    for number in range(rounds + 1):
        for count in (1, 2):
            with (
                worker_processes([one] * count) as cluster,
                Client(cluster, set_as_default=False) as client,
            ):
                client.wait_for_workers(count, timeout=120)
                # The first call of a worker compiles, or loads what was compiled.
                for last in (False, True):
                    seconds, result = stepped(dtype, data, steps if last else 30, client)
            digests.add(np.ascontiguousarray(result["v"].values).tobytes())
            if number:
                rates.setdefault(str(count), []).append(data["u"].size * steps / seconds / 1e9)
    assert len(digests) == 1
    return {
        "dtype": dtype,
        "side": side,
        "steps": steps,
        "median": {n: median(all_) for n, all_ in rates.items()},
        "best": {n: max(all_) for n, all_ in rates.items()},
        "ratio": {
            "median": median(b / a for a, b in zip(rates["1"], rates["2"], strict=True)),
            "best": max(rates["2"]) / max(rates["1"]),
        },
    }


def stepped(dtype: str, data: xr.Dataset, steps: int, client: Client) -> tuple[float, xr.Dataset]:
    """Run once; return how long the steps alone took."""
    events: list[Event] = []
    result = he.run(
        text_of(dtype),
        data,
        scalars={"w": 0.2},
        boundary={"x": "periodic", "y": "periodic"},
        steps=steps,
        feedback=FEEDBACK,
        mode="resident",
        target="cpu",
        cluster=client,
        on_event=events.append,
    )
    done = [event for event in events if isinstance(event, StepsFinished)]
    return done[-1].seconds, cast("Any", result).load()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("result", type=Path)
    parser.add_argument("--commit", default="")
    parser.add_argument("--side", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    watch = Watch()
    record: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": given.commit,
        "processor": processor(),
        "threads": threads(),
    }
    counts = sorted({1, threads()})
    record["stream"] = stream(given.rounds)
    print(json.dumps(record), flush=True)
    several: list[dict[str, Any]] = []
    record["at once"] = several
    for dtype in ("float32", "float64"):
        for count in counts:
            several.append(fused(dtype, given.side, count, given.rounds))
            print(json.dumps(several[-1]), flush=True)
    had, every = watch.others()
    record["others had"] = had / every
    processes: list[dict[str, Any]] = []
    record["workers"] = processes
    for dtype in ("float32", "float64"):
        found = workers(dtype, given.side, given.steps, max(1, given.rounds // 3))
        processes.append(found)
        print(json.dumps(found), flush=True)
    given.result.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
