"""Meshes of the sphere from datasets and files: UGRID and MPAS.

MPAS: cells are faces (`verticesOnCell`, `nEdgesOnCell`), vertices are nodes, all with positions on
a sphere. Edges are known where `cellsOnEdge` and `verticesOnEdge` say what they join.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.datasets.attributes import number_of, text_of
from halocline_engine.datasets.formats.connectivity import drop_repeats, whole_table
from halocline_engine.datasets.formats.mesh import Mesh, unit_vectors
from halocline_engine.datasets.formats.ugrid import read_ugrid, topologies_of
from halocline_engine.datasets.stores.source import Opened
from halocline_engine.datasets.variables import real_values
from halocline_engine.errors import DatasetError
from halocline_engine.kernels.indirect.mesh.operators import Location
from halocline_engine.kernels.indirect.mesh.staggered import Edges

__all__ = ["read_mesh"]

_Floats = NDArray[np.float64]
_Whole = NDArray[np.int64]

#: Bytes that an entry of the connectivity takes while neighbours are looked for.
_BYTES_AN_ENTRY = 400
_EDGES = ("cellsOnEdge", "verticesOnEdge", "xEdge", "yEdge", "zEdge")
_CELLS = ("verticesOnCell", "nEdgesOnCell", "xCell", "yCell", "zCell", "xVertex")


def read_mesh(
    opened: Opened,
    check: Callable[[str, int], None],
    fields: Sequence[xr.DataArray],
    location: Location,
) -> Mesh:
    """Read a mesh from a dataset or a file; raises `DatasetError` where it makes no sense.

    `check` is told what needs how many bytes before anything is read, and may raise. Of several
    topologies in UGRID, the one is taken that `fields` lie on with their `location`.
    """
    dataset = opened.dataset
    if all(name in dataset.variables for name in _CELLS):
        check("cells of the mesh", _BYTES_AN_ENTRY * int(dataset["verticesOnCell"].size))
        return _read_mpas(dataset)
    if topologies_of(dataset):
        return read_ugrid(
            dataset,
            fields,
            location,
            lambda table: check("faces of the mesh", _BYTES_AN_ENTRY * int(table.size)),
        )
    raise DatasetError(
        "The mesh holds neither a variable with cf_role 'mesh_topology' (UGRID) nor"
        " 'verticesOnCell' (MPAS).",
        hint="Expected an unstructured mesh of faces on the sphere.",
    )


def _read_mpas(dataset: xr.Dataset) -> Mesh:
    if (text_of(dataset.attrs, "on_a_sphere") or "YES").upper() != "YES":
        raise DatasetError("The mesh lies on a plane, expected one on a sphere.")
    faces, nodes = (
        unit_vectors(np.stack([real_values(dataset[axis + kind]) for axis in "xyz"], axis=1))
        for kind in ("Cell", "Vertex")
    )
    known = all(name in dataset.variables for name in _EDGES)
    return Mesh(
        corners=_corners(dataset, len(nodes)),
        faces=faces,
        nodes=nodes,
        radius=number_of(dataset.attrs, "sphere_radius"),
        face_dim=str(dataset["xCell"].dims[0]),
        node_dim=str(dataset["xVertex"].dims[0]),
        edges=_edges(dataset, faces, nodes) if known else None,
        edge_dim=str(dataset["xEdge"].dims[0]) if known else "",
    )


def _table(dataset: xr.Dataset, name: str, kind: str) -> _Whole:
    """Return the points of each cell or edge, counted from 0, -1 where it has none.

    MPAS counts from 1.
    """
    table, rows = dataset[name], str(dataset[f"x{kind}"].dims[0])
    if table.ndim != 2 or rows not in table.dims:
        raise DatasetError(
            f"The mesh's '{name}' must have two dimensions, one of them '{rows}', got"
            f" {[str(dim) for dim in table.dims]}."
        )
    numbers, missing = whole_table(table.transpose(rows, ...))
    return np.where(missing | (numbers < 1), -1, numbers - 1)


def _corners(dataset: xr.Dataset, nodes: int) -> _Whole:
    corners = _table(dataset, "verticesOnCell", "Cell")
    sides = np.asarray(dataset["nEdgesOnCell"].values)
    # Behind the last vertex stands anything.
    corners[np.arange(corners.shape[1]) >= sides[:, np.newaxis]] = -1
    if corners.size and int(corners.max()) >= nodes:
        face = int(np.flatnonzero((corners >= nodes).any(axis=1))[0])
        raise DatasetError(
            f"Face {face} of the mesh has the node {int(corners[face].max()) + 1} in"
            f" 'verticesOnCell', counted from 1, but there are {nodes} of them."
        )
    return drop_repeats(corners)


def _edges(dataset: xr.Dataset, faces: _Floats, nodes: _Floats) -> Edges:
    xyz = [real_values(dataset[axis + "Edge"]) for axis in "xyz"]
    tables = {name: _table(dataset, name, "Edge") for name in _EDGES[:2]}
    for (name, table), count in zip(tables.items(), (len(faces), len(nodes)), strict=True):
        if table.shape != (len(xyz[0]), 2) or int(table.max(initial=-1)) >= count:
            raise DatasetError(
                f"The mesh's '{name}' must name two of {count} points for each of {len(xyz[0])}"
                f" edges, got numbers up to {int(table.max(initial=-1)) + 1} of the shape"
                f" {table.shape}."
            )
    sides, ends = tables.values()
    return Edges(ends, sides, unit_vectors(np.stack(xyz, axis=1)), nodes, faces)
