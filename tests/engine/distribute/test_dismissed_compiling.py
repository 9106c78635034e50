"""Work that is dismissed while a worker compiles: its thread is free when that is done."""

# Dask has no types.
# pyright: reportMissingTypeStubs=false
from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.distribute.executors.dask import ClusterPool
from halocline_engine.distribute.tasks.events import Event, Planned


def branches(count: int) -> str:
    """Return a program of so many branches, one behind the other."""
    lines = "".join(f"        if a > {n}.0:\n            out = {n}.5\n" for n in range(count))
    return (
        "def f(a: Field[float], out: Field[float]):\n"
        f"    with computation(PARALLEL), interval(...):\n        out = a\n{lines}"
    )


DATA = xr.Dataset({"a": (("y", "x"), np.ones((4, 6)))})


@pytest.mark.timeout(120, func_only=True)
def test_the_threads_of_workers_are_free_after_a_dismissal(two_workers: Any) -> None:
    """With a program of a fifth of the largest size, so within a fifth of the longest."""
    events: list[Event] = []

    def cancelled() -> bool:
        return any(isinstance(event, Planned) for event in events)

    with pytest.raises(he.CancelledError):
        he.run(
            branches(30),
            DATA,
            chunks={"x": 2},
            target="cpu",
            cluster=two_workers,
            on_event=events.append,
            cancelled=cancelled,
        )
    threads = sum(worker["nthreads"] for worker in two_workers.scheduler_info()["workers"].values())
    two_workers.gather([two_workers.submit(int, n, pure=False) for n in range(4 * threads)])


def test_a_program_that_is_too_large_reaches_no_worker(
    two_workers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted = Mock()
    monkeypatch.setattr(ClusterPool, "_submit", submitted)
    with pytest.raises(he.CapacityError, match="too large to compile"):
        he.run(
            branches(600),
            DATA,
            target="cpu",
            cluster=two_workers,
            options=he.Options(program_size=8000),
        )
    submitted.assert_not_called()
