"""CF and xgcm attributes in all places and forms."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr

from halocline_engine.datasets.grids.conventions import (
    SHIFT,
    attribute_of,
    dims_of_others,
    kinds_of,
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
    assert kinds_of(dataset).get("c") is axis
    assert dataset["c"].attrs.keys() == attrs.keys()


def test_attributes_come_before_names() -> None:
    axis = {"x": ("x", np.arange(3.0), {"axis": "Y"}), "y": ("y", np.arange(3.0), {"axis": "X"})}
    assert kinds_of(xr.Dataset(coords=axis)) == {"y": Axis.I, "x": Axis.J}


def test_times_and_members() -> None:
    days = np.arange(3).astype("M8[D]").astype("M8[ns]")
    coords = {
        "when": ("when", days),
        "hour": ("t_axis", np.arange(3), {"axis": "T"}),
        "member": ("member", np.arange(3)),
        "x": ("x", np.arange(3)),
    }
    assert dims_of_others(xr.Dataset(coords=coords)) == {"when", "t_axis", "member"}
