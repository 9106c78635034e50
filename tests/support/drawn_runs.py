"""Ten programs of many steps, and ways to run them that must not change a bit.

A way says in which mode, how the grid is cut, how many ranks there are and what they are, how many
steps there are between exchanges, and how the run is interrupted, if it is.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import xarray as xr

from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.executors.workers import ask_scheduler
from halocline_engine.distribute.tasks.events import (
    Checkpointed,
    Event,
    OnEvent,
    PassFinished,
)
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.errors import CancelledError
from halocline_engine.functions.run import run

__all__ = ["PROGRAMS", "Drawn", "Way", "digest", "drawn_way", "expected"]


@dataclass(frozen=True)
class Drawn:
    """A program, its arguments, and the sizes of its dimensions, the last one along I."""

    name: str
    text: str
    sizes: Mapping[str, int]
    inputs: tuple[str, ...]
    feedback: Mapping[str, str]
    boundary: Mapping[str, Any]
    scalars: Mapping[str, Any] = field(default_factory=dict[str, Any])
    dtype: str = "float64"
    steps: int = 37


#: How often ways on workers run to the end, are cancelled, and lose a worker, which starts again.
_ENDS = {"": 10, "cancelled": 5, "worker killed": 1}
#: Seconds that a worker has to come back.
_BACK = 60.0


@dataclass(frozen=True)
class Way:
    """How a program is run; `cut` after which event the first attempt ends, by `how` it does.

    A run that has a worker killed goes on by itself.
    """

    mode: str = "streamed"
    chunks: Mapping[str, int] = field(default_factory=dict[str, int])
    ranks: int = 1
    processes: bool = False
    steps_per_pass: int | None = None
    every: int | None = None
    how: str = ""
    cut: int = 0

    def __str__(self) -> str:
        """Return it on one line."""
        chunks = ",".join(f"{dim}={size}" for dim, size in self.chunks.items()) or "whole"
        where = f"{self.ranks} {'processes' if self.processes else 'ranks'}"
        ended = f", {self.how} after {self.cut}" if self.how else ""
        every = f", every {self.every}" if self.every else ""
        return f"{self.mode}, {chunks}, {where}, t={self.steps_per_pass}{every}{ended}"


def drawn_way(
    random: Random, program: Drawn, *, processes: int, kills: bool, apart: float = 0.3
) -> Way:
    """Draw a way to run a program; with up to so many processes a share `apart` of all."""
    chunks = {
        dim: random.randint(max(2, size // 6), size)
        for dim, size in list(program.sizes.items())[-2:]
        if random.random() < 0.7
    }
    there = bool(processes) and random.random() < apart
    hows = list(_ENDS) if there else ["", "", "cancelled", *(["killed"] if kills else [])]
    weights = [_ENDS[how] for how in hows] if there else None
    return Way(
        mode=random.choice(("streamed", "resident", "resident")),
        chunks=chunks,
        ranks=processes if there else random.randint(1, 4),
        processes=there,
        steps_per_pass=random.choice((None, 1, 2, 3, 4, 7, 12)),
        every=random.choice((None, None, 9, 10)),
        how=random.choices(hows, weights)[0],
        cut=random.randint(1, 3),
    )


@cache
def expected(name: str, target: str) -> str:
    """Return the digest of a program's results, from one block and pass after pass."""
    return digest(PROGRAMS[name], Way(), target)


def digest(
    program: Drawn, way: Way, target: str, cluster: Any = None, on_event: OnEvent | None = None
) -> str:
    """Run a program in a way, and return the SHA-256 of its results after the last step."""
    heard = on_event or _ignored
    with tempfile.TemporaryDirectory() as folder:
        workspace, last = None, way
        killed: list[str] = []
        if way.how == "worker killed":
            heard = _robbing(cluster, way, heard, killed)
        elif way.how:
            workspace = Path(folder)
            if way.how == "cancelled":
                _cancelled(program, way, target, cluster, workspace)
            else:
                _killed(program, way, target, folder)
            # What goes on from there is cut otherwise, and may have the other mode.
            last = replace(way, mode=_other(way.mode), chunks={})
        result = _run(program, last, target, cluster, workspace=workspace, on_event=heard)
    if killed:
        _wait_for_another(cluster, killed[0], way.ranks)
    values = [_last(result[name]) for name in sorted(map(str, result.data_vars))]
    return hashlib.sha256(b"".join(one.tobytes() for one in values)).hexdigest()


def _ignored(event: Event) -> None:
    """Take an event that nobody wants to know of."""


def _last(result: xr.DataArray) -> np.ndarray[Any, Any]:
    values = result.values[-1] if "step" in result.dims else result.values
    return np.ascontiguousarray(values)


def _other(mode: str) -> str:
    return "resident" if mode == "streamed" else "streamed"


def _cancelled(program: Drawn, way: Way, target: str, cluster: Any, workspace: Path) -> None:
    """Begin a run that is cancelled after some states that another run may go on from."""
    kept: list[Event] = []

    def note(event: Event) -> None:
        if isinstance(event, (Checkpointed, PassFinished)):
            kept.append(event)

    def enough() -> bool:
        return len(kept) >= way.cut

    how = {"workspace": workspace, "on_event": note, "cancelled": enough}
    with suppress(CancelledError):
        _run(program, way, target, cluster, **how)


def _robbing(client: Any, way: Way, heard: OnEvent, killed: list[str]) -> OnEvent:
    """Return what takes events, and kills a worker after some states are kept."""
    processes: list[tuple[str, int]] = sorted(client.run(os.getpid).items())
    kept: list[Event] = []

    def note(event: Event) -> None:
        heard(event)
        if isinstance(event, (Checkpointed, PassFinished)):
            kept.append(event)
            if len(kept) == way.cut:
                address, process = processes[way.cut % len(processes)]
                killed.append(address)
                os.kill(process, signal.SIGKILL)

    return note


def _wait_for_another(client: Any, killed: str, workers: int) -> None:
    """Wait until there are so many workers again."""
    until = time.monotonic() + _BACK
    while time.monotonic() < until:
        there = ask_scheduler(client, "identity", n_workers=-1)["workers"]
        if killed not in there and len(there) == workers:
            return
        time.sleep(0.1)
    raise TimeoutError(f"No worker came for the one that was killed in {_BACK:.0f} s.")


def _killed(program: Drawn, way: Way, target: str, folder: str) -> None:
    """Begin a run in a process that kills itself."""
    child = multiprocessing.get_context("spawn").Process(
        target=_die, args=(program.name, way, target, folder)
    )
    child.start()
    child.join()
    assert child.exitcode in (0, -signal.SIGKILL), child.exitcode


def _die(name: str, way: Way, target: str, folder: str) -> None:
    kept: list[Event] = []

    def note(event: Event) -> None:
        if isinstance(event, (Checkpointed, PassFinished)):
            kept.append(event)
            if len(kept) >= way.cut:
                os.kill(os.getpid(), signal.SIGKILL)

    _run(PROGRAMS[name], way, target, None, workspace=Path(folder), on_event=note)


def _run(program: Drawn, way: Way, target: str, cluster: Any, **how: Any) -> xr.Dataset:
    pool = LocalPool(workers=way.ranks)
    several = way.mode == "resident" and not way.processes
    ranks = patch("halocline_engine.distribute.executors.select.local_pool", return_value=pool)
    with ranks if several else nullcontext():
        return run(
            program.text,
            dataset_of(program.name),
            scalars=program.scalars,
            boundary=program.boundary,
            steps=program.steps,
            feedback=program.feedback,
            target=target,
            mode=way.mode,
            chunks=way.chunks,
            snapshot_every=way.every,
            cluster=cluster if way.processes else None,
            options=Options(steps_per_pass=way.steps_per_pass, checkpoint_steps=6),
            **how,
        )


@cache
def dataset_of(name: str) -> xr.Dataset:
    """Return the input of a program; where it has land, that is NaN."""
    program = PROGRAMS[name]
    rng = np.random.default_rng(len(name))
    shape = tuple(program.sizes.values())
    values = {one: rng.normal(size=shape).astype(program.dtype) for one in program.inputs}
    if name == "land":
        values["u"][..., 3:9, 5:11] = np.nan
    return xr.Dataset({one: (tuple(program.sizes), each) for one, each in values.items()})


_FLAT = {"y": 47, "x": 61}
_DEEP = {"z": 5, "y": 23, "x": 29}
_MIXED = {"x": "periodic", "y": {"low": "reflect", "high": "none"}}

PROGRAMS: Mapping[str, Drawn] = {
    one.name: one
    for one in (
        Drawn(
            "five",
            """
def five(u: Field[float], v: Field[float], c: float):
    with computation(PARALLEL), interval(...):
        v = u + c * (u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0] - 4.0 * u)
""",
            _FLAT,
            ("u",),
            {"v": "u"},
            {"x": "periodic", "y": "periodic"},
            {"c": 0.2},
        ),
        Drawn(
            "box",
            """
def box(u: Field[np.float32], v: Field[np.float32]):
    with computation(PARALLEL), interval(...):
        low = u[-1, -1, 0] + u[0, -1, 0] + u[1, -1, 0]
        high = u[-1, 1, 0] + u[0, 1, 0] + u[1, 1, 0]
        v = np.float32(0.111) * (low + high + u[-1, 0, 0] + u + u[1, 0, 0])
""",
            _FLAT,
            ("u",),
            {"v": "u"},
            {"x": {"constant": 1.0}, "y": "edge"},
            dtype="float32",
        ),
        Drawn(
            "wave",
            """
def wave(now: Field[float], old: Field[float], next: Field[float], kept: Field[float], c: float):
    with computation(PARALLEL), interval(...):
        around = now[1, 0, 0] + now[-1, 0, 0] + now[0, 1, 0] + now[0, -1, 0]
        next = 2.0 * now - old + c * (around - 4.0 * now)
        kept = now
""",
            _FLAT,
            ("now", "old"),
            {"next": "now", "kept": "old"},
            _MIXED,
            {"c": 0.2},
        ),
        Drawn(
            "advection",
            """
def advection(u: Field[float], a: Field[float], v: Field[float], c: float):
    with computation(PARALLEL), interval(...):
        west = u - u[-2, 0, 0]
        south = u - u[0, -1, 0]
        v = u - c * (a * west + a[0, 1, 0] * south)
""",
            _FLAT,
            ("u", "a"),
            {"v": "u"},
            {"x": "periodic", "y": "extrapolate"},
            {"c": 0.05},
        ),
        Drawn(
            "heat",
            """
def heat(u: Field[float], v: Field[float], c: float):
    with computation(PARALLEL):
        with interval(0, 1):
            v = u
        with interval(1, -1):
            flat = u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0]
            v = u + c * (flat + u[0, 0, -1] + u[0, 0, 1] - 6.0 * u)
        with interval(-1, None):
            v = u
""",
            _DEEP,
            ("u",),
            {"v": "u"},
            {"x": "periodic", "y": "edge"},
            {"c": 0.1},
        ),
        Drawn(
            "shallow",
            """
def shallow(
    h: Field[float], u: Field[float], v: Field[float],
    h2: Field[float], u2: Field[float], v2: Field[float], c: float,
):
    with computation(PARALLEL), interval(...):
        u2 = u - c * (h[1, 0, 0] - h)
        v2 = v - c * (h[0, 1, 0] - h)
        h2 = h - c * (u - u[-1, 0, 0] + v - v[0, -1, 0])
""",
            _FLAT,
            ("h", "u", "v"),
            {"h2": "h", "u2": "u", "v2": "v"},
            {"x": "periodic", "y": "reflect"},
            {"c": 0.1},
        ),
        Drawn(
            "place",
            """
def place(u: Field[float], v: Field[float], total: Field[float], c: float):
    with computation(PARALLEL), interval(...):
        v = u + c * (u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0] - 4.0 * u)
        total = total + v * v
""",
            _FLAT,
            ("u", "total"),
            {"v": "u"},
            {"x": "none", "y": "periodic"},
            {"c": 0.2},
        ),
        Drawn(
            "diffusion",
            """
def diffusion(u: Field[np.float32], v: Field[np.float32], c: np.float32):
    with computation(PARALLEL), interval(...):
        lap = np.float32(4.0) * u - (u[1, 0, 0] + u[-1, 0, 0] + u[0, 1, 0] + u[0, -1, 0])
        fx = lap[1, 0, 0] - lap
        fx = np.float32(0.0) if fx * (u[1, 0, 0] - u) > np.float32(0.0) else fx
        fy = lap[0, 1, 0] - lap
        fy = np.float32(0.0) if fy * (u[0, 1, 0] - u) > np.float32(0.0) else fy
        v = u - c * (fx - fx[-1, 0, 0] + fy - fy[0, -1, 0])
""",
            _DEEP,
            ("u",),
            {"v": "u"},
            {"x": "periodic", "y": "edge"},
            {"c": 0.02},
            dtype="float32",
            steps=23,
        ),
        Drawn(
            "sweep",
            """
def sweep(u: Field[float], v: Field[float], c: float):
    with computation(FORWARD):
        with interval(0, 1):
            v = u + c * (u[-1, 0, 0] - u)
        with interval(1, None):
            v = 0.5 * (u + v[0, 0, -1]) + c * (u[0, -1, 0] - u)
""",
            _DEEP,
            ("u",),
            {"v": "u"},
            {"x": "periodic", "y": "edge"},
            {"c": 0.1},
        ),
        Drawn(
            "land",
            """
def land(u: Field[float], v: Field[float]):
    with computation(PARALLEL), interval(...):
        around = u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0]
        v = u if isnan(around) else 0.2 * (around + u)
""",
            {"member": 2, "y": 31, "x": 41},
            ("u",),
            {"v": "u"},
            _MIXED,
        ),
    )
}
