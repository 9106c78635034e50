"""A plan without a run is the plan of the run, for every function on datasets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.distribute.tasks.events import Event, Planned
from halocline_engine.errors import AxisError, CapacityError, InternalError
from halocline_engine.functions.reports.planning import plan_of

SMOOTH = """
def smooth(t: Field[np.float64], s: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        s = t[-2, 0, 0] + t[1, 0, 0] + t[0, -1, 0]
"""
_COLUMN = xr.Dataset(
    {
        "t": ("z", [1.0, 2.0, 4.0]),
        **{name: ("z", [1.0, 1.0, 1.0]) for name in ("a", "c", "e", "f")},
        "b": ("z", [4.0, 4.0, 4.0]),
        "d": ("z", [5.0, 6.0, 5.0]),
    },
    coords={
        "z": ("z", [0.5, 1.5, 2.5], {"axis": "Z"}),
        "z_f": ("z_f", [0.0, 1.0, 2.0, 3.0], {"axis": "Z", "c_grid_axis_shift": -0.5}),
    },
)
_CELLS = xr.Dataset({"cells": ("cell", [10.0, 11.0, 12.0]), "at": ("point", [2, 0])})
_WEIGHTS = xr.Dataset(
    {
        "row": ("n_s", [1, 1, 2]),
        "col": ("n_s", [1, 2, 3]),
        "S": ("n_s", [0.5, 0.5, 1.0]),
        "src_grid_dims": ("src_grid_rank", [3]),
        "dst_grid_dims": ("dst_grid_rank", [2]),
    }
)
_MESH = xr.Dataset(
    {
        "mesh": (
            (),
            0,
            {
                "cf_role": "mesh_topology",
                "topology_dimension": 2,
                "node_coordinates": "lon lat",
                "face_node_connectivity": "nodes",
            },
        ),
        "nodes": (("face", "corner"), [[0, 1, 2], [1, 3, 2]], {"start_index": 0}),
        "lon": ("node", [0.0, 1.0, 0.0, 1.0], {"units": "degrees_east"}),
        "lat": ("node", [0.0, 0.0, 1.0, 1.0], {"units": "degrees_north"}),
    }
)
_FACES = xr.Dataset({"t": ("face", [2.0, 5.0])})
_MATRICES = xr.Dataset({"left": (("i", "k"), [[1.0, 2.0]]), "right": (("k", "j"), [[1.0], [10.0]])})
_TREE = xr.Dataset(
    {
        "parent": ("n", [-1, 0, 1]),
        "size": ("tree", [3], {"sample_dimension": "n"}),
        "upper": ("n", [0.0, 1.0, 1.0]),
        "diagonal": ("n", [4.0, 4.0, 4.0]),
        "rhs": ("n", [1.0, 2.0, 3.0]),
    }
)
_BANDS: dict[str, Any] = {"lower": "a", "diagonal": "b", "upper": "c", "dim": "z"}
_SLOPE = "GradientF2C()(InterpolateC2F(bottom=Extrapolate(), top=Extrapolate())(t))"
_INDEX = {"index": "at"}
CASES: dict[str, tuple[Callable[..., object], dict[str, Any]]] = {
    "stencil": (he.run, {"program": SMOOTH, "steps": 2, "feedback": {"s": "t"}}),
    "column": (he.column, {"expression": _SLOPE, "dataset": _COLUMN}),
    "tridiagonal": (he.tridiagonal, {"dataset": _COLUMN, "rhs": "d", **_BANDS}),
    "pentadiagonal": (
        he.pentadiagonal,
        {"dataset": _COLUMN, "second_lower": "e", "second_upper": "f", "rhs": "d", **_BANDS},
    ),
    "factor": (he.factor, {"dataset": _COLUMN, **_BANDS}),
    "solve": (he.solve, {"dataset": _COLUMN, "rhs": "d"}),
    "tree": (
        he.tree,
        {"dataset": _TREE, "row_size": "size"}
        | {name: name for name in ("diagonal", "upper", "parent", "rhs")},
    ),
    "gather": (he.gather, {"dataset": _CELLS, "source": "cells", "dim": "cell", **_INDEX}),
    "gather in buckets": (
        he.gather,
        {"dataset": _CELLS, "source": "cells", "dim": "cell", "chunks": {"cell": 1}, **_INDEX},
    ),
    "scatter": (
        he.scatter,
        {"dataset": _CELLS, "source": "values", "dim": "x", "size": 4, **_INDEX},
    ),
    "regrid": (he.regrid, {"dataset": _COLUMN[["t"]].drop_vars("z"), "weights": _WEIGHTS}),
    "neighbours": (he.neighbours, {"dataset": _FACES, "mesh": _MESH, "operation": "sum"}),
    "matmul": (he.matmul, {"dataset": _MATRICES, "left": "left", "right": "right", "dim": "k"}),
}
_CELLS["values"] = ("point", [1.0, 2.0])


def _sea() -> xr.Dataset:
    return xr.Dataset({"t": (("y", "x"), np.arange(35.0).reshape(5, 7))})


def _factors() -> xr.Dataset:
    return he.factor(_COLUMN, **_BANDS, target="reference")


@pytest.mark.parametrize("name", CASES)
def test_the_plan_is_that_of_the_run(name: str, tmp_path: Path) -> None:
    events: list[Event] = []
    told: list[Event] = []
    function, given = CASES[name]
    # What is free changes between the two, and plans tell it.
    options = he.Options(memory_limit=1 << 30)
    given = {"dataset": _sea(), "target": "reference", "options": options, **given}
    if name == "solve":
        given["factors"] = _factors()
    plan = plan_of(function, **given, output=tmp_path / "a.zarr", on_event=told.append)
    assert not (tmp_path / "a.zarr").exists()
    function(**given, output=tmp_path / "b.zarr", on_event=events.append)
    (planned,) = [event for event in events if isinstance(event, Planned)]
    assert plan == planned
    assert told[-1] == plan
    assert plan.result_bytes > 0
    assert plan.input_bytes > 0
    assert plan.projected_bytes > 0


def test_halo_and_block_are_told_by_dimension() -> None:
    plan = plan_of(he.run, SMOOTH, _sea(), target="reference", chunks={"x": 4})
    assert plan.halo == (("x", 2, 1), ("y", 1, 0))
    assert dict(plan.block) == {"x": 4, "y": 5}
    assert (plan.input_bytes, plan.result_bytes) == (280, 280)
    fields = plan.to_json()
    assert (fields["halo"], fields["block"]) == ({"x": [2, 1], "y": [1, 0]}, {"x": 4, "y": 5})
    assert replace(plan, halo=()).to_json()["halo"] == {}


def test_what_cannot_be_run_is_told_as_a_run_would() -> None:
    sea = _sea().rename(x="a", y="b")
    with pytest.raises(AxisError):
        plan_of(he.run, SMOOTH, sea, target="reference")
    options = he.Options(memory_limit=100)
    with pytest.raises(CapacityError):
        plan_of(he.run, SMOOTH, _sea(), target="reference", options=options)


def test_a_function_without_a_plan_is_a_fault() -> None:
    def plans_nothing(on_event: Callable[[Event], None]) -> None:
        assert on_event is not None

    with pytest.raises(InternalError) as caught:
        plan_of(plans_nothing)
    assert caught.value.message == "The function has computed without a plan."
