"""Descriptions of datasets, and the kinds of names in the schemas of inputs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import xarray as xr

from halocline_service.api.checking.described import describe_dataset

if TYPE_CHECKING:
    from tests.service.conftest import ClientOf, Running

_xr: Any = xr


def described(running: Running, dataset: str) -> dict[str, Any]:
    answer = running.client.get("/datasets/description", params={"dataset": dataset})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_dataset_is_described_as_xarray_opens_it(idle: Running) -> None:
    found = described(idle, "sst.zarr")
    opened = _xr.open_zarr(idle.settings.data_roots[0] / "sst.zarr")
    assert found["dataset"] == "sst.zarr"
    assert found["sizes"] == dict(opened.sizes)
    assert found["axes"] == {"I": "x", "J": "y"}
    by_name = {each["name"]: each for each in found["variables"]}
    assert set(by_name) == set(opened.variables)
    assert by_name["sst"]["dims"] == list(opened.sst.dims)
    assert by_name["sst"]["shape"] == list(opened.sst.shape)
    assert by_name["sst"]["chunks"] == [1, 3, 8]
    assert by_name["sst"]["dtype"] == str(opened.sst.dtype)
    assert by_name["sst"]["bytes"] == opened.sst.nbytes
    assert {name for name, each in by_name.items() if each["coordinate"]} == set(opened.coords)
    assert found["bytes"] == sum(each["bytes"] for each in by_name.values())


def test_a_netcdf_file_is_described(tmp_path: Path) -> None:
    attributes = {"units": "K", "long_name": "temperature " * 50}
    data: dict[str, Any] = {"t": (("lat", "lon"), [[1.0, 2.0]], attributes)}
    _xr.Dataset(data, coords={"lon": [0.0, 1.0]}).to_netcdf(tmp_path / "small.nc")
    found = describe_dataset(str(tmp_path / "small.nc"), 2**30)
    assert found["axes"] == {"I": "lon", "J": "lat"}
    variable = next(each for each in found["variables"] if each["name"] == "t")
    assert variable["units"] == "K"
    assert len(variable["long_name"]) == 200
    assert variable["chunks"] is None


@pytest.mark.parametrize(
    ("dataset", "status"), [("nothing.zarr", 404), ("../../etc/passwd", 403), ("upload:no", 400)]
)
def test_what_no_job_may_read_is_not_described(idle: Running, dataset: str, status: int) -> None:
    answer = idle.client.get("/datasets/description", params={"dataset": dataset})
    assert answer.status_code == status
    problem = answer.json()
    assert problem["hint"]
    lenient = {"Prefer": "handling=lenient"}
    found = idle.client.get("/datasets/description", params={"dataset": dataset}, headers=lenient)
    assert found.status_code == 200
    assert found.json() == {"dataset": dataset, "problem": problem}


def test_a_broken_dataset_is_a_problem(idle: Running, client_of: ClientOf, tmp_path: Path) -> None:
    (tmp_path / "broken.nc").write_bytes(b"not NetCDF")
    client = client_of(idle.settings.model_copy(update={"data_roots": [tmp_path]}))
    answer = client.get("/datasets/description", params={"dataset": "broken.nc"})
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("Dataset 'broken.nc' is no NetCDF file")


def test_metadata_is_checked_before_a_store_is_opened(tmp_path: Path) -> None:
    _xr.Dataset({"a": ("x", [1.0, 2.0])}).to_zarr(tmp_path / "a.zarr", zarr_format=3)
    problem = describe_dataset(str(tmp_path / "a.zarr"), 8)["problem"]
    assert "chunk" in problem["detail"]


def test_ones_own_uploads_only_are_described(idle: Running, client_of: ClientOf) -> None:
    upload = idle.client.post("/uploads").json()["reference"]
    answer = idle.client.get("/datasets/description", params={"dataset": upload})
    assert "is not complete" in answer.json()["detail"]
    locked = client_of(idle.settings.model_copy(update={"auth": "keys"}))
    answer = locked.get("/datasets/description", params={"dataset": "sst.zarr"})
    assert answer.status_code == 401


def names_in(schema: Any) -> set[str]:
    match schema:
        case dict():
            members = cast("dict[str, Any]", schema)
            named = members.get("x-names")
            own = {named} if isinstance(named, str) else set[str]()
            return own.union(*map(names_in, members.values()))
        case list():
            return set[str]().union(*map(names_in, cast("list[Any]", schema)))
        case _:
            return set()


def test_forms_know_what_a_text_is_the_name_of(idle: Running) -> None:
    """Of every process: what names a dataset, a variable or a dimension says so."""
    expected: dict[tuple[str, str], set[str]] = {
        ("stencil", "dataset"): {"dataset"},
        ("stencil", "fields"): {"field", "variable"},
        ("stencil", "feedback"): {"output", "input"},
        ("stencil", "boundary"): {"dimension", "field"},
        ("stencil", "until"): {"output"},
        ("regrid", "weights"): {"dataset"},
        ("regrid", "variables"): {"variable"},
        ("tridiagonal", "lower"): {"variable"},
        ("tridiagonal", "dim"): {"dimension"},
        ("solve", "rhs"): {"variable"},
        ("neighbours", "mesh"): {"dataset"},
        ("matmul", "chunks"): {"dimension"},
        ("tridiagonal", "name"): set(),
        ("scatter", "dim"): set(),
    }
    for (process, name), kinds in expected.items():
        inputs = idle.client.get(f"/processes/{process}").json()["inputs"]
        assert names_in(inputs[name]["schema"]) == kinds, (process, name)
