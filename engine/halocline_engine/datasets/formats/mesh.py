"""Unstructured meshes on the sphere: UGRID and MPAS.

A mesh is read from a dataset or a file. UGRID: the variable with `cf_role` "mesh_topology" names
the longitudes and latitudes of nodes, in degrees or radians, and the nodes of faces. MPAS: cells
are faces (`verticesOnCell`, `nEdgesOnCell`), vertices are nodes, all with positions on a sphere.
Edges are known where `cellsOnEdge` and `verticesOnEdge` say what they join.

Values lie on faces, nodes or edges. Two faces are neighbours where they share an edge, and around
each other where they share a node; nodes at one place are one for that. Two nodes are neighbours
where an edge joins them, and around each other where they are nodes of one face. Two edges are
neighbours where they share a node, and around each other where they are edges of one face.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.datasets.grids.angles import LATITUDE, LONGITUDE, kind_of, radians
from halocline_engine.datasets.stores.source import Opened
from halocline_engine.datasets.variables import real_values
from halocline_engine.errors import DatasetError
from halocline_engine.kernels.indirect.mesh.sphere import Around, around
from halocline_engine.kernels.indirect.mesh.staggered import Edges
from halocline_engine.kernels.indirect.plan import content_key
from halocline_engine.kernels.whole import first_fraction, whole_numbers

__all__ = ["Mesh", "Points", "read_mesh"]

_Floats = NDArray[np.float64]
_Whole = NDArray[np.int64]

#: Bytes that an entry of the connectivity takes while neighbours are looked for.
_BYTES_AN_ENTRY = 400
_MPAS_EDGES = ("cellsOnEdge", "verticesOnEdge", "xEdge", "yEdge", "zEdge")
_MPAS = ("verticesOnCell", "nEdgesOnCell", "xCell", "yCell", "zCell", "xVertex")


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Positions of values: unit vectors [point, 3], neighbours, and the points around each."""

    xyz: _Floats
    neighbours: Around
    surroundings: Around
    dim: str

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.xyz.nbytes + self.neighbours.nbytes + self.surroundings.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class Mesh:
    """Faces by their nodes [face, corner], in order, -1 behind the last; all as unit vectors.

    `radius` is that of the sphere in metres, where the mesh says it. `face_dim` and `node_dim` are
    the mesh's own names of the dimensions. `edges` are None where the mesh does not say them.
    """

    corners: _Whole
    faces: _Floats
    nodes: _Floats
    radius: float | None
    face_dim: str
    node_dim: str
    edges: Edges | None = None
    edge_dim: str = ""

    @property
    def key(self) -> str:
        """A name for the mesh, the same wherever its content is."""
        arrays = [self.corners, self.faces, self.nodes]
        if self.edges is not None:
            arrays += [self.edges.ends, self.edges.sides, self.edges.xyz]
        return content_key("mesh", *arrays, self.face_dim, self.node_dim, self.edge_dim)

    def on_faces(self) -> Points:
        """Return the points of values on faces."""
        face, corner = np.nonzero(self.corners >= 0)
        joined = _joined(self.corners, self.nodes)
        shared = _sharing(joined[face, corner], face)
        low, high, owner = _edges(joined)
        edges = _sharing(low * len(self.nodes) + high, owner)
        count = len(self.faces)
        return Points(self.faces, around(*edges, count), around(*shared, count), self.face_dim)

    def on_nodes(self) -> Points:
        """Return the points of values on nodes."""
        low, high, _ = _edges(self.corners)
        face, corner = np.nonzero(self.corners >= 0)
        shared = _sharing(face, self.corners[face, corner])
        count = len(self.nodes)
        return Points(self.nodes, around(low, high, count), around(*shared, count), self.node_dim)

    def on_edges(self) -> Points:
        """Return the points of values on edges; raises `DatasetError` where there are none."""
        edges = self.with_edges()
        edge = np.repeat(np.arange(len(edges.ends)), 2)
        joined = _sharing(edges.ends.reshape(-1), edge)
        beside = edges.sides.reshape(-1)
        shared = _sharing(beside[beside >= 0], edge[beside >= 0])
        count = len(edges.ends)
        return Points(edges.xyz, around(*joined, count), around(*shared, count), self.edge_dim)

    def with_edges(self) -> Edges:
        """Return the edges; raises `DatasetError` where the mesh does not say them."""
        if self.edges is None:
            raise DatasetError(
                "The mesh does not say what its edges join.",
                hint="Values on edges need an MPAS mesh with 'cellsOnEdge' and 'verticesOnEdge'.",
            )
        return self.edges


def read_mesh(opened: Opened, check: Callable[[str, int], None]) -> Mesh:
    """Read a mesh from a dataset or a file; raises `DatasetError` where it makes no sense.

    `check` is told what needs how many bytes before anything is read, and may raise.
    """
    dataset = opened.dataset
    if all(name in dataset.variables for name in _MPAS):
        return _mpas(dataset, check)
    for name, variable in dataset.variables.items():
        if variable.attrs.get("cf_role") == "mesh_topology":
            return _ugrid(dataset, str(name), check)
    raise DatasetError(
        "The mesh holds neither a variable with cf_role 'mesh_topology' (UGRID) nor"
        " 'verticesOnCell' (MPAS).",
        hint="Expected an unstructured mesh of faces on the sphere.",
    )


def _mpas(dataset: xr.Dataset, check: Callable[[str, int], None]) -> Mesh:
    if str(dataset.attrs.get("on_a_sphere", "YES")).strip().upper() != "YES":
        raise DatasetError("The mesh lies on a plane, expected one on a sphere.")
    check("cells of the mesh", _BYTES_AN_ENTRY * int(dataset["verticesOnCell"].size))
    corners = _whole(dataset, "verticesOnCell", 1)
    sides = np.asarray(dataset["nEdgesOnCell"].values)
    corners[np.arange(corners.shape[1]) >= sides[:, np.newaxis]] = -1
    faces, nodes = (
        np.stack([real_values(dataset[axis + kind]) for axis in "xyz"], axis=1)
        for kind in ("Cell", "Vertex")
    )
    radius = dataset.attrs.get("sphere_radius")
    faces, nodes = _unit(faces), _unit(nodes)
    known = all(name in dataset.variables for name in _MPAS_EDGES)
    return Mesh(
        corners=_checked(corners, len(nodes), "verticesOnCell"),
        faces=faces,
        nodes=nodes,
        radius=None if radius is None else float(radius),
        face_dim=str(dataset["xCell"].dims[0]),
        node_dim=str(dataset["xVertex"].dims[0]),
        edges=_mpas_edges(dataset, faces, nodes) if known else None,
        edge_dim=str(dataset["xEdge"].dims[0]) if known else "",
    )


def _mpas_edges(dataset: xr.Dataset, faces: _Floats, nodes: _Floats) -> Edges:
    xyz = [real_values(dataset[axis + "Edge"]) for axis in "xyz"]
    tables = {name: _whole(dataset, name, 1) for name in _MPAS_EDGES[:2]}
    for (name, table), count in zip(tables.items(), (len(faces), len(nodes)), strict=True):
        if table.shape != (len(xyz[0]), 2) or int(table.max(initial=-1)) >= count:
            raise DatasetError(
                f"The mesh's '{name}' must name two of {count} points for each of {len(xyz[0])}"
                f" edges, got numbers up to {int(table.max(initial=-1)) + 1} of the shape"
                f" {table.shape}."
            )
    sides, ends = tables.values()
    return Edges(ends, sides, _unit(np.stack(xyz, axis=1)), nodes, faces)


def _ugrid(dataset: xr.Dataset, name: str, check: Callable[[str, int], None]) -> Mesh:
    attributes = dataset[name].attrs
    found = str(attributes.get("node_coordinates", "")).split()
    table = str(attributes.get("face_node_connectivity", ""))
    for variable in (*found, table):
        if variable not in dataset.variables:
            raise DatasetError(
                f"The mesh '{name}' does not have the variable {variable!r} that it names.",
                hint="It needs 'node_coordinates' and 'face_node_connectivity'.",
            )
    if len(found) != 2 or dataset[table].ndim != 2:
        raise DatasetError(
            f"The mesh '{name}' must name two 'node_coordinates', got {found}, and nodes of faces"
            f" with two dimensions, got {dataset[table].ndim}."
        )
    check("faces of the mesh", _BYTES_AN_ENTRY * int(dataset[table].size))
    nodes = _on_sphere(dataset, found)
    start = int(dataset[table].attrs.get("start_index", 0))
    corners = _whole(dataset, table, start)
    face_dim = str(attributes.get("face_dimension", dataset[table].dims[0]))
    if str(dataset[table].dims[0]) != face_dim:
        corners = np.ascontiguousarray(corners.T)
    corners = _checked(corners, len(nodes), table)
    named = str(attributes.get("face_coordinates", "")).split()
    given = len(named) == 2 and all(variable in dataset.variables for variable in named)
    faces = _on_sphere(dataset, named) if given else _middles(corners, nodes)
    if len(faces) != len(corners):
        raise DatasetError(
            f"The coordinates {named} of the mesh must have as many points as '{table}' has faces,"
            f" {len(corners)}, got {len(faces)}."
        )
    return Mesh(
        corners=corners,
        faces=faces,
        nodes=nodes,
        radius=None,
        face_dim=face_dim,
        node_dim=str(dataset[found[0]].dims[0]),
    )


def _on_sphere(dataset: xr.Dataset, names: list[str]) -> _Floats:
    """Return unit vectors from a longitude and a latitude, in whatever order they are named."""
    found = {kind_of(dataset[name]): name for name in names}
    if set(found) != {LATITUDE, LONGITUDE}:
        raise DatasetError(
            f"The coordinates {names} of the mesh are not a longitude and a latitude.",
            hint="They need the units 'degrees_east' and 'degrees_north', or the standard names"
            " 'longitude' and 'latitude' with the units 'degrees' or 'radians'.",
        )
    lon, lat = (_angles(dataset[found[kind]], kind) for kind in (LONGITUDE, LATITUDE))
    if lon.shape != lat.shape or lon.ndim != 1:
        raise DatasetError(
            f"The coordinates {names} of the mesh must have one dimension and the same size, got"
            f" {dict(dataset[names[0]].sizes)} and {dict(dataset[names[1]].sizes)}."
        )
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)


def _angles(variable: xr.DataArray, kind: str) -> _Floats:
    found = radians(variable, kind)
    missing = np.flatnonzero(np.isnan(found))
    if missing.size:
        raise DatasetError(
            f"Every point of the mesh must have a {kind}, but '{variable.name}' is NaN at the point"
            f" {int(missing[0])}, counted from 0."
        )
    return found


def _whole(dataset: xr.Dataset, name: str, start: int) -> _Whole:
    """Return a table of numbers from 0, with -1 where it has none."""
    values: NDArray[Any] = np.asarray(dataset[name].values)
    fill = dataset[name].attrs.get("_FillValue")
    missing = ~np.isfinite(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
    if fill is not None:
        missing |= values == fill
    known = np.where(missing, np.zeros((), values.dtype), values)
    place = first_fraction(known)
    if place is not None:
        raise DatasetError(
            f"The mesh's '{name}' must hold whole numbers, got {known.reshape(-1)[place]} of type"
            f" '{values.dtype}' at place {place}."
        )
    whole = whole_numbers(known) - start
    return np.where(missing | (whole < 0), -1, whole)


def _checked(corners: _Whole, nodes: int, name: str) -> _Whole:
    """Return the corners with those of each face in front; raises for what is no node."""
    if corners.size and int(corners.max()) >= nodes:
        face = int(np.flatnonzero((corners >= nodes).any(axis=1))[0])
        raise DatasetError(
            f"Face {face} of the mesh has the node {int(corners[face].max())} in '{name}', counted"
            f" from 0, but there are {nodes} of them."
        )
    order = np.argsort(corners < 0, axis=1, kind="stable")
    return np.take_along_axis(corners, order, axis=1)


def _middles(corners: _Whole, nodes: _Floats) -> _Floats:
    there = (corners >= 0)[..., np.newaxis]
    return _unit(np.where(there, nodes[np.maximum(corners, 0)], 0.0).sum(axis=1))


def _unit(vectors: _Floats) -> _Floats:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not ((length > 0) & np.isfinite(length)).all():
        raise DatasetError("A point of the mesh has no direction from the centre of the sphere.")
    return vectors / length


def _sharing(what: _Whole, owner: _Whole) -> tuple[_Whole, _Whole]:
    """Return all pairs of owners of the same thing."""
    order = np.argsort(what, kind="stable")
    thing, who = what[order], owner[order]
    first: list[_Whole] = []
    second: list[_Whole] = []
    step = 1
    while (same := np.flatnonzero(thing[step:] == thing[:-step])).size:
        first.append(who[same])
        second.append(who[same + step])
        step += 1
    nothing = np.zeros(0, np.int64)
    return np.concatenate([nothing, *first]), np.concatenate([nothing, *second])


def _joined(corners: _Whole, nodes: _Floats) -> _Whole:
    """Return the corners with one number for all nodes at one place."""
    places = np.round(nodes * 2**32).astype(np.int64)
    _, first, number = np.unique(places, axis=0, return_index=True, return_inverse=True)
    same = first[number.reshape(-1)]
    return np.where(corners >= 0, same[np.maximum(corners, 0)], -1)


def _edges(corners: _Whole) -> tuple[_Whole, _Whole, _Whole]:
    """Return both nodes of every edge of every face, the lower first, and the face."""
    there = corners >= 0
    last = there.sum(axis=1) - 1
    following = np.roll(corners, -1, axis=1)
    rows = np.flatnonzero(last >= 0)
    following[rows, last[rows]] = corners[rows, 0]
    face = np.nonzero(there)[0]
    pair = np.stack([corners[there], following[there]])
    return pair.min(axis=0), pair.max(axis=0), face.astype(np.int64)
