"""Columns of datasets: dimensions and heights by every convention, blocks, and what is refused."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.distribute.column_work import ColumnWork

FACES = np.array([0.0, 1.0, 3.0, 6.0, 10.0, 15.0])
MIDDLES = 0.5 * (FACES[1:] + FACES[:-1])
TEXT = """slope = GradientC2F(bottom=SetValue(b), top=SetGradient(g))(a)
spread = DivergenceF2C()(f)
total = column_integral_definite(a)"""
SCALARS = {"b": 0.3}


def columns() -> xr.Dataset:
    """Return columns whose faces have a coordinate, and centres as well, heights going up."""
    rng = np.random.default_rng(5)
    return xr.Dataset(
        {
            "a": (("t", "z", "x"), rng.normal(size=(2, 5, 7))),
            "f": (("z_f", "x", "t"), rng.normal(size=(6, 7, 2))),
            "g": (("x",), rng.normal(size=7)),
        },
        coords={
            "z": ("z", MIDDLES, {"axis": "Z", "positive": "up", "units": "m"}),
            "z_f": ("z_f", FACES, {"axis": "Z", "c_grid_axis_shift": -0.5}),
            "t": [10, 20],
        },
        attrs={"title": "columns"},
    )


def evaluated(dataset: Any, text: str = TEXT, **options: Any) -> xr.Dataset:
    arguments: dict[str, Any] = {"scalars": SCALARS, "target": "reference", **options}
    return he.column(text, dataset, **arguments)


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


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": (
        {"text": "GradientF2C()(ff)"},
        "line 1, column 15: 'ff' is neither a variable of the dataset, a scalar nor an earlier"
        " line.\nGradientF2C()(ff)\n              ^\nPass a number as scalars={...}, or add the"
        " variable.",
    ),
    "scalar": (
        {"text": "2.0 * a", "scalars": {"k": 1.0}},
        "Argument 'scalars' must name scalars of the program, got 'k'.",
    ),
    "fields": (
        {"text": "2.0 * a", "scalars": {}, "fields": {"q": "a"}},
        "Argument 'fields' must map names of the program, got 'q'. There are 'a'.",
    ),
    "fields-variable": (
        {"text": "2.0 * q", "scalars": {}, "fields": {"q": "aa"}},
        "There is no variable 'aa', which 'fields' names. Did you mean 'a'?",
    ),
    "name": (
        {"text": "2.0 * a", "scalars": {}, "name": "f"},
        "The result 'f' must have a new name that is an identifier. The dataset has a variable of"
        " that name.",
    ),
    "nothing": (
        {"text": "b * 2.0"},
        "The program uses no variable of the dataset. There are 'a', 'both', 'f', 'flat', 'g', 't',"
        " 'when', 'z', 'z_f'.",
    ),
    "type": (
        {"text": "a + when", "scalars": {}},
        "Variable 'when' is datetime64[ns], expected one of bool, int8, int16, int32, int64,"
        " float32, float64. Convert it with astype.",
    ),
    "both": (
        {"text": "a + both", "scalars": {}},
        "Variable 'both' has both 'z' and 'z_f', expected one. Values of a column live on centres"
        " or on faces.",
    ),
    "dtype": (
        {"dtype": "float16"},
        "Argument 'dtype' must be 'float32' or 'float64', got 'float16'. Leave it out for that of"
        " the variables.",
    ),
    "boundary": (
        {"boundary": {"z": "edge"}},
        "Argument 'boundary' must be left out, or say that the column is periodic, got 'z':"
        " 'edge'. Write boundary={'z': 'periodic'}; other conditions stand in the program, such as"
        " 'GradientC2F(top=SetValue(0.0))'.",
    ),
    "mode": (
        {"mode": "resident"},
        "The mode of a column program must be 'auto' or 'streamed', got 'resident'. Leave it out.",
    ),
    "chunks-vertical": (
        {"chunks": {"z_f": 3}},
        "Dimension 'z_f' is vertical, and a block has all of it, but 'chunks' gives it 3 of 5."
        " Leave it out; a store that is chunked along it will do.",
    ),
    "chunks": (
        {"chunks": {"y": 3}},
        "Argument 'chunks' must name dimensions of the columns, got 'y'. There are 't', 'x'.",
    ),
    "axis": (
        {"axis": "zz"},
        "Argument 'axis' names 'zz', which is no dimension of the dataset. Did you mean 'z'?",
    ),
    "axis-keys": (
        {"axis": {"center": "z"}},
        "Argument 'axis' must be a dimension, or map 'centre' and 'face' to dimensions, got"
        " {'center': 'z'}. For example axis={'centre': 'z', 'face': 'z_face'}.",
    ),
    "sizes": (
        {"axis": {"centre": "z", "face": "x"}},
        "The faces of a column with 5 centres along 'z' are 6, but 'x' has 7. Pad what lies on"
        " faces to both ends, or say which dimensions to use: axis={...}.",
    ),
    "sizes-periodic": (
        {"boundary": {"z": "periodic"}},
        "The faces of a periodic column with 5 centres along 'z' are 5, but 'z_f' has 6. Pad what"
        " lies on faces to both ends, or say which dimensions to use: axis={...}.",
    ),
    "made": (
        {"axis": {"centre": "z", "face": "flat"}},
        "The dimension 'flat' would be made, but that is the name of a variable. Say which:"
        " axis='z', or axis={'centre': 'z', 'face': 'z_face'}.",
    ),
    "heights": (
        {"heights": "height"},
        "There is no variable 'height', which 'heights' names. There are 'a', 'both', 'f', 'flat',"
        " 'g', 't', 'when', 'z', 'z_f'.",
    ),
    "heights-dims": (
        {"heights": "a"},
        "Variable 'a' must hold the heights of the faces along 'z_f', got the dimensions ('t', 'z',"
        " 'x').",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_messages(case: str) -> None:
    options, message = BAD[case]
    dataset = columns().assign(
        both=(("z", "z_f"), np.zeros((5, 6))),
        when=("z", np.zeros(5, "datetime64[ns]")),
        flat=((), 1.0),
    )
    with pytest.raises(he.HaloclineError) as caught:
        evaluated(dataset, **options)
    assert str(caught.value) == message


def no_vertical(dataset: xr.Dataset) -> xr.Dataset:
    return dataset.drop_vars(["z", "z_f"]).rename(z="lev", z_f="ilev")


def bad_topology(dataset: xr.Dataset) -> xr.Dataset:
    attrs = {"cf_role": "grid_topology", "vertical_dimensions": "zz: z_f (padding: none)"}
    return dataset.assign(grid=((), 0, attrs))


def two_centres(dataset: xr.Dataset) -> xr.Dataset:
    soil = xr.DataArray(np.zeros(9), dims="s", coords={"s": ("s", np.arange(9.0), {"axis": "Z"})})
    return dataset.assign(g=soil)


def no_heights(dataset: xr.Dataset) -> xr.Dataset:
    return dataset.drop_vars("z_f").drop_vars("f").drop_dims("z_f", errors="ignore")


def uneven(dataset: xr.Dataset) -> xr.Dataset:
    return dataset.assign_coords(z_f=("z_f", [0.0, 2, 1, 6, 10, 15], dataset["z_f"].attrs))


def folded(dataset: xr.Dataset) -> xr.Dataset:
    return uneven(dataset).drop_vars("z")


def outside(dataset: xr.Dataset) -> xr.Dataset:
    return dataset.assign_coords(z=("z", MIDDLES + 9.0, dataset["z"].attrs))


def gaps(dataset: xr.Dataset) -> xr.Dataset:
    dataset = no_heights(dataset)
    bounds = np.stack([FACES[:-1], FACES[1:] - 0.1], axis=1)
    dataset = dataset.assign(edges=(("z", "n"), bounds))
    dataset["z"].attrs["bounds"] = "edges"
    return dataset


def formula(dataset: xr.Dataset) -> xr.Dataset:
    dataset["z"].attrs.update(
        standard_name="ocean_sigma_coordinate", formula_terms="sigma: z eta: g depth: g"
    )
    return dataset


def hybrid(dataset: xr.Dataset) -> xr.Dataset:
    dataset["z"].attrs.update(
        standard_name="atmosphere_hybrid_height_coordinate", formula_terms="a: z b: z orog: gg"
    )
    return dataset


def hybrid_without_bounds(dataset: xr.Dataset) -> xr.Dataset:
    hybrid(dataset)["z"].attrs["formula_terms"] = "a: z b: z orog: g"
    return dataset


_NAME = " Name a variable with the heights of the faces: heights='z_face'."
_SAY = " Say which: axis='z', or axis={'centre': 'z', 'face': 'z_face'}."
_GIVE = (
    " Give the coordinate bounds, add one along the faces, or name a variable with the heights of"
    " the faces: heights='z_face'."
)
BAD_GRIDS = (
    (no_vertical, "No vertical dimension was found among 'lev', 't', 'x'." + _SAY),
    (
        bad_topology,
        "The attribute 'vertical_dimensions' of 'grid' names no dimensions, got 'zz: z_f (padding:"
        " none)'. SGRID writes 'z: z_face (padding: none)'." + _SAY,
    ),
    (two_centres, "The vertical dimension could be any of 'z', 's'." + _SAY),
    (
        no_heights,
        "The heights of the faces between the levels of 'z' are not known: coordinate 'z' has no"
        " bounds." + _GIVE,
    ),
    (
        uneven,
        "The heights 'z' do not lie between those of the faces, 'z_f'. Centres and faces must be"
        " sorted alike, both going up or both going down.",
    ),
    (
        folded,
        "The heights 'z_f' must go up, or down, from level to level. Sort the levels; cells without"
        " a width have no derivative.",
    ),
    (
        outside,
        "The heights 'z' do not lie between those of the faces, 'z_f'. Centres and faces must be"
        " sorted alike, both going up or both going down.",
    ),
    (gaps, "The bounds of 'z' leave gaps between its cells, or overlap." + _GIVE),
    (
        formula,
        "Heights of 'z' follow from a formula that is not known here, that of"
        " 'ocean_sigma_coordinate'. Compute the heights of the faces first, and name them:"
        " heights='z_face'.",
    ),
    (hybrid, "'formula_terms' of 'z' names 'gg', which is no variable of the dataset."),
    (
        hybrid_without_bounds,
        "Heights of the faces follow from the bounds of 'z' along 'z', which are not there."
        + _NAME,
    ),
)


@pytest.mark.parametrize(
    ("change", "message"), BAD_GRIDS, ids=lambda item: getattr(item, "__name__", "")
)
def test_messages_of_grids(change: Any, message: str) -> None:
    with pytest.raises(he.RequestError) as caught:
        evaluated(change(columns()), "a * 2.0 + g", scalars={})
    assert str(caught.value) == message


def test_bands_do_not_replace_variables() -> None:
    dataset = columns().assign(matrix_lower=0.0)
    with pytest.raises(he.ArgumentError) as caught:
        he.column_matrix("GradientC2F(bottom=SetValue(0.0), top=SetValue(0.0))(a)", dataset, of="a")
    assert str(caught.value) == (
        "The result 'matrix_lower' must have a new name that is an identifier. The dataset has a"
        " variable of that name."
    )


def test_messages_of_periodic_grids() -> None:
    dataset = columns()[["a"]]
    bad = {
        "z_u": dataset.assign_coords(
            z_u=("z_u", FACES[1:], {"axis": "Z", "c_grid_axis_shift": 0.5})
        ),
        "w": dataset.drop_vars("z").assign_coords(w=("w", FACES[:-1])),
    }
    expected = {
        "z_u": "A face of a periodic column comes before the centre with its number, but 'z_u' is"
        " shifted the other way. Roll what lies on 'z_u' by one, and set 'c_grid_axis_shift' to"
        " -0.5.",
        "w": "A periodic column needs the heights of its centres along 'z', to know where it ends."
        " Add a coordinate.",
    }
    for face, each in bad.items():
        axis = {"centre": "z", "face": face}
        with pytest.raises(he.AxisError) as caught:
            evaluated(each, "2.0 * a", scalars={}, boundary={"z": "periodic"}, axis=axis)
        assert str(caught.value) == expected[face]
    varying = columns()[["a"]].assign(h=(("w", "x"), np.zeros((5, 7))))
    with pytest.raises(he.FieldError) as found:
        evaluated(
            varying,
            "2.0 * a",
            scalars={},
            boundary={"z": "periodic"},
            axis={"centre": "z", "face": "w"},
            heights="h",
        )
    message = "Heights of a periodic column must be along 'w' only, but 'h' has ('w', 'x')."
    assert str(found.value) == message
