"""The only worker is lost: another takes over, or the run ends soon and says why."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Generator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from dask_processes import Cluster

from halocline_engine.distribute.executors import workers as looked_up
from halocline_engine.distribute.executors.workers import Workers, ask_scheduler
from halocline_engine.distribute.tasks.events import BlockFinished, Event
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.errors import ClusterError
from halocline_engine.functions.run import run

SPREAD = """
def spread(inp: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = inp + 0.1 * (inp[1, 0, 0] + inp[-1, 0, 0] - 2.0 * inp)
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Generator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(stack, tmp_path)


@pytest.fixture(scope="module")
def data() -> xr.Dataset:
    values = np.random.default_rng(0).random((60, 70))
    return xr.Dataset({"inp": (("y", "x"), values)})


def test_another_worker_takes_over(
    cluster: Cluster, data: xr.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that comes when the run has noticed that it has none."""
    expected = spread(data)
    first = cluster.worker("first")
    seen: list[BlockFinished] = []
    look, later = Workers.look, list[subprocess.Popen[bytes]]()

    def looked(self: Workers) -> Mapping[str, Any]:
        found = look(self)
        if first.poll() is not None and not found and not later:
            later.append(cluster.worker("second"))
        return found

    monkeypatch.setattr(Workers, "look", looked)

    def kill_the_first(event: Event) -> None:
        if isinstance(event, BlockFinished):
            seen.append(event)
        if len(seen) == 3 and first.poll() is None:
            first.kill()
            first.wait()

    result = spread(
        data,
        chunks={"x": 7},
        cluster=cluster.address,
        output=tmp_path / "out.zarr",
        on_event=kill_the_first,
    )
    assert result["out"].values.tobytes() == expected["out"].values.tobytes()
    assert len({event.worker for event in seen}) == 2


@pytest.mark.timeout(150, func_only=True)  # 35 s on an idle machine; a loss took 320 s once
def test_a_loss_is_noticed_soon(
    cluster: Cluster, data: xr.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a worker that is stopped or killed, and of the scheduler; with less patience."""

    def lose(lost: subprocess.Popen[bytes], how: signal.Signals) -> str:
        looks: list[str] = []
        monkeypatch.undo()

        def asked(client: Any, what: str, **told: Any) -> Any:
            looks.append(what)
            return ask_scheduler(client, what, **told)

        def strike(event: Event) -> None:
            if isinstance(event, BlockFinished) and not looks:
                lost.send_signal(how)
                monkeypatch.setattr(looked_up, "PATIENCE", 4)
                monkeypatch.setattr(looked_up, "SILENT", 4)
                monkeypatch.setattr(looked_up, "_ANSWER_SECONDS", 3)
                monkeypatch.setattr(looked_up, "ask_scheduler", asked)
                looks.append("first")

        with pytest.raises(ClusterError) as caught:
            spread(
                data,
                chunks={"x": 1, "y": 5},
                cluster=cluster.address,
                output=tmp_path / f"{how}.zarr",
                on_event=strike,
            )
        assert looks.count("identity") < 45  # which are a second apart
        return caught.value.message

    worker = cluster.worker("first")
    none = "The cluster has no worker that can be used."
    silent = "No worker of the cluster has been heard of for 4 seconds."
    assert lose(worker, signal.SIGSTOP) == silent
    worker.send_signal(signal.SIGCONT)
    assert lose(worker, signal.SIGKILL) == none
    cluster.worker("second")
    assert "The scheduler does not answer" in lose(cluster.scheduler, signal.SIGSTOP)


def spread(data: xr.Dataset, **options: Any) -> xr.Dataset:
    return run(
        SPREAD,
        data,
        boundary={"x": "periodic"},
        steps=12,
        feedback={"out": "inp"},
        target="cpu",
        mode="streamed",
        options=Options(steps_per_pass=4),
        **options,
    )
