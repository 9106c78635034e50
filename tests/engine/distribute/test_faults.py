"""Faults while blocks stay in memory, with real processes: how soon others are free, what is left.

Time is counted in looks at the scheduler, which are a second apart: on a busy machine each takes
longer, but a rank that waits for another one takes more of them.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import distributed
import numpy as np
import pytest
import xarray as xr
from dask_processes import Cluster
from deadlines import until

from halocline_engine.distribute.executors import workers as looked_up
from halocline_engine.distribute.executors.dask import ClusterPool
from halocline_engine.distribute.jobs import losses
from halocline_engine.distribute.resident import run as resident_run
from halocline_engine.distribute.tasks.events import (
    Checkpointed,
    Event,
    Planned,
    Resumed,
    StepsFinished,
)
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.errors import CancelledError
from halocline_engine.functions.run import run

FIVE = """
def five(u: Field[float], v: Field[float]):
    with computation(PARALLEL), interval(...):
        v = 0.25 * (u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0])
"""
#: Two seconds, and the look that had just been made.
MOST_LOOKS = 3


@pytest.fixture
def cluster(tmp_path: Path) -> Generator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(stack, tmp_path)


@pytest.fixture(scope="module")
def data() -> xr.Dataset:
    values = np.random.default_rng(5).normal(size=(90, 50))
    return xr.Dataset({"u": (("y", "x"), values)})


def five(data: xr.Dataset, steps: int, **arguments: Any) -> str:
    result = run(
        FIVE,
        data,
        boundary={"x": "periodic", "y": "edge"},
        feedback={"v": "u"},
        steps=steps,
        target="cpu",
        **arguments,
    )
    return hashlib.sha256(np.ascontiguousarray(result["v"].values).tobytes()).hexdigest()


class Looks:
    """Counts looks at the scheduler since something happened, and the seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._since = 0.0
        ask = looked_up.ask_scheduler

        def asked(client: Any, what: str, **told: Any) -> Any:
            self.count += what == "identity"
            return ask(client, what, **told)

        monkeypatch.setattr(looked_up, "ask_scheduler", asked)

    def start(self) -> None:
        self.count, self._since = 0, time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._since


def shared_memory(process: int) -> int:
    """Return how many shared arrays of Halocline a process has open or mapped."""
    folder = Path("/proc") / str(process)
    links: list[str] = []
    for one in (folder / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            links.append(os.readlink(one))
    mapped = (folder / "maps").read_text().splitlines()
    return sum("memfd:halocline" in one for one in (*links, *mapped))


def freed(process: int) -> bool:
    """Whether a process has no shared array; errors keep frames until they are collected."""
    gc.collect()
    return shared_memory(process) == 0


def ranks_and_mailboxes() -> Callable[..., int]:
    """Return what says how many ranks and mailboxes a worker has; it travels by value."""

    def counted(dask_worker: Any) -> int:
        mailboxes = dask_worker.extensions.get("halocline_put")
        running = sum("run_rank" in str(key) for key in dask_worker.state.executing)
        return running + (0 if mailboxes is None else len(mailboxes.boxes))

    return counted


def started(cluster: Cluster, count: int) -> dict[int, subprocess.Popen[bytes]]:
    processes = [cluster.worker(f"worker {at}") for at in range(count)]
    return {one.pid: one for one in processes}


@pytest.mark.parametrize("reached", [True, False], ids=["reached", "shared"])
def test_the_others_of_a_killed_worker_are_free_soon_and_nothing_is_left(
    cluster: Cluster, data: xr.Dataset, monkeypatch: pytest.MonkeyPatch, reached: bool
) -> None:
    """They have ended their ranks, and have no message and no shared array of the job any more."""
    if not reached:
        monkeypatch.setattr(ClusterPool, "reaches_memory", False)
    expected = five(data, 4000, mode="streamed")
    processes = started(cluster, 3)
    looks = Looks(monkeypatch)
    free: list[tuple[int, float]] = []
    left: list[int] = []
    struck: list[int] = []
    wait: Callable[..., None] = losses._wait  # pyright: ignore[reportPrivateUsage]
    with distributed.Client(cluster.address, set_as_default=False) as opened:
        client: Any = opened
        client.wait_for_workers(3, timeout=60)

        def strike(event: Event) -> None:
            if isinstance(event, StepsFinished) and event.steps_done > 50 and not struck:
                # Or the check below could not fail.
                assert reached or shared_memory(os.getpid()) > 0
                struck.append(max(processes))
                os.kill(struck[0], signal.SIGKILL)
                looks.start()

        def lost(*arguments: Any) -> None:
            if struck and not free:  # a busy machine may lose one of its own
                free.append((looks.count, looks.seconds))
                left.extend(client.run(ranks_and_mailboxes(), on_error="ignore").values())
            wait(*arguments)

        monkeypatch.setattr(losses, "_wait", lost)
        digest = five(
            data, 4000, cluster=client, mode="resident", chunks={"y": 30}, on_event=strike
        )
        assert digest == expected
        assert [looks <= MOST_LOOKS for looks, _ in free] == [True], free
        assert left == [0, 0]
        for one in {*processes, os.getpid()} - {*struck}:
            until(lambda one=one: freed(one))
    print(f"free after {free[0][1]:.2f} s, {free[0][0]} looks")


def test_a_cancelled_run_ends_soon_on_workers(
    cluster: Cluster, data: xr.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(cluster, 2)
    looks = Looks(monkeypatch)
    asked: list[Event] = []
    with distributed.Client(cluster.address, set_as_default=False) as opened:
        client: Any = opened
        client.wait_for_workers(2, timeout=60)

        def note(event: Event) -> None:
            if isinstance(event, StepsFinished) and event.steps_done > 50 and not asked:
                asked.append(event)
                looks.start()

        with pytest.raises(CancelledError):
            five(
                data,
                10**7,
                cluster=client,
                mode="resident",
                on_event=note,
                cancelled=lambda: bool(asked),
            )
        assert looks.count <= MOST_LOOKS
        print(f"ended after {looks.seconds:.2f} s, {looks.count} looks")
        assert list(client.run(ranks_and_mailboxes()).values()) == [0, 0]
        until(lambda: freed(os.getpid()))


def test_a_worker_that_joins_late_takes_the_place_of_one_that_is_lost(
    cluster: Cluster, data: xr.Dataset, tmp_path: Path
) -> None:
    """Until then the ranks that there are go on undisturbed; afterwards there are two again."""
    steps = 100_000
    expected = five(data, steps, mode="streamed")
    processes = started(cluster, 2)
    ranks: list[int] = []
    struck: list[int] = []
    late: list[subprocess.Popen[bytes]] = []
    replan: Callable[..., None] = resident_run._replan  # pyright: ignore[reportPrivateUsage]

    def replanned(run: Any, choice: Any) -> None:
        replan(run, choice)
        ranks.append(len(run.resident.ranks))

    with distributed.Client(cluster.address, set_as_default=False) as opened:
        client: Any = opened
        client.wait_for_workers(2, timeout=60)
        events: list[Event] = []

        def told(event: Event) -> None:
            events.append(event)
            if isinstance(event, Checkpointed) and not late:
                late.append(cluster.worker("late"))
            if late and not struck and len(looked_up.ask_scheduler(client, "ncores")) == 3:
                struck.append(max(processes))
                processes[struck[0]].kill()

        with patch.object(resident_run, "_replan", replanned):
            digest = five(
                data,
                steps,
                cluster=client,
                mode="resident",
                chunks={"y": 45},
                workspace=tmp_path / "work",
                options=Options(checkpoint_steps=5000),
                on_event=told,
            )
    assert digest == expected
    assert struck
    assert ranks == [2]
    assert [one.workers for one in events if isinstance(one, Planned)] == [2]
    assert [one.steps_done >= 5000 for one in events if isinstance(one, Resumed)] == [True]


def test_a_report_that_is_lost_with_its_worker_is_not_waited_for(
    cluster: Cluster, data: xr.Dataset, tmp_path: Path
) -> None:
    """All ranks have ended, and the worker is killed before the report of its rank is fetched."""
    expected = five(data, 300, mode="streamed")
    processes = started(cluster, 2)
    events: list[Event] = []
    with distributed.Client(cluster.address, set_as_default=False) as opened:
        client: Any = opened
        client.wait_for_workers(2, timeout=60)

        def told(event: Event) -> None:
            events.append(event)
            last = isinstance(event, StepsFinished) and event.steps_done == event.steps
            if last and len(processes) == 2:
                until(lambda: not any(looked_up.ask_scheduler(client, "processing").values()))
                pid, process = processes.popitem()
                process.kill()
                process.wait()
                assert pid not in processes

        digest = five(
            data, 300, cluster=client, mode="resident", workspace=tmp_path / "work", on_event=told
        )
    assert digest == expected
    assert len(processes) == 1
