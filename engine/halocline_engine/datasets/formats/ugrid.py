"""Meshes in UGRID 1.0: a variable with `cf_role` "mesh_topology" names what the mesh is made of.

Nodes have longitudes and latitudes in degrees or radians, faces have nodes. A file may hold several
topologies, such as the network of rivers beside the mesh of the sea that D-Flow FM writes: those of
faces count, and of several the one that the data lie on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.datasets.attributes import names_of, text_of, whole_of
from halocline_engine.datasets.formats.connectivity import corners_of
from halocline_engine.datasets.formats.mesh import Mesh, join_places, unit_vectors
from halocline_engine.datasets.grids.angles import LATITUDE, LONGITUDE, kind_of, radians
from halocline_engine.errors import DatasetError
from halocline_engine.kernels.indirect.mesh.operators import Location

__all__ = ["read_ugrid", "topologies_of"]

_Floats = NDArray[np.float64]
_Whole = NDArray[np.int64]

_FACES, _NODES = "face_node_connectivity", "node_coordinates"
#: Dimension of a topology of faces.
_SURFACE = 2


def topologies_of(dataset: xr.Dataset) -> list[str]:
    """Return the names of the topologies of a dataset."""
    return [
        str(name)
        for name, variable in dataset.variables.items()
        if text_of(variable.attrs, "cf_role") == "mesh_topology"
    ]


def read_ugrid(
    dataset: xr.Dataset,
    fields: Sequence[xr.DataArray],
    location: Location,
    check: Callable[[xr.DataArray], None],
) -> Mesh:
    """Read the topology that `fields` lie on with their `location`.

    `check` is called with the nodes of its faces before these are read. Raises `DatasetError` where
    the mesh makes no sense.
    """
    every = topologies_of(dataset)
    name = _choose_topology(dataset, every, fields, location)
    attributes = dataset[name].attrs
    coordinates = names_of(dataset, attributes, _NODES)
    table = _connectivity(dataset, name)
    face_dim = _face_dim(dataset, name, table)
    for variable in coordinates:
        _check_named(dataset, name, variable)
    check(table)
    nodes, node_dim = _on_sphere(dataset, name, coordinates)
    corners = corners_of(table.transpose(face_dim, ...), len(nodes))
    named = names_of(dataset, attributes, "face_coordinates")
    if named and all(variable in dataset.variables for variable in named):
        faces, _ = _on_sphere(dataset, name, named)
    else:
        named, faces = [], _middles(corners, nodes)
    if len(faces) != len(corners):
        raise DatasetError(
            f"The coordinates {named} of the mesh must have as many points as '{table.name}' has"
            f" faces, {len(corners)}, got {len(faces)}."
        )
    return Mesh(
        corners=corners,
        faces=faces,
        nodes=nodes,
        radius=None,
        face_dim=face_dim,
        node_dim=node_dim,
        others=frozenset(every) - {name},
    )


def _choose_topology(
    dataset: xr.Dataset, every: Sequence[str], fields: Sequence[xr.DataArray], location: Location
) -> str:
    """Return the topology of faces that the fields name, or have a dimension or the size of."""
    surfaces = [name for name in every if _is_surface(dataset, name)]
    if not surfaces:
        listed = ", ".join(f"'{name}'" for name in every)
        raise DatasetError(
            f"The mesh has no topology of faces, got {listed}.",
            hint=f"It needs a variable with topology_dimension 2 and '{_FACES}'.",
        )
    if len(surfaces) == 1:
        return surfaces[0]
    told = {text_of(field.attrs, "mesh") for field in fields} & {*surfaces}
    own = {name: _extent(dataset, name, location) for name in surfaces}
    extents = {(str(dim), int(size)) for field in fields for dim, size in field.sizes.items()}
    sizes = {size for _, size in extents}
    fitting = [
        sorted(told),
        [name for name in surfaces if own[name] in extents],
        [name for name in surfaces if own[name][1] in sizes],
    ]
    # What the fields say counts before what they are like.
    found = next((names for names in fitting if names), surfaces)
    if len(found) == 1:
        return found[0]
    listed = ", ".join(f"'{name}'" for name in found)
    raise DatasetError(
        f"The mesh has {len(found)} topologies of faces that the variables may lie on, {listed}.",
        hint="Name the variables of one with variables=, or leave the others out: "
        f"mesh.drop_vars({found[1:]}).",
    )


def _is_surface(dataset: xr.Dataset, name: str) -> bool:
    attributes = dataset[name].attrs
    dimension = whole_of(attributes, "topology_dimension")
    return dimension == _SURFACE or (dimension is None and bool(text_of(attributes, _FACES)))


def _extent(dataset: xr.Dataset, name: str, location: Location) -> tuple[str, int]:
    """Return the dimension of a topology's nodes or faces, and its size; ('', 0) if unknown."""
    if location is Location.NODE:
        coordinates = names_of(dataset, dataset[name].attrs, _NODES)[:1]
        array = dataset[coordinates[0]] if {*coordinates} & {*dataset.variables} else None
        dim = str(array.dims[0]) if array is not None and array.ndim else ""
        return dim, int(dataset.sizes.get(dim, 0))
    if text_of(dataset[name].attrs, _FACES) not in dataset.variables:
        return "", 0
    dim = _face_dim(dataset, name, _connectivity(dataset, name))
    return dim, int(dataset.sizes[dim])


def _check_named(dataset: xr.Dataset, name: str, variable: str) -> None:
    if variable not in dataset.variables:
        raise DatasetError(
            f"The mesh '{name}' does not have the variable {variable!r} that it names.",
            hint=f"It needs '{_NODES}' and '{_FACES}'.",
        )


def _connectivity(dataset: xr.Dataset, name: str) -> xr.DataArray:
    variable = text_of(dataset[name].attrs, _FACES)
    _check_named(dataset, name, variable)
    table = dataset[variable]
    if table.ndim != 2 or len({*table.dims}) != 2:
        raise DatasetError(
            f"The nodes of faces '{variable}' of the mesh '{name}' must have two dimensions, got"
            f" {[str(dim) for dim in table.dims]}."
        )
    return table


def _face_dim(dataset: xr.Dataset, name: str, table: xr.DataArray) -> str:
    """Return the dimension of faces: as the mesh says, that of their centres, or the first."""
    attributes = dataset[name].attrs
    dims = [str(dim) for dim in table.dims]
    told = text_of(attributes, "face_dimension")
    if told and told not in dims:
        raise DatasetError(
            f"The mesh '{name}' says that faces lie along '{told}', but '{table.name}' has the"
            f" dimensions {dims}.",
            hint="Set its attribute 'face_dimension' to one of them.",
        )
    centres = names_of(dataset, attributes, "face_coordinates")
    beside = {str(d) for one in centres if one in dataset.variables for d in dataset[one].dims}
    known = [dim for dim in dims if dim in beside]
    return told or (known[0] if len(known) == 1 else dims[0])


def _on_sphere(dataset: xr.Dataset, mesh: str, names: list[str]) -> tuple[_Floats, str]:
    """Return unit vectors from the longitude and the latitude among coordinates, and their dim."""
    kinds = {
        kind: [name for name in names if kind_of(dataset[name]) == kind]
        for kind in (LONGITUDE, LATITUDE)
    }
    if any(len(found) != 1 for found in kinds.values()):
        raise DatasetError(
            f"The coordinates {names} of the mesh '{mesh}' must be one longitude and one latitude,"
            f" got {len(kinds[LONGITUDE])} and {len(kinds[LATITUDE])} of them.",
            hint="They need the units 'degrees_east' and 'degrees_north', or the standard names"
            " 'longitude' and 'latitude' with the units 'degrees' or 'radians'.",
        )
    both = {kind: dataset[found[0]] for kind, found in kinds.items()}
    lon, lat = (_angles(array, kind) for kind, array in both.items())
    if lon.shape != lat.shape or lon.ndim != 1:
        shown = [dict(array.sizes) for array in both.values()]
        raise DatasetError(
            f"The coordinates {names} of the mesh must have one dimension and the same size, got"
            f" {shown[0]} and {shown[1]}."
        )
    xyz = [np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)]
    return np.stack(xyz, axis=1), str(both[LONGITUDE].dims[0])


def _angles(variable: xr.DataArray, kind: str) -> _Floats:
    values = radians(variable, kind)
    missing = np.flatnonzero(np.isnan(values))
    if missing.size:
        raise DatasetError(
            f"Every point of the mesh must have a {kind}, but '{variable.name}' is NaN at the point"
            f" {int(missing[0])}, counted from 0."
        )
    return values


def _middles(corners: _Whole, nodes: _Floats) -> _Floats:
    """Return the middles of faces: the mean of their corners, each place once."""
    places = join_places(corners, nodes)
    there = (places >= 0)[..., np.newaxis]
    return unit_vectors(np.where(there, nodes[np.maximum(places, 0)], 0.0).sum(axis=1))
