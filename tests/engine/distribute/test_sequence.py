"""Sequences of stages: the bits of the functions called one after the other, as one job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.distribute.tasks.events import (
    Checkpointed,
    Event,
    Planned,
    Resumed,
    SnapshotWritten,
)
from halocline_engine.functions.reports.planning import plan_of
from halocline_engine.interface.workspace import Workspace

ADVECT = """
def advect(t: Field[float], moved: Field[float], *, c: float):
    with computation(PARALLEL), interval(...):
        if t > 0.0:
            moved = t - c * (t - t[-1, 0, 0])
"""
SOURCE = """
def source(heat: Field[float], rhs: Field[float], clock: Field[float], *, dt: float):
    with computation(PARALLEL), interval(...):
        rhs = heat + (dt if clock < 3.0 * dt else 0.0)
        clock = clock + dt
"""
BANDS: dict[str, Any] = {"lower": "a", "diagonal": "b", "upper": "c", "dim": "z"}


def air() -> xr.Dataset:
    """Return a field with systems along `z` that diffuse it."""
    rng = np.random.default_rng(5)
    dims, shape = ("z", "y", "x"), (6, 7, 9)
    bands = {"a": -0.5, "b": 2.5, "c": -0.5}
    return xr.Dataset(
        {
            "t": (dims, rng.normal(size=shape), {"units": "K"}),
            "heat": (dims, rng.normal(size=shape)),
            "clock": (dims, np.zeros(shape)),
            **{name: ("z", np.full(6, value)) for name, value in bands.items()},
        },
        coords={"x": ("x", np.arange(9.0), {"axis": "X"})},
        attrs={"title": "air"},
    )


MOVING: list[dict[str, dict[str, Any]]] = [
    {"stencil": {"program": ADVECT, "scalars": {"c": 0.2}, "boundary": {"x": "periodic"}}},
    {"tridiagonal": {**BANDS, "rhs": "moved", "name": "mixed"}},
]
HEATING: list[dict[str, dict[str, Any]]] = [
    {"stencil": {"program": SOURCE, "scalars": {"dt": 0.5}}},
    {"tridiagonal": {**BANDS, "rhs": "rhs", "name": "heat"}},
]


def one_by_one(dataset: xr.Dataset, steps: int, target: str) -> xr.Dataset:
    for _ in range(steps):
        advected = he.run(dataset=dataset, target=target, **MOVING[0]["stencil"])
        dataset = dataset.assign(moved=advected["moved"])
        mixed = he.tridiagonal(dataset, target=target, **MOVING[1]["tridiagonal"])
        dataset = dataset.assign({name: mixed[name] for name in mixed.data_vars})
        dataset = dataset.assign(t=mixed["mixed"])
    return dataset


def repeated(dataset: Any, **more: Any) -> xr.Dataset:
    arguments: dict[str, Any] = {"steps": 4, "feedback": {"mixed": "t"}, "target": "cpu", **more}
    return he.sequence(MOVING, dataset, **arguments)


def check(result: xr.Dataset, target: str = "cpu") -> None:
    wanted = one_by_one(air(), 4, target)
    assert {*result.data_vars} == {"moved", "mixed", "mixed_status"}
    for name in result.data_vars:
        assert result[name].dims == wanted[name].dims
        assert np.array_equal(result[name].values, wanted[name].values, equal_nan=True)


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_the_bits_are_those_of_the_functions(target: str) -> None:
    dataset = air()
    kept = dataset.copy(deep=True)
    result = repeated(dataset, target=target)
    check(result, target)
    assert np.isnan(result["moved"]).any()  # what is not computed is not left from earlier steps
    assert result["x"].identical(dataset["x"])
    assert result.attrs["title"] == "air"
    assert result.attrs["history"].endswith(": sequence of stencil, tridiagonal, 4 steps")
    assert [*result["mixed_status"].attrs["flag_masks"]] == [1, 2, 4, 8, 16]
    assert dataset.identical(kept)


def test_files_chunks_and_stores_change_nothing(tmp_path: Path) -> None:
    cast("Any", air()).to_zarr(tmp_path / "air.zarr", encoding={"t": {"chunks": (3, 4, 5)}})
    check(repeated(tmp_path / "air.zarr"))
    check(repeated(tmp_path / "air.zarr", output=tmp_path / "out.zarr"))
    plans: list[Event] = []
    options = he.Options(memory_limit=25_000)  # of which the values would take more
    check(repeated(air(), options=options, on_event=plans.append, output=tmp_path / "far.zarr"))
    assert isinstance(plans[0], Planned)
    assert "go through stores" in plans[0].reason
    assert {path.name for path in tmp_path.iterdir()} == {"air.zarr", "out.zarr", "far.zarr"}


def test_workers_change_nothing(two_workers: Any, tmp_path: Path) -> None:
    check(repeated(air(), cluster=two_workers))
    cast("Any", air()).to_zarr(tmp_path / "air.zarr")
    check(repeated(tmp_path / "air.zarr", cluster=two_workers, output=tmp_path / "out.zarr"))


def test_a_result_may_take_the_place_of_a_variable() -> None:
    result = he.sequence(HEATING, air(), steps=5, target="cpu")
    assert (result["clock"] == 2.5).all()
    dataset, clock = air(), 0.0
    for _ in range(5):
        rhs = dataset["heat"] + (0.5 if clock < 1.5 else 0.0)
        clock += 0.5
        solved = he.tridiagonal(dataset.assign(rhs=rhs), target="cpu", rhs="rhs", **BANDS)
        dataset = dataset.assign(heat=solved["solution"])
    assert np.array_equal(result["heat"], dataset["heat"])
    alone = he.sequence(HEATING, air(), steps=5, results=["heat"], target="cpu")
    assert [*alone.data_vars] == ["heat"]
    assert np.array_equal(alone["heat"], result["heat"])


def test_it_is_one_job_with_one_progress() -> None:
    told: list[Event] = []
    repeated(air(), on_event=told.append, mode="streamed")
    kinds = [event.kind for event in told]
    assert (kinds[0], kinds[-1]) == ("planned", "finished")
    assert kinds.count("planned") == kinds.count("finished") == 1
    assert kinds.count("pass-finished") == 8
    shares = [event.progress for event in told]
    assert shares == sorted(shares)
    plan = told[0]
    assert isinstance(plan, Planned)
    assert (plan.steps, plan.passes) == (4, 8)
    assert plan.reason == (
        "the stages of a step follow each other; 2 stages a step, whose values stay in memory"
    )
    how: dict[str, Any] = {"steps": 4, "feedback": {"mixed": "t"}, "target": "cpu"}
    assert plan_of(he.sequence, MOVING, air(), mode="streamed", **how) == plan


@pytest.mark.parametrize("memory", [None, 35_000])
def test_snapshots_are_kept(memory: int | None, tmp_path: Path) -> None:
    options = he.Options(memory_limit=memory)
    for output in (None, tmp_path / "out.zarr"):
        result = repeated(
            air(), snapshot_every=3, options=options, output=output, workspace=tmp_path / "work"
        )
        assert result["step"].values.tolist() == [3, 4]
        assert result["mixed"].dims == ("step", "z", "y", "x")
        check(result.isel(step=1, drop=True))
        wanted = repeated(air(), steps=3)
        first = result.isel(step=0, drop=True)
        for name in wanted.data_vars:
            assert np.array_equal(first[name], wanted[name], equal_nan=True)


def stopped_after(steps: int, told: list[Event]) -> Callable[[], bool]:
    def stops() -> bool:
        done = [event for event in told if isinstance(event, Checkpointed)]
        return bool(done) and done[-1].steps_done >= steps

    return stops


@pytest.mark.parametrize("stored", [False, True])
def test_it_resumes_between_two_steps(stored: bool, tmp_path: Path) -> None:
    told: list[Event] = []
    memory = 25_000 if stored else None
    how: dict[str, Any] = {
        "options": he.Options(checkpoint_steps=1, memory_limit=memory),
        "mode": "streamed",
        "workspace": tmp_path / "work",
        "output": tmp_path / "out.zarr",
    }
    with pytest.raises(he.CancelledError):
        repeated(air(), cancelled=stopped_after(2, told), on_event=told.append, **how)
    assert not (tmp_path / "out.zarr").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["work"]
    told.clear()
    check(
        repeated(
            air(), on_event=told.append, **how | {"workspace": Workspace(str(tmp_path / "work"), 1)}
        )
    )
    assert [event for event in told if isinstance(event, Resumed)] == [Resumed(2, 4)]
    shares = [event.progress for event in told[1:]]
    assert shares == sorted(shares)
    other = {**how, "output": tmp_path / "other.zarr"}
    told.clear()
    repeated(air() + 1.0, on_event=told.append, **other)
    assert not [event for event in told if isinstance(event, Resumed)]


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("to", ["memory", "store"])
def test_snapshots_of_an_interrupted_run_stay(stored: bool, to: str, tmp_path: Path) -> None:
    told: list[Event] = []
    how: dict[str, Any] = {
        "snapshot_every": 2,
        "steps": 7,
        "options": he.Options(checkpoint_steps=3, memory_limit=45_000 if stored else None),
        "mode": "streamed",
        "workspace": tmp_path / "work",
        "output": tmp_path / "out.zarr" if to == "store" else None,
    }
    wanted = repeated(air(), steps=7, snapshot_every=2)
    for attempt, stop in enumerate((3, 6)):
        stops = stopped_after(stop, told)
        how["workspace"] = Workspace(str(tmp_path / "work"), attempt)
        with pytest.raises(he.CancelledError):
            repeated(air(), cancelled=stops, on_event=told.append, **how)
        assert {path.name for path in tmp_path.iterdir()} == {"work"}
    told.clear()
    how["workspace"] = Workspace(str(tmp_path / "work"), 2)
    result = repeated(air(), on_event=told.append, **how)
    assert [event for event in told if isinstance(event, Resumed)] == [Resumed(6, 7)]
    assert not [event for event in told if isinstance(event, SnapshotWritten)]
    assert result["step"].values.tolist() == [2, 4, 6, 7]
    for name in wanted.data_vars:
        assert np.array_equal(result[name], wanted[name], equal_nan=True)


def test_values_before_which_a_snapshot_is_damaged_are_not_gone_on_from(tmp_path: Path) -> None:
    told: list[Event] = []
    how: dict[str, Any] = {"snapshot_every": 2, "options": he.Options(checkpoint_steps=1)}
    how["mode"] = "streamed"
    work = tmp_path / "work"
    stops = stopped_after(3, told)
    with pytest.raises(he.CancelledError):
        repeated(air(), cancelled=stops, on_event=told.append, workspace=work, **how)
    next(work.glob("attempt-0/snapshot-000002.json")).write_text("{}")
    told.clear()
    again = Workspace(str(work), 1)
    result = repeated(air(), on_event=told.append, workspace=again, **how)
    assert not [event for event in told if isinstance(event, Resumed)]  # the two newest are kept
    check(result.isel(step=1, drop=True))
    wanted = repeated(air(), steps=2)
    for name in wanted.data_vars:
        assert np.array_equal(result.isel(step=0)[name], wanted[name], equal_nan=True)


def test_a_stage_of_several_passes(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    rows = 4000  # more than are solved whole
    dataset = xr.Dataset({name: ("z", rng.normal(size=rows)) for name in "acd"})
    dataset["b"] = 3.0 + abs(dataset["a"]) + abs(dataset["c"])
    cast("Any", dataset).to_zarr(tmp_path / "rows.zarr", encoding={"d": {"chunks": (1500,)}})
    stages = [{"tridiagonal": {**BANDS, "rhs": "d"}}]
    told: list[Event] = []
    how: dict[str, Any] = {"steps": 3, "feedback": {"solution": "d"}, "target": "cpu"}
    result = he.sequence(stages, tmp_path / "rows.zarr", on_event=told.append, **how)
    for _ in range(3):
        dataset["d"] = he.tridiagonal(dataset, target="cpu", rhs="d", **BANDS)["solution"]
    assert np.array_equal(result["solution"], dataset["d"])
    assert told[-2].progress == 1.0


def test_transfers_are_stages() -> None:
    dataset = xr.Dataset({"u": ("cell", [1.0, 2.0, 4.0]), "order": ("cell", [2, 0, 1])})
    names = {"index": "order", "dim": "cell"}
    stages = [
        {"gather": {"source": "u", **names, "name": "turned"}},
        {"scatter": {"source": "turned", **names, "size": 3, "name": "u"}},
        {"gather": {"source": "u", **names, "name": "u"}},
    ]
    result = he.sequence(stages, dataset, steps=2, target="cpu")
    assert result["u"].values.tolist() == [2.0, 4.0, 1.0]


WRONG: list[tuple[Any, dict[str, Any], str]] = [
    ([], {}, "Argument 'stages' must be a list of at least one stage."),
    ("tree", {}, "Argument 'stages' must be a list of at least one stage."),
    ([3], {}, "Argument 'stages[0]' must be a mapping, got the int 3."),
    ([{}], {}, "Stage 1 must be one kind with its arguments, got 0 keys."),
    ([{"tridiagonl": {}}], {}, "Stage 1 has the unknown kind 'tridiagonl'."),
    ([{"tree": 1}], {}, "Argument 'stages[0]['tree']' must be a mapping, got the int 1."),
    ([{"stencil": {}}], {}, "Stage 1, 'stencil', needs the argument 'program'."),
    ([{"repeat": 2}], {}, "Stage 1 must have 'repeat' and 'stages', got 'repeat'."),
    (
        [{"repeat": 0, "stages": MOVING}],
        {},
        "Argument 'stages[0]['repeat']' must be a whole number from 1, got 0.",
    ),
    (
        [MOVING[0], {"repeat": 2, "stages": []}],
        {},
        "The 'stages' of stage 2 must be a list of at least one stage.",
    ),
    (
        [MOVING[0], {"repeat": 2, "stages": [{"tree": {}, "solve": {}}]}],
        {},
        "Stage 2.1 must be one kind with its arguments, got 2 keys.",
    ),
    (
        [{"repeat": 2, "stages": [{"repeat": 3, "stages": [{"repeat": 4, "stages": MOVING}]}]}],
        {},
        "Stage 1.1.1 is repeated within 2 other repetitions, expected at most 2 in all.",
    ),
    (
        [{"repeat": 200, "stages": [{"repeat": 100, "stages": MOVING}]}],
        {},
        "A step runs 40000 stages, expected at most 10000.",
    ),
    (
        [{"stencil": {"program": ADVECT, "step": 2}}],
        {},
        "Stage 1, 'stencil', has no argument 'step'.",
    ),
    (
        [{"stencil": {"program": ADVECT, "steps": 2}}],
        {},
        "Stage 1, 'stencil', cannot have the argument 'steps'.",
    ),
    (
        [MOVING[0], {"tridiagonal": {**BANDS, "rhs": "move"}}],
        {},
        "Stage 2, 'tridiagonal': Variable 'move' (argument 'rhs') is not in the dataset.",
    ),
    (
        MOVING,
        {"results": ["mixd"]},
        "Argument 'results' names 'mixd', which no stage makes.",
    ),
    (
        MOVING,
        {"feedback": {"mix": "t"}},
        "Argument 'feedback' names 'mix', which no stage makes.",
    ),
    (
        MOVING,
        {"feedback": {"t": "heat"}},
        "Argument 'feedback' names 't', which no stage makes.",
    ),
    (
        MOVING,
        {"feedback": {"t": "heat", "heat": "t"}},
        "Argument 'feedback' names 't', which no stage makes.",
    ),
    (
        MOVING,
        {"feedback": {"mixed": "temperature"}},
        "With 'feedback' the result 'mixed' becomes 'temperature', but the dataset has no such"
        " variable.",
    ),
    (
        MOVING,
        {"feedback": {"mixed": "t", "moved": "t"}},
        "With 'feedback' two results become the same variable.",
    ),
    (
        MOVING,
        {"feedback": {"mixed_status": "t"}},
        "A stage makes 't' as uint8 along 'y', 'x', but the variable that it replaces is float64"
        " along 'z', 'y', 'x'.",
    ),
]


MODES: list[tuple[list[Any], dict[str, Any], str]] = [
    (
        [{"gather": {"source": "a", "index": "order", "dim": "z", "name": "turned"}}],
        {},
        "A sequence cannot stay in memory: the whole grid is needed for gather of 'a' by 'order'.",
    ),
    (
        MOVING,
        {"options": he.Options(chunk_cache=1)},
        "With mode='resident' blocks stay where they are, but 'chunk_cache' says how they follow"
        " each other.",
    ),
    (
        MOVING,
        {"options": he.Options(memory_limit=25_000)},
        "Variables that stay in memory need 48.9 kB of each of 1 worker, but only 25 kB are free.",
    ),
]


@pytest.mark.parametrize(("stages", "more", "message"), MODES)
def test_what_cannot_stay_in_memory(
    stages: list[Any], more: dict[str, Any], message: str, tmp_path: Path
) -> None:
    dataset = air().assign(order=("z", [5, 4, 3, 2, 1, 0]))
    how: dict[str, Any] = {"target": "cpu", "output": tmp_path / "out.zarr", **more}
    with pytest.raises(he.HaloclineError) as caught:
        he.sequence(stages, dataset, steps=2, mode="resident", **how)
    assert caught.value.message == message
    told: list[Event] = []
    he.sequence(stages, dataset, steps=2, on_event=told.append, **how)
    assert isinstance(told[0], Planned)
    assert told[0].mode == "streamed"
    assert ", as " in told[0].reason


def test_repeated_stages_are_those_of_several_steps() -> None:
    stages = [{"repeat": 4, "stages": HEATING}]
    told: list[Event] = []
    result = he.sequence(stages, air(), target="cpu", on_event=told.append)
    wanted = he.sequence(HEATING, air(), steps=4, target="cpu", mode="streamed")
    for name in wanted.data_vars:
        assert np.array_equal(result[name], wanted[name])
    plan = told[0]
    assert isinstance(plan, Planned)
    assert (plan.mode, plan.steps) == ("resident", 1)
    assert plan.reason.endswith("; 8 stages a step")
    assert result.attrs["history"].endswith(": sequence of 4 times (stencil, tridiagonal), 1 step")


@pytest.mark.parametrize(("stages", "more", "message"), WRONG)
def test_what_is_refused(stages: Any, more: dict[str, Any], message: str) -> None:
    with pytest.raises(he.RequestError) as caught:
        he.sequence(stages, air(), steps=2, target="cpu", **more)
    assert caught.value.message == message


def test_a_plan_cannot_depend_on_what_a_stage_makes() -> None:
    dataset = xr.Dataset(
        {
            "count": ("cell", np.array([2, 1]), {"sample_dimension": "node"}),
            "order": ("cell", [0, 1]),
        }
    )
    dataset["n"] = ("node", np.ones(3))
    stages = [
        {"gather": {"source": "count", "index": "order", "dim": "cell", "name": "rows"}},
        {
            "tree": {
                **dict.fromkeys(("diagonal", "upper", "rhs"), "n"),
                "parent": "order",
                "row_size": "rows",
            }
        },
    ]
    with pytest.raises(he.FieldError, match="values of 'rows' are needed before the first step"):
        he.sequence(stages, dataset, target="cpu")


def test_the_place_of_a_wrong_program_is_told() -> None:
    with pytest.raises(he.ProgramError) as caught:
        he.sequence(
            [MOVING[0], {"stencil": {"program": SOURCE.replace("heat +", "heet +")}}], air()
        )
    assert caught.value.line
    assert "Stage 2, 'stencil': " in str(caught.value)
