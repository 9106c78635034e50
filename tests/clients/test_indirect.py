"""Gathers, scatters and regridding through the real service: what is sent, and what comes back."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline.client import Client
from halocline.errors import ArgumentError, JobFailed, RequestError

# A request to a Zarr store leaves its connection pool to the interpreter's end.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture
def client(service: str) -> Generator[Client]:
    with Client(service) as made:
        yield made


@pytest.fixture
def dataset() -> xr.Dataset:
    rng = np.random.default_rng(8)
    return xr.Dataset(
        {
            "t": (("time", "cell"), rng.normal(size=(4, 12))),
            "index": (("point",), rng.integers(0, 12, 7)),
            "bin": (("cell",), rng.integers(-1, 3, 12)),
            "unused": (("cell",), rng.normal(size=12)),
        }
    )


def same(got: xr.Dataset, wanted: xr.Dataset) -> None:
    assert set(got.data_vars) == set(wanted.data_vars)
    for name in wanted.data_vars:
        assert got[name].dims == wanted[name].dims
        np.testing.assert_array_equal(got[name].values, wanted[name].values)


def test_a_gather(client: Client, dataset: xr.Dataset) -> None:
    names: Any = {"source": "t", "index": "index", "dim": "cell", "name": "taken"}
    job = client.gather(dataset, **names, chunks={"time": 1}, target="reference")
    same(job.result(progress=False), he.gather(dataset, **names, target="reference"))
    assert job.plan()["blocks"] == 4


def test_a_scatter_by_the_accessor(client: Client, dataset: xr.Dataset) -> None:
    names: Any = {"source": "t", "index": "bin", "dim": "bin", "size": 4, "duplicates": "sum"}
    names |= {"out_of_range": "mask", "fill": -1.0, "target": "reference"}
    job = cast("Any", dataset).halocline.scatter(client=client, **names)
    same(job.result(progress=False), he.scatter(dataset, **names))


def test_regridding_by_weights_that_are_sent(client: Client, dataset: xr.Dataset) -> None:
    weights = xr.Dataset(
        {
            "row": (("n_s",), [1, 2, 3, 3]),
            "col": (("n_s",), [1, 12, 5, 6]),
            "S": (("n_s",), [1.0, 1.0, 0.25, 0.75]),
            "src_grid_dims": (("one",), [12]),
            "dst_grid_dims": (("one",), [3]),
        }
    )
    options: Any = {"variables": ["t"], "target_dims": ["coarse"], "target": "reference"}
    job = client.regrid(dataset, weights, **options)
    same(job.result(progress=False), he.regrid(dataset, weights, **options))


def test_an_operator_on_a_mesh_that_is_sent(client: Client) -> None:
    """Three quarters of an octahedron: each face has two or three neighbours."""
    topology = {"cf_role": "mesh_topology", "node_coordinates": "lon lat"}
    topology |= {"face_node_connectivity": "face_nodes", "face_dimension": "face"}
    corners = [[0, 1, 4], [1, 2, 4], [2, 3, 4], [0, 1, 5], [1, 2, 5], [2, 3, 5]]
    mesh = xr.Dataset(
        {
            "mesh": ((), 0, topology),
            "face_nodes": (("face", "three"), corners),
            "lon": (("node",), [0.0, 90, 180, 270, 0, 0], {"units": "degrees_east"}),
            "lat": (("node",), [0.0, 0, 0, 0, 90, -90], {"units": "degrees_north"}),
        }
    )
    dataset = xr.Dataset({"f": (("time", "face"), np.arange(12.0).reshape(2, 6))})
    job = client.neighbours(dataset, mesh, "sum", chunks={"time": 1}, target="reference")
    result = job.result(progress=False)
    assert result["f_sum"].values.tolist()[0] == [4, 6, 6, 4, 9, 6]
    same(result, he.neighbours(dataset, mesh, "sum", target="reference"))
    with pytest.raises(RequestError) as caught:
        client.neighbours(dataset, mesh, "divergence", variables=["f"])
    assert caught.value.message == (
        "A divergence needs the eastward and the northward component of a vector, got"
        " variables=['f']."
    )


def test_what_only_the_data_can_tell_fails_the_job(client: Client, dataset: xr.Dataset) -> None:
    dataset["index"][2] = 12
    job = client.gather(dataset, source="t", index="index", dim="cell")
    with pytest.raises(JobFailed) as caught:
        job.result(progress=False)
    assert isinstance(caught.value.error, ArgumentError)
    assert caught.value.error.message == (
        "Index 12 at place 2 of 'index' is out of range: expected numbers from 0 to 11."
    )


def test_what_the_inputs_tell_is_refused_at_once(client: Client, dataset: xr.Dataset) -> None:
    with pytest.raises(RequestError) as caught:
        client.scatter("a.zarr", source="t", index="i", dim="c", size=-1)
    assert caught.value.message == ("Input 'size' must be at least 0, got -1.")
    sent = client.upload(dataset)
    with pytest.raises(RequestError) as caught:
        client.regrid(sent, "b.nc")
    assert caught.value.message == (
        "There is no dataset 'b.nc' under the folders that may be read."
    )
