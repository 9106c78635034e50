"""Columns of datasets: dimensions and heights by every convention, and blocks."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from column_datasets import FACES, MIDDLES, TEXT, columns, evaluated

from halocline_engine.distribute.columns.work import ColumnWork
from halocline_engine.distribute.tasks.events import Event, Planned


def check(result: xr.Dataset, dataset: xr.Dataset, centre: str = "z", face: str = "z_f") -> None:
    """Assert that the results of TEXT are right, for the heights above."""
    a = dataset["a"].transpose("t", centre, "x").values
    f = dataset["f"].transpose("t", face, "x").values
    slope = np.empty((2, 6, 7))
    slope[:, 1:-1] = np.diff(a, axis=1) / np.diff(MIDDLES)[:, None]
    slope[:, 0] = (a[:, 0] - 0.3) / (MIDDLES[0] - FACES[0])
    slope[:, -1] = dataset["g"].values
    widths = np.diff(FACES)[:, None]
    got = {name: result[name] for name in ("slope", "spread", "total")}
    np.testing.assert_allclose(got["slope"].transpose("t", face, "x"), slope, rtol=1e-13)
    np.testing.assert_allclose(
        got["spread"].transpose("t", centre, "x"), np.diff(f, axis=1) / widths, rtol=1e-13
    )
    np.testing.assert_allclose(got["total"].transpose("t", "x"), (a * widths).sum(1), rtol=1e-12)


def test_xgcm_says_which_dimension_has_the_faces() -> None:
    dataset = columns()
    result = evaluated(dataset)
    check(result, dataset)
    assert result["slope"].dims == ("t", "z_f", "x")
    assert result["total"].dims == ("t", "x")
    xr.testing.assert_identical(result["z_f"], dataset["z_f"])
    assert result.attrs["title"] == "columns"


def test_other_positions_do_not_disturb() -> None:
    dataset = columns().assign_coords(
        z_l=("z_l", FACES[:-1], {"axis": "Z", "c_grid_axis_shift": -0.5}),
        z_u=("z_u", FACES[1:], {"axis": "Z", "c_grid_axis_shift": 0.5}),
    )
    check(evaluated(dataset), dataset)


def test_two_vertical_dimensions_without_a_shift() -> None:
    dataset = columns()
    del dataset["z_f"].attrs["c_grid_axis_shift"]
    check(evaluated(dataset), dataset)


def test_a_topology_says_which_dimensions() -> None:
    dataset = columns().drop_vars(["z", "z_f"]).assign_coords(h=("z_f", FACES))
    attrs = {"cf_role": "grid_topology", "vertical_dimensions": "z: z_f (padding: none)"}
    dataset["grid"] = ((), 0, attrs)
    check(evaluated(dataset), dataset)


def test_dimensions_are_given() -> None:
    dataset = columns().drop_vars(["z", "z_f"]).assign_coords(h=("z_f", FACES))
    check(evaluated(dataset, axis={"centre": "z", "face": "z_f"}, heights="h"), dataset)
    check(evaluated(columns(), axis="z"), dataset)


def test_depth_from_top_to_bottom_is_the_same_column_turned_over() -> None:
    """Derivatives are along height, whichever way the data goes."""
    dataset = columns()
    turned = dataset.isel(z=slice(None, None, -1), z_f=slice(None, None, -1))
    deep = turned.assign_coords(
        z=("z", 20.0 - turned["z"].values, {"axis": "Z", "positive": "down"}),
        z_f=(
            "z_f",
            20.0 - turned["z_f"].values,
            {"axis": "Z", "positive": "down", "c_grid_axis_shift": -0.5},
        ),
    )
    one, two = evaluated(dataset), evaluated(deep)
    for name in ("slope", "spread", "total"):
        values = two[name].values
        if name != "total":
            values = values[:, ::-1]
        np.testing.assert_allclose(values, one[name].values, rtol=1e-12)


def test_bounds_make_faces() -> None:
    dataset = columns()
    bounds = np.stack([FACES[:-1], FACES[1:]], axis=1)
    dataset = dataset[["a", "g"]].assign(edges=(("z", "n"), bounds))
    dataset["z"].attrs["bounds"] = "edges"
    result = evaluated(dataset, TEXT.replace("spread = DivergenceF2C()(f)\n", ""))
    face = result["z_face"]
    np.testing.assert_array_equal(face, FACES)
    assert face.attrs == {"axis": "Z", "positive": "up", "units": "m", "c_grid_axis_shift": -0.5}
    whole = evaluated(columns())
    np.testing.assert_array_equal(result["slope"], whole["slope"])
    np.testing.assert_array_equal(result["total"], whole["total"])


def test_faces_alone_make_centres() -> None:
    dataset = columns()[["f"]]
    result = evaluated(dataset, "spread = DivergenceF2C()(f)", scalars={})
    np.testing.assert_array_equal(result["z_f_centre"], MIDDLES)
    assert result["spread"].dims == ("z_f_centre", "x", "t")
    whole = evaluated(columns())["spread"].transpose("z", "x", "t")
    np.testing.assert_array_equal(result["spread"], whole)


@pytest.mark.parametrize("down", [False, True])
def test_heights_that_vary(down: bool) -> None:
    dataset = columns()
    scale = 1.0 + np.arange(7.0)
    field = FACES[:, None] * scale
    dataset["h"] = (("z_f", "x"), 50.0 - field if down else field)
    dataset["h"].attrs["positive"] = "down" if down else "up"
    result = evaluated(dataset, heights="h")
    widths = np.diff(field, axis=0)
    got = (dataset["a"].values * widths).sum(1)
    np.testing.assert_allclose(result["total"], got, rtol=1e-12)
    middles = 0.5 * (field[1:] + field[:-1])
    inner = np.diff(dataset["a"].values, axis=1) / np.diff(middles, axis=0)
    np.testing.assert_allclose(result["slope"][:, 1:-1], inner, rtol=1e-12)


def test_a_periodic_column() -> None:
    x = np.random.default_rng(1).normal(size=(5, 3))
    bounds = np.stack([FACES[:-1], FACES[1:]], axis=1)
    coords = {"z": ("z", MIDDLES, {"axis": "Z", "bounds": "edges"})}
    dataset = xr.Dataset({"a": (("z", "x"), x), "edges": (("z", "n"), bounds)}, coords=coords)
    text = "slope = GradientC2F()(a)\nagain = DivergenceF2C()(GradientC2F()(a))"
    result = evaluated(dataset, text, scalars={}, boundary={"z": "periodic"})
    between = np.diff(MIDDLES, prepend=MIDDLES[-1] - 15.0)[:, None]
    slope = (x - np.roll(x, 1, axis=0)) / between
    np.testing.assert_allclose(result["slope"], slope, rtol=1e-12)
    np.testing.assert_array_equal(result["z_face"], FACES[:-1])
    again = (np.roll(slope, -1, axis=0) - slope) / np.diff(FACES)[:, None]
    np.testing.assert_allclose(result["again"], again, rtol=1e-12)
    faced = dataset.drop_vars("edges").assign_coords(
        w=("w", FACES[:-1], {"axis": "Z", "c_grid_axis_shift": -0.5})
    )
    other = evaluated(faced, text, scalars={}, boundary={"z": "periodic"})
    np.testing.assert_allclose(other["slope"], slope, rtol=1e-12)


@pytest.mark.parametrize("order", [("t", "z", "x"), ("z", "x", "t"), ("x", "t", "z")])
def test_any_order_and_any_blocks(order: tuple[str, ...], tmp_path: Path) -> None:
    dataset = columns()
    whole = evaluated(dataset)
    untyped: Any = dataset.assign(a=dataset["a"].transpose(*order))
    untyped.chunk({"z": 2, "x": 3}).to_zarr(tmp_path / "in.zarr", consolidated=False)
    for chunks in ({}, {"x": 3}, {"t": 1, "x": 2}):
        result = evaluated(tmp_path / "in.zarr", chunks=chunks, output=tmp_path / f"{len(chunks)}")
        assert result["spread"].dims == order
        for name in ("slope", "spread", "total"):
            dims = whole[name].dims
            np.testing.assert_array_equal(result[name].transpose(*dims), whole[name])


def test_levels_that_lie_side_by_side_stay_so_and_give_the_same_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[bool] = []
    run = ColumnWork.run

    def noted(self: ColumnWork, *args: Any) -> Any:
        seen.append(self.upright)
        return run(self, *args)

    monkeypatch.setattr(ColumnWork, "run", noted)
    text = "\n".join(TEXT.split("\n")[:2])
    found = {
        order: evaluated(columns().transpose(*order), text)
        for order in (("t", "x", "z", "z_f"), ("z", "z_f", "t", "x"))
    }
    for name in ("slope", "spread"):
        one, two = (each[name].transpose("t", "x", ...) for each in found.values())
        np.testing.assert_array_equal(one, two)
    assert seen == [True, False]
    # A sum goes through each column level by level.
    evaluated(columns().transpose("t", "x", "z", "z_f"))
    assert seen[2:] == [False]


def test_a_single_column_and_types() -> None:
    one = columns().isel(x=0, t=0, drop=True)
    whole = evaluated(columns()).isel(x=0, t=0)
    result = evaluated(one)
    for name in ("slope", "spread", "total"):
        np.testing.assert_array_equal(result[name], whole[name])
    single = one.astype("f4").assign(land=("z", np.arange(5) % 2 == 0), n=("z", np.arange(5)))
    mixed = evaluated(single, "out = a if land else b * n", scalars={"b": 2.0})
    assert mixed["out"].dtype == np.float32
    expected = np.where(np.arange(5) % 2 == 0, single["a"], 2.0 * np.arange(5))
    np.testing.assert_array_equal(mixed["out"], expected.astype("f4"))
    wide = evaluated(single, "out = a / 3.0", scalars={}, dtype="float64")
    np.testing.assert_array_equal(wide["out"], single["a"].values.astype("f8") / 3.0)


def test_the_plan_says_what_each_kernel_makes() -> None:
    """Results on other levels, without levels, or of a scan, are of one pass but not one kernel."""
    told: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, Planned):
            told.append(event.reason)

    evaluated(columns(), on_event=listen)
    evaluated(columns(), "out = 2.0 * a", scalars={}, on_event=listen)
    assert told == [
        "a column program needs one pass; computed in 3 kernels: 'slope'; 'spread'; 'total'",
        "a column program needs one pass; computed in 1 kernel: 'out'",
    ]
