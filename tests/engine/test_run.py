"""What a run does with fields, axes, roles and attributes."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import halocline_engine as he
from halocline_engine.functions.run import run

SHIFT = """
def shift(inp: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = inp[1, 0, 0]
"""
MASKED = """
def masked(inp: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        if inp > 0.0:
            out = 2.0 * inp
"""
COLUMN = """
def column(rho: Field[float], total: Field[IJ, float], depth: Field[K, float]):
    with computation(FORWARD):
        with interval(0, 1):
            total = rho * depth
        with interval(1, None):
            total = total + rho * depth
"""
ADDED = """
def added(inp: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(0, 1):
        out = inp
    with computation(PARALLEL), interval(...):
        out = out + 1.0
"""
GATHERED = """
def gathered(inp: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = out + inp[1, 0, 0]
"""
COUNT = """
def count(inp: Field[int], out: Field[int]):
    with computation(PARALLEL), interval(...):
        out = inp[1, 0, 0] + 1
"""
TWO = """
def two(u: Field[float], v: Field[float], du: Field[float], dv: Field[float], twist: Field[float]):
    with computation(PARALLEL), interval(...):
        du = v[1, 0, 0] - u
        dv = u[-1, 0, 0] + v
        twist = u * v
"""


@pytest.fixture
def plane() -> xr.Dataset:
    rng = np.random.default_rng(3)
    return xr.Dataset(
        {"inp": (("y", "x"), rng.normal(size=(4, 5)), {"units": "K", "grid_mapping": "crs"})},
        {
            "x": ("x", np.arange(5.0), {"bounds": "x_bounds"}),
            "time": np.datetime64("2020-01-01", "ns"),
            "label": ("y", list("abcd")),
        },
        {"title": "a plane", "history": "made"},
    ).assign(
        crs=((), 0, {"grid_mapping_name": "latitude_longitude"}),
        x_bounds=(("x", "n"), np.zeros((5, 2))),
        unrelated=("q", np.zeros(3)),
    )


def test_the_package_offers_the_documented_function() -> None:
    assert he.run is run
    assert "boundary : mapping of str to str or mapping, optional" in (run.__doc__ or "")


@pytest.mark.parametrize("stored", [False, True])
def test_created_output(plane: xr.Dataset, stored: bool, tmp_path: Path) -> None:
    output = tmp_path / "out.zarr" if stored else None
    result = run(SHIFT, plane, target="reference", output=output)
    wanted = np.full((4, 5), np.nan)
    wanted[:, :-1] = plane["inp"].values[:, 1:]
    np.testing.assert_array_equal(result["out"].values, wanted)
    assert sorted(map(str, result.data_vars)) == ["out", "x_bounds"]
    assert set(result.coords) == {"x", "time", "label"}
    xr.testing.assert_equal(result["label"], plane["label"])
    assert result["x"].attrs == {"bounds": "x_bounds"}
    first, second = result.attrs["history"].split("\n")
    assert first.endswith("program 'shift', 1 step")
    assert second == "made"
    assert result.attrs["title"] == "a plane"


def test_a_stored_result_is_lazy_and_consolidated(plane: xr.Dataset, tmp_path: Path) -> None:
    result = run(SHIFT, plane, target="reference", output=tmp_path / "out.zarr")
    assert not isinstance(result["out"].variable._data, np.ndarray)  # pyright: ignore[reportPrivateUsage] - whether it was read
    group: Any = zarr.open_consolidated(str(tmp_path / "out.zarr"), zarr_format=3)
    assert set(group.array_keys()) == {"out", "x", "time", "label", "x_bounds"}


def test_encodings_of_netcdf_do_not_reach_zarr(tmp_path: Path) -> None:
    source = tmp_path / "in.nc"
    packed = xr.Dataset(
        {"inp": (("time", "x"), np.linspace(0, 1, 12).reshape(2, 6))},
        {"time": ("time", np.array(["2020-01-01", "2020-01-02"], "M8[ns]"))},
    )
    packed["time"].encoding["units"] = "hours since 2019-01-01"
    encoding = {"dtype": "i4", "scale_factor": 1e-6, "_FillValue": -9, "zlib": True}
    packed.to_netcdf(source, encoding={"inp": encoding})
    axes = {"I": "x", "J": None}
    result = run(
        SHIFT,
        source,
        fields={"out": "inp"},
        axes=axes,
        target="reference",
        output=tmp_path / "out.zarr",
    )
    with xr.open_dataset(source) as before:
        np.testing.assert_array_equal(result["inp"][:, :-1], before["inp"][:, 1:])
        np.testing.assert_array_equal(result["inp"][:, -1], before["inp"][:, -1])
    assert result["inp"].dtype == np.float64
    assert "scale_factor" not in result["inp"].encoding
    assert result["time"].encoding["units"] == "hours since 2019-01-01"


def test_attributes_of_results(plane: xr.Dataset) -> None:
    fed = run(SHIFT, plane, target="reference", feedback={"out": "inp"})
    assert fed["out"].attrs == plane["inp"].attrs
    assert "crs" in fed
    np.testing.assert_array_equal(fed["out"][:, -1], plane["inp"][:, -1])
    assert run(SHIFT, plane, target="reference")["out"].attrs == {}


def test_masked_writes_keep_old_values(plane: xr.Dataset) -> None:
    inp = plane["inp"].values
    created = run(MASKED, plane, target="reference")
    np.testing.assert_array_equal(created["out"], np.where(inp > 0, 2 * inp, np.nan))
    old = plane.assign(out=(("y", "x"), np.full((4, 5), 7.0), {"units": "m"}))
    changed = run(MASKED, old, target="reference")
    np.testing.assert_array_equal(changed["out"], np.where(inp > 0, 2 * inp, 7.0))
    assert changed["out"].attrs == {"units": "m"}
    fed = run(MASKED, plane, target="reference", feedback={"out": "inp"}, steps=2)
    np.testing.assert_array_equal(fed["out"], np.where(inp > 0, 4 * inp, inp))


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_what_is_read_before_it_is_written_begins_as_told(target: str) -> None:
    """A created field begins as NaN and one that feeds an input as that, not as old memory."""
    values = np.arange(1.0, 9.0).reshape(4, 2)
    data = xr.Dataset({"inp": (("x", "z"), values)})
    axes = {"I": "x", "J": None, "K": "z"}
    options: dict[str, Any] = {"target": target, "axes": axes}
    for chunks in (None, {"x": 2}):
        created = run(ADDED, data, chunks=chunks, **options)
        np.testing.assert_array_equal(created["out"][:, 0], values[:, 0] + 1)
        assert np.isnan(created["out"][:, 1]).all()
        begun, wanted = {"feedback": {"out": "inp"}, "boundary": {"x": "periodic"}}, values
        for steps in (1, 2, 3):
            wanted = wanted + np.roll(wanted, -1, 0)
            fed = run(GATHERED, data, chunks=chunks, steps=steps, **begun, **options)
            np.testing.assert_array_equal(fed["out"], wanted)


def test_integers_have_no_nan() -> None:
    data = xr.Dataset({"inp": (("y", "x"), np.arange(6).reshape(2, 3))})
    result = run(COUNT, data, target="reference")
    np.testing.assert_array_equal(result["out"], [[2, 3, 0], [5, 6, 0]])
    edges = {"x": {"high": {"constant": 8}}}
    filled = run(COUNT, data, target="reference", boundary=edges)
    np.testing.assert_array_equal(filled["out"], [[2, 3, 9], [5, 6, 9]])


def test_a_variable_that_lacks_an_axis_is_repeated() -> None:
    data = xr.Dataset({"inp": ("x", np.arange(4.0)), "other": (("y", "x"), np.zeros((2, 4)))})
    text = (
        "def add(inp: Field[float], other: Field[float], out: Field[float]):\n"
        "    with computation(PARALLEL), interval(...):\n"
        "        out = inp[1, 0, 0] + inp[0, 1, 0] + other\n"
    )
    sides = {"x": {"high": {"constant": 9.0}}, "y": {"high": {"constant": 5.0}}}
    result = run(text, data, target="reference", boundary=sides)
    np.testing.assert_array_equal(result["out"], [[1, 3, 5, 12], [6, 7, 8, 14]])


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_columns_sums_and_lower_dimensions(target: str) -> None:
    rng = np.random.default_rng(5)
    rho, depth = rng.random((3, 2, 4, 5)), rng.random(2)
    data = xr.Dataset({"rho": (("t", "z", "y", "x"), rho), "depth": ("z", depth)})
    result = run(COLUMN, data, target=target, chunks={"x": 2, "y": 3, "t": 2})
    assert result["total"].dims == ("t", "y", "x")
    wanted = rho[:, 0] * depth[0] + rho[:, 1] * depth[1]
    np.testing.assert_array_equal(result["total"].values, wanted)


def test_several_outputs_that_feed_each_other() -> None:
    rng = np.random.default_rng(6)
    u, v = rng.normal(size=(2, 3, 8))
    data = xr.Dataset({"u": (("y", "x"), u), "v": (("y", "x"), v)})
    arguments: dict[str, Any] = {
        "feedback": {"du": "u", "dv": "v"},
        "boundary": {"x": "periodic"},
        "steps": 3,
        "target": "reference",
    }
    result = run(TWO, data, chunks={"x": 3, "y": 2}, **arguments)
    twist = u
    for _ in range(3):
        twist = u * v
        u, v = np.roll(v, -1, 1) - u, np.roll(u, 1, 1) + v
    np.testing.assert_array_equal(result["du"], u)
    np.testing.assert_array_equal(result["dv"], v)
    np.testing.assert_array_equal(result["twist"], twist)


def test_a_stencil_is_made_again_for_another_target(plane: xr.Dataset) -> None:
    program = he.stencil(SHIFT, target="reference")
    assert program.target == "reference"
    one = run(program, plane, target="reference")
    other = run(program, plane, target="cpu")
    np.testing.assert_array_equal(one["out"], other["out"])


def test_the_dataset_is_not_changed(plane: xr.Dataset) -> None:
    before = plane.copy(deep=True)
    run(SHIFT, plane, fields={"out": "inp"}, target="reference", steps=3, feedback={"out": "inp"})
    xr.testing.assert_identical(plane, before)
