"""Stages with boundaries of single fields, scalars of members, and faces beside centres."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr
from gyre import CONSTANTS, PROGRAM, gyre_dataset

import halocline_engine as he
from halocline_engine.distribute.tasks.events import Event, Planned

MIX = """
def mix(t: Field[float], s: Field[float], *, a: float):
    with computation(PARALLEL), interval(...):
        t = t + a * (s[-1, 0, 0] + s[1, 0, 0] + s[0, -1, 0] + s[0, 1, 0] - 4.0 * s)
"""
BACK = """
def back(t: Field[float], s: Field[float]):
    with computation(PARALLEL), interval(...):
        s = 0.5 * (t[-1, 0, 0] + t[1, 0, 0])
"""
MIXING: dict[str, Any] = {
    "program": MIX,
    "scalars": {"a": xr.DataArray([0.1, 0.2, 0.3], dims="m")},
    "boundary": {
        "x": {"low": "antisymmetric", "high": "symmetric"},
        "y": {"low": "edge", "high": "edge", "fields": {"s": {"constant": 1.0}}},
    },
}
SENDING: dict[str, Any] = {
    "program": BACK,
    "boundary": {"x": {"low": "edge", "high": "reflect", "fields": {"t": "symmetric"}}},
}
STAGES = [{"stencil": MIXING}, {"stencil": SENDING}]


def members() -> xr.Dataset:
    random = np.random.default_rng(5)
    coords: dict[str, Any] = {
        "x": ("x", np.arange(30.0), {"axis": "X"}),
        "y": ("y", np.arange(20.0), {"axis": "Y"}),
    }
    fields = {name: (("m", "y", "x"), random.normal(size=(3, 20, 30))) for name in "ts"}
    return xr.Dataset(fields, coords=coords)


def one_by_one(steps: int, target: str) -> xr.Dataset:
    dataset = members()
    for _ in range(steps):
        dataset = dataset.assign(t=he.run(dataset=dataset, target=target, **MIXING)["t"])
        dataset = dataset.assign(s=he.run(dataset=dataset, target=target, **SENDING)["s"])
    return dataset


@pytest.mark.parametrize("target", ["reference", "cpu"])
@pytest.mark.parametrize(
    "how",
    [
        {"mode": "resident"},
        {"mode": "resident", "chunks": {"x": 7, "y": 9}},
        {"mode": "streamed", "options": he.Options(threads=1)},
    ],
)
def test_stages_keep_the_rules_of_their_fields(how: dict[str, Any], target: str) -> None:
    wanted = one_by_one(3, target)
    result = he.sequence(STAGES, members(), steps=3, target=target, **how)
    for name in "ts":
        np.testing.assert_array_equal(result[name].values, wanted[name].values)


def test_stages_on_faces_are_streamed_and_have_the_bits_of_a_run() -> None:
    dataset = gyre_dataset(12, 10, 1).isel(time=0, drop=True)
    boundary = dict.fromkeys(("xh", "xq", "yh", "yq"), "edge")
    positions = {"u_new": ["yh", "xq"], "v_new": ["yq", "xh"]}
    how: dict[str, Any] = {"program": PROGRAM, "scalars": CONSTANTS, "boundary": boundary}
    how["positions"] = positions
    fed = {"h_new": "h", "u_new": "u", "v_new": "v"}
    told: list[Event] = []
    same: dict[str, Any] = {"steps": 5, "feedback": fed, "target": "reference"}
    result = he.sequence([{"stencil": how}], dataset, on_event=told.append, **same)
    (planned,) = [event for event in told if isinstance(event, Planned)]
    assert planned.mode == "streamed"
    assert "as fields have several positions along an axis in program 'gyre'" in planned.reason
    wanted = he.run(dataset=dataset, **how, **same)
    for name in fed:
        np.testing.assert_array_equal(result[name].values, wanted[name].values)


@pytest.mark.parametrize(
    ("more", "message", "hint"),
    [
        (
            {"time": {"start": "2015-01-01", "step": "1h"}},
            "Stage 1, 'stencil', cannot have the argument 'time'.",
            "Leave it out: sequences have no 'time'.",
        ),
        (
            {"steps": 3},
            "Stage 1, 'stencil', cannot have the argument 'steps'.",
            "Leave it out there, and give it once for the sequence.",
        ),
        *(
            (
                {"scalars": {"a": value}},
                "Stage 1, 'stencil': scalar 'a' varies from step to step, but scalars of stages"
                " are constant.",
                "Give a number, values along another dimension, or use 'run'.",
            )
            for value in (
                {"values": [0.1, 0.2], "dim": "step"},
                {"clock": "seconds"},
                xr.DataArray([0.1, 0.2], dims="step"),
            )
        ),
    ],
)
def test_what_only_runs_have_is_refused(more: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(he.ArgumentError) as caught:
        he.sequence([{"stencil": {**MIXING, **more}}], members(), steps=2, target="reference")
    assert (caught.value.message, caught.value.hint) == (message, hint)
