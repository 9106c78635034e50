"""Ways to run the double-gyre model of `gyre.py` that must not change a bit."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import gyre
import numpy as np
import xarray as xr

from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.tasks.events import Event
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.functions.run import run

__all__ = ["FIELDS", "GyreWay", "compare_ways", "digests", "drawn_way", "run_gyre"]

FIELDS = ("h_new", "u_new", "v_new")
WALLS = dict.fromkeys(("xh", "yh", "xq", "yq"), "edge")
NX, NY = 60, 48


class _StoppedError(Exception):
    """Stops a run between two of its steps."""


@dataclass(frozen=True)
class GyreWay:
    """How the model is run; `stopped` after so many checkpoints or passes, and resumed."""

    target: str = "cpu"
    mode: str = "auto"
    chunks: Mapping[str, int] | None = None
    ranks: int = 1
    steps_per_pass: int | None = None
    output: str | None = None
    stopped: int = 0


def drawn_way(random: Random, nx: int, ny: int, steps: int) -> GyreWay:
    """Draw a way to run the model."""
    chunks = {"xh": random.randint(nx // 4, nx), "yh": random.randint(ny // 4, ny)}
    return GyreWay(
        target="reference" if random.random() < 0.2 and steps <= 200 else "cpu",
        mode=random.choice(("auto", "resident", "streamed")),
        chunks=random.choice((None, chunks, chunks)),
        ranks=random.randint(1, 3),
        steps_per_pass=random.choice((None, 1, 2, 3, 5)),
        output=random.choice((None, None, "out.zarr", "out.nc")),
        stopped=random.choice((0, 0, 1, 2)),
    )


def run_gyre(dataset: xr.Dataset, steps: int, way: GyreWay | None = None, **more: Any) -> Any:
    """Return the result of the model, with diagnostics unless it is streamed."""
    way = way or GyreWay()
    every = max(1, steps // 10)
    diagnostics: dict[str, Any] = {
        "mass": {"sum": "h", "every": every},
        "top": {"max": "h", "every": every},
        "zonal": {"mean": "h", "dims": ["xh"], "every": every},
    }
    options = Options(steps_per_pass=way.steps_per_pass, checkpoint_steps=max(1, steps // 5))
    arguments: dict[str, Any] = {
        "scalars": gyre.CONSTANTS,
        "steps": steps,
        "feedback": {"h_new": "h", "u_new": "u", "v_new": "v"},
        "boundary": WALLS,
        "time": {"start": "2015-01-01", "step": "300s", "interpolate": "linear"},
        "diagnostics": None if way.mode == "streamed" else diagnostics,
        "target": way.target,
        "mode": way.mode,
        "chunks": way.chunks,
        "options": options,
    }
    pool = LocalPool(workers=way.ranks)
    with patch("halocline_engine.distribute.executors.select.local_pool", return_value=pool):
        return run(gyre.PROGRAM, dataset, **{**arguments, **more})


def digests(dataset: xr.Dataset, steps: int, way: GyreWay) -> tuple[str, str | None]:
    """Run the model in a way, and return the SHA-256 of its fields and of its diagnostics."""
    with tempfile.TemporaryDirectory() as folder:
        kinds: list[str] = []

        def note(event: Event) -> None:
            kinds.append(event.kind)

        more: dict[str, Any] = {"on_event": note}
        if way.output:
            more["output"] = Path(folder) / way.output
        if way.stopped:
            more["workspace"] = Path(folder) / "workspace"
            if not _is_stopped(dataset, steps, way, **more):  # it had fewer passes
                return digests(dataset, steps, replace(way, stopped=0))
            way = replace(way, chunks=None, ranks=way.ranks % 3 + 1)
        with run_gyre(dataset, steps, way, **more) as result:
            assert ("resumed" in kinds) == bool(way.stopped)
            measured = sorted(set(map(str, result.data_vars)) - set(FIELDS))
            return _digest(result, FIELDS), _digest(result, measured) if measured else None


def compare_ways(seed: int, ways: int, nx: int, ny: int, steps: int) -> list[str]:
    """Return each drawn way that differs from one block in memory; none is expected."""
    random, dataset = Random(seed), gyre.gyre_dataset(nx, ny, 4)
    expected: dict[str, tuple[str, str | None]] = {}
    differing: list[str] = []
    for _ in range(ways):
        way = drawn_way(random, nx, ny, steps)
        if way.target not in expected:
            expected[way.target] = digests(dataset, steps, GyreWay(way.target))
        fields, measured = digests(dataset, steps, way)
        wanted = expected[way.target]
        if fields != wanted[0] or measured not in (wanted[1], None):
            differing.append(str(way))
    return differing


def _is_stopped(dataset: xr.Dataset, steps: int, way: GyreWay, **more: Any) -> bool:
    """Run the model, and return whether it was stopped before its end."""
    heard = 0

    def stop(event: Any) -> None:
        nonlocal heard
        heard += event.kind in ("checkpointed", "pass_finished")
        if heard == way.stopped:
            raise _StoppedError

    try:
        run_gyre(dataset, steps, way, **{**more, "on_event": stop}).close()
    except _StoppedError:
        return True
    return False


def _digest(result: Any, names: Any) -> str:
    arrays = [np.ascontiguousarray(result[name].values) for name in names]
    return hashlib.sha256(b"".join(one.tobytes() for one in arrays)).hexdigest()
