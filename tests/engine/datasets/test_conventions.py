"""CF and xgcm attributes in all places and forms."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.datasets.grids.conventions import (
    SHIFT,
    attribute_of,
    dimensions_of,
    shifts_of,
)
from halocline_engine.errors import AxisError
from halocline_engine.ir.types import Axis


def shifted(value: Any) -> xr.Dataset:
    return xr.Dataset(coords={"f": ("f", np.arange(4.0), {"axis": "Z", SHIFT: value})})


@pytest.mark.parametrize(
    ("value", "shifts"),
    [
        (-0.5, (-0.5,)),
        (np.float32(0.5), (0.5,)),
        ("-0.5", (-0.5,)),
        ((-0.5, 0.5), (-0.5, 0.5)),
        ([-0.5, 0.5], (-0.5, 0.5)),
        (np.array([-0.5, 0.5]), (-0.5, 0.5)),
        ("(-0.5, 0.5)", (-0.5, 0.5)),
        ("left", (-0.5,)),
        (" Right ", (0.5,)),
        ("outer", (-0.5, 0.5)),
        ("center", ()),
        (0, ()),
    ],
)
def test_shifts(value: Any, shifts: tuple[float, ...]) -> None:
    assert shifts_of(shifted(value), "f") == shifts


@pytest.mark.parametrize("value", ["between", "", 1.0, (), None, {"a": 1}])
def test_shifts_of_other_values(value: Any) -> None:
    with pytest.raises(AxisError) as caught:
        shifts_of(shifted(value), "f")
    assert str(caught.value) == (
        f"Attribute 'c_grid_axis_shift' of 'f' must be -0.5, 0.5 or both, got {value!r}. Faces"
        " before the centre with their number have -0.5, those behind it 0.5."
    )


def test_attributes_in_the_encoding() -> None:
    variable = xr.Variable("x", np.zeros(2), {"units": " m "}, {"bounds": "edges", "units": "km"})
    assert attribute_of(variable, "bounds") == "edges"
    assert attribute_of(variable, "units") == "m"
    assert attribute_of(variable, "formula_terms") == ""


@pytest.mark.parametrize(
    ("attrs", "axis"),
    [
        ({"axis": "x"}, Axis.I),
        ({"axis": " Y "}, Axis.J),
        ({"positive": "DOWN"}, Axis.K),
        ({"positive": "Up", "units": np.array([1, 2])}, Axis.K),
        ({"cartesian_axis": "z"}, Axis.K),
        ({"long_name": "Depth"}, None),
        ({"axis": 3}, None),
        ({}, None),
    ],
)
def test_attributes_in_any_case(attrs: dict[str, Any], axis: Axis | None) -> None:
    dataset = xr.Dataset({"v": ("c", np.zeros(3))}, {"c": ("c", np.arange(3.0), attrs)})
    assert dimensions_of(dataset).kinds.get("c") is axis
    assert dataset["c"].attrs.keys() == attrs.keys()


def test_attributes_come_before_names() -> None:
    axis = {"x": ("x", np.arange(3.0), {"axis": "Y"}), "y": ("y", np.arange(3.0), {"axis": "X"})}
    assert dimensions_of(xr.Dataset(coords=axis)).kinds == {"y": Axis.I, "x": Axis.J}


def test_times_and_members() -> None:
    days = np.arange(3).astype("M8[D]").astype("M8[ns]")
    coords = {
        "when": ("when", days),
        "hour": ("t_axis", np.arange(3), {"axis": "T"}),
        "member": ("member", np.arange(3)),
        "x": ("x", np.arange(3)),
    }
    assert dimensions_of(xr.Dataset(coords=coords)).others == {"when", "t_axis", "member"}


TWICE = """
def twice(t: Field[float]):
    with computation(PARALLEL), interval(...):
        t = 2.0 * t
"""


@pytest.mark.parametrize("decode", ["all", "coordinates"])
def test_results_keep_what_they_refer_to(decode: str, tmp_path: Path) -> None:
    attrs = {"grid_mapping": "crs", "cell_measures": "area: size"}
    variables: dict[str, Any] = {
        "t": (("y", "x"), np.ones((2, 3)), attrs),
        "crs": ((), 0, {"grid_mapping_name": "latitude_longitude"}),
        "size": (("y", "x"), np.ones((2, 3))),
        "ends": (("y", "two"), np.zeros((2, 2))),
    }
    written = xr.Dataset(variables, {"y": ("y", [1.0, 2.0], {"bounds": "ends"})})
    written.to_netcdf(tmp_path / "in.nc")
    with cast("Any", xr).open_dataset(tmp_path / "in.nc", decode_coords=decode) as dataset:
        here = he.run(TWICE, dataset, target="reference")
        stored = he.run(TWICE, dataset, target="reference", output=tmp_path / "out.zarr")
    for result in (here, stored):
        assert {"crs", "size", "ends"} <= {*result.variables}
        assert result["t"].attrs == attrs
        assert attribute_of(result["y"], "bounds") == "ends"


def test_a_mesh_whose_node_coordinates_are_in_the_encoding(tmp_path: Path) -> None:
    node = np.arange(12).reshape(2, 6)
    east = np.roll(node, -1, 1)
    topology = {
        "cf_role": "mesh_topology",
        "node_coordinates": "lon lat",
        "face_node_connectivity": "corners",
    }
    mesh = xr.Dataset(
        {
            "mesh": ((), 0, topology),
            "corners": (("face", "four"), np.stack([node[0], east[0], east[1], node[1]], 1)),
            "lon": ("node", np.tile(np.arange(6) * 60.0, 2), {"units": "degrees_east"}),
            "lat": ("node", np.repeat([-20.0, 20.0], 6), {"units": "degrees_north"}),
        }
    )
    dataset = xr.Dataset({"h": ("face", np.arange(6.0))})
    decoded = cast("Any", xr).decode_cf(mesh, decode_coords="all")
    assert "node_coordinates" not in decoded["mesh"].attrs
    sums = [he.neighbours(dataset, one, "sum", target="reference") for one in (mesh, decoded)]
    assert sums[1]["h_sum"].values.tolist() == sums[0]["h_sum"].values.tolist()
