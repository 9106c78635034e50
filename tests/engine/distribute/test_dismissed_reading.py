"""Work that is dismissed while a worker reads many chunks: its thread is free at once."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from deadlines import until
from distributed import Client
from tests.engine.datasets.test_pieces import declared

import halocline_engine as he
from halocline_engine.control.interruption import raise_if_interrupted
from halocline_engine.distribute.executors.dask import ClusterPool, _somewhere
from halocline_engine.distribute.grid.partition import Block
from halocline_engine.distribute.tasks.cancel import CancelToken, cancel_run
from halocline_engine.distribute.tasks.events import Event, Planned
from halocline_engine.distribute.tasks.model import Report

DOUBLE = """
def double(t: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = 2.0 * t
"""


@pytest.mark.timeout(60, func_only=True)  # it took minutes
def test_a_worker_that_reads_millions_of_chunks_is_free_after_a_dismissal(
    two_workers: Any, tmp_path: Path
) -> None:
    events: list[Event] = []

    def cancelled() -> bool:
        return any(isinstance(event, Planned) for event in events)

    with pytest.raises(he.CancelledError):
        he.run(
            DOUBLE,
            str(declared(tmp_path / "many.zarr", 10**6)),
            target="reference",
            cluster=two_workers,
            output=str(tmp_path / "out.zarr"),
            on_event=events.append,
            cancelled=cancelled,
        )
    threads = sum(worker["nthreads"] for worker in two_workers.scheduler_info()["workers"].values())
    two_workers.gather([two_workers.submit(int, n, pure=False) for n in range(4 * threads)])


def endless() -> Any:
    """Make work that ends only where it is interrupted; workers cannot import this module."""

    class Endless:
        def run(self, block: Block, cancelled: CancelToken | None = None) -> Report:
            while True:
                raise_if_interrupted()

    return Endless()


@pytest.mark.timeout(60, func_only=True)
@pytest.mark.parametrize("how", ["cancelled", "killed"])
def test_work_ends_where_its_run_was_cancelled_or_its_process_is_gone(
    two_workers: Any, how: str
) -> None:
    blocks: Any = (None,)

    def busy_threads() -> int:
        def count(dask_worker: Any) -> int:
            return len(dask_worker.active_threads)

        return sum(two_workers.run(count).values())

    with Client(two_workers.scheduler.address, security=two_workers.security) as other:
        pool = ClusterPool(other)
        future = pool._submit(_somewhere, f"run {how}", endless(), blocks)
        until(busy_threads)
        if how == "cancelled":
            pool.everywhere(partial(cancel_run, f"run {how}"))
            with pytest.raises(he.CancelledError):
                future.result()
    until(lambda: not busy_threads())
