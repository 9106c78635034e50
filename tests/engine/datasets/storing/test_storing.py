"""What memory has is what a store opens with, or is refused or left out by its name."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import warnings
from typing import Any

import cftime  # pyright: ignore[reportMissingTypeStubs] - it has none
import numpy as np
import pytest
import xarray as xr

from halocline_engine.datasets.storing.attributes import drop_decoding_attributes, json_form
from halocline_engine.datasets.storing.checks import check_storable, warn_of_left_out
from halocline_engine.datasets.storing.opening import open_zarr
from halocline_engine.datasets.storing.writing import store_values
from halocline_engine.datasets.untyped import ZARR
from halocline_engine.errors import OutputError

_CFTIME: Any = cftime
DAYS = {"units": "days since 2000-01-01"}


def stored(dataset: xr.Dataset) -> xr.Dataset:
    store = ZARR.storage.MemoryStore()
    store_values(dataset, store)
    with open_zarr(store, consolidated=False) as opened:
        return opened.load()


def with_coordinate(values: Any, attributes: dict[str, Any] | None = None) -> xr.Dataset:
    data = xr.Dataset({"t": (("y", "x"), np.ones((2, 3)))})
    return data.assign_coords(c=("x", values, attributes or {}))


ATTRIBUTES: list[tuple[Any, dict[str, Any], tuple[str, ...]]] = [
    ([1.0, 2, 3], {"scale_factor": 0.5, "units": "K"}, ("scale_factor",)),
    ([1.0, 2, 3], {"scale_factor": "0.5"}, ("scale_factor",)),
    ([1, 2, 3], {"add_offset": [1, 2]}, ("add_offset",)),
    ([1, 2, 3], {"_FillValue": 2, "missing_value": 2}, ("_FillValue", "missing_value")),
    ([1, 2, 3], {"_FillValue": None}, ("_FillValue",)),
    (np.array([-1, 2, 3], "i1"), {"_Unsigned": "true"}, ("_Unsigned",)),
    ([1.0, 2, 3], {"dtype": "bool"}, ("dtype",)),
    ([1.0, 2, 3], {"dtype": "packed"}, ()),
    ([1, 2, 3], {"dtype": "timedelta64[s]", "units": "seconds"}, ("dtype", "units")),
    ([1, 2, 3], {**DAYS, "calendar": "noleap"}, ("units", "calendar")),
    ([1, 2, 3], {"units": "days", "calendar": "noleap"}, ()),
    ([1, 2, 3], {"units": "months since 2000-01-01", "scale_factor": 2.0}, ("scale_factor",)),
    ([1, 2, 3], {**DAYS, "calendar": "none"}, ()),
    (np.array([1, 2, 3], object), DAYS, ("units",)),
    (np.array([None, 2, 3], object), DAYS, ("units",)),
    (np.array([1, 2, 3], "M8[ns]"), DAYS, ("units",)),
    (np.array([1, 2, 3], "M8[ns]"), {"calendar": "standard"}, ("calendar",)),
    (["a", "b", "c"], {"_Encoding": "utf-8"}, ("_Encoding",)),
    (np.array([b"7", b"q", b"1"]), {**DAYS, "calendar": "noleap"}, ("units", "calendar")),
    (["7", "q", "1"], DAYS, ()),
    ([1, 2, 3], {"coordinates": "lat lon"}, ("coordinates",)),
]


@pytest.mark.parametrize(("values", "attributes", "left_out"), ATTRIBUTES)
def test_attributes_that_decode_are_left_out(
    values: Any, attributes: dict[str, Any], left_out: tuple[str, ...]
) -> None:
    dataset = with_coordinate(values, attributes)
    assert drop_decoding_attributes(dataset)[1] == ({"c": left_out} if left_out else {})
    opened = stored(dataset)
    assert opened["c"].variable.equals(dataset["c"].variable)
    assert opened["c"].attrs == {k: v for k, v in attributes.items() if k not in left_out}


def test_bounds_of_times_that_are_numbers_stay_numbers() -> None:
    times = xr.Dataset({"b": ("x", [1.0, 2, 3])}, {"c": ("x", np.array([1, 2, 3], "M8[ns]"))})
    times["c"].attrs["bounds"] = "b"
    assert drop_decoding_attributes(times)[1] == {"c": ("bounds",)}
    assert stored(times)["b"].values.tolist() == [1.0, 2, 3]
    months = xr.Dataset({"b": ("x", [1.0, 2, 3])}, {"c": ("x", [1, 2, 3])})
    months["c"].attrs = {"units": "months since 2000-01-01", "bounds": "b"}
    xr.testing.assert_identical(stored(months), months)


def test_bounds_that_cannot_be_decoded_with_their_times() -> None:
    dataset = xr.Dataset({"b": ("x", ["a", "b", "c"])}, {"c": ("x", [1, 2, 3])})
    dataset["c"].attrs = {**DAYS, "bounds": "b"}
    store = ZARR.storage.MemoryStore()
    dataset.to_zarr(store, zarr_format=2, consolidated=False)
    opened = open_zarr(store, consolidated=False)
    assert opened["b"].values.tolist() == ["a", "b", "c"]
    assert opened["c"].dtype.kind == "M"


def test_bounds_with_own_units_are_decoded_beside_times_that_are_numbers() -> None:
    dataset = xr.Dataset({"b": ("x", [1, 2, 3], DAYS)}, {"c": ("x", [1, 2, 3])})
    dataset["c"].attrs = {"units": "months since 2000-01-01", "bounds": "b"}
    store = ZARR.storage.MemoryStore()
    dataset.to_zarr(store, zarr_format=2, consolidated=False)
    opened = open_zarr(store, consolidated=False)
    assert opened["b"].dtype.kind == "M"
    assert opened["c"].values.tolist() == [1, 2, 3]


def test_one_warning_names_them_all() -> None:
    dataset = with_coordinate([1, 2, 3], {**DAYS, "calendar": "noleap"})
    dataset["t"].attrs["scale_factor"] = 0.5
    dataset.attrs["_NCProperties"] = "version=2"
    with pytest.warns(UserWarning, match="^Attributes by which xarray") as caught:
        warn_of_left_out(drop_decoding_attributes(dataset)[1])
    assert [str(one.message) for one in caught] == [
        "Attributes by which xarray would change values on opening are left out of the store:"
        " 'scale_factor' of 't'; 'units', 'calendar' of 'c'; '_NCProperties' of the dataset."
        " Memory holds values; decode them with xarray.decode_cf first if these are still encoded."
    ]
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_left_out({})


def dates(*years: int) -> Any:
    made = [_CFTIME.datetime(year, 2, 3, calendar="gregorian") for year in years]
    return np.array([*made, None], object)[:-1]


KEPT: dict[str, Any] = {
    "bytes": np.array([b"a", b"bc", b""]),
    "single characters": np.array([b"a", b"b", b"c"]),
    "half": np.array([1, 2, np.nan], "f2"),
    "complex": np.array([1, 2j, 3], "c8"),
    "texts": np.array(["a", "bé", ""]),
    "seconds": np.array(["0001-01-01", "2000-01-01", "9000-01-01"], "M8[s]"),
    "microseconds": np.array(["2000-01-01", "NaT", "2100-01-01T00:00:00.000001"], "M8[us]"),
    "nanoseconds": np.array(["2000-01-01", "NaT", "2100-01-01T00:00:00.000000001"], "M8[ns]"),
    "spans": np.array([1, 2, 3], "m8[s]"),
    "dates of a real calendar": dates(1, 2000, 3000),
    "objects that are texts": np.array(["a", "b", ""], object),
    "missing texts": np.array(["", None, "missing 0"], object),
    "objects that are numbers": np.array([1, 2, 3], object),
    "objects that are bytes": np.array([b"a", b"b", b"c"], object),
}


@pytest.mark.parametrize("kind", KEPT)
def test_values_and_types_stay(kind: str) -> None:
    dataset = with_coordinate(KEPT[kind])
    check_storable(dataset, OutputError)
    opened = stored(dataset)["c"]
    assert opened.variable.equals(dataset["c"].variable)
    if KEPT[kind].dtype != object:
        assert opened.dtype == KEPT[kind].dtype


def test_characters_that_xarray_would_join() -> None:
    characters = xr.Dataset({"c": ("n", np.array([b"a", b"b"]))})
    assert stored(characters)["c"].values.tolist() == [b"a", b"b"]


def test_units_of_times_stay_where_they_lose_nothing() -> None:
    whole = with_coordinate(np.array(["2000-01-01", "2000-01-02", "2000-01-03"], "M8[ns]"))
    whole["c"].encoding = {"units": "days since 1900-01-01", "calendar": "standard"}
    assert stored(whole)["c"].encoding["units"] == "days since 1900-01-01"
    odd = whole.assign_coords(c=whole["c"] + np.timedelta64(1, "ns"))
    odd["c"].encoding = whole["c"].encoding
    assert stored(odd)["c"].values.tolist() == odd["c"].values.tolist()


def test_coordinates_whose_names_have_blanks() -> None:
    dataset = with_coordinate([1, 2, 3]).rename(c="lon (deg)")
    opened = stored(dataset)
    assert [*opened.coords] == ["lon (deg)"]
    xr.testing.assert_identical(opened, dataset)


@pytest.mark.parametrize(
    "value", [b"a", 1j, {1}, {1: 2}, np.datetime64(1, "s"), [np.timedelta64(1, "s")], np.longdouble]
)
def test_what_json_cannot_hold(value: Any) -> None:
    with pytest.raises(TypeError):
        json_form(value)
    dataset = with_coordinate([1, 2, 3], {"made_by": value})
    with pytest.raises(OutputError, match=r"^The attribute 'made_by' of 'c' cannot be stored, as"):
        check_storable(dataset, OutputError)


REFUSED: dict[str, tuple[xr.Dataset, str]] = {
    "records": (
        with_coordinate(np.zeros(3, [("a", "i4")])),
        "The coordinate 'c' has values of type '[('a', '<i4')]', which no store can hold. Convert"
        " them to numbers or texts, or drop it, before the run.",
    ),
    "long doubles": (
        with_coordinate(np.zeros(3, np.longdouble)).reset_coords("c"),
        "The variable 'c' has values of type 'float128', which no store can hold. Convert them to"
        " numbers or texts, or drop it, before the run.",
    ),
    "bytes that are missing": (
        with_coordinate(np.array([b"a", None, b"c"], object)),
        "The coordinate 'c' has values that would come back from a store as others. Convert them to"
        " numbers or texts, or drop it, before the run.",
    ),
    "whole numbers that are missing": (
        with_coordinate(np.array([2**60 + 1, None, 3], object)),
        "The coordinate 'c' has values that would come back from a store as others. Convert them to"
        " numbers or texts, or drop it, before the run.",
    ),
    "a name with a colon": (
        with_coordinate([1, 2, 3]).rename(c="a:b"),
        "The coordinate 'a:b' cannot be stored, as its name is not a valid array name."
        " Rename or drop it before the run.",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_kept_is_refused(case: str) -> None:
    dataset, message = REFUSED[case]
    with pytest.raises(OutputError) as caught:
        check_storable(dataset, OutputError)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "marker", [1, [], {"coordinates": "x", "times": []}, {"times": {"c": "Y"}}]
)
def test_a_marker_that_somebody_else_wrote(marker: Any) -> None:
    dataset = with_coordinate([1, 2, 3]).assign_attrs(_halocline_values=marker)
    store = ZARR.storage.MemoryStore()
    dataset.to_zarr(store, zarr_format=3, consolidated=False)
    assert open_zarr(store, consolidated=False)["c"].values.tolist() == [1, 2, 3]
