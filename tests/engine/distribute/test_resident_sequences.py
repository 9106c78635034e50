"""Sequences whose variables stay in memory: the bits of the functions called one by one."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.distribute.communicators.base import RankLostError
from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.stepping.arrays import RankArrays
from halocline_engine.distribute.tasks.events import (
    Checkpointed,
    Event,
    Planned,
    Resumed,
)
from halocline_engine.functions import execution
from halocline_engine.functions.sequence import STAGES
from halocline_engine.interface.workspace import Workspace

SIZES = {"m": 2, "z": 4, "y": 7, "x": 9}
AXES = {"I": "x", "J": "y", "K": "z"}
BANDS = {"lower": "a", "diagonal": "b", "upper": "c", "dim": "z"}
BLUR = """
def blur(t: Field[float], out: Field[float], *, k: float):
    with computation(PARALLEL), interval(...):
        out = t + k * (t[1, 0, 0] - 2.0 * t + t[-1, 0, 0]) + k * (t[0, 2, 0] - t[0, -1, 0])
"""
PARTLY = """
def partly(t: Field[float], out: Field[float], *, k: float):
    with computation(PARALLEL), interval(1, None):
        if t > 0.1:
            out = k * (t + t[-1, 0, 0]) + out
"""
IN_PLACE = """
def in_place(t: Field[float], s: Field[float], flat: Field[IJ, float], *, k: float):
    with computation(FORWARD), interval(...):
        t = t * k + s[0, 1, 0] - flat[1, 0] * 0.25
"""
ALONG = """
def along(t: Field[float], profile: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = t * profile[1, 0, 0] - profile
"""
BOUNDARIES: tuple[Any, ...] = (
    "edge",
    "reflect",
    "extrapolate",
    {"constant": 0.5},
    {"low": "none", "high": "edge"},
    "none",
)


def data(seed: int, *, members: bool = False) -> xr.Dataset:
    """Return fields of three dimensions, or of four, a plane, a profile, and bands."""
    random = np.random.default_rng(seed)
    dims = ("m", "z", "y", "x") if members else ("z", "y", "x")

    def field(*of: str) -> tuple[tuple[str, ...], np.ndarray[Any, Any]]:
        return of, random.normal(size=tuple(SIZES[dim] for dim in of))

    bands = {"a": -0.3, "b": 2.0, "c": -0.4}
    return xr.Dataset(
        {
            "t": field(*dims),
            "s": field(*dims),
            "out": field(*(("m", "y", "z", "x") if members else ("y", "z", "x"))),
            "flat": field("y", "x"),
            "profile": field("z", "x"),
            **{name: ("z", np.full(SIZES["z"], value)) for name, value in bands.items()},
        },
        coords={
            "z": ("z", np.arange(4) + 0.5, {"axis": "Z"}),
            "z_f": ("z_f", np.arange(5.0), {"axis": "Z", "c_grid_axis_shift": -0.5}),
        },
    )


def drawn_stencil(random: np.random.Generator, periodic: str) -> dict[str, Any]:
    """Return a stencil that makes a new variable, changes one, or replaces what it reads."""
    program = (BLUR, PARTLY, IN_PLACE, ALONG)[random.integers(4)]
    fields = {"t": str(random.choice(["t", "s"]))}
    if program is not IN_PLACE:
        made = ["s", "out"] if program is PARTLY else ["new", "other"]
        fields["out"] = str(random.choice([*made, fields["t"]]))
    else:
        fields["s"] = "s" if fields["t"] == "t" else "t"
    boundary = {dim: "periodic" for dim in "xy" if dim in periodic}
    for dim in "xy":
        if dim not in periodic and random.random() < 0.8:
            boundary[dim] = BOUNDARIES[random.integers(len(BOUNDARIES))]
    scalars = {} if program is ALONG else {"k": round(float(random.uniform(0.05, 0.3)), 3)}
    arguments = {"program": program, "axes": AXES, "fields": fields, "boundary": boundary}
    return {"stencil": {**arguments, "scalars": scalars}}


COLUMNS = (
    "total = column_integral_definite(t)",
    "slope = InterpolateF2C()(GradientC2F(bottom=SetValue(0.0), top=SetValue(0.0))(s))",
    "shifted = t + profile * flat",
    "flux = GradientC2F(bottom=SetValue(0.0), top=SetValue(0.0))(t)",
)


def drawn_stage(random: np.random.Generator, periodic: str) -> dict[str, Any]:
    """Return a stage of any kind that may stay in memory."""
    kind = random.random()
    if kind < 0.6:
        return drawn_stencil(random, periodic)
    if kind < 0.8:
        return {"column": {"expression": COLUMNS[random.integers(len(COLUMNS))]}}
    name = str(random.choice(["t", "s", "mixed"]))
    rhs = str(random.choice(["t", "s"]))
    solve = {**BANDS, "rhs": rhs, "name": name, "residual": bool(random.random() < 0.5)}
    if random.random() < 0.3:
        return {"pentadiagonal": {**solve, "second_lower": "a", "second_upper": "c"}}
    return {"tridiagonal": {**solve, "periodic": bool(random.random() < 0.3)}}


def drawn(random: np.random.Generator) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return stages, and feedback of results of `s` and others."""
    periodic = "".join(dim for dim in "xy" if random.random() < 0.4)
    stages = [drawn_stage(random, periodic) for _ in range(random.integers(1, 6))]
    shown = str(stages)
    feedback: dict[str, str] = {}
    for name in ("new", "mixed", "slope", "shifted"):
        if f"'{name}'" in shown or f"{name} =" in shown:
            target = [to for to in ("t", "s") if to not in feedback.values()]
            if target and random.random() < 0.7:
                feedback[name] = str(target[0])
    if len(feedback) == 1 and random.random() < 0.5:
        (target,) = feedback.values()
        feedback[target] = "s" if target == "t" else "t"
    return stages, feedback


def repeated(random: np.random.Generator, stages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the same stages, some of them repeated, perhaps twice over."""
    first = int(random.integers(len(stages)))
    some: dict[str, Any] = {"repeat": int(random.integers(1, 4)), "stages": stages[first:]}
    if random.random() < 0.3:
        some = {"repeat": 2, "stages": [some]}
    return [*stages[:first], some]


def flat(stages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return stages one after the other as often as they are run."""
    found: list[dict[str, Any]] = []
    for one in stages:
        found += one["repeat"] * flat(one["stages"]) if "repeat" in one else [one]
    return found


def one_by_one(
    stages: list[dict[str, Any]],
    feedback: dict[str, str],
    dataset: xr.Dataset,
    steps: int,
    **how: Any,
) -> list[xr.Dataset]:
    """Return what the functions make in each step, called one after the other."""
    made: list[xr.Dataset] = []
    for _ in range(steps):
        results: dict[str, xr.DataArray] = {}
        for stage in flat(stages):
            ((kind, arguments),) = stage.items()
            one = STAGES[kind](dataset=dataset, **how, **arguments)
            results |= {str(name): one[name] for name in one.data_vars}
            dataset = dataset.assign({str(name): one[name].variable for name in one.data_vars})
            coords = {n: one[n] for n in one.coords if n not in dataset.variables}
            dataset = cast("Any", dataset).assign_coords(coords)
        made.append(xr.Dataset({name: one.variable for name, one in results.items()}))
        now = {**dataset.variables, **{name: one.variable for name, one in results.items()}}
        fed = {to: now[name] for name, to in feedback.items()}
        dataset = dataset.assign(fed)
    return made


@contextmanager
def ranks(count: int) -> Generator[None]:
    """Let this process have so many ranks, as threads."""
    with patch.object(execution, "new_pool", return_value=LocalPool(workers=count)):
        yield


def check(
    seed: int,
    *,
    target: str = "reference",
    workers: int = 1,
    mode: str = "resident",
    **more: Any,
) -> None:
    random = np.random.default_rng(seed)
    members = bool(random.random() < 0.3)
    stages, feedback = drawn(random)
    if random.random() < 0.5:
        stages = repeated(random, stages)
    steps = int(random.integers(2, 7))
    every = int(random.integers(1, 4)) if random.random() < 0.4 else None
    dataset = data(seed, members=members)
    told: list[Event] = []
    wanted = one_by_one(stages, feedback, dataset, steps, target=target)
    with ranks(workers):
        result = he.sequence(
            stages,
            dataset,
            steps=steps,
            feedback=feedback,
            snapshot_every=every,
            mode=mode,
            target=target,
            on_event=told.append,
            **more,
        )
    assert isinstance(told[0], Planned)
    assert told[0].mode == mode
    done = [steps] if every is None else [*range(every, steps, every), steps]
    assert {*result.data_vars} == {*wanted[-1].data_vars}
    for name in result.data_vars:
        values = result[name].values if every is not None else result[name].values[np.newaxis]
        right = np.stack([wanted[at - 1][name].values for at in done])
        exact = np.array_equal(values, right, equal_nan=values.dtype.kind == "f")
        assert exact, (name, stages, feedback, steps)


@pytest.mark.parametrize("seed", range(20, 40))
def test_drawn_sequences_are_the_same_streamed(seed: int) -> None:
    check(seed, mode="streamed")


LEAPFROG = """
def leapfrog(h_old: Field[float], h: Field[float], h_new: Field[float], *, c: float):
    with computation(PARALLEL), interval(...):
        h_new = h_old - c * (h[1, 0, 0] - h[-1, 0, 0])
"""


@pytest.mark.parametrize("mode", ["streamed", "resident"])
@pytest.mark.parametrize("workers", [1, 3])
def test_time_levels_change_places(mode: str, workers: int) -> None:
    now, before = np.random.default_rng(1).random((2, 12))
    dataset = xr.Dataset({"h": ("x", now), "h_old": ("x", before)})
    stage = {"program": LEAPFROG, "scalars": {"c": 0.25}, "boundary": {"x": "periodic"}}
    with ranks(workers):
        result = he.sequence(
            [{"stencil": {**stage, "axes": {"I": "x", "J": None, "K": None}}}],
            dataset,
            steps=7,
            feedback={"h_new": "h", "h": "h_old"},
            mode=mode,
            target="reference",
        )
    for _ in range(7):
        now, before = before - 0.25 * (np.roll(now, -1) - np.roll(now, 1)), now
    assert np.array_equal(result["h_new"], now)


CYCLE: list[dict[str, Any]] = [
    {
        "stencil": {
            "program": BLUR,
            "axes": AXES,
            "fields": {"out": "t"},
            "scalars": {"k": 0.1},
            "boundary": {"x": "periodic", "y": "edge"},
        }
    },
    {"tridiagonal": {**BANDS, "rhs": "t", "name": "t"}},
]


def test_a_long_step_is_cancelled_between_its_stages() -> None:
    began: list[float] = []

    def cancelled() -> bool:
        began.append(time.monotonic())
        return time.monotonic() - began[0] > 0.3

    stages = [{"repeat": 5000, "stages": CYCLE}]
    with pytest.raises(he.CancelledError):
        he.sequence(stages, data(1), steps=100, target="reference", cancelled=cancelled)
    assert time.monotonic() - began[0] < 5.0


def test_a_lost_rank_costs_the_steps_since_a_checkpoint(tmp_path: Path) -> None:
    told: list[Event] = []
    plain, lost = RankArrays.advance, list[int]()

    def advance(self: RankArrays, count: int) -> None:
        written = any(isinstance(one, Checkpointed) for one in told)
        if written and not lost:
            lost.append(count)
            raise RankLostError("A rank is gone.")
        plain(self, count)

    options = he.Options(checkpoint_steps=2)
    how: dict[str, Any] = {"steps": 40, "target": "reference", "mode": "resident"}
    with ranks(2), patch.object(RankArrays, "advance", advance):
        result = he.sequence(
            CYCLE,
            data(1),
            on_event=told.append,
            workspace=tmp_path,
            options=options,
            output=tmp_path / "out.zarr",
            **how,
        )
    assert lost
    assert any(isinstance(one, Resumed) and one.steps_done >= 2 for one in told)
    wanted = he.sequence(CYCLE, data(1), **how)
    assert np.array_equal(result["t"], wanted["t"])


class Killed(Exception):
    """Ends a run in the middle."""


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("later", ["resident", "streamed"])
def test_a_killed_sequence_goes_on_in_either_mode(seed: int, later: str, tmp_path: Path) -> None:
    random = np.random.default_rng(100 + seed)
    stages, feedback = drawn(random)
    steps, every = 9, (None, 2)[seed % 2]
    how: dict[str, Any] = {"steps": steps, "feedback": feedback, "target": "reference"}
    how |= {"snapshot_every": every, "options": he.Options(checkpoint_steps=3)}
    wanted = he.sequence(stages, data(seed), mode="streamed", **how)
    told: list[Event] = []

    def kill(event: Event) -> None:
        told.append(event)
        if isinstance(event, Checkpointed) and event.steps_done >= 3 * (1 + seed % 2):
            raise Killed

    work, output = tmp_path / "work", tmp_path / "out.zarr"
    with ranks(1 + seed % 3):
        with pytest.raises(Killed):
            he.sequence(stages, data(seed), mode="resident", workspace=work, on_event=kill, **how)
        told.clear()
        how |= {"workspace": Workspace(str(work), 1), "output": output, "mode": later}
        result = he.sequence(stages, data(seed), on_event=told.append, **how)
    assert next(one.steps_done for one in told if isinstance(one, Resumed)) >= 3
    for name in wanted.data_vars:
        same = np.array_equal(result[name], wanted[name], equal_nan=wanted[name].dtype.kind == "f")
        assert same, (name, stages)


@pytest.mark.parametrize("seed", range(40))
def test_drawn_sequences_in_one_process(seed: int) -> None:
    chunks = [None, {"x": 4}, {"y": 3, "x": 5}, {"y": 2, "m": 1}][seed % 4]
    if chunks and "m" in chunks and not np.random.default_rng(seed).random() < 0.3:
        chunks = {"y": 2}
    check(seed, chunks=chunks)


@pytest.mark.parametrize("seed", range(40, 70))
def test_drawn_sequences_on_ranks(seed: int) -> None:
    check(seed, workers=2 + seed % 2)


@pytest.mark.parametrize("seed", range(70, 76))
def test_drawn_sequences_compiled(seed: int) -> None:
    check(seed, target="cpu", workers=1 + seed % 2)
