"""Meshes in UGRID in the forms that files have: neighbours as plain loops find them, or a name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from mesh_files import draw_mesh

import halocline_engine as he
from halocline_engine.datasets.untyped import XARRAY

FAN = 6
TOPOLOGY = {
    "cf_role": "mesh_topology",
    "topology_dimension": 2,
    "node_coordinates": "lon lat",
    "face_node_connectivity": "fn",
}
#: Triangles around the pole: with the pole last, and first.
LAST = [[1 + i, 1 + (i + 1) % FAN, 0] for i in range(FAN)]
FIRST = [[0, 1 + i, 1 + (i + 1) % FAN] for i in range(FAN)]
DATA = xr.Dataset({"h": ("face", 2.0 ** np.arange(FAN))})
SUMS = [2.0 ** ((i - 1) % FAN) + 2.0 ** ((i + 1) % FAN) for i in range(FAN)]


def fan(table: Any, attributes: Any = None, **topology: Any) -> xr.Dataset:
    lon, lat = np.r_[0.0, np.arange(FAN) * 60.0], np.r_[90.0, np.full(FAN, 60.0)]
    given = {"start_index": 0} if attributes is None else attributes
    return xr.Dataset(
        {
            "mesh": ((), 0, TOPOLOGY | topology),
            "fn": (("face", "corner"), np.asarray(table), given),
            "lon": ("node", lon, {"units": "degrees_east"}),
            "lat": ("node", lat, {"units": "degrees_north"}),
        }
    )


def sums(mesh: Any, data: xr.Dataset = DATA, **options: Any) -> list[float]:
    found = he.neighbours(data, mesh, "sum", target="reference", **options)
    return found["h_sum"].values.tolist()


def refusal(mesh: Any, data: xr.Dataset = DATA, **options: Any) -> str:
    with pytest.raises(he.RequestError) as caught:
        sums(mesh, data, **options)
    return str(caught.value)


@pytest.mark.parametrize("seed", range(40))
def test_drawn_meshes(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    drawn = draw_mesh(rng, tmp_path)
    places = {
        "face": (drawn.face_dim, len(drawn.faces), drawn.neighbours_of_faces()),
        "node": (drawn.node_dim, len(drawn.place), drawn.neighbours_of_nodes()),
    }
    for location, (dim, size, near) in places.items():
        values = rng.integers(1, 1000, size).astype(float)
        data = xr.Dataset({"h": ((dim,), values, {**drawn.told, "location": location})})
        wanted = [sum(values[m] for m in each) if each else np.nan for each in near]
        np.testing.assert_array_equal(sums(drawn.mesh, data, location=location), wanted)


@pytest.mark.parametrize(
    "table",
    [
        LAST,
        [face + face[-1:] for face in LAST],
        [face + face[-1:] * 2 for face in LAST],
        [face + face[:1] for face in FIRST],
        [[face[0], *face, face[0]] for face in FIRST],
    ],
)
def test_corners_that_are_repeated_are_one(table: Any) -> None:
    """All faces that shared the repeated node became neighbours by an edge without a length."""
    assert sums(fan(table)) == SUMS
    slopes = he.neighbours(DATA, fan(table), "gradient", target="reference")
    plain = he.neighbours(DATA, fan(LAST), "gradient", target="reference")
    np.testing.assert_allclose(slopes["h_eastward"], plain["h_eastward"], rtol=1e-12)


def test_nodes_of_all_meridians_at_the_pole_are_one() -> None:
    """Quadrilaterals with two nodes at the pole are the triangles that they look like."""
    lon = np.arange(FAN) * 60.0
    node = np.arange(2 * FAN).reshape(2, FAN)
    quads = np.stack([node[0], np.roll(node[0], -1), np.roll(node[1], -1), node[1]], axis=1)
    mesh = xr.Dataset(
        {
            "mesh": ((), 0, TOPOLOGY),
            "fn": (("face", "corner"), quads),
            "lon": ("node", np.tile(lon, 2), {"units": "degrees_east"}),
            "lat": ("node", np.repeat([60.0, 90.0], FAN), {"units": "degrees_north"}),
        }
    )
    assert sums(mesh) == SUMS


NAN = np.nan


@pytest.mark.parametrize(
    ("dtype", "fill", "attributes"),
    [
        ("i4", -1, {}),
        ("i4", -1, {"_FillValue": -1}),
        ("i4", -1, {"_FillValue": np.array([-1.0])}),
        ("i4", -1, {"missing_value": np.int32(-1)}),
        ("i4", -2147483647, {}),  # the default fill value of NetCDF
        ("i4", 2147483647, {}),
        ("i4", 999999, {"_FillValue": 999999}),
        ("i8", 2**63 - 1, {"_FillValue": 2**63 - 1}),
        ("u1", 255, {}),
        ("u4", 2**32 - 1, {"_FillValue": -1}),
        ("u8", 2**64 - 2, {}),  # the default fill value of NetCDF
        ("f4", NAN, {}),
        ("f8", 9.969209968386869e36, {}),
        ("f8", 0, {"_FillValue": 0.0, "start_index": 1}),
        ("i4", 0, {"start_index": 1}),
        ("i4", 0, {}),
    ],
)
@pytest.mark.parametrize("start", [{}, {"start_index": "1"}, {"start_index": np.array([1])}])
def test_fill_values_and_index_bases(dtype: str, fill: float, attributes: Any, start: Any) -> None:
    table = np.full((FAN, 5), fill, dtype)
    table[:, :3] = np.array(LAST) + 1
    assert sums(fan(table, start | attributes)) == SUMS


def test_faces_along_the_second_dimension() -> None:
    mesh = fan(LAST)
    turned = mesh.assign(fn=mesh["fn"].transpose("corner", "face"))
    turned["mesh"].attrs["face_dimension"] = " face "
    assert sums(turned) == SUMS
    turned["mesh"].attrs["face_dimension"] = "cells"
    assert refusal(turned) == (
        "The mesh 'mesh' says that faces lie along 'cells', but 'fn' has the dimensions"
        " ['corner', 'face']. Set its attribute 'face_dimension' to one of them."
    )
    del turned["mesh"].attrs["face_dimension"]
    turned["mesh"].attrs["face_coordinates"] = "flon flat"
    turned["flon"] = ("face", np.arange(FAN) * 60.0 + 30, {"units": "degrees_east"})
    turned["flat"] = ("face", np.full(FAN, 70.0), {"units": "degrees_north"})
    assert sums(turned) == SUMS


def test_names_with_blanks() -> None:
    mesh = fan(LAST).rename(lon="node lon", lat="node lat", fn="face nodes")
    mesh["mesh"].attrs |= {
        "cf_role": "mesh_topology ",
        "node_coordinates": np.array([b"node lat", b" node lon "]),
        "face_node_connectivity": " face nodes",
    }
    assert sums(mesh) == SUMS


def network() -> xr.Dataset:
    topology = {"cf_role": "mesh_topology", "topology_dimension": 1}
    topology |= {"node_coordinates": "nx ny", "edge_node_connectivity": "en"}
    return xr.Dataset(
        {
            "network": ((), 0, topology),
            "en": (("line", "two"), [[0, 1]]),
            "nx": ("stop", np.zeros(FAN), {"units": "degrees_east"}),
            "ny": ("stop", np.arange(FAN) * 1.0, {"units": "degrees_north"}),
        }
    )


def twice() -> xr.Dataset:
    """Return a fan beside one whose faces are in the other order, under other names."""
    other = fan(LAST).rename(mesh="second", fn="gn", lon="glon", lat="glat")
    other = other.rename(face="face2", node="node2", corner="corner2").isel(
        face2=slice(None, None, 2)
    )
    names = {"node_coordinates": "glon glat", "face_node_connectivity": "gn"}
    other["second"].attrs |= names
    return XARRAY.merge([fan(LAST), other])


def test_a_network_beside_a_mesh() -> None:
    mesh = XARRAY.merge([network(), fan(LAST)])
    assert next(iter(mesh)) == "network"
    assert sums(mesh) == SUMS
    stops = xr.Dataset({"h": ("stop", np.ones(FAN), {"mesh": "network", "location": "node"})})
    assert refusal(mesh, stops, variables=["h"]) == (
        "Variable 'h' does not lie on the mesh: expected float32 or float64 with one dimension of 6"
        " points, got 'float64' with {'stop': 6} on the mesh 'network'. Name the dimension with"
        " dim=, or the location of the values."
    )
    assert refusal(network()) == (
        "The mesh has no topology of faces, got 'network'. It needs a variable with"
        " topology_dimension 2 and 'face_node_connectivity'."
    )


def test_values_on_nodes_are_none_on_faces() -> None:
    """A mesh of as many faces as nodes, and a variable whose dimension has another name."""
    mesh = fan([*LAST, [1, 3, 5]])
    data = xr.Dataset({"h": ("point", np.ones(7), {"location": "node"})})
    assert refusal(mesh, data, variables=["h"]) == (
        "Variable 'h' does not lie on the mesh: expected float32 or float64 with one dimension of 7"
        " points, got 'float64' with {'point': 7} on its nodes. Name the dimension with dim=, or"
        " the location of the values."
    )
    assert sums(mesh, data, location="node") == [6.0, 5.0, 3.0, 5.0, 3.0, 5.0, 3.0]


def test_several_meshes_of_faces() -> None:
    mesh = twice()
    assert sums(mesh) == SUMS  # by the dimension
    other = xr.Dataset({"h": ("cells", [1.0, 2.0, 4.0])})
    assert np.isnan(sums(mesh, other)).all()  # by the size: no two of these share an edge
    told = xr.Dataset({"h": ("cells", 2.0 ** np.arange(FAN), {"mesh": "mesh"})})
    assert sums(mesh, told) == SUMS
    both = xr.Dataset({"h": ("face", np.ones(FAN)), "g": ("face2", np.ones(3))})
    assert refusal(mesh, both) == (
        "The mesh has 2 topologies of faces that the variables may lie on, 'mesh', 'second'. Name"
        " the variables of one with variables=, or leave the others out:"
        " mesh.drop_vars(['second'])."
    )
    assert sums(mesh, both, variables=["h"]) == [2.0] * FAN
    assert sums(mesh.drop_vars(["second"]), both) == [2.0] * FAN


def test_coordinates_beside_longitude_and_latitude() -> None:
    mesh = fan(LAST, node_coordinates="x lon z lat y")
    mesh = mesh.assign({name: ("node", np.zeros(7), {"units": "m"}) for name in "xyz"})
    assert sums(mesh) == SUMS
    mesh["x"].attrs["standard_name"] = "longitude"
    assert refusal(mesh).startswith(
        "The coordinates ['x', 'lon', 'z', 'lat', 'y'] of the mesh 'mesh' must be one longitude and"
        " one latitude, got 2 and 1 of them."
    )


@pytest.mark.parametrize("value", [2, -1, "one", 0.5, np.nan, [0, 1]])
def test_index_bases_that_are_none(value: Any) -> None:
    assert refusal(fan(LAST, {"start_index": value})) == (
        f"The attribute 'start_index' of the mesh's 'fn' must be 0 or 1, got {value!r}. It is the"
        " number of the first node."
    )


WAY = (
    "Set its attribute 'start_index' to the number of the first node, 0 or 1, and write -1 where a"
    " face has no further node."
)


def test_numbers_that_are_no_node() -> None:
    declared = np.array(LAST) + 1
    assert refusal(fan(declared)) == (
        f"Face 4 of the mesh has the node 7 in 'fn', counted from 0, but there are 7 of them. {WAY}"
    )
    assert refusal(fan(LAST, {"start_index": 1})) == (
        f"Face 0 of the mesh has the node 0 in 'fn', counted from 1, but there are 7 of them. {WAY}"
    )
    table = np.array([face + face[-1:] for face in LAST])
    table[2, 1] = -1
    assert refusal(fan(table)) == (
        "Face 2 of the mesh has the node -1 in 'fn', counted from 0, and others behind it. If -1"
        " is a fill value, put it after the nodes of its face."
    )
    assert refusal(fan([*LAST[:5], [3, 4, 3]])) == (
        "Face 5 of the mesh has 2 different nodes in 'fn', expected at least 3. Leave faces"
        " without an area out, and check its attributes 'start_index' and '_FillValue'."
    )
    assert refusal(fan(np.zeros((FAN, 0), int))).startswith(
        "Face 0 of the mesh has 0 different nodes in 'fn', expected at least 3."
    )
    assert refusal(fan(LAST).expand_dims(time=2).pipe(_only_nodes)) == (
        "The nodes of faces 'fn' of the mesh 'mesh' must have two dimensions, got"
        " ['time', 'face', 'corner']."
    )


def _only_nodes(mesh: xr.Dataset) -> xr.Dataset:
    return mesh.assign({name: mesh[name][0] for name in ("lon", "lat", "mesh")})


def test_results_say_where_they_lie() -> None:
    data = xr.Dataset({"h": ("face", np.ones(FAN), {"mesh": "mesh", "location": "face"})})
    found = he.neighbours(data, fan(LAST), "sum", target="reference")
    assert found["h_sum"].attrs == {"mesh": "mesh", "location": "face"}
