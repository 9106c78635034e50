"""Meshes of the sphere in the forms that files have, beside neighbours found by plain loops."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.datasets.untyped import XARRAY

Rng = np.random.Generator
Faces = list[list[int]]


@dataclass
class DrawnMesh:
    """A mesh as a file has it; `faces` are its nodes from 0, each once, `place` those alike."""

    mesh: xr.Dataset
    faces: Faces
    place: list[int]
    face_dim: str
    node_dim: str
    told: dict[str, str]
    forms: list[str] = field(default_factory=list[str])

    def neighbours_of_faces(self) -> list[set[int]]:
        """Return the faces that share an edge between two places with each face."""
        around: list[set[int]] = []
        edges = [_edges([self.place[node] for node in face]) for face in self.faces]
        for n, own in enumerate(edges):
            around.append({m for m, other in enumerate(edges) if m != n and own & other})
        return around

    def neighbours_of_nodes(self) -> list[set[int]]:
        """Return the nodes that an edge joins with each node."""
        around: list[set[int]] = [set() for _ in self.place]
        for face in self.faces:
            for edge in _edges(face):
                low, high = sorted(edge)
                around[low].add(high)
                around[high].add(low)
        return around


def _edges(face: list[int]) -> set[frozenset[int]]:
    pairs = zip(face, face[1:] + face[:1], strict=True)
    return {frozenset(pair) for pair in pairs if pair[0] != pair[1]}


def draw_mesh(rng: Rng, folder: Path | None = None) -> DrawnMesh:
    """Draw a mesh, and a form for it; with a folder it may be written to a file and opened."""
    lon, lat, faces = _shape(rng)
    if rng.random() < 0.3:
        some: list[int] = rng.choice(len(faces), max(3, len(faces) // 2), replace=False).tolist()
        faces = [faces[n] for n in sorted(some)]
    places: dict[tuple[float, float], int] = {}
    place = [
        places.setdefault((round(y, 9), 0.0 if abs(y) > 89.9999 else round(x % 360, 9)), n)
        for n, (x, y) in enumerate(zip(lon.tolist(), lat.tolist(), strict=True))
    ]
    drawn = DrawnMesh(xr.Dataset(), faces, place, "face", "node", {})
    drawn.mesh = _encoded(rng, drawn, lon, lat)
    if folder is not None:
        drawn.mesh = _stored(rng, drawn, folder)
    return drawn


def _shape(rng: Rng) -> tuple[NDArray[Any], NDArray[Any], Faces]:
    kind = rng.integers(3)
    faces: Faces
    n = int(rng.integers(3, 8))
    if kind == 0:  # a fan of triangles around the pole
        lon = np.r_[0.0, np.arange(n) * 360 / n]
        lat = np.r_[90.0, np.full(n, 60.0)]
        faces = [[0, 1 + i, 1 + (i + 1) % n] for i in range(n)]
    elif kind == 1:  # bands of quadrilaterals from pole to pole, a node of each meridian there
        rows = int(rng.integers(2, 5))
        lat = np.repeat(np.linspace(-90, 90, rows + 1), n)
        lon = np.tile(np.arange(n) * 360 / n, rows + 1)
        node = np.arange((rows + 1) * n).reshape(rows + 1, n)
        east = np.roll(node, -1, axis=1)
        quads = np.stack([node[:-1], east[:-1], east[1:], node[1:]], axis=2).reshape(-1, 4)
        faces = quads.tolist()
    else:  # a patch of triangles, quadrilaterals and pentagons
        rows = int(rng.integers(2, 5))
        lat = np.repeat(np.arange(rows + 1) * 10.0 - 20, n + 1)
        lon = np.tile(np.arange(n + 1) * 10.0 + 330, rows + 1)
        faces = []
        for j in range(rows):
            for i in range(n):
                a, b = j * (n + 1) + i, (j + 1) * (n + 1) + i
                if rng.random() < 0.5:
                    faces += [[a, a + 1, b + 1], [a, b + 1, b]]
                else:
                    faces.append([a, a + 1, b + 1, b])
    order = rng.permutation(len(faces))
    faces = [faces[k] for k in order]
    faces = [face[k:] + face[:k] for face in faces for k in [int(rng.integers(len(face)))]]
    return lon, lat, faces


def _encoded(rng: Rng, drawn: DrawnMesh, lon: NDArray[Any], lat: NDArray[Any]) -> xr.Dataset:
    names = ("node lon", "node lat") if rng.random() < 0.15 else ("lon", "lat")
    table, attributes = _table(rng, drawn)
    before, behind = [("", ""), (" ", ""), ("", "  "), ("", "")][rng.integers(4)]

    def pad(text: str) -> str:
        return f"{before}{text}{behind}"

    between = " " if names[0] != "lon" else ["  ", " ", "\t", "\n "][rng.integers(4)]
    coordinates: list[str] = [*names]
    rng.shuffle(coordinates)
    if rng.random() < 0.25:
        coordinates.insert(int(rng.integers(3)), "height")
        drawn.forms.append("a height among the coordinates")
    topology: dict[str, Any] = {
        "cf_role": pad("mesh_topology"),
        "node_coordinates": pad(between.join(coordinates)),
        "face_node_connectivity": pad("fn"),
    }
    dimension = [2, np.int32(2), "2", np.array([2]), 2.0, None][rng.integers(6)]
    if dimension is not None:
        topology["topology_dimension"] = dimension
    dims = ["face", "corner"]
    if rng.random() < 0.4:
        topology["face_dimension"] = pad("face")
        if rng.random() < 0.7:
            table, dims = np.ascontiguousarray(table.T), dims[::-1]
            drawn.forms.append("corners first")
    mesh = xr.Dataset({"mesh": ((), 0, topology), "fn": (dims, table, attributes)})
    mesh["height"] = ("node", np.zeros(lon.size), {"units": "m"})
    mesh = _with_angles(rng, mesh, names, lon, lat)
    if rng.random() < 0.35:
        mesh = _beside(rng, drawn, mesh)
    return mesh


def _with_angles(
    rng: Rng, mesh: xr.Dataset, names: tuple[str, str], lon: NDArray[Any], lat: NDArray[Any]
) -> xr.Dataset:
    in_radians = rng.random() < 0.25
    shifted = np.where(lon > 180, lon - 360, lon) if rng.random() < 0.5 else lon
    for name, values, way, kind in (
        (names[0], shifted, "east", "longitude"),
        (names[1], lat, "north", "latitude"),
    ):
        if in_radians:
            mesh[name] = ("node", np.radians(values), {"units": "radians", "standard_name": kind})
        else:
            mesh[name] = ("node", values, {"units": f"degrees_{way}"})
    return mesh


def _table(rng: Rng, drawn: DrawnMesh) -> tuple[NDArray[Any], dict[str, Any]]:
    """Return the nodes of faces as a file has them, and the attributes that say how."""
    nodes, base = len(drawn.place), int(rng.integers(2))
    attributes: dict[str, Any] = {"cf_role": "face_node_connectivity"}
    forms = [base, np.int32(base), str(base), np.array([base]), float(base), f" {base} "]
    start = forms[rng.integers(len(forms))]
    every = {node for face in drawn.faces for node in face}
    # Without a base, numbers from 1 are told by the last node alone.
    silent = base == 0 or nodes - 1 in every
    if not (silent and rng.random() < 0.4):
        attributes["start_index"] = start
    rows = [_redundant(rng, [node + base for node in face], drawn) for face in drawn.faces]
    width = max(map(len, rows)) + int(rng.integers(3))
    kind = str(rng.choice(["i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]))
    dtype = np.dtype(kind)
    fill: float
    declared = True
    match int(rng.integers(6)):
        case 0 if dtype.kind != "u":
            fill = -1
        case 1 if dtype.kind != "u":
            fill = -999
        case 2 if dtype.kind == "f":
            fill, declared = np.nan, bool(rng.random() < 0.5)
        case 3 if base == 1:
            fill, declared = 0, nodes - 1 not in every or bool(rng.random() < 0.5)
        case 4 if dtype.kind in "iu":
            fill = int(np.iinfo(dtype).max)
        case _ if dtype.kind == "f":
            fill = np.nan
        case _:
            fill = int(np.iinfo(dtype).max)
    if fill in (-1, -999) or (dtype.kind in "iu" and fill == np.iinfo(dtype).max):
        declared = bool(rng.random() < 0.5)
    table = np.full((len(rows), width), fill, dtype)
    for n, row in enumerate(rows):
        table[n, : len(row)] = row
    if declared:
        value = dtype.type(fill)
        shapes = [value, np.array([value]), value.item()]
        attributes["_FillValue"] = shapes[rng.integers(3)]
    drawn.forms.append(f"{kind} from {base}, fill {fill}{'' if declared else ' not declared'}")
    return table, attributes


def _redundant(rng: Rng, face: list[int], drawn: DrawnMesh) -> list[int]:
    """Return corners that are the same face: closed, or some of them repeated."""
    match int(rng.integers(5)):
        case 0:
            return [*face, face[0]]
        case 1:
            return face + face[-1:] * int(rng.integers(1, 3))
        case 2:
            at = int(rng.integers(len(face)))
            return face[: at + 1] + face[at:]
        case 3:
            return [face[0], *face, face[0], face[0]]
        case _:
            return face


def _beside(rng: Rng, drawn: DrawnMesh, mesh: xr.Dataset) -> xr.Dataset:
    """Return the mesh behind or before other topologies: a network, and another mesh."""
    network = {"cf_role": "mesh_topology", "topology_dimension": 1}
    network |= {"node_coordinates": "nx ny", "edge_node_connectivity": "en"}
    other = xr.Dataset(
        {
            "network": ((), 0, network),
            "en": (("line", "two"), [[0, 1]], {"start_index": 0}),
            "nx": ("stop", [0.0, 1.0], {"units": "degrees_east"}),
            "ny": ("stop", [0.0, 1.0], {"units": "degrees_north"}),
        }
    )
    drawn.forms.append("beside a network")
    if rng.random() < 0.5:
        coarse = {"cf_role": "mesh_topology", "topology_dimension": 2}
        coarse |= {"node_coordinates": "cx cy", "face_node_connectivity": "cf"}
        size = len(drawn.faces) if rng.random() < 0.5 else 2
        corners = np.tile([0, 1, 2], (size, 1))
        other["coarse"] = ((), 0, coarse)
        other["cf"] = (("coarse_face", "three"), corners)
        other["cx"] = ("coarse_node", [0.0, 10.0, 0.0], {"units": "degrees_east"})
        other["cy"] = ("coarse_node", [0.0, 0.0, 10.0], {"units": "degrees_north"})
        drawn.forms.append("beside a coarse mesh")
        if rng.random() < 0.5:
            drawn.told = {"mesh": ["mesh", " mesh"][rng.integers(2)]}
    pair = (other, mesh) if rng.random() < 0.7 else (mesh, other)
    return XARRAY.merge(pair)


def _stored(rng: Rng, drawn: DrawnMesh, folder: Path) -> xr.Dataset:
    """Return the mesh as it comes back from a file, decoded or not; some stay in memory."""
    mesh, way = drawn.mesh, int(rng.integers(4))
    if way == 0 or (way == 1 and mesh["fn"].dtype.kind == "u"):
        return mesh
    path = folder / f"{rng.integers(10**12)}.nc"
    given: Any = mesh
    if way == 1 and (mesh["fn"].dtype.kind == "f" or mesh["fn"].dtype.itemsize == 8):
        return mesh
    fill = mesh["fn"].attrs.get("_FillValue")
    if fill is not None:
        given = given.assign(fn=given["fn"].copy())
        attributes = dict(given["fn"].attrs)
        attributes["_FillValue"] = given["fn"].dtype.type(np.ravel(fill)[0])
        given["fn"].attrs = attributes
    formats = {1: "NETCDF3_64BIT", 2: "NETCDF4", 3: "NETCDF4"}
    options: Any = {"format": formats[way], "engine": "netcdf4"}
    given.to_netcdf(path, **options)
    drawn.forms.append(f"{formats[way]}, {'raw' if way == 3 else 'decoded'}")
    with XARRAY.open_dataset(path, engine="netcdf4", mask_and_scale=way != 3) as found:
        return found.load()
