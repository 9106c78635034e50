"""Positions that do not fit are refused with the way out; others that are rare are right."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.distribute.resident.fusing import unfused_layout
from halocline_engine.distribute.stencils.request import Checked, check
from halocline_engine.distribute.tasks.options import Options

FLUX = """
def flux(t: Field[float], u: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = t * (u[1, 0, 0] - u)
"""
FIRST = """
def first(t: Field[float], u: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = t * u[1, 0, 0]
        with horizontal(region[I[0], :]):
            out = u
"""
GRID = {"X": {"center": "x", "outer": "xf"}}


def flux(grid: Any = GRID, text: str = FLUX, **more: Any) -> xr.Dataset:
    u = np.tile(np.arange(6.0) ** 2, (3, 1))
    data = xr.Dataset({"t": (("y", "x"), np.ones((3, 5))), "u": (("y", "xf"), u)})
    return he.run(text, data, grid=grid, target="reference", **more)


AROUND = (
    " Give each dimension of the axis the boundary 'periodic', and leave out the face that is the"
    " same as the first one: dataset.isel(xf=slice(0, 5))."
)
REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "position": (
        {"grid": {"X": {"center": "x", "outre": "xf"}}},
        he.AxisError,
        "Argument 'grid' must name positions of axis 'X', got 'outre'. Did you mean 'outer'?",
    ),
    "dimension": (
        {"grid": {"X": {"center": "x", "outer": "xff"}}},
        he.AxisError,
        "Argument 'grid' names 'xff', which is no dimension of the dataset. Did you mean 'xf'?",
    ),
    "twice": (
        {"grid": {"X": {"center": "x", "outer": "x"}}},
        he.AxisError,
        "Argument 'grid' gives 'x' two positions of axis 'X'. For example grid={'X': {'center':"
        " 'xh', 'right': 'xq'}}.",
    ),
    "length": (
        {"grid": {"X": {"center": "x", "right": "xf"}}},
        he.AxisError,
        "Dimension 'xf' lies at 'right' of the 5 cells along 'x', so it must have 5 points, got 6."
        " Say where its points lie. For example grid={'X': {'center': 'xh', 'right': 'xq'}}.",
    ),
    "levels": (
        {"axes": {"I": None, "J": "y", "K": "x"}, "text": FLUX.replace("1, 0, 0", "0, 0, 1")},
        he.AxisError,
        "Dimensions 'x' and 'xf' are positions of one axis, which must be I or J, but it is K."
        " Use 'column' for operators between levels and their faces.",
    ),
    "region": (
        {"text": FIRST},
        he.AxisError,
        "The program asks where points lie along axis 'I', which has several positions: 'x' and"
        " 'xf'. Leave regions and indices out, or use variables at one position.",
    ),
    "output": (
        {"positions": {"t": ["xf"]}},
        he.ArgumentError,
        "Argument 'positions' must name fields that the program writes, got 't'. There are 'out'.",
    ),
    "output elsewhere": (
        {"positions": {"out": ["z"]}},
        he.ArgumentError,
        "Argument 'positions' gives 'out' the dimension 'z', which lies along no axis of the"
        " program's fields. There are 'x', 'xf', 'y'. Others are given by axis and position:"
        " grid={...}.",
    ),
    "output of an input": (
        {"feedback": {"out": "t"}, "positions": {"out": ["xf"]}},
        he.FieldError,
        "Feedback from 'out' to 't' must keep the dimensions, but variable 't' lacks 'xf'."
        " Broadcast the variable first.",
    ),
    "rule of a field elsewhere": (
        {"boundary": {"x": {"fields": {"u": "edge"}}}},
        he.BoundaryError,
        "The boundary of 'x' has a rule for 'u', which lies on 'xf'. Write it there:"
        " boundary={'xf': ...}.",
    ),
    "periodic centres alone": (
        {"boundary": {"x": "periodic"}},
        he.BoundaryError,
        "The boundary of 'x' must be periodic for fields at all positions, each with as many"
        " points, but 't' has 5, and 'u' is not periodic." + AROUND,
    ),
    "periodic faces at both ends": (
        {"boundary": {"x": "periodic", "xf": "periodic"}},
        he.BoundaryError,
        "The boundary of 'x' must be periodic for fields at all positions, each with as many"
        " points, but 't' has 5, and 'u' 6." + AROUND,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    arguments, error, message = REFUSED[name]
    with pytest.raises(error) as caught:
        flux(**arguments)
    assert str(caught.value) == message


def test_steps_are_not_fused_across_positions() -> None:
    seen: list[Checked] = []

    def checking(*args: Any) -> Checked:
        seen.append(check(*args))
        return seen[-1]

    with patch("halocline_engine.functions.run.check", checking):
        flux(steps=2, feedback={"out": "t"})
    assert unfused_layout(seen[0].layout) == "fields lie at centres and at faces"


@pytest.mark.parametrize("target", ["reference", "cpu"])
@pytest.mark.parametrize(("position", "first", "count"), [("right", 1, 6), ("inner", 1, 5)])
def test_values_that_are_read_after_they_were_made(
    position: str, first: int, count: int, target: str
) -> None:
    """What a later part changes again is kept as a temporary, with what there was before."""
    text = """
def limited(h: Field[float], u: Field[float], h2: Field[float], u2: Field[float]):
    with computation(PARALLEL), interval(...):
        if u > 0.5:
            u2 = u - 0.25 * (h - h[-1, 0, 0])
    with computation(PARALLEL), interval(...):
        h2 = h - 0.5 * u2
        if h2 > 0.5:
            u2 = u2 * 0.5
            h2 = 0.5
"""
    rng = np.random.default_rng(3)
    h, u = rng.random(6) * 2, rng.random(count)
    data = xr.Dataset({"h": ("x", h), "u": ("xf", u)})
    faces = range(first, min(first + count, 6))
    u2 = np.array([u[f - first] for f in faces])
    step = 0.25 * np.diff(h)[: len(u2)]
    u2 = np.where(u2 > 0.5, u2 - step, u2)
    h2 = h[list(faces)] - 0.5 * u2
    expected = np.where(h2 > 0.5, 0.5 * u2, u2)
    found = he.run(
        text,
        data,
        axes={"I": "x"},
        grid={"X": {"center": "x", position: "xf"}},
        feedback={"h2": "h", "u2": "u"},
        boundary={"x": "edge", "xf": {"constant": 0.0}},
        target=target,
    )
    np.testing.assert_array_equal(found["h2"].values[list(faces)], np.minimum(h2, 0.5))
    np.testing.assert_array_equal(found["u2"].values[: len(u2)], expected)


def test_positions_of_sgrid() -> None:
    """The attributes of the SGRID conventions, for a grid with cells beyond its nodes."""
    rng = np.random.default_rng(2)
    shapes = {"t": (4, 5), "u": (4, 4), "v": (3, 5), "psi": (3, 4)}
    dims = {"t": ("er", "xr"), "u": ("eu", "xu"), "v": ("ev", "xv"), "psi": ("ep", "xp")}
    data = xr.Dataset({name: (dims[name], rng.random(shape)) for name, shape in shapes.items()})
    told = {
        "cf_role": "grid_topology",
        "topology_dimension": 2,
        "node_dimensions": "xp ep",
        "face_dimensions": "xr: xp (padding: both) er: ep (padding: both)",
        "edge1_dimensions": "xu: xp eu: ep (padding: both)",
        "edge2_dimensions": "xv: xp (padding: both) ev: ep",
    }
    data["grid"] = ((), 0, told)
    text = FLUX.replace("u: Field[float]", "u: Field[float], v: Field[float]")
    text = text.replace("(u[1, 0, 0] - u)", "(u[1, 0, 0] - u + v[0, 1, 0] - v)")
    found = he.run(text, data, axes={"I": "xr", "J": "er"}, target="reference")["out"]
    t, u, v = (data[name].values for name in "tuv")
    inside = np.diff(u, axis=1)[1:-1] + np.diff(v, axis=0)[:, 1:-1]
    assert found.dims == ("er", "xr")
    np.testing.assert_allclose(found.values[1:-1, 1:-1], t[1:-1, 1:-1] * inside, rtol=1e-12)
    assert np.isnan(found.values[[0, -1]]).all()


def test_stores_and_snapshots(tmp_path: Path) -> None:
    """Chunks of results at all positions begin where blocks do."""
    rng = np.random.default_rng(4)
    data = xr.Dataset({"h": ("x", rng.random(10)), "u": ("xf", rng.random(11))})
    text = """
def waves(h: Field[float], u: Field[float], h2: Field[float], u2: Field[float]):
    with computation(PARALLEL), interval(...):
        h2 = h - 0.5 * (u[1, 0, 0] - u)
        u2 = u - 0.5 * (h - h[-1, 0, 0])
"""
    how: dict[str, Any] = {
        "axes": {"I": "x"},
        "grid": GRID,
        "steps": 3,
        "feedback": {"h2": "h", "u2": "u"},
        "boundary": {"x": "symmetric", "xf": {"constant": 0.0}},
        "target": "reference",
    }
    h, u = data["h"].values, data["u"].values
    levels: list[Any] = []
    for _ in range(3):
        wide = np.concatenate([h[:1], h, h[-1:]])
        h, u = h - 0.5 * np.diff(u), u - 0.5 * np.diff(wide)
        # The point behind the last cell is computed as well, and dropped.
        levels.append((h, u))
    for per_pass in (1, 3):
        path = tmp_path / f"{per_pass}.zarr"
        options = Options(steps_per_pass=per_pass)
        he.run(text, data, chunks={"x": 4}, output=path, options=options, mode="streamed", **how)
        with xr.open_zarr(path) as found:
            np.testing.assert_array_equal(found["h2"].values, h)
            np.testing.assert_array_equal(found["u2"].values, u)
    kept = he.run(text, data, snapshot_every=1, mode="resident", **how)
    for at, (h, u) in enumerate(levels):
        np.testing.assert_array_equal(kept["h2"].values[at], h)
        np.testing.assert_array_equal(kept["u2"].values[at], u)
