"""Unstructured meshes on the sphere: faces, nodes, edges, and what lies beside each.

Values lie on faces, nodes or edges. Two faces are neighbours where they share an edge, and around
each other where they share a node; nodes at one place are one for that. Two nodes are neighbours
where an edge joins them, and around each other where they are nodes of one face. Two edges are
neighbours where they share a node, and around each other where they are edges of one face.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from halocline_engine.datasets.formats.connectivity import drop_repeats
from halocline_engine.errors import DatasetError
from halocline_engine.kernels.indirect.mesh.sphere import Around, around
from halocline_engine.kernels.indirect.mesh.staggered import Edges
from halocline_engine.kernels.indirect.plan import content_key

__all__ = ["Mesh", "Points", "join_places", "unit_vectors"]

_Floats = NDArray[np.float64]
_Whole = NDArray[np.int64]


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
    `others` are the names of other topologies in its file.
    """

    corners: _Whole
    faces: _Floats
    nodes: _Floats
    radius: float | None
    face_dim: str
    node_dim: str
    edges: Edges | None = None
    edge_dim: str = ""
    others: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """A name for the mesh, the same wherever its content is."""
        arrays = [self.corners, self.faces, self.nodes]
        if self.edges is not None:
            arrays += [self.edges.ends, self.edges.sides, self.edges.xyz]
        return content_key("mesh", *arrays, self.face_dim, self.node_dim, self.edge_dim)

    def on_faces(self) -> Points:
        """Return the points of values on faces."""
        joined = join_places(self.corners, self.nodes)
        face, corner = np.nonzero(joined >= 0)
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
                "The mesh does not define the nodes of its edges.",
                hint="Values on edges need an MPAS mesh with 'cellsOnEdge' and 'verticesOnEdge'.",
            )
        return self.edges


def unit_vectors(vectors: _Floats) -> _Floats:
    """Return vectors of length 1; raises `DatasetError` for those without a direction."""
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


def join_places(corners: _Whole, nodes: _Floats) -> _Whole:
    """Return the corners with one number for all nodes at one place, and none of them repeated."""
    places = np.round(nodes * 2**32).astype(np.int64)
    _, first, number = np.unique(places, axis=0, return_index=True, return_inverse=True)
    same = first[number.reshape(-1)]
    return drop_repeats(np.where(corners >= 0, same[np.maximum(corners, 0)], -1))


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
