"""Work that is dismissed while a worker reads many chunks: its thread is free at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.engine.datasets.test_pieces import ROWS, declared

import halocline_engine as he
from halocline_engine.distribute.tasks.events import Event, Planned

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
            str(declared(tmp_path / "many.zarr", ROWS)),
            target="reference",
            cluster=two_workers,
            output=str(tmp_path / "out.zarr"),
            on_event=events.append,
            cancelled=cancelled,
        )
    threads = sum(worker["nthreads"] for worker in two_workers.scheduler_info()["workers"].values())
    two_workers.gather([two_workers.submit(int, n, pure=False) for n in range(4 * threads)])
