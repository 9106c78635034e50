"""NetCDF files in threads, of all formats, and not left open."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import copy
import os
import pickle
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from netcdf_threads import deaths

from halocline_engine.datasets.inputs.opening import open_source
from halocline_engine.errors import DatasetError

NETCDF: Any = import_module("netCDF4")
H5: Any = import_module("h5py")
WHOLE = (slice(None),)
FORMATS = (
    "NETCDF4",
    "NETCDF4_CLASSIC",
    "NETCDF3_CLASSIC",
    "NETCDF3_64BIT_OFFSET",
    "NETCDF3_64BIT_DATA",
)


def held(path: Path) -> list[str]:
    """Return which files beside a path this process has open."""
    found: list[str] = []
    for number in os.listdir("/proc/self/fd"):
        try:
            place = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue
        if place.startswith(str(path.parent)):
            found.append(place)
    return found


def test_many_threads_open_and_read() -> None:
    assert deaths(2, rounds=2) == {0: 2}


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_read_and_not_left_open(tmp_path: Path, form: str) -> None:
    path = tmp_path / "a.nc"
    with NETCDF.Dataset(path, "w", format=form) as file:
        file.createDimension("t", None)
        file.createDimension("x", 3)
        file.createVariable("x", "f8", ("x",))[:] = [1.0, 2.0, 4.0]
        made = file.createVariable("v", "i2", ("t", "x"), fill_value=-1)
        made.scale_factor, made.add_offset = 0.5, 2.0
        made[:] = np.ma.masked_less(np.arange(6.0).reshape(2, 3) + 2.0, 3.0)
    opened = open_source(path)
    assert held(path) == []
    assert opened.dataset["x"].values.tolist() == [1.0, 2.0, 4.0]
    expected = np.array([[np.nan, 3.0, 4.0], [5.0, 6.0, 7.0]])
    np.testing.assert_array_equal(opened.source.read("v", WHOLE * 2), expected)
    for other in (opened.dataset, copy.deepcopy(opened.dataset)):
        np.testing.assert_array_equal(other["v"].values, expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(opened.dataset))["v"], expected)
    assert held(path) == []


def test_a_file_that_was_written_anew_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    for value in (1.0, 2.0):
        xr.Dataset({"v": ("x", np.full(5, value))}).to_netcdf(path, engine="h5netcdf")
        assert open_source(path).source.read("v", WHOLE).tolist() == [value] * 5


def test_a_file_whose_reading_fails_is_not_left_open(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with H5.File(path, "w") as file:
        made = file.create_dataset("u", data=np.arange(50.0), chunks=(25,), compression="gzip")
        chunk = made.id.get_chunk_info(1)
    found = bytearray(path.read_bytes())
    found[chunk.byte_offset + 4 : chunk.byte_offset + chunk.size] = b"\xff" * (chunk.size - 4)
    path.write_bytes(found)
    opened = open_source(path)
    with pytest.raises(DatasetError, match="cannot be decoded"):
        opened.source.read("u", WHOLE)
    assert held(path) == []
    path.write_bytes(found[: len(found) // 2])
    with pytest.raises(DatasetError, match="cannot be read as HDF5"):
        open_source(path)
    assert held(path) == []


def test_dimensions_without_names_are_called_as_netcdf_calls_them(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with H5.File(path, "w") as file:
        file["v"] = np.ones((3, 4))
        file["z"] = np.ones(3, complex)
    found = open_source(path).dataset
    assert found["v"].dims == ("phony_dim_0", "phony_dim_1")
    assert found["z"].values.tolist() == [1.0, 1.0, 1.0]


def test_sequences_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with NETCDF.Dataset(path, "w") as file:
        file.createDimension("x", 2)
        kind = file.createVLType(np.int32, "integers")
        file.createVariable("several", kind, ("x",))[0] = np.array([1, 2], np.int32)
        file.createVariable("v", "f4", ("x",))[:] = 1.0
        file.createVariable("text", str, ("x",))[:] = np.array(["a", "bc"], object)
    found = open_source(path).dataset
    assert list(found) == ["v", "text"]
    assert found["text"].values.tolist() == ["a", "bc"]


def test_what_is_no_netcdf_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    path.write_bytes(b"%PDF-1.4")
    with pytest.raises(DatasetError) as caught:
        open_source(path)
    assert str(caught.value) == (
        f"Dataset '{path}' is no NetCDF file: expected the signature of HDF5 or 'CDF', got b'%PDF'."
        " Its format does not match its name. If xarray can open it, pass the dataset."
    )
