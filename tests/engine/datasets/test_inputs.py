"""Datasets of several files, and at addresses."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import pickle
from collections.abc import Generator
from pathlib import Path
from typing import Any

import h5py  # pyright: ignore[reportMissingTypeStubs] - it has none
import numpy as np
import pytest
import xarray as xr
from range_server import serving_files

import halocline_engine as he
from halocline_engine.datasets.inputs.opening import open_source
from halocline_engine.errors import DatasetError

_H5: Any = h5py
PROGRAM = """
def shift(t: Field[float], m: Field[IJ, float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = t[1, 0, 0] + m
"""
HOW: dict[str, Any] = {"boundary": {"x": "periodic"}, "target": "reference"}


def whole() -> xr.Dataset:
    time = xr.date_range("2001-01-28", periods=7)
    values = np.random.default_rng(1).normal(size=(7, 4, 5)).astype("f4").astype("f8")
    return xr.Dataset(
        {"t": (("time", "y", "x"), values, {"units": "K"}), "m": (("y", "x"), np.eye(4, 5))},
        {"x": np.arange(5.0), "time": time, "day": ("time", [f"d{n}" for n in range(7)])},
        {"title": "é"},
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder with a dataset in three files, of which the names are in another order."""
    data: Any = whole()
    data.isel(time=slice(0, 3)).to_netcdf(tmp_path / "b.nc")
    small = {"t": {"dtype": "f4"}, "time": {"units": "hours since 1990-01-01"}}
    data.isel(time=slice(3, 4)).to_netcdf(tmp_path / "c.nc", encoding=small)
    data.isel(time=slice(4, 7)).to_netcdf(tmp_path / "a.nc", format="NETCDF3_64BIT")
    data.isel(time=slice(4, 7)).to_zarr(tmp_path / "a.zarr", consolidated=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def same(result: xr.Dataset, expected: xr.Dataset | None = None) -> None:
    wanted: Any = he.run(PROGRAM, whole(), **HOW) if expected is None else expected
    assert result["out"].dtype == np.float64
    np.testing.assert_array_equal(result["out"].values, wanted["out"].values)
    for name in ("time", "day", "x"):
        xr.testing.assert_equal(result[name].variable, wanted[name].variable)
    assert result.attrs["title"] == "é"


GIVEN: dict[str, Any] = {
    "a list": ["a.nc", "b.nc", "c.nc"],
    "a tuple of paths": (Path("c.nc"), Path("a.zarr"), Path("b.nc")),
    "a glob": "[abc].nc",
    "a glob of paths": Path("?.nc"),
}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize(
    "more", [{}, {"chunks": {"time": 2}}, {"output": "out.nc"}, {"cluster": 2}], ids=str
)
def test_files_are_joined_in_the_order_of_their_coordinate(
    given: str, more: dict[str, Any], folder: Path
) -> None:
    same(he.run(PROGRAM, GIVEN[given], **HOW, **more))


def test_joined_files_are_read_where_they_are_asked_for(folder: Path) -> None:
    opened = open_source(["a.zarr", "b.nc", "c.nc"])
    data = whole()
    for region in ((2, 5), (0, 1), (3, 4), (0, 7), (4, 4), (6, 7)):
        cells = (slice(*region), slice(1, 3), slice(0, 5))
        values = opened.source.read("t", cells)
        assert values.dtype == np.float64
        np.testing.assert_array_equal(values, data["t"].values[cells])
    again = pickle.loads(pickle.dumps(opened.source))
    np.testing.assert_array_equal(again.read("m", (slice(None), slice(None))), data["m"].values)
    dataset: Any = opened.dataset
    assert not dataset["t"].variable._in_memory
    for key in (2, slice(None, None, 3), [6, 0, 3], slice(None, None, -1)):
        expected = data["t"].isel(time=key)
        np.testing.assert_array_equal(dataset["t"].isel(time=key).values, expected.values)


def test_one_file_of_a_list_is_itself(folder: Path) -> None:
    assert open_source(["b.nc"]).path == folder / "b.nc"
    assert open_source("b*.nc").path == folder / "b.nc"
    (folder / "odd[1].nc").write_bytes((folder / "b.nc").read_bytes())
    assert open_source("odd[1].nc").path == folder / "odd[1].nc"


def test_files_whose_coordinate_falls(folder: Path) -> None:
    data: Any = whole().isel(time=slice(None, None, -1))
    for number, part in enumerate((slice(4, 7), slice(0, 4))):
        data.isel(time=part).to_netcdf(folder / f"down{number}.nc")
    same(he.run(PROGRAM, "down*.nc", **HOW), he.run(PROGRAM, data, **HOW))


def test_files_without_a_coordinate_keep_their_order(folder: Path) -> None:
    plain: Any = whole().drop_vars(["time", "day"])
    plain.isel(time=slice(0, 3)).to_netcdf(folder / "p1.nc")
    plain.isel(time=slice(3, 7)).to_netcdf(folder / "p0.nc")
    result = he.run(PROGRAM, ["p1.nc", "p0.nc"], **HOW)
    np.testing.assert_array_equal(result["out"].values, he.run(PROGRAM, plain, **HOW)["out"].values)


def test_a_run_on_files_resumes_and_knows_them(folder: Path) -> None:
    text = PROGRAM.replace("m: Field[IJ, float], ", "").replace(" + m", "")
    steps: Any = {**HOW, "steps": 4, "feedback": {"out": "t"}, "workspace": folder / "work"}
    first = he.run(text, "[bc].nc", **steps)
    assert len(first["time"]) == 4
    assert len(he.run(text, "[abc].nc", **steps)["time"]) == 7


def wrong(folder: Path) -> dict[str, tuple[Any, str]]:
    """Return what does not fit, with what is said of it."""
    late: Any = whole().isel(time=slice(4, 7))
    made: dict[str, Any] = {
        "overlaps": whole().isel(time=slice(2, 4)),
        "narrow": late.isel(x=slice(0, 3)),
        "celsius": late.assign(t=late["t"].assign_attrs(units="degC")),
        "lacking": late.drop_vars("m"),
        "other": late.assign(m=late["m"] + 1.0),
        "numbers": late.assign_coords(time=[1, 2, 3]),
        "turned": late.transpose("x", "y", "time"),
        "texts": late.assign(t=late["t"].astype(str)),
        "bare": late.drop_vars("time"),
    }
    for name, dataset in made.items():
        dataset.to_netcdf(folder / f"{name}.nc")
    out = "Leave the variable, or one of the files, out."
    alike = "Make them alike, or leave one of the files out."
    return {
        "overlaps": (
            ["b.nc", "overlaps.nc"],
            "'overlaps.nc' does not follow 'b.nc' along 'time': it begins at 2001-01-30 00:00:00,"
            " and the other one ends at 2001-01-30 00:00:00. Leave one of them out, or cut the"
            " part that both have.",
        ),
        "narrow": (
            ["b.nc", "narrow.nc"],
            "'b.nc' and 'narrow.nc' differ along the dimensions 'time', 'x', but files are joined"
            " along one. Remove unrelated files, or open them with xarray.open_mfdataset.",
        ),
        "celsius": (
            ["b.nc", "celsius.nc"],
            f"'t' has the units 'K' in 'b.nc', but 'degC' in 'celsius.nc'. {alike}",
        ),
        "lacking": (
            ["b.nc", "lacking.nc"],
            f"Variable 'm' is in 'b.nc', but not in 'lacking.nc'. {out}",
        ),
        "other": (
            ["b.nc", "other.nc"],
            f"'m' has other values in 'other.nc' than in 'b.nc'. {out}",
        ),
        "numbers": (
            ["b.nc", "numbers.nc"],
            "The coordinates 'time' of the files cannot be compared: '<' not supported between"
            " instances of 'numpy.int64' and 'Timestamp'. Give them one type and calendar.",
        ),
        "turned": (
            ["b.nc", "turned.nc"],
            "'t' has the dimensions (time, y, x) in 'b.nc', but (x, y, time) in 'turned.nc'."
            f" {alike}",
        ),
        "texts": (
            ["b.nc", "texts.nc"],
            "'t' has values of the kind 'number' in 'b.nc', but 'text or object' in 'texts.nc'."
            f" {alike}",
        ),
        "bare": (
            ["b.nc", "bare.nc"],
            "'bare.nc' has no coordinate 'time', along which the files are joined. Give it one, or"
            " leave the file out.",
        ),
        "the same": (
            ["b.nc", "b.nc"],
            "'b.nc' and 'b.nc' do not say in which order they follow each other: their coordinates"
            " are the same. Join them with xarray.concat, and pass the dataset.",
        ),
        "nothing": (
            [],
            "A list of datasets must have at least one path, got none. Write for"
            " example ['january.nc', 'february.nc'].",
        ),
        "datasets": (
            ["b.nc", late],
            "A list of datasets must have paths, got the Dataset among them. Join datasets with"
            " xarray.concat, and pass the result.",
        ),
        "no match": (
            "none*.nc",
            "No file matches 'none*.nc'. Check the pattern with 'ls', or pass the files as a list.",
        ),
        "no file": (
            ["b.nc", "none.nc"],
            "Dataset 'none.nc' does not exist. Expected an xarray.Dataset, or the path of a Zarr"
            " store or a NetCDF file.",
        ),
    }


def test_what_does_not_fit_is_named(folder: Path) -> None:
    for given, message in wrong(folder).values():
        with pytest.raises(DatasetError) as caught:
            he.run(PROGRAM, given, **HOW)
        assert str(caught.value) == message


@pytest.fixture
def web(folder: Path) -> Generator[tuple[str, list[str]]]:
    data: Any = whole()
    data.to_zarr(folder / "w3.zarr", zarr_format=3, consolidated=True)
    data.to_zarr(folder / "w2.zarr", zarr_format=2, consolidated=True)
    data.to_netcdf(folder / "w.nc")
    with serving_files(folder) as served:
        yield served


@pytest.mark.parametrize("name", ["w3.zarr", "w2.zarr", "w2.zarr/", "w.nc"])
@pytest.mark.parametrize("more", [{}, {"chunks": {"time": 2}}, {"cluster": 2}], ids=str)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_datasets_at_addresses(name: str, more: dict[str, Any], web: tuple[str, Any]) -> None:
    same(he.run(PROGRAM, f"{web[0]}/{name}", **HOW, **more))


def test_parts_of_a_file_at_an_address_are_read(web: tuple[str, list[str]], folder: Path) -> None:
    large: Any = xr.Dataset(
        {"t": (("time", "x"), np.random.default_rng(2).normal(size=(50, 65536)))}
    )
    large.to_netcdf(folder / "large.nc")
    opened = open_source(f"{web[0]}/large.nc")
    values = opened.source.read("t", (slice(20, 21), slice(0, 65536)))
    np.testing.assert_array_equal(values, large["t"].values[20:21])
    ranges = [one for one in web[1] if "bytes=" in one]
    fetched = sum(
        int(b) - int(a) + 1 for one in ranges for a, b in [one.rpartition("=")[2].split("-")]
    )
    assert fetched < large["t"].nbytes / 2


def test_files_at_addresses_are_joined(web: tuple[str, Any]) -> None:
    same(he.run(PROGRAM, ["b.nc", f"{web[0]}/c.nc", "a.zarr"], **HOW))


def test_file_addresses(folder: Path) -> None:
    (folder / "b c.nc").write_bytes((folder / "b.nc").read_bytes())
    for address in ("file:b.nc", f"file://{folder}/b.nc", f"file://localhost{folder}/b%20c.nc"):
        assert open_source(address).path in (folder / "b.nc", folder / "b c.nc")


REFUSED = {
    "{}/a.nc": "Dataset '{}/a.nc' is a NetCDF-3 file, which cannot be read in parts over HTTP."
    " Download it, and name the file.",
    "{}/text.nc": "Dataset '{}/text.nc' is no NetCDF file, which cannot be read in parts over HTTP."
    " Download it, and name the file.",
    "{}/none.nc": "There is no dataset at '{}/none.nc'. A Zarr store has 'zarr.json' or '.zgroup'"
    " below its address.",
    "{}/none.zarr": "There is no dataset at '{}/none.zarr'. A Zarr store has 'zarr.json' or"
    " '.zgroup' below its address.",
    "{}/a.zarr": "The Zarr store at '{}/a.zarr' shows no variables: it has no consolidated"
    " metadata, and HTTP lists no files. Write it with to_zarr(..., consolidated=True), or call"
    " zarr.consolidate_metadata on it.",
    "{}/spy.nc": "Dataset '{}/spy.nc' is refused: '/v' is a link to another object or file. Copy it"
    " to a plain NetCDF file or a Zarr store first.",
    "s3://bucket/x.zarr": "Dataset 's3://bucket/x.zarr' cannot be read: addresses may begin with"
    " 'file:', 'http:' or 'https:', and object stores are not read yet; got 's3:'. Open it with"
    " xarray.open_zarr or xarray.open_dataset, and pass the dataset.",
}


@pytest.mark.parametrize("address", REFUSED)
def test_addresses_that_are_refused(address: str, web: tuple[str, Any], folder: Path) -> None:
    (folder / "text.nc").write_text("a,b\n1,2\n" * 100)
    with _H5.File(folder / "spy.nc", "w") as file:
        file["/v"] = _H5.ExternalLink("/etc/passwd", "/v")
    with pytest.raises(DatasetError) as caught:
        he.run(PROGRAM, address.format(web[0]), **HOW)
    assert str(caught.value) == REFUSED[address].format(web[0])


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/x.zarr", "http://no.invalid/x.nc"])
def test_hosts_that_do_not_answer(address: str) -> None:
    with pytest.raises(DatasetError, match=f"^The host of dataset '{address}' does not answer: "):
        he.run(PROGRAM, address, **HOW)
