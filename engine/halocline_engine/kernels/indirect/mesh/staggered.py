"""Operators between faces, edges and nodes of a mesh, for vectors by their components on edges.

On a C-grid a vector is known by its component normal to each edge, at the edge's middle, positive
from the first face beside the edge to the second. On the unit sphere::

    gradient    at an edge   (h2 - h1) / distance of the faces
    divergence  at a face    sum over its edges of outward component * length, / area of the face
    curl        at a node    sum over its edges of component along the way from face to face around
                             the node * distance of the faces, / area between the faces

Sums of divergence times area over a closed mesh are zero, and so is the curl of a gradient, but
for rounding. Lengths are those of arcs, areas those of spherical triangles from the middle to each
edge, or pair of faces.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from halocline_engine.kernels.indirect.sparse import Sparse, sparse

__all__ = ["Edges", "edge_curl", "edge_divergence", "edge_gradient"]

_Floats = NDArray[np.float64]
_Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """Edges by their two nodes and the two faces beside them, -1 where there is no face.

    `xyz`, `nodes` and `faces` are unit vectors: of edges' middles, and of all nodes and faces.
    """

    ends: _Whole
    sides: _Whole
    xyz: _Floats
    nodes: _Floats
    faces: _Floats

    @property
    def inside(self) -> _Whole:
        """The edges with a face on both sides."""
        return np.flatnonzero((self.sides >= 0).all(axis=1))

    @property
    def lengths(self) -> _Floats:
        """The lengths of edges."""
        return _arc(self.nodes[self.ends[:, 0]], self.nodes[self.ends[:, 1]])

    @property
    def distances(self) -> _Floats:
        """The distances of the faces beside edges; NaN where there is only one."""
        found = _arc(self.faces[self.sides[:, 0]], self.faces[self.sides[:, 1]])
        return np.where((self.sides >= 0).all(axis=1), found, np.nan)


def edge_gradient(edges: Edges, radius: float) -> Sparse:
    """Return the component normal to each edge of the gradient of values on faces."""
    inside = edges.inside
    weight = 1.0 / (radius * edges.distances[inside])
    rows = np.repeat(inside, 2)
    columns = edges.sides[inside][:, ::-1].reshape(-1)
    weights = np.stack([weight, -weight], axis=1).reshape(-1)
    return sparse(rows, columns, weights, len(edges.ends), len(edges.faces))


def edge_divergence(edges: Edges, radius: float) -> Sparse:
    """Return the divergence on faces of vectors by their components normal to edges."""
    edge, side = np.nonzero(edges.sides >= 0)
    face = edges.sides[edge, side]
    first, second = (edges.nodes[edges.ends[edge, end]] for end in (0, 1))
    parts = _triangle(edges.faces[face], first, second)
    area = np.bincount(face, parts, len(edges.faces))
    outward = np.where(side == 0, 1.0, -1.0)
    weights = outward * edges.lengths[edge] / (area[face] * radius)
    return sparse(face, edge, weights, len(edges.faces), len(edges.ends))


def edge_curl(edges: Edges, radius: float) -> Sparse:
    """Return the curl on nodes of vectors by their components normal to edges.

    Nodes at the edge of a region, around which there is no closed way, are not known.
    """
    inside = edges.inside
    edge, end = np.repeat(inside, 2), np.tile([0, 1], inside.size)
    node = edges.ends[edge, end]
    before, after = (edges.faces[edges.sides[edge, side]] for side in (0, 1))
    area = np.bincount(node, _triangle(edges.nodes[node], before, after), len(edges.nodes))
    # A node to the left of the normal is gone around counterclockwise.
    left = np.cross(edges.xyz[edge], after - before)
    turn = np.sign(np.einsum("nc,nc->n", left, edges.nodes[node] - edges.xyz[edge]))
    weights = turn * edges.distances[edge] / (area[node] * radius)
    count = len(edges.nodes)
    open_ = np.bincount(edges.ends.reshape(-1), minlength=count) != np.bincount(
        node, minlength=count
    )
    kept = ~open_[node]
    return sparse(node[kept], edge[kept], weights[kept], count, len(edges.ends))


def _arc(first: _Floats, second: _Floats) -> _Floats:
    """Return angles between unit vectors."""
    cosine = np.einsum("nc,nc->n", first, second)
    return np.arctan2(np.linalg.norm(np.cross(first, second), axis=1), cosine)


def _triangle(a: _Floats, b: _Floats, c: _Floats) -> _Floats:
    """Return the areas of spherical triangles."""
    volume = np.abs(np.einsum("nc,nc->n", a, np.cross(b, c)))
    sides = 1.0 + sum(np.einsum("nc,nc->n", p, q) for p, q in ((a, b), (b, c), (c, a)))
    return 2.0 * np.arctan2(volume, sides)
