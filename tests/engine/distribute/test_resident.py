"""Blocks that stay in memory: the choice of the mode, ranks on workers, checkpoints, and losses."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import xarray as xr

from halocline_engine.distribute.communicators import local
from halocline_engine.distribute.communicators.base import RankLostError
from halocline_engine.distribute.executors.dask import start
from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.jobs.checkpoint import newest_pass
from halocline_engine.distribute.tasks.events import (
    Checkpointed,
    Event,
    Finished,
    Measured,
    Planned,
    Resumed,
    StepsFinished,
    event_of_rank,
)
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.errors import (
    ArgumentError,
    CancelledError,
    CapacityError,
    ClusterError,
    OutputError,
)
from halocline_engine.functions.run import run

WAVE = """
def wave(now: Field[float], old: Field[float], next: Field[float], kept: Field[float], c: float):
    with computation(PARALLEL), interval(...):
        around = now[1, 0, 0] + now[-1, 0, 0] + now[0, 1, 0] + now[0, -1, 0]
        next = 2.0 * now - old + c * (around - 4.0 * now)
        kept = now
"""
FEEDBACK = {"next": "now", "kept": "old"}
#: Blocks for three ranks; by itself this process would have one, as there is so little to do.
THIRDS = {"y": 21}
BOUNDARY = {"x": "periodic", "y": {"low": "reflect", "high": "none"}}


@pytest.fixture(scope="module")
def water() -> xr.Dataset:
    rng = np.random.default_rng(4)
    values = {name: (("y", "x"), rng.normal(size=(61, 47))) for name in ("now", "old")}
    return xr.Dataset(values)


def waved(data: Any, **arguments: Any) -> tuple[str, list[Event]]:
    """Return the digest of both results, and the events."""
    events: list[Event] = []
    tell: Callable[[Event], None] | None = arguments.pop("on_event", None)

    def told(event: Event) -> None:
        events.append(event)
        if tell is not None:
            tell(event)

    defaults: dict[str, Any] = {
        "scalars": {"c": 0.2},
        "boundary": BOUNDARY,
        "steps": 40,
        "feedback": FEEDBACK,
        "target": "cpu",
        "mode": "resident",
    }
    result = run(WAVE, data, on_event=told, **{**defaults, **arguments})
    both = np.ascontiguousarray(result["next"].values), np.ascontiguousarray(result["kept"].values)
    return hashlib.sha256(b"".join(one.tobytes() for one in both)).hexdigest(), events


@pytest.fixture(scope="module")
def expected(water: xr.Dataset) -> str:
    return waved(water, mode="streamed")[0]


@pytest.fixture
def ranks() -> Iterator[None]:
    """Let this process have three ranks."""
    pool = LocalPool(workers=3)
    with patch("halocline_engine.distribute.executors.select.local_pool", return_value=pool):
        yield


def planned(events: list[Event]) -> Planned:
    assert isinstance(events[0], Planned)
    return events[0]


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_ranks_of_this_process_make_the_same_bits(
    water: xr.Dataset, expected: str, ranks: None, steps: int
) -> None:
    digest, events = waved(water, chunks=THIRDS, options=Options(steps_per_pass=steps))
    assert digest == expected
    assert (planned(events).workers, planned(events).steps_per_pass) == (3, steps)
    assert isinstance(events[-1], Finished)
    assert [e.steps_done for e in events if isinstance(e, StepsFinished)][-1] == 40


@pytest.mark.parametrize("chunks", [{"y": 31}, {"x": 16, "y": 13}, {"y": 2}])
def test_ranks_on_workers_make_the_same_bits(
    water: xr.Dataset, expected: str, two_workers: Any, chunks: dict[str, int]
) -> None:
    digest, events = waved(water, cluster=two_workers, chunks=chunks)
    assert digest == expected
    assert planned(events).workers == 2


def test_the_mode_follows_from_steps_and_memory(water: xr.Dataset) -> None:
    plan = planned(waved(water, mode="auto")[1])
    assert plan.mode == "resident"
    assert plan.reason.startswith("40 steps on blocks that fit the memory of 1 worker: ")
    one = planned(waved(water, mode="auto", steps=1)[1])
    assert (one.mode, one.reason) == (
        "streamed",
        "blocks are read, computed and written pass by pass, as there is one step",
    )
    small = planned(waved(water, mode="auto", options=Options(memory_limit=150_000))[1])
    assert small.mode == "streamed"
    assert small.reason.startswith(
        "blocks are read, computed and written pass by pass, as the blocks do not fit the memory"
        " of 1 worker: "
    )
    ordered = planned(waved(water, mode="auto", options=Options(order="zigzag"))[1])
    assert (
        ordered.reason
        == "blocks are read, computed and written pass by pass, as 'order' asks for it"
    )
    members = water.expand_dims(member=65)
    many = planned(waved(members, mode="auto", steps=2)[1])
    assert (many.mode, many.reason) == (
        "streamed",
        "blocks are read, computed and written pass by pass, as there are 65 points of dimensions"
        " that the program does not use",
    )


def test_what_cannot_stay_in_memory_is_refused_with_numbers(water: xr.Dataset) -> None:
    with pytest.raises(CapacityError) as caught:
        waved(water, options=Options(memory_limit=150_000))
    assert str(caught.value) == (
        "Blocks that stay in memory need 240 kB of each of 1 worker, but only 104 kB are free."
        " Use more workers, or mode='streamed'."
    )
    with pytest.raises(ArgumentError) as refused:
        waved(water, options=Options(order="row"))
    assert str(refused.value) == (
        "With mode='resident' blocks stay where they are, but 'order' says how they follow each"
        " other. Leave it out, or use mode='streamed'."
    )


def test_a_run_goes_on_from_its_checkpoint_with_other_blocks(
    water: xr.Dataset, expected: str, ranks: None, tmp_path: Path
) -> None:
    kept: list[Event] = []

    def stop() -> bool:
        return bool(kept)

    def note(event: Event) -> None:
        if isinstance(event, Checkpointed):
            kept.append(event)

    how: dict[str, Any] = {"workspace": tmp_path, "chunks": THIRDS}
    how["options"] = Options(checkpoint_steps=7, steps_per_pass=3)
    with pytest.raises(CancelledError):
        waved(water, on_event=note, cancelled=stop, **how)
    digest, events = waved(water, workspace=tmp_path, chunks={"y": 9, "x": 20})
    assert digest == expected
    resumed = next(e for e in events if isinstance(e, Resumed))
    assert resumed.steps_done % 7 == 0
    assert resumed.steps_done >= 7
    # A streamed run goes on from it as well.
    digest, events = waved(water, workspace=tmp_path, mode="streamed")
    assert digest == expected
    assert any(isinstance(e, Resumed) for e in events)


def test_a_damaged_checkpoint_is_passed_over(
    water: xr.Dataset, expected: str, tmp_path: Path
) -> None:
    waved(water, workspace=tmp_path, options=Options(checkpoint_steps=15))
    fingerprint = _fingerprint(tmp_path)
    newest = newest_pass(tmp_path, fingerprint)
    assert newest is not None
    assert newest.steps_done == 30
    chunk = next(path for path in sorted(newest.path.rglob("c/*/*")) if path.is_file())
    values = bytearray(chunk.read_bytes())
    values[len(values) // 2] ^= 1
    chunk.write_bytes(bytes(values))
    older = newest_pass(tmp_path, fingerprint)
    assert older is not None
    assert older.steps_done == 15
    digest, events = waved(water, workspace=tmp_path)
    assert digest == expected
    assert [e.steps_done for e in events if isinstance(e, Resumed)] == [15]


def _fingerprint(workspace: Path) -> str:
    import json

    manifest = next(workspace.glob("attempt-*/pass-*.json"))
    return json.loads(manifest.read_text())["fingerprint"]


def test_a_full_disk_ends_the_run_with_its_cause(
    water: xr.Dataset, ranks: None, tmp_path: Path
) -> None:
    import errno

    from halocline_engine.datasets.stores import sink
    from halocline_engine.datasets.untyped import ZARR

    plain: Any = ZARR

    class Full:
        def __getattr__(self, name: str) -> Any:
            return getattr(plain, name)

        def open_array(self, *_: Any, **__: Any) -> Any:
            raise OSError(errno.ENOSPC, "No space left on device")

    with patch.object(sink, "ZARR", Full()), pytest.raises(OutputError) as caught:
        waved(water, workspace=tmp_path, chunks=THIRDS, options=Options(checkpoint_steps=5))
    assert "No space" in str(caught.value) or "full" in str(caught.value)
    assert newest_pass(tmp_path, "") is None


@pytest.mark.parametrize("where", ["here", "workers"])
def test_a_cancelled_run_ends_soon(water: xr.Dataset, two_workers: Any, where: str) -> None:
    """It is asked for while steps are made; a million of them would take minutes."""
    asked = threading.Event()

    def note(event: Event) -> None:
        if isinstance(event, StepsFinished):
            asked.set()

    cluster = two_workers if where == "workers" else None
    with pytest.raises(CancelledError):
        waved(water, steps=10**7, on_event=note, cancelled=asked.is_set, cluster=cluster)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_worker_costs_the_steps_since_the_last_checkpoint(
    water: xr.Dataset, how: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job goes on from there, on the workers that are left, with the same bits."""
    monkeypatch.setattr("halocline_engine.control.stoppage.STOPPED_SECONDS", 2.0)
    steps = 3000
    reference, _ = waved(water, steps=steps, mode="streamed")
    with start(2, "cpu") as pool:
        client = pool.client
        pids = client.run(os.getpid)
        struck: list[int] = []

        def strike(event: Event) -> None:
            if isinstance(event, Checkpointed) and not struck:
                struck.append(pids[max(pids)])
                os.kill(struck[0], how)

        digest, events = waved(
            water,
            steps=steps,
            cluster=client,
            chunks={"y": 31},
            workspace=tmp_path,
            on_event=strike,
            options=Options(checkpoint_steps=500),
        )
        assert struck
        assert digest == reference
        assert any(isinstance(e, Resumed) and e.steps_done >= 500 for e in events)


def test_ranks_that_are_lost_again_and_again_end_the_job(water: xr.Dataset, ranks: None) -> None:
    def lost(*_: Any) -> Iterator[Event]:
        raise RankLostError("Rank 1 is gone.")
        yield

    with patch.object(LocalPool, "run_ranks", lost), pytest.raises(ClusterError) as caught:
        waved(water)
    assert str(caught.value) == (
        "Workers were lost 4 times before a checkpoint was written: Rank 1 is gone. They may lack"
        " memory: use more workers, or mode='streamed'."
    )


def test_an_error_of_one_rank_ends_all(water: xr.Dataset, ranks: None) -> None:
    from halocline_engine.distribute.resident.fields import RankFields

    plain = RankFields.advance

    counted: list[int] = []

    def advance(self: RankFields, count: int, **how: bool) -> None:
        counted.append(count)
        if len(counted) == 3:
            raise MemoryError("no room")
        plain(self, count, **how)

    with patch.object(RankFields, "advance", advance), pytest.raises(MemoryError, match="no room"):
        waved(water, chunks=THIRDS)
    assert not [one for one in threading.enumerate() if one.name.startswith("halocline-rank")]


def test_events_of_ranks_travel() -> None:
    for event in (StepsFinished(3, 9, 0.5), Checkpointed(3, 9, 0.25), Measured(3, 9, 0.1, 0.2)):
        assert event_of_rank(event.to_json()) == event
        assert event.progress == pytest.approx(1 / 3)


def test_a_rank_that_falls_silent_is_lost_but_one_that_never_spoke_may_not_have_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter(float(second) for second in range(10**6))
    made_up = SimpleNamespace(monotonic=lambda: next(clock))
    monkeypatch.setattr("halocline_engine.distribute.communicators.local.time", made_up)
    monkeypatch.setattr(local, "_LOOK", 0.0)
    mailbox = local.Mailbox()
    mailbox.put(0, 1, ("halo", 1), np.ones(3))
    assert mailbox.take(0, 1, ("halo", 1)).sum() == 3.0
    with pytest.raises(RankLostError) as caught:
        mailbox.take(0, 1, ("halo", 2))
    assert str(caught.value) == "Rank 1 sent nothing for 1200 s."
    waited: list[float] = []

    def late() -> bool:
        waited.append(next(clock))
        if len(waited) == 3000:
            mailbox.put(0, 2, ("halo", 1), np.zeros(1))
        return False

    monkeypatch.setattr(mailbox, "check", late)
    assert mailbox.take(0, 2, ("halo", 1)).size == 1


def relaxed(size: tuple[int, int], steps: int) -> list[np.ndarray[Any, Any]]:
    """Return a field that calms down, after each step, with land that stays NaN."""
    values = np.random.default_rng(9).normal(size=size)
    values[2, 3] = np.nan
    found = [values]
    for _ in range(steps):
        now = found[-1]
        around = np.roll(now, 1, 1) + np.roll(now, -1, 1)
        found.append(np.where(np.isnan(around), now, 0.25 * (around + 2.0 * now)))
    return found


LIKE = (
    " Write for example until={'field': 'v', 'change': 'max', 'below': 1e-6, 'check_every': 100}."
)
RELAX = """
def relax(u: Field[float], v: Field[float]):
    with computation(PARALLEL), interval(...):
        around = u[-1, 0, 0] + u[1, 0, 0]
        v = u if isnan(around) else 0.25 * (around + 2.0 * u)
"""


@pytest.mark.parametrize("change", ["max", "norm"])
def test_a_run_ends_when_a_step_changes_little(change: str, tmp_path: Path) -> None:
    """The change, and so the step, is the same for any blocks, bundles and ranks."""
    grids = relaxed((31, 23), 200)
    below = 0.02 if change == "max" else 0.2
    found: set[tuple[int, float]] = set()
    for ranks, chunks, steps in ((1, {}, 1), (1, {"x": 7, "y": 10}, 4), (3, {"y": 9}, 3)):
        events: list[Event] = []
        pool = LocalPool(workers=ranks)
        with patch("halocline_engine.distribute.executors.select.local_pool", return_value=pool):
            result = run(
                RELAX,
                xr.Dataset({"u": (("y", "x"), grids[0])}),
                boundary={"x": "periodic"},
                steps=200,
                feedback={"v": "u"},
                until={"field": "v", "change": change, "below": below, "check_every": 7},
                chunks=chunks,
                target="cpu",
                output=tmp_path / f"{ranks}-{steps}.zarr",
                options=Options(steps_per_pass=steps),
                on_event=events.append,
            )
        measured = [one for one in events if isinstance(one, Measured)]
        assert [one.steps_done for one in measured] == list(
            range(7, measured[-1].steps_done + 1, 7)
        )
        assert [one.change <= below for one in measured[:-1]] == [False] * (len(measured) - 1)
        last = measured[-1]
        assert result.attrs["halocline_steps"] == last.steps_done
        assert result.attrs["halocline_change"] == last.change <= below
        np.testing.assert_allclose(result["v"].values, grids[last.steps_done], rtol=1e-12)
        step = np.nan_to_num(grids[last.steps_done] - grids[last.steps_done - 1])
        wanted = abs(step).max() if change == "max" else np.sqrt((step * step).sum())
        assert last.change == pytest.approx(wanted, rel=1e-7)
        found.add((last.steps_done, last.change))
    assert len(found) == 1


def test_a_run_that_does_not_calm_down_makes_all_steps() -> None:
    grids = relaxed((31, 23), 10)
    result = run(
        RELAX,
        xr.Dataset({"u": (("y", "x"), grids[0])}),
        boundary={"x": "periodic"},
        steps=10,
        feedback={"v": "u"},
        until={"field": "v", "below": 1e-9, "check_every": 7},
        target="reference",
    )
    assert result.attrs["halocline_steps"] == 10
    step = np.nan_to_num(grids[7] - grids[6])
    assert result.attrs["halocline_change"] == pytest.approx(abs(step).max())
    np.testing.assert_allclose(result["v"].values, grids[10], rtol=1e-12)


@pytest.mark.parametrize(
    ("until", "message"),
    [
        (
            {"field": "x", "below": 1.0},
            "The 'field' of argument 'until' must be an output that feeds an input, got 'x'."
            " There is 'next', 'kept'.",
        ),
        (
            {"field": "next"},
            "Argument 'until' must be a mapping with 'field' and 'below', got {'field': 'next'}."
            + LIKE,
        ),
        (
            {"field": "next", "below": -1.0},
            "The 'below' of argument 'until' must be a finite number from 0, got -1.0." + LIKE,
        ),
        (
            {"field": "next", "below": 1.0, "change": "sum"},
            "The 'change' of argument 'until' must be 'max' or 'norm', got 'sum'." + LIKE,
        ),
        (
            {"field": "next", "below": 1.0, "after": 3},
            "Argument 'until' has no 'after'." + LIKE,
        ),
    ],
)
def test_what_ends_a_run_is_checked(water: xr.Dataset, until: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        waved(water, until=until)
    assert str(caught.value) == message


def test_a_streamed_run_does_not_end_early(water: xr.Dataset) -> None:
    with pytest.raises(ArgumentError) as caught:
        waved(water, mode="streamed", until={"field": "next", "below": 1.0})
    assert str(caught.value) == (
        "With 'until' the last step is looked at, for which blocks stay in memory, but"
        " mode='streamed' was asked for. Leave the mode out."
    )
