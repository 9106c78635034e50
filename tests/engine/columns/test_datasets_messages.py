"""What columns of datasets refuse, and what they say then."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr
from column_datasets import FACES, MIDDLES, columns, evaluated

import halocline_engine as he

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": (
        {"text": "GradientF2C()(ff)"},
        "line 1, column 15: 'ff' is neither a variable of the dataset, a scalar nor an earlier"
        " line.\nGradientF2C()(ff)\n              ^\nPass a number as scalars={...}, or add the"
        " variable.",
    ),
    "scalar": (
        {"text": "2.0 * a", "scalars": {"k": 1.0}},
        "Argument 'scalars' must name scalars of the program, got 'k'. There are 'a'.",
    ),
    "fields": (
        {"text": "2.0 * a", "scalars": {}, "fields": {"q": "a"}},
        "Argument 'fields' must map names of the program, got 'q'. There are 'a'.",
    ),
    "fields-variable": (
        {"text": "2.0 * q", "scalars": {}, "fields": {"q": "aa"}},
        "Variable 'aa' (argument 'fields') is not in the dataset. Did you mean 'a'?",
    ),
    "name": (
        {"text": "2.0 * a", "scalars": {}, "name": "z"},
        "The result 'z' must have a new name that is an identifier. The program reads a variable"
        " of that name, or it is a coordinate.",
    ),
    "read-before": (
        {"text": "g = 2.0 * g", "scalars": {}},
        "line 1, column 11: 'g' is read before the line that defines it.\ng = 2.0 * g\n"
        "          ^\nCall the line's value otherwise, such as 'new_g', to read the variable.",
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
        "Argument 'mode' must be 'auto' or 'streamed', got the str 'resident'. Leave it out.",
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
        "Variable 'height' (argument 'heights') is not in the dataset. There are 'a', 'both', 'f',"
        " 'flat', 'g', 't', 'when', 'z', 'z_f'.",
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
    return dataset.drop_vars(["z", "z_f"]).rename(z="rows", z_f="more_rows")


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
    (
        no_vertical,
        "No vertical dimension was found among 'rows', 't', 'x'." + _SAY.replace("'z", "'rows"),
    ),
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


def test_bands_do_not_replace_coordinates() -> None:
    dataset = columns().assign_coords(matrix_lower=0.0)
    with pytest.raises(he.ArgumentError) as caught:
        he.column_matrix("GradientC2F(bottom=SetValue(0.0), top=SetValue(0.0))(a)", dataset, of="a")
    assert str(caught.value) == (
        "The result 'matrix_lower' must have a new name that is an identifier. The program reads a"
        " variable of that name, or it is a coordinate."
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
