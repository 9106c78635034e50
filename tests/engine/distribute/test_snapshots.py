"""Snapshots: results after every so many steps, which are those of shorter runs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import pytest
import xarray as xr

from halocline_engine.datasets.untyped import XARRAY
from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.jobs import snapshots
from halocline_engine.distribute.tasks.events import (
    Checkpointed,
    Event,
    Measured,
    PassFinished,
    Planned,
    Resumed,
    SnapshotWritten,
    event_of_rank,
)
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.errors import ArgumentError, CancelledError, CapacityError, OutputError
from halocline_engine.functions.run import run
from halocline_engine.interface.workspace import Workspace
from halocline_engine.removal import remove_own

#: A wave, what it was before, and how it moves: fed fields and one that nothing reads.
WAVE = """
def wave(
    now: Field[float], old: Field[float], next: Field[float], kept: Field[float],
    speed: Field[float], c: float,
):
    with computation(PARALLEL), interval(...):
        around = now[1, 0, 0] + now[-1, 0, 0] + now[0, 1, 0] + now[0, -1, 0]
        next = 2.0 * now - old + c * (around - 4.0 * now)
        kept = now
        speed = next - now
"""
RESULTS = ("next", "kept", "speed")
STEPS, EVERY = 25, 7
WANTED = [7, 14, 21, 25]
MODES = ("streamed", "resident")


@pytest.fixture(scope="module")
def water() -> xr.Dataset:
    rng = np.random.default_rng(4)
    values = {name: (("y", "x"), rng.normal(size=(61, 47))) for name in ("now", "old")}
    return xr.Dataset(values, coords={"lat": ("y", np.arange(61.0))})


def waved(data: Any, **arguments: Any) -> xr.Dataset:
    defaults: dict[str, Any] = {
        "scalars": {"c": 0.2},
        "boundary": {"x": "periodic", "y": {"low": "reflect", "high": "none"}},
        "steps": STEPS,
        "feedback": {"next": "now", "kept": "old"},
        "target": "cpu",
    }
    return run(WAVE, data, **{**defaults, **arguments})


@pytest.fixture(scope="module")
def expected(water: xr.Dataset) -> dict[int, xr.Dataset]:
    return {steps: waved(water, steps=steps) for steps in WANTED}


def check(result: xr.Dataset, expected: dict[int, xr.Dataset]) -> None:
    assert result["step"].values.tolist() == WANTED
    assert result["step"].attrs == {"long_name": "number of steps"}
    for name in RESULTS:
        assert result[name].dims == ("step", "y", "x")
        for steps in WANTED:
            found, wanted = after(result, name, steps), expected[steps][name]
            assert found.values.tobytes() == wanted.values.tobytes(), (name, steps)
    assert result["lat"].dims == ("y",)


def told(events: list[Event], kind: type[Any]) -> list[int]:
    made: list[Any] = [event for event in events if isinstance(event, kind)]
    return [event.steps_done for event in made]


def after(result: xr.Dataset, name: str, steps: int) -> xr.DataArray:
    return cast(Any, result[name]).sel(step=steps)


@pytest.fixture
def ranks() -> Iterator[None]:
    """Let this process have three ranks."""
    pool = LocalPool(workers=3)
    with patch("halocline_engine.distribute.executors.select.local_pool", return_value=pool):
        yield


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("kept", [False, True])
def test_snapshots_are_the_results_of_shorter_runs(
    water: xr.Dataset,
    expected: dict[int, xr.Dataset],
    tmp_path: Path,
    mode: str,
    stored: bool,
    kept: bool,
) -> None:
    events: list[Event] = []
    how: dict[str, Any] = {"output": tmp_path / "result.zarr"} if stored else {}
    how |= {"workspace": tmp_path / "work"} if kept else {}
    result = waved(
        water,
        snapshot_every=EVERY,
        mode=mode,
        chunks={"y": 31, "x": 20},
        on_event=events.append,
        **how,
    )
    check(result, expected)
    assert told(events, SnapshotWritten) == WANTED[:-1]
    plan = events[0]
    assert isinstance(plan, Planned)
    assert plan.result_bytes == len(WANTED) * len(RESULTS) * 61 * 47 * 8
    assert result.attrs["history"].splitlines()[0].endswith("25 steps, kept after every 7")
    if mode == "streamed":
        assert told(events, PassFinished)[-1] == STEPS
        assert plan.passes == len(told(events, PassFinished))
    if stored:
        with XARRAY.open_zarr(tmp_path / "result.zarr") as opened:
            check(opened, expected)


@pytest.mark.parametrize("steps", [1, 3, 5])
def test_ranks_and_bundles_make_no_difference(
    water: xr.Dataset, expected: dict[int, xr.Dataset], ranks: None, steps: int
) -> None:
    options = Options(steps_per_pass=steps)
    result = waved(water, snapshot_every=EVERY, mode="resident", chunks={"y": 21}, options=options)
    check(result, expected)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("stored", [False, True])
def test_workers_make_them_as_well(
    water: xr.Dataset,
    expected: dict[int, xr.Dataset],
    two_workers: Any,
    tmp_path: Path,
    mode: str,
    stored: bool,
) -> None:
    output = tmp_path / "result.zarr" if stored else None
    result = waved(
        water, snapshot_every=EVERY, mode=mode, cluster=two_workers, chunks={"y": 31}, output=output
    )
    check(result, expected)


@pytest.mark.parametrize("mode", MODES)
def test_a_run_that_was_cut_off_keeps_its_snapshots_and_makes_none_twice(
    water: xr.Dataset, expected: dict[int, xr.Dataset], tmp_path: Path, mode: str
) -> None:
    """The next one has other blocks and the other mode, and so other chunks."""
    events: list[Event] = []

    def stopped() -> bool:
        return told(events, SnapshotWritten)[-1:] == [14]

    with pytest.raises(CancelledError):
        waved(
            water,
            snapshot_every=EVERY,
            mode=mode,
            workspace=tmp_path / "work",
            on_event=events.append,
            cancelled=stopped,
            options=Options(steps_per_pass=2),
        )
    again: list[Event] = []
    result = waved(
        water,
        snapshot_every=EVERY,
        mode=next(one for one in MODES if one != mode),
        chunks={"y": 10, "x": 30},
        workspace=Workspace(str(tmp_path / "work"), 1),
        output=tmp_path / "result.zarr",
        on_event=again.append,
    )
    check(result, expected)
    made = told(events, SnapshotWritten)
    assert told(again, Resumed) == [made[-1]]
    assert made + told(again, SnapshotWritten) == WANTED[:-1]


def test_checkpoints_between_snapshots_are_gone_on_from(
    water: xr.Dataset, expected: dict[int, xr.Dataset], tmp_path: Path
) -> None:
    events: list[Event] = []

    def stopped() -> bool:
        return told(events, Checkpointed)[-1:] == [16]

    how: dict[str, Any] = {"workspace": tmp_path, "mode": "resident", "snapshot_every": EVERY}
    with pytest.raises(CancelledError):
        waved(
            water,
            on_event=events.append,
            cancelled=stopped,
            options=Options(checkpoint_steps=8, steps_per_pass=1),
            **how,
        )
    # Ranks may get a step further before they hear of the end.
    assert told(events, Checkpointed)[:2] == [8, 16]
    again: list[Event] = []
    check(waved(water, on_event=again.append, **how), expected)
    assert told(again, Resumed)[0] >= 16
    assert told(again, SnapshotWritten) == [one for one in [21] if one > told(again, Resumed)[0]]


def test_a_damaged_snapshot_is_made_again(
    water: xr.Dataset, expected: dict[int, xr.Dataset], tmp_path: Path
) -> None:
    how: dict[str, Any] = {"workspace": tmp_path, "mode": "resident", "snapshot_every": EVERY}
    waved(water, **how)
    chunk = next(path for path in (tmp_path / "attempt-0/snapshots-1/speed/c/1").rglob("0"))
    chunk = next(path for path in sorted(chunk.rglob("*")) if path.is_file())
    values = bytearray(chunk.read_bytes())
    values[len(values) // 2] ^= 1
    chunk.write_bytes(bytes(values))
    again: list[Event] = []
    check(waved(water, on_event=again.append, **how), expected)
    assert told(again, Resumed) == [7]
    assert told(again, SnapshotWritten) == [14, 21]


def test_another_number_of_steps_between_them_takes_what_fits(
    water: xr.Dataset, expected: dict[int, xr.Dataset], tmp_path: Path
) -> None:
    waved(water, workspace=tmp_path, snapshot_every=EVERY, mode="resident")
    again: list[Event] = []
    result = waved(
        water, workspace=tmp_path, snapshot_every=14, mode="resident", on_event=again.append
    )
    assert told(again, Resumed) == [14]
    assert result["step"].values.tolist() == [14, 25]
    for steps in (14, 25):
        found = after(result, "speed", steps).values
        assert found.tobytes() == expected[steps]["speed"].values.tobytes()
    whole = waved(water, workspace=tmp_path)
    assert whole["speed"].values.tobytes() == expected[STEPS]["speed"].values.tobytes()


def test_files_are_copied_where_they_cannot_be_linked(
    water: xr.Dataset, expected: dict[int, xr.Dataset], tmp_path: Path
) -> None:
    refused = patch.object(Path, "hardlink_to", side_effect=OSError("another file system"))
    with refused, patch.object(shutil, "copyfile", wraps=shutil.copyfile) as to:
        result = waved(
            water, snapshot_every=EVERY, workspace=tmp_path, output=tmp_path / "result.zarr"
        )
    assert to.call_count == len(WANTED) * len(RESULTS)
    check(result, expected)


def test_a_full_disk_during_a_snapshot_leaves_none(
    water: xr.Dataset, tmp_path: Path, ranks: None
) -> None:
    import errno

    full = OSError(errno.ENOSPC, "No space left on device")
    how: dict[str, Any] = {"workspace": tmp_path, "mode": "resident", "snapshot_every": EVERY}
    broken = patch.object(snapshots, "publish_manifest", side_effect=OutputError(str(full)))
    with broken, pytest.raises(OutputError, match="No space left"):
        waved(water, output=tmp_path / "result.zarr", **how)
    assert not (tmp_path / "result.zarr").exists()
    again: list[Event] = []
    waved(water, on_event=again.append, **how)
    assert told(again, Resumed) == []


RELAX = """
def relax(u: Field[float], v: Field[float]):
    with computation(PARALLEL), interval(...):
        v = 0.25 * (u[-1, 0, 0] + u[1, 0, 0] + 2.0 * u)
"""


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("every", [5, 6])
def test_a_run_that_ends_early_has_the_snapshots_up_to_there(
    tmp_path: Path, kept: bool, stored: bool, every: int
) -> None:
    data = xr.Dataset({"u": (("y", "x"), np.random.default_rng(9).normal(size=(3, 40)))})
    how: dict[str, Any] = {"boundary": {"x": "periodic"}, "feedback": {"v": "u"}, "target": "cpu"}
    events: list[Event] = []
    result = run(
        RELAX,
        data,
        steps=1000,
        until={"field": "v", "below": 0.02, "check_every": 5},
        snapshot_every=every,
        workspace=tmp_path / "work" if kept else None,
        output=tmp_path / "result.zarr" if stored else None,
        on_event=events.append,
        **how,
    )
    made = told(events, Measured)[-1]
    assert made < 1000
    assert result.attrs["halocline_steps"] == made
    assert result["step"].values.tolist() == [*range(every, made, every), made]
    for steps in result["step"].values.tolist():
        alone = run(RELAX, data, steps=steps, **how)["v"].values
        assert after(result, "v", steps).values.tobytes() == alone.tobytes()


def test_results_of_any_shape_have_snapshots() -> None:
    """A program in place, over members, with levels; one step and snapshots beyond the end."""
    text = """
def grow(t: Field[float], a: float):
    with computation(FORWARD):
        with interval(0, 1):
            t = a * t
        with interval(1, None):
            t = a * t + t[0, 0, -1]
"""
    values = np.random.default_rng(2).normal(size=(3, 5, 4, 2))
    data = xr.Dataset({"t": (("member", "z", "y", "x"), values)})
    for mode in MODES:
        for steps, every, wanted in ((6, 2, [2, 4, 6]), (1, 1, [1]), (3, 8, [3])):
            result = run(
                text,
                data,
                scalars={"a": 0.5},
                steps=steps,
                snapshot_every=every,
                mode=mode,
                target="cpu",
            )
            assert result["t"].dims == ("step", "member", "z", "y", "x")
            assert result["step"].values.tolist() == wanted
            for made in wanted:
                alone = run(text, data, scalars={"a": 0.5}, steps=made, target="cpu")["t"]
                assert after(result, "t", made).values.tobytes() == alone.values.tobytes()


def test_what_has_no_sense_is_refused(water: xr.Dataset) -> None:
    for every in (0, 2.5):
        with pytest.raises(ArgumentError) as caught:
            waved(water, snapshot_every=every)
        assert str(caught.value) == (
            f"Argument 'snapshot_every' must be a whole number from 1, got {every}."
            " Write for example snapshot_every=10."
        )
    for data in (water.expand_dims(step=2), water.assign(step=1.0)):
        with pytest.raises(ArgumentError) as caught:
            waved(data, snapshot_every=5)
        assert str(caught.value) == (
            "With 'snapshot_every' results have a dimension 'step', but the dataset, or the"
            " result, has something of that name. Rename it, as dataset.rename(step='number')."
        )


@pytest.mark.parametrize("mode", MODES)
def test_snapshots_that_do_not_fit_the_memory_are_refused(water: xr.Dataset, mode: str) -> None:
    steps = 1000
    with pytest.raises(CapacityError):
        waved(
            water,
            steps=steps,
            snapshot_every=1,
            mode=mode,
            options=Options(memory_limit=20_000_000),
        )


def test_a_workspace_with_snapshots_is_removed_as_a_whole(
    water: xr.Dataset, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    waved(
        water,
        snapshot_every=EVERY,
        workspace=work,
        mode="resident",
        options=Options(checkpoint_steps=8),
    )
    assert sorted(path.name for path in work.glob("*/snapshot-*.json")) == [
        f"snapshot-{steps:06d}.json" for steps in WANTED[:-1]
    ]
    removal = remove_own(work)
    assert (removal.kept, removal.left) == ([], [])
    assert not work.exists()


def test_their_event_travels() -> None:
    event = SnapshotWritten(3, 9, 0.5)
    assert event_of_rank(event.to_json()) == event
    assert event.progress == pytest.approx(1 / 3)
