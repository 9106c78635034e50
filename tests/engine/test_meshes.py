"""Operators on meshes of the sphere, against analytic fields."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from counting_plans import CountingPlans
from numpy.typing import NDArray

import halocline_engine as he
from halocline_engine.datasets.untyped import XARRAY, store_dataset
from halocline_engine.functions import neighbours as meshes
from halocline_engine.kernels.indirect.mesh.sphere import gradient

MESHES = Path(__file__).parents[3] / "shared/data/meshes"
MPAS, CUBED, LAYERED = "mesh.QU.1920km.151026.nc", "outCSne30.ug", "geoflow_grid.nc"


def stored(name: str) -> Path:
    path = MESHES / name
    if not path.exists():
        pytest.skip(f"the mesh '{name}' is not beside the checkout")
    return path


def cubed_sphere(cells: int, *, start: int = 0) -> xr.Dataset:
    """Return a UGRID mesh of six panels of cells x cells faces, nodes of panels not shared."""
    angle = np.tan(np.linspace(-np.pi / 4, np.pi / 4, cells + 1))
    a, b = (each.ravel() for each in np.meshgrid(angle, angle))
    one = np.ones_like(a)
    panels = [(one, a, b), (-a, one, b), (-one, -a, b), (a, -one, b), (-b, a, one), (b, a, -one)]
    xyz = np.concatenate([np.stack(panel, axis=1) for panel in panels])
    xyz /= np.linalg.norm(xyz, axis=1, keepdims=True)
    corner = np.arange(cells)[:, None] * (cells + 1) + np.arange(cells)
    quad = np.stack([corner, corner + 1, corner + cells + 2, corner + cells + 1], axis=2)
    faces = quad.reshape(-1, 4) + (np.arange(6) * (cells + 1) ** 2)[:, None, None]
    topology = {
        "cf_role": "mesh_topology",
        "topology_dimension": 2,
        "node_coordinates": "lon lat",
        "face_node_connectivity": "face_nodes",
    }
    lon, lat = np.degrees(np.arctan2(xyz[:, 1], xyz[:, 0])), np.degrees(np.arcsin(xyz[:, 2]))
    return xr.Dataset(
        {
            "mesh": ((), 0, topology),
            "face_nodes": (("face", "four"), faces.reshape(-1, 4) + start, {"start_index": start}),
            "lon": (("node",), lon, {"units": "degrees_east"}),
            "lat": (("node",), lat, {"units": "degrees_north"}),
        }
    )


def middles(mesh: xr.Dataset, start: int = 0) -> NDArray[np.float64]:
    lon, lat = np.radians(mesh["lon"].values), np.radians(mesh["lat"].values)
    nodes = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)
    found = nodes[mesh["face_nodes"].values - start].sum(axis=1)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def fields(xyz: NDArray[np.float64], dim: str = "face") -> xr.Dataset:
    """Return f = x y + 2 z^2 with its gradient, and its Laplacian, on the unit sphere."""
    x, y, z = xyz.T
    lon, lat = np.arctan2(y, x), np.arcsin(np.clip(z, -1, 1))
    slope = np.stack([y, x, 4 * z], axis=1)
    east = np.stack([-np.sin(lon), np.cos(lon), 0 * lon], axis=1)
    north = np.stack([-np.sin(lat) * np.cos(lon), -np.sin(lat) * np.sin(lon), np.cos(lat)], axis=1)
    return xr.Dataset(
        {
            "f": ((dim,), x * y + 2 * z**2),
            "east": ((dim,), (slope * east).sum(axis=1)),
            "north": ((dim,), (slope * north).sum(axis=1)),
            # x y and 2 z^2 - 2/3 are harmonics of degree 2, with the eigenvalue -6.
            "laplacian": ((dim,), -6 * (x * y + 2 * z**2 - 2 / 3)),
        }
    )


def errors(mesh: Any, known: xr.Dataset, **options: Any) -> dict[str, float]:
    """Return the mean square errors of all derivatives."""
    options |= {"target": "reference", "radius": 1.0}
    slope = he.neighbours(known, mesh, "gradient", variables=["f"], **options)
    curve = he.neighbours(known, mesh, "laplacian", variables=["f"], **options)
    spread = he.neighbours(known, mesh, "divergence", variables=["east", "north"], **options)
    pairs = {
        "east": (slope["f_eastward"], known["east"]),
        "north": (slope["f_northward"], known["north"]),
        "laplacian": (curve["f_laplacian"], known["laplacian"]),
        "divergence": (spread["divergence"], known["laplacian"]),
    }
    return {
        name: float(np.sqrt(np.mean((got.values - wanted.values) ** 2)))
        for name, (got, wanted) in pairs.items()
    }


def test_orders_on_cubed_spheres() -> None:
    """Twice as many cells: a quarter of the error, but for the Laplacian half, where not smooth."""
    found: list[dict[str, float]] = []
    for cells in (12, 24):
        mesh = cubed_sphere(cells)
        found.append(errors(mesh, fields(middles(mesh))))
    orders = {name: np.log2(found[0][name] / found[1][name]) for name in found[0]}
    assert min(orders[name] for name in ("east", "north", "divergence")) > 1.9, orders
    assert orders["laplacian"] > 1.4, orders
    assert max(found[1].values()) < 0.03, found


@pytest.mark.parametrize(("name", "most"), [(MPAS, 0.5), (CUBED, 0.02), (LAYERED, 0.1)])
def test_analytic_fields_on_stored_meshes(name: str, most: float) -> None:
    path = stored(name)
    mesh = XARRAY.open_dataset(path, decode_times=False, engine="netcdf4")
    with mesh:
        if name == MPAS:
            xyz = np.stack([mesh[axis + "Cell"].values for axis in "xyz"], axis=1)
        else:
            names = {"lon": ("Mesh2_node_x", "mesh_node_x"), "lat": ("Mesh2_node_y", "mesh_node_y")}
            found = {key: next(n for n in two if n in mesh) for key, two in names.items()}
            table = next(n for n in ("Mesh2_face_nodes", "mesh_face_nodes") if n in mesh)
            renamed = mesh.rename({found["lon"]: "lon", found["lat"]: "lat", table: "face_nodes"})
            renamed["face_nodes"].values = renamed["face_nodes"].values.astype(int)
            xyz = middles(renamed)
    known = fields(xyz, "column")
    assert max(errors(path, known).values()) < most
    flat = known.assign(f=known["f"] * 0 + 1.7)
    options: Any = {"variables": ["f"], "target": "reference"}
    assert (he.neighbours(flat, path, "mean", **options)["f_mean"] == 1.7).all()
    assert (he.neighbours(flat, path, "laplacian", **options)["f_laplacian"] == 0).all()


def test_values_on_nodes_of_stored_meshes() -> None:
    path = stored(MPAS)
    mesh = XARRAY.open_dataset(path, engine="netcdf4")
    with mesh:
        xyz = np.stack([mesh[axis + "Vertex"].values for axis in "xyz"], axis=1)
        near = mesh["cellsOnVertex"].values
    known = fields(xyz, "nVertices")
    assert max(errors(path, known, location="node").values()) < 0.5
    total = he.neighbours(
        known * 0 + 1, path, "sum", variables=["f"], location="node", target="reference"
    )
    assert (total["f_sum"] == 3).all()
    assert near.shape[1] == 3


def test_values_on_edges_of_stored_meshes() -> None:
    path = stored(MPAS)
    mesh = XARRAY.open_dataset(path, engine="netcdf4")
    with mesh:
        parts: list[Any] = [mesh[axis + "Edge"].values for axis in "xyz"]
    known = fields(np.stack(parts, axis=1), "nEdges")
    assert max(errors(path, known, location="edge").values()) < 0.5
    total = he.neighbours(
        known * 0 + 1, path, "sum", variables=["f"], location="edge", target="reference"
    )
    assert (total["f_sum"] == 4).all()


@pytest.mark.parametrize("padding", [0, 99999, np.nan])
def test_cells_of_mpas_in_other_forms(padding: float) -> None:
    """Anything behind the last vertex, dimensions exchanged, and attributes as arrays and bytes."""
    with XARRAY.open_dataset(stored(MPAS), engine="netcdf4") as opened:
        mesh = opened.load()
    known = xr.Dataset({"f": ("nCells", np.arange(162.0))})
    wanted = he.neighbours(known, mesh, "sum", target="reference")
    table: Any = mesh["verticesOnCell"]
    sides: Any = mesh["nEdgesOnCell"].values
    there: Any = sides[:, None] > np.arange(6)
    other = mesh.assign(verticesOnCell=(table.dims, np.where(there, table.values, padding)))
    other = other.transpose("maxEdges", "TWO", ...)
    other.attrs |= {"on_a_sphere": b"YES     ", "sphere_radius": np.array([1.0])}
    assert he.neighbours(known, other, "sum", target="reference").equals(wanted)
    for operation, data in (("normal_gradient", known), ("gradient", known)):
        found = he.neighbours(data, other, operation, target="reference")
        assert found.equals(he.neighbours(data, mesh, operation, radius=1.0, target="reference"))
    flat = other.assign(verticesOnCell=("nCells", np.zeros(162, int)))
    with pytest.raises(he.DatasetError) as caught:
        he.neighbours(known, flat, "sum", target="reference")
    assert str(caught.value) == (
        "The mesh's 'verticesOnCell' must have two dimensions, one of them 'nCells', got"
        " ['nCells']."
    )


def rms(values: Any) -> float:
    return float(np.sqrt(np.mean(np.asarray(values, np.float64) ** 2)))


def test_components_normal_to_edges() -> None:
    """The gradient, its divergence and its curl, against the analytic ones and the mesh's own."""
    path = stored(MPAS)
    with XARRAY.open_dataset(path, engine="netcdf4") as opened:
        mesh = opened.load()
    places: list[list[Any]] = [
        [mesh[axis + kind].values for axis in "xyz"] for kind in ("Cell", "Edge")
    ]
    cells, edges = (np.stack(each, axis=1) for each in places)
    sides = mesh["cellsOnEdge"].values - 1
    known = fields(cells, "nCells")
    options: dict[str, Any] = {"target": "reference", "radius": 1.0}
    slope = he.neighbours(known, path, "normal_gradient", variables=["f"], **options)["f_normal"]
    assert slope.dims == ("nEdges",)
    normal = cells[sides[:, 1]] - cells[sides[:, 0]]
    normal -= np.einsum("nc,nc->n", normal, edges)[:, None] * edges
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    x, y, z = edges.T
    wanted = np.einsum("nc,nc->n", np.stack([y, x, 4 * z], axis=1), normal)
    assert rms(slope.values - wanted) < 0.05
    apart = np.diff(known["f"].values[sides], axis=1)[:, 0] / mesh["dcEdge"].values
    np.testing.assert_allclose(slope.values, apart, rtol=1e-6, atol=1e-9)

    data = xr.Dataset({"u": (("time", "nEdges"), np.stack([wanted, 2 * wanted]))})
    spread = he.neighbours(data, path, "normal_divergence", **options)["u_divergence"]
    assert spread.dims == ("time", "nCells")
    assert rms(spread[0].values - known["laplacian"].values) < 0.3
    area = mesh["areaCell"].values
    own = np.zeros(len(cells))
    for side, sign in ((0, 1.0), (1, -1.0)):
        np.add.at(own, sides[:, side], sign * wanted * mesh["dvEdge"].values)
    np.testing.assert_allclose(spread[0].values, own / area, rtol=1e-4, atol=1e-6)
    assert abs((spread[1].values * area).sum()) < 1e-5

    data["g"] = (("nEdges",), slope.values)
    turn = he.neighbours(data, path, "normal_curl", variables=["u", "g"], **options)
    assert turn["g_curl"].dims == ("nVertices",)
    assert abs(turn["g_curl"].values).max() < 1e-12
    # Rotation around the axis: u = omega x r has the curl 2 z.
    data["u"][:] = np.einsum("nc,nc->n", np.stack([-y, x, 0 * z], axis=1), normal)
    rotation = he.neighbours(data, path, "normal_curl", variables=["u"], **options)["u_curl"]
    assert rms(rotation[0].values - 2 * mesh["zVertex"].values) < 0.1
    still = he.neighbours(data, path, "normal_divergence", variables=["u"], **options)
    assert rms(still["u_divergence"].values) < 0.05


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_sums_and_means_are_loops_over_neighbours(target: str) -> None:
    mesh = cubed_sphere(3, start=1)
    edges = [set(map(tuple, each)) for each in _edges_of(mesh)]
    near = [[m for m in range(54) if m != n and edges[n] & edges[m]] for n in range(54)]
    assert {len(each) for each in near} == {4}
    rng = np.random.default_rng(9)
    data = xr.Dataset({"f": (("time", "face"), rng.normal(size=(2, 54)).astype("f4"))})
    f = data["f"].values.astype(float)
    total = he.neighbours(data, mesh, "sum", target=target)["f_sum"]
    mean = he.neighbours(data, mesh, "mean", target=target)["f_mean"]
    assert total.dtype == np.float32
    wanted = np.stack([f[:, each].sum(axis=1) for each in near], axis=1)
    np.testing.assert_allclose(total, wanted, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(mean, wanted / 4, rtol=1e-6, atol=1e-6)


def _edges_of(mesh: xr.Dataset) -> list[list[tuple[int, int]]]:
    """Return the edges of each face, between places instead of nodes."""
    lon, lat = np.radians(mesh["lon"].values), np.radians(mesh["lat"].values)
    nodes = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)
    places: dict[tuple[float, ...], int] = {}
    rounded: list[list[float]] = (np.round(nodes, 6) + 0.0).tolist()
    number = [places.setdefault(tuple(place), len(places)) for place in rounded]
    table: list[list[int]] = mesh["face_nodes"].values.tolist()
    corners = [[number[c - 1] for c in face] for face in table]
    return [
        [(min(a, b), max(a, b)) for a, b in zip(face, face[1:] + face[:1], strict=True)]
        for face in corners
    ]


def test_constants_missing_values_and_radii() -> None:
    mesh = cubed_sphere(5)
    data = xr.Dataset(
        {"c": (("time", "ncol"), np.full((3, 150), 0.1))},
        coords={"time": [1, 2, 3]},
        attrs={"history": "made"},
    )
    run: Callable[..., xr.Dataset] = he.neighbours
    assert (run(data, mesh, "mean", target="reference")["c_mean"] == 0.1).all()
    slope = run(data, mesh, "gradient", target="reference")
    assert set(slope.data_vars) == {"c_eastward", "c_northward"}
    assert (slope["c_eastward"] == 0).all()
    assert slope.attrs["history"].split("\n")[0].endswith(": gradient on a mesh of c")
    assert slope["time"].values.tolist() == [1, 2, 3]
    data["c"][1, 40] = np.nan
    gone = np.isnan(run(data, mesh, "mean", target="reference")["c_mean"].values)
    assert gone.sum() == 5
    assert not gone[[0, 2]].any()
    known = fields(middles(mesh))
    unit = run(known, mesh, "laplacian", variables=["f"], radius=1.0, target="reference")[
        "f_laplacian"
    ]
    earth = run(known, mesh, "laplacian", variables=["f"], target="reference")["f_laplacian"]
    np.testing.assert_allclose(earth * 6371229.0**2, unit, rtol=1e-12)


def test_the_edge_of_a_region_is_not_determined() -> None:
    mesh = cubed_sphere(4).isel(face=slice(0, 16))
    known = fields(middles(mesh))
    found = he.neighbours(known, mesh, "laplacian", variables=["f"], target="reference")[
        "f_laplacian"
    ]
    inner = np.zeros((4, 4), bool)
    inner[1:-1, 1:-1] = True
    np.testing.assert_array_equal(np.isnan(found.values), ~inner.ravel())
    mean = he.neighbours(known, mesh, "mean", variables=["f"], target="reference")["f_mean"]
    assert not np.isnan(mean.values).any()


def test_wrong_requests() -> None:
    mesh = cubed_sphere(2)
    known = fields(middles(mesh))

    def message(operation: str = "mean", mesh: Any = mesh, **options: Any) -> str:
        with pytest.raises(he.RequestError) as caught:
            he.neighbours(known, mesh, operation, target="reference", **options)
        return str(caught.value)

    assert message("curl").startswith("Argument 'operation' must be one of 'sum', 'mean', ")
    assert message(location="centre") == (
        "Argument 'location' must be one of 'face', 'node', 'edge', got 'centre'. Leave it out."
    )
    assert message(location="edge") == (
        "The mesh does not define the nodes of its edges. Values on edges need an MPAS mesh with"
        " 'cellsOnEdge' and 'verticesOnEdge'."
    )
    assert message("normal_curl", location="face") == (
        "The values of 'normal_curl' lie on the 'edge's, got location='face'. Leave it out."
    )
    assert message(radius=-1.0) == "Argument 'radius' must be a length in metres, got -1.0."
    assert message("divergence", variables=["f"]) == (
        "A divergence needs the eastward and the northward component of a vector, got"
        " variables=['f']. Name both with variables=."
    )
    assert message("divergence", variables=["f", "f"]) == (
        "A divergence needs the eastward and the northward component of a vector, got"
        " variables=['f', 'f']. Name both with variables=."
    )
    assert message(variables=["g"]).startswith("The dataset has no variable 'g'.")
    assert message(variables=["f"], dim="x") == (
        "Variable 'f' does not lie on the mesh: expected float32 or float64 with one dimension of"
        " 24 points, got 'float64' with {'face': 24}. Name the dimension with dim=, or the location"
        " of the values."
    )
    assert message(location="node") == (
        "The dataset has no variable of type float32 or float64 on the 54 points of the mesh."
        " Values on nodes need location='node'."
    )
    assert message(mesh=mesh.drop_vars("mesh")) == (
        "The mesh holds neither a variable with cf_role 'mesh_topology' (UGRID) nor"
        " 'verticesOnCell' (MPAS). Expected an unstructured mesh of faces on the sphere."
    )
    assert message(mesh=mesh.drop_vars("face_nodes")) == (
        "The mesh 'mesh' does not have the variable 'face_nodes' that it names. It needs"
        " 'node_coordinates' and 'face_node_connectivity'."
    )
    broken = mesh.copy(deep=True)
    broken["face_nodes"][3, 2] = 54
    assert message(mesh=broken) == (
        "Face 3 of the mesh has the node 54 in 'face_nodes', counted from 0, but there are 54 of"
        " them. Set its attribute 'start_index' to the number of the first node, 0 or 1, and write"
        " -1 where a face has no further node."
    )
    flat = mesh.copy(deep=True)
    flat["lon"].attrs["units"] = flat["lat"].attrs["units"] = "m"
    assert message(mesh=flat) == (
        "The coordinates ['lon', 'lat'] of the mesh 'mesh' must be one longitude and one latitude,"
        " got 0 and 0 of them. They need the units 'degrees_east' and 'degrees_north', or the"
        " standard names 'longitude' and 'latitude' with the units 'degrees' or 'radians'."
    )


def test_no_output_in_the_mesh(tmp_path: Path) -> None:
    mesh, place = cubed_sphere(4), tmp_path / "mesh.zarr"
    known = fields(middles(mesh))
    store_dataset(mesh, place)
    with pytest.raises(he.OutputError) as caught:
        he.neighbours(known, place, "mean", target="cpu", output=place / "out.zarr")
    assert str(caught.value).startswith(
        f"The output '{place}/out.zarr' lies on the mesh '{place}'."
    )
    assert not (place / "out.zarr").exists()


def test_a_mesh_is_analysed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fits: list[float] = []

    def counted(*arguments: Any) -> Any:
        fits.append(arguments[-1])
        return gradient(*arguments)

    monkeypatch.setattr(meshes, "gradient", counted)
    plans, mesh = CountingPlans(), cubed_sphere(6)
    data = fields(middles(mesh))
    options: dict[str, Any] = {"variables": ["f"], "target": "reference", "plans": plans}
    first = he.neighbours(data, mesh, "gradient", **options)
    again = he.neighbours(data, mesh.copy(deep=True), "gradient", **options)
    assert again.equals(first)
    assert len(fits) == 1
    assert plans.made == 2  # who is around whom, and the fits
    he.neighbours(data, mesh, "mean", **options)
    assert plans.made == 3
    half = he.neighbours(data, mesh, "gradient", radius=2 * fits[0], **options)
    np.testing.assert_allclose(half["f_eastward"], 0.5 * first["f_eastward"], rtol=1e-12)
    he.neighbours(data, cubed_sphere(6, start=1), "mean", **options)
    assert (len(fits), plans.made) == (2, 4)


def in_radians(mesh: xr.Dataset, dtype: str = "f8") -> xr.Dataset:
    found = mesh.copy(deep=True)
    for name, kind in (("lon", "longitude"), ("lat", "latitude")):
        attributes = {"units": "radians", "standard_name": kind}
        found[name] = (("node",), np.radians(mesh[name].values).astype(dtype), attributes)
    return found


def test_meshes_in_radians() -> None:
    """The Laplacian of a harmonic of degree 1 is -2 times it; degrees gave -3281."""
    mesh = cubed_sphere(12)
    height = middles(mesh)[:, 2]
    known = xr.Dataset({"h": ("face", height)})
    found = he.neighbours(known, in_radians(mesh), "laplacian", radius=1.0, target="reference")
    assert np.abs(found["h_laplacian"].values + 2 * height).max() < 0.1
    same = he.neighbours(known, mesh, "laplacian", radius=1.0, target="reference")
    np.testing.assert_allclose(found["h_laplacian"], same["h_laplacian"], atol=1e-8)
    single = in_radians(mesh, "f4")
    found = he.neighbours(known, single, "laplacian", radius=1.0, target="reference")
    assert np.abs(found["h_laplacian"].values + 2 * height).max() < 0.1


def test_centres_of_faces_in_radians() -> None:
    mesh = cubed_sphere(8)
    x, y, z = middles(mesh).T
    mesh["mesh"].attrs["face_coordinates"] = "flat flon"
    mesh["flon"] = ("face", np.arctan2(y, x), {"units": "radians", "standard_name": "longitude"})
    mesh["flat"] = ("face", np.degrees(np.arcsin(z)), {"units": "degrees_north"})
    found = he.neighbours(
        xr.Dataset({"h": ("face", z)}), mesh, "laplacian", radius=1.0, target="reference"
    )
    assert np.abs(found["h_laplacian"].values + 2 * z).max() < 0.2


def test_points_that_are_nowhere() -> None:
    mesh = cubed_sphere(3)
    known = xr.Dataset({"h": ("face", np.ones(54))})

    def message(**values: Any) -> str:
        given = mesh.assign({name: mesh[name].copy() for name in ("lon", "lat")})
        for name, (at, value) in values.items():
            given[name].values[at] = value
        with pytest.raises(he.DatasetError) as caught:
            he.neighbours(known, given, "sum", target="reference")
        return str(caught.value)

    assert message(lat=(7, np.nan)) == (
        "Every point of the mesh must have a latitude, but 'lat' is NaN at the point 7, counted"
        " from 0."
    )
    assert message(lat=(7, 91.0)).startswith(
        "The latitudes 'lat' must be from -90 to 90 in degrees, got 91"
    )
    few = mesh.assign(
        flon=("some", np.zeros(5), {"units": "degrees_east"}),
        flat=("some", np.zeros(5), {"units": "degrees_north"}),
    )
    few["mesh"].attrs["face_coordinates"] = "flon flat"
    with pytest.raises(he.DatasetError) as caught:
        he.neighbours(known, few, "sum", target="reference")
    assert str(caught.value) == (
        "The coordinates ['flon', 'flat'] of the mesh must have as many points as 'face_nodes' has"
        " faces, 54, got 5."
    )
    uneven = mesh.assign(other=("m", np.zeros(3), {"units": "degrees_north"}))
    uneven["mesh"].attrs["node_coordinates"] = "lon other"
    with pytest.raises(he.DatasetError) as caught:
        he.neighbours(known, uneven, "sum", target="reference")
    assert str(caught.value) == (
        "The coordinates ['lon', 'other'] of the mesh must have one dimension and the same size,"
        " got {'node': 96} and {'m': 3}."
    )


@pytest.mark.parametrize("dtype", ["int32", "uint8", "uint32", "uint64", "float64"])
def test_connectivity_of_any_type(dtype: str) -> None:
    """Triangles beside quadrilaterals: the fourth node is missing, by a fill value or NaN."""
    mesh = cubed_sphere(3)
    faces: Any = mesh["face_nodes"].values.astype(dtype)
    fill = np.nan if dtype == "float64" else np.array(np.iinfo(dtype).max, dtype)
    faces[5, 3] = fill
    mesh["face_nodes"] = (("face", "four"), faces, {"start_index": 0, "_FillValue": fill})
    plain = cubed_sphere(3)
    plain["face_nodes"].values[5, 3] = -1
    known = xr.Dataset({"h": ("face", np.arange(54.0))})
    wanted = he.neighbours(known, plain, "sum", target="reference")
    found = he.neighbours(known, mesh, "sum", target="reference")
    np.testing.assert_array_equal(found["h_sum"], wanted["h_sum"])


def test_connectivity_that_is_none() -> None:
    known = xr.Dataset({"h": ("face", np.ones(54))})
    mesh = cubed_sphere(3)
    mesh["face_nodes"] = (("face", "four"), mesh["face_nodes"].values + 0.5)
    with pytest.raises(he.DatasetError) as caught:
        he.neighbours(known, mesh, "sum", target="reference")
    assert str(caught.value) == (
        "The mesh's 'face_nodes' must hold whole numbers, got 0.5 of type 'float64' at place 0."
    )
    large = cubed_sphere(3)
    faces = large["face_nodes"].values.astype("u8")
    faces[0, 1] = 2**64 - 1
    large["face_nodes"] = (("face", "four"), faces)
    with pytest.raises(
        he.DatasetError, match="Face 0 of the mesh has the node 9223372036854775807"
    ):
        he.neighbours(known, large, "sum", target="reference")
