"""Gathers, scatters and regridding through the real service: what is sent, and what comes back."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline.client import Client
from halocline.errors import ArgumentError, JobFailed, RequestError
from halocline_engine.datasets.formats.swc import read_swc
from halocline_engine.datasets.untyped import XARRAY

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


def test_a_mesh_of_a_file_with_other_topologies(client: Client, tmp_path: Path) -> None:
    """A fan of triangles with closing corners and padding, from 1, behind a network of lines."""
    network = {"cf_role": "mesh_topology", "topology_dimension": 1}
    network |= {"node_coordinates": "nx ny", "edge_node_connectivity": "en"}
    topology = {"cf_role": "mesh_topology", "topology_dimension": 2}
    topology |= {"node_coordinates": " lat  lon", "face_node_connectivity": "fn "}
    corners = [[1, 2 + i, 2 + (i + 1) % 6, 1, -999] for i in range(6)]
    table = np.array(corners, "i4")
    mesh = xr.Dataset(
        {
            "network": ((), 0, network),
            "en": (("line", "two"), [[0, 1]]),
            "nx": ("stop", [0.0, 1.0], {"units": "degrees_east"}),
            "ny": ("stop", [0.0, 1.0], {"units": "degrees_north"}),
            "mesh": ((), 0, topology),
            "fn": (("face", "corner"), table, {"_FillValue": np.int32(-999), "start_index": 1}),
            "lon": ("node", np.r_[0.0, np.arange(6) * 60.0], {"units": "degrees_east"}),
            "lat": ("node", np.r_[90.0, np.full(6, 60.0)], {"units": "degrees_north"}),
        }
    )
    place = tmp_path / "mesh.nc"
    cast("Any", mesh).to_netcdf(place)
    dataset = xr.Dataset({"f": ("face", 2.0 ** np.arange(6))})
    wanted = [34.0, 5.0, 10.0, 20.0, 40.0, 17.0]
    with XARRAY.open_dataset(place) as decoded:
        for given in (decoded, str(place)):
            job = client.neighbours(dataset, given, "sum", target="reference")
            assert job.result(progress=False)["f_sum"].values.tolist() == wanted
    mesh["fn"] = (("face", "corner"), np.where(table == 7, 8, table), {"start_index": 1})
    job = client.neighbours(dataset, mesh, "sum", target="reference")
    with pytest.raises(JobFailed) as caught:
        job.result(progress=False)
    assert str(cast("Any", caught.value.error).message) == (
        "Face 4 of the mesh has the node 8 in 'fn', counted from 1, but there are 7 of them."
    )


def test_regridding_of_cells_in_another_order(client: Client) -> None:
    lat, lon = np.array([-60.0, 0.0, 60.0]), np.arange(0.0, 360, 90)
    both, one = np.meshgrid(lat, lon, indexing="ij"), np.arange(1, 13)
    weights = xr.Dataset({"row": ("n_s", one), "col": ("n_s", one), "S": ("n_s", np.ones(12))})
    for name, values in zip(("yc_a", "xc_a"), both, strict=True):
        weights[name] = ("n_a", np.radians(values.ravel()), {"units": "radians"})
    weights = weights.assign(src_grid_dims=("r", [4, 3]), dst_grid_dims=("q", [4, 3]))
    given = xr.Dataset(
        {"t": (("lat", "lon"), both[0] + both[1] / 1000)},
        coords={
            "lat": ("lat", lat, {"units": "degrees_north"}),
            "lon": ("lon", lon, {"units": "degrees_east"}),
        },
    )
    turned = given.isel(lat=slice(None, None, -1), lon=[2, 3, 0, 1])
    for data in (given, turned):
        job = client.regrid(data, weights, target="reference")
        np.testing.assert_array_equal(job.result(progress=False)["t"].values, given["t"].values)
    job = client.regrid(given.assign(lat=("lat", lat + 20)), weights, target="reference")
    with pytest.raises(JobFailed) as caught:
        job.result(progress=False)
    message = str(cast("Any", caught.value.error).message)
    assert message.startswith("The weights are for other cells than those of variable 't':")


def test_a_solve_on_a_morphology(client: Client, tmp_path: Path) -> None:
    """A soma of three points, types beyond 127, parents behind their children."""
    place = tmp_path / "cell.swc"
    lines = ["# tracé", "3 1 0 5 0 5 1", "2 1 0 -5 0 5 1", "1 1 0 0 0 5 -1", "9 300 40 0 0 1 8"]
    place.write_bytes("\r\n".join([*lines, "8 300 20 0 0 1 1"]).encode("latin-1"))
    cells = read_swc(place)
    assert cells["area"][:3].sum() == pytest.approx(100 * np.pi)
    leak = cells["area"].values * 1e-3
    flow = cells["conductance"].values
    inward = np.zeros(5)
    np.add.at(inward, cells["parent"].values[flow > 0], flow[flow > 0])
    names: Any = {"diagonal": "d", "upper": "u", "parent": "parent", "rhs": "r"}
    given = cells.assign(
        d=("node", leak + flow + inward), u=("node", -flow), r=("node", leak * -65.0)
    )
    job = client.tree(given, **names, row_size="row_size", target="reference")
    np.testing.assert_allclose(job.result(progress=False)["solution"], np.full(5, -65.0))


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
    assert caught.value.message == "Argument 'size' must be at least 0, got -1."
    sent = client.upload(dataset)
    with pytest.raises(RequestError) as caught:
        client.regrid(sent, "b.nc")
    assert caught.value.message == (
        "Dataset 'b.nc' is not on this machine, and the service has no dataset of this name."
    )
