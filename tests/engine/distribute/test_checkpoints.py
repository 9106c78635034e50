"""A finished pass is a checkpoint: a run that was stopped goes on, and ends with the same bits."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import json
import os
import signal
import threading
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import xarray as xr

from halocline_engine.datasets.inputs.opening import open_source
from halocline_engine.distribute.jobs.checkpoint import (
    FinishedPass,
    begin_pass,
    finish_pass,
    newest_pass,
    prune,
)
from halocline_engine.distribute.modes import launch
from halocline_engine.distribute.tasks.events import (
    BlockFinished,
    Event,
    Finished,
    PassFinished,
    Planned,
    Resumed,
)
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.errors import CancelledError, OutputError
from halocline_engine.functions.run import run
from halocline_engine.interface.workspace import Workspace

SMOOTH = """
def smooth(inp: Field[float], out: Field[float], coeff: float):
    with computation(PARALLEL), interval(...):
        around = inp[1, 0, 0] + inp[-1, 0, 0] + inp[0, 1, 0] + inp[0, -1, 0]
        out = (1.0 - coeff) * inp + 0.25 * coeff * around
"""


def diffused(data: Any, **arguments: Any) -> xr.Dataset:
    defaults: dict[str, Any] = {
        "scalars": {"coeff": 0.05},
        "boundary": {"x": "periodic", "y": "edge"},
        "steps": 9,
        "feedback": {"out": "inp"},
        "target": "reference",
        "mode": "streamed",
        "chunks": {"y": 10},
        "options": Options(steps_per_pass=2),
    }
    return run(SMOOTH, data, **{**defaults, **arguments})


class StopAfter:
    """Ask for the end once a number of passes is finished."""

    def __init__(self, passes: int) -> None:
        self.passes = passes
        self.events: list[Event] = []

    def tell(self, event: Event) -> None:
        self.events.append(event)

    def asked(self) -> bool:
        return sum(isinstance(event, PassFinished) for event in self.events) >= self.passes


def test_a_cancelled_run_goes_on(ocean: xr.Dataset, tmp_path: Path) -> None:
    expected = diffused(ocean)["out"].values.tobytes()
    work, output = tmp_path / "work", tmp_path / "out.zarr"
    stop = StopAfter(3)
    with pytest.raises(CancelledError) as caught:
        diffused(
            ocean,
            workspace=work,
            output=output,
            on_event=stop.tell,
            cancelled=stop.asked,
        )
    assert str(caught.value) == "The run was cancelled."
    assert [path.name for path in tmp_path.iterdir()] == ["work"]
    events: list[Event] = []
    result = diffused(
        ocean,
        workspace=Workspace(str(work), 1),
        output=output,
        on_event=events.append,
        chunks={"x": 13},
        options=Options(steps_per_pass=3),
    )
    assert events[2] == Resumed(steps_done=6, steps=9)
    assert events[2].progress == pytest.approx(2 / 3)
    assert sum(isinstance(event, PassFinished) for event in events) == 1
    assert result["out"].values.tobytes() == expected


def test_another_job_does_not_go_on_from_it(ocean: xr.Dataset, tmp_path: Path) -> None:
    diffused(ocean, workspace=tmp_path)
    events: list[Event] = []
    diffused(ocean, workspace=tmp_path, on_event=events.append)
    assert any(isinstance(event, Resumed) for event in events)
    others: list[dict[str, Any]] = [
        {"scalars": {"coeff": 0.04}},
        {"boundary": {"x": "periodic"}},
        {"steps": 8},
        {"data": ocean.assign(inp=ocean["inp"] + 1.0)},
    ]
    for changes in others:
        events = []
        data = changes.pop("data", ocean)
        diffused(data, workspace=tmp_path, on_event=events.append, **changes)
        assert not any(isinstance(event, Resumed) for event in events), changes


def test_only_two_passes_are_kept(ocean: xr.Dataset, tmp_path: Path) -> None:
    most = 0

    def count(event: Event) -> None:
        nonlocal most
        most = max(most, len(list(tmp_path.glob("attempt-0/pass-*.json"))))

    diffused(ocean, workspace=tmp_path, on_event=count)
    names = sorted(path.name for path in (tmp_path / "attempt-0").iterdir())
    assert names == ["pass-000006", "pass-000006.json", "pass-000008", "pass-000008.json"]
    assert most == 2


def test_a_pass_without_its_manifest_is_not_looked_at(tmp_path: Path) -> None:
    path = begin_pass(tmp_path, 0, 4)
    path.mkdir()
    assert newest_pass(tmp_path, "f") is None
    finish_pass(path, "f", 4)
    assert newest_pass(tmp_path, "f") == FinishedPass(path, 4)
    assert newest_pass(tmp_path, "g") is None
    later = begin_pass(tmp_path, 3, 6)
    later.mkdir()
    finish_pass(later, "f", 6)
    assert newest_pass(tmp_path, "f") == FinishedPass(later, 6)
    again = begin_pass(tmp_path, 3, 6)
    assert again == later
    assert not later.exists()
    assert newest_pass(tmp_path, "f") == FinishedPass(path, 4)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 99, "fingerprint": "f"}'])
def test_a_manifest_that_cannot_be_read_is_no_pass(text: str, tmp_path: Path) -> None:
    path = begin_pass(tmp_path, 0, 4)
    path.mkdir()
    finish_pass(path, "f", 4)
    path.with_suffix(".json").write_text(text)
    assert newest_pass(tmp_path, "f") is None


def test_a_manifest_without_a_store_is_no_pass(tmp_path: Path) -> None:
    path = begin_pass(tmp_path, 0, 4)
    finish_pass(path, "f", 4)
    assert json.loads(path.with_suffix(".json").read_text())["steps_done"] == 4
    assert newest_pass(tmp_path, "f") is None


def test_old_passes_of_all_attempts_are_removed(tmp_path: Path) -> None:
    for attempt, steps in ((0, 2), (0, 4), (1, 6), (1, 8)):
        path = begin_pass(tmp_path, attempt, steps)
        path.mkdir()
        finish_pass(path, "f", steps)
    prune(tmp_path, "f")
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("attempt-*/*"))
    assert left == [
        "attempt-1/pass-000006",
        "attempt-1/pass-000006.json",
        "attempt-1/pass-000008",
        "attempt-1/pass-000008.json",
    ]


def test_events_tell_of_progress(ocean: xr.Dataset) -> None:
    events: list[Event] = []
    diffused(ocean, on_event=events.append)
    assert isinstance(events[0], Planned)
    assert isinstance(events[-1], Finished)
    assert events[0].to_json() == {
        "kind": "planned",
        "progress": 0.0,
        "mode": "streamed",
        "reason": "blocks are read, computed and written pass by pass",
        "target": "reference",
        "workers": 1,
        "blocks": 4,
        "passes": 5,
        "steps": 9,
        "steps_per_pass": 2,
        "projected_bytes": events[0].projected_bytes,
        "order": "row",
        "width": 1,
        "cache_bytes": 0,
        "chunks": 0,
        "predicted_fetches": 0,
        "rows": 4,
        "length": 1,
        "halo": {"x": [1, 1], "y": [1, 1]},
        "block": {"time": 2, "x": 38, "y": 10},
        "input_bytes": ocean["inp"].nbytes,
        "result_bytes": ocean["inp"].nbytes,
        "transport": "none",
        "unfused": "blocks do not stay in memory",
        "predicted_rate": events[0].predicted_rate,
    }
    progress = [event.progress for event in events]
    assert progress == sorted(progress)
    assert (progress[0], progress[-1]) == (0.0, 1.0)
    blocks = [event for event in events if isinstance(event, BlockFinished)]
    assert [(event.pass_index, event.done) for event in blocks] == [
        (index, done) for index in range(5) for done in range(1, 5)
    ]
    assert all(event.total == 4 and event.passes == 5 for event in blocks)
    assert events[-1].bytes_written == 5 * ocean["inp"].nbytes
    assert events[-1].bytes_read > 5 * ocean["inp"].nbytes
    assert events[-1].peak_bytes > 10_000_000
    assert {json.dumps(event.to_json()) for event in events}


def test_a_cluster_run_that_is_cancelled_leaves_nothing(
    ocean: xr.Dataset, two_workers: Any, tmp_path: Path
) -> None:
    stop = StopAfter(1)
    with pytest.raises(CancelledError):
        diffused(
            ocean,
            output=tmp_path / "out.zarr",
            cluster=two_workers,
            on_event=stop.tell,
            cancelled=stop.asked,
        )
    assert list(tmp_path.iterdir()) == []


def test_errors_of_workers_arrive_as_they_are(
    ocean: xr.Dataset, two_workers: Any, tmp_path: Path
) -> None:
    def fill_disk() -> None:
        import errno

        from halocline_engine.datasets.stores import sink

        class Full:
            def open_array(self, store: str, **options: Any) -> Any:
                raise OSError(errno.ENOSPC, "No space left on device")

        setattr(sink, "ZARR", Full())  # noqa: B010 - a stand-in of another type

    def free_disk() -> None:
        import zarr

        from halocline_engine.datasets.stores import sink

        setattr(sink, "ZARR", zarr)  # noqa: B010 - as it was

    source, output = tmp_path / "in.zarr", tmp_path / "out.zarr"
    ocean.to_zarr(source, zarr_format=3, consolidated=False)
    two_workers.run(fill_disk)
    try:
        with pytest.raises(OutputError, match="stopped because the disk is full"):
            diffused(source, output=output, cluster=two_workers)
    finally:
        two_workers.run(free_disk)
    assert [path.name for path in tmp_path.iterdir()] == ["in.zarr"]


def test_a_worker_that_is_killed_costs_its_blocks_only(
    ocean: xr.Dataset, two_workers: Any, tmp_path: Path
) -> None:
    expected = diffused(ocean)["out"].values.tobytes()
    killed = threading.Event()
    events: list[Event] = []

    def kill_one(event: Event) -> None:
        events.append(event)
        if isinstance(event, BlockFinished) and event.pass_index == 1 and not killed.is_set():
            killed.set()
            pids = two_workers.run(os.getpid)
            os.kill(next(iter(pids.values())), signal.SIGKILL)

    result = diffused(
        ocean,
        chunks={"y": 3},
        cluster=two_workers,
        output=tmp_path / "out.zarr",
        on_event=kill_one,
    )
    assert killed.is_set()
    assert isinstance(events[-1], Finished)
    assert result["out"].values.tobytes() == expected
    two_workers.wait_for_workers(2, timeout=60)


def test_what_is_written_for_workers_replaces_nothing(tmp_path: Path) -> None:
    """A workspace may be a folder of the caller, with an 'input' of its own."""
    kept = tmp_path / "input" / "precious.nc"
    kept.parent.mkdir()
    kept.write_text("mine")
    opened, place = open_source(xr.Dataset({"a": ("x", [1.0, 2.0])})), vars(launch)["_source"]
    checked: Any = SimpleNamespace(
        compiled=SimpleNamespace(target="cpu"),
        opened=opened,
        match=SimpleNamespace(uses=[SimpleNamespace(variable="a", loaded=True)]),
        diagnosis=None,
    )
    places, pool = SimpleNamespace(workspace=tmp_path), SimpleNamespace(remote=True)
    with ExitStack() as stack:
        place(checked, pool, places, stack, "", stays=False)
        assert len(list(tmp_path.iterdir())) == 2
        assert kept.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["input"]
    assert kept.read_text() == "mine"
