"""Datasets as odd as people's, through the doors of the library."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from odd_runs import DOORS, difference_of_draw

import halocline_engine as he

TWICE = """
def twice(t: Field[float]):
    with computation(PARALLEL), interval(...):
        t = 2.0 * t
"""
FED = """
def fed(t: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = 2.0 * t
"""
DECODED = np.arange(10.0, 13.0, 0.5).reshape(2, 3)
_LEFT_OUT = "Attributes by which xarray would change values on opening are left out of the store: "


@pytest.mark.parametrize("seed", range(40))
def test_drawn_datasets(seed: int, tmp_path: Path) -> None:
    assert difference_of_draw(seed, tmp_path, DOORS) == ""


@pytest.mark.parametrize(
    "attributes",
    [
        {"scale_factor": 0.5, "add_offset": 10.0},
        {"_FillValue": 22.0},
        {"missing_value": 22.0},
        {"units": "days since 2000-01-01"},
        {"dtype": "bool"},
    ],
)
@pytest.mark.parametrize(
    ("text", "more", "name"),
    [
        (TWICE, {}, "t"),
        (FED, {"feedback": {"out": "t"}}, "out"),
        (
            FED,
            {"feedback": {"out": "t"}, "steps": 3, "snapshot_every": 2, "workspace": "work"},
            "out",
        ),
    ],
)
def test_decoded_values_are_not_decoded_again(
    attributes: dict[str, Any], text: str, more: dict[str, Any], name: str, tmp_path: Path
) -> None:
    data = xr.Dataset({"t": (("y", "x"), DECODED, attributes)})
    places = {key: tmp_path / value for key, value in more.items() if key == "workspace"}
    with pytest.warns(UserWarning, match=_LEFT_OUT) as caught:
        result = he.run(
            text, data, output=tmp_path / "out.zarr", target="reference", **{**more, **places}
        )[name]
    assert len(caught) == 1
    assert all(f"'{attribute}'" in str(caught[0].message) for attribute in attributes)
    steps = [4, 8] if "snapshot_every" in more else [2]
    np.testing.assert_array_equal(result.values.reshape(-1, 2, 3), [k * DECODED for k in steps])
    assert result.attrs == {}
    in_memory = he.run(
        text, data, target="reference", **{k: v for k, v in more.items() if k != "workspace"}
    )
    assert in_memory[name].attrs == attributes


@pytest.mark.parametrize(
    "attributes",
    [
        {"units": "months since 1979-01-01", "calendar": "standard"},
        {"units": "years since 1-1-1"},
        {"units": "days since 2000-01-01", "calendar": "none"},
        {"units": "days since 2000-13-01"},
    ],
)
def test_times_that_xarray_cannot_decode(attributes: dict[str, str], tmp_path: Path) -> None:
    time: Any = ("time", [0.0, 1.0, 2.0], attributes)
    data = xr.Dataset({"t": (("time", "y", "x"), np.ones((3, 1, 2)))}, {"time": time})
    data.to_netcdf(tmp_path / "in.nc")
    data.to_zarr(tmp_path / "in.zarr", zarr_format=2, consolidated=False)
    for number, source in enumerate((data, tmp_path / "in.nc", tmp_path / "in.zarr")):
        result = he.run(FED, source, output=tmp_path / f"{number}.zarr", target="reference")
        assert result["time"].values.tolist() == [0.0, 1.0, 2.0]
        assert result["time"].attrs == attributes
        assert result["out"].values.ravel().tolist() == [2.0] * 6


def test_a_result_in_memory_is_never_refused(tmp_path: Path) -> None:
    """Whatever goes through stores on its way there."""
    coords: Any = {"c": ("x", np.array([{}, 1, b"a"], object)), "a:b": 1.0}
    data = xr.Dataset({"t": (("y", "x"), DECODED, {"a": {1}})}, coords, {"b": print})
    result = he.run(
        FED,
        data,
        steps=3,
        feedback={"out": "t"},
        snapshot_every=2,
        workspace=tmp_path / "work",
        target="reference",
    )
    assert result["c"].values.tolist() == [{}, 1, b"a"]
    assert result["out"].attrs == {"a": {1}}
    assert result.attrs["b"] is print
