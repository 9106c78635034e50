"""Datasets as odd as people's, sent to a service and computed there."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import datetime as dt
import pathlib
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr
from odd_runs import difference_of_draw, through_client

from halocline import Client, DatasetError

TWICE = """
def f(t: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = 2.0 * t
"""


@pytest.fixture
def client(service: str) -> Generator[Client]:
    with Client(service) as made:
        yield made


def out(client: Client, dataset: Any, text: str = TWICE) -> xr.Dataset:
    return client.stencil(text, dataset, target="reference").result(progress=False).load()


@pytest.mark.parametrize("seed", range(1000, 1006))
def test_drawn_datasets(client: Client, seed: int, tmp_path: Path) -> None:
    assert difference_of_draw(seed, tmp_path, {"service": through_client(client)}) == ""


@pytest.mark.parametrize(
    "attributes", [{"scale_factor": 0.1}, {"_FillValue": 4.0}, {"units": "days since 2000-01-01"}]
)
def test_decoded_values_are_not_decoded_again(client: Client, attributes: dict[str, Any]) -> None:
    data = xr.Dataset({"t": (("y", "x"), np.arange(6.0).reshape(2, 3), attributes)})
    left_out = f"left out of the store: '{next(iter(attributes))}' of 't'"
    with pytest.warns(UserWarning, match=left_out) as caught:
        result = out(client, data)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(result["out"].values, 2 * data["t"].values)


def test_packed_values_stay_packed(client: Client) -> None:
    packed: Any = (("y", "x"), np.arange(6, dtype="i2").reshape(2, 3), {"scale_factor": 0.1})
    text = TWICE.replace("float", "np.int16").replace("2.0", "2")
    with pytest.warns(UserWarning, match="decode them with xarray.decode_cf first"):
        result = out(client, xr.Dataset({"t": packed}), text)
    assert result["out"].values.tolist() == [[0, 2, 4], [6, 8, 10]]


def test_attributes_that_json_cannot_hold(client: Client) -> None:
    before = client.uploads.list()
    for value in (dt.datetime(2000, 1, 1), b"abc", {1}, 1j, pathlib.PurePath("/x"), object()):
        data = xr.Dataset({"t": (("y", "x"), np.ones((2, 3)), {"made_by": value})})
        with pytest.raises(DatasetError, match=r"^The attribute 'made_by' of 't' cannot be stored"):
            out(client, data)
        data = xr.Dataset({"t": (("y", "x"), np.ones((2, 3)))}, attrs={"made_by": value})
        with pytest.raises(DatasetError, match=r"^The attribute 'made_by' of the dataset cannot"):
            out(client, data)
    assert client.uploads.list() == before


def test_coordinates_of_any_kind_come_back(client: Client) -> None:
    coords: Any = {
        "station": ("x", np.array([b"NYC", b"LAX", b"SFO"])),
        "flag": (("y", "x"), np.array([[b"A", b"B", b"C"], [b"D", b"E", b"F"]])),
        "rank": ("x", np.array([1, 2, 3], object)),
        "lon (deg)": ("x", [1.0, 2.0, 3.0]),
        "text": ("x", np.array(["a", None, ""], object)),
        "time": ("y", np.array(["0001-01-01", "2000-01-01"], "M8[s]")),
        "month": ("y", [0.0, 1.0], {"units": "months since 2000-01-01"}),
    }
    data = xr.Dataset({"t": (("y", "x"), np.ones((2, 3)))}, coords)
    for chunked in (data, data.chunk({"x": 2})):
        result = out(client, chunked)
        assert {*result.coords} == {*data.coords}
        for name, coordinate in cast("Any", data).coords.items():
            assert result[name].variable.equals(coordinate.variable)
            assert result[name].attrs == coordinate.attrs


def test_files_whose_names_have_colons(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    xr.Dataset({"t": (("y", "x"), np.ones((2, 3)))}).to_netcdf("run1:out.nc", engine="netcdf4")
    assert (out(client, "run1:out.nc")["out"] == 2).all()
