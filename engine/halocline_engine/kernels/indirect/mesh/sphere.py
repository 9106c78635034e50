"""Operators on points of a sphere and the points around them, as sparse matrices.

Derivatives come from a quadratic polynomial in geodesic coordinates that fits the differences to
the points around each point by least squares, weighted with the inverse square of the distance.
It is exact for quadratics in these coordinates, so gradients and divergences are of second order;
Laplacians are of first order, and of second where the points lie symmetrically. Matrices of
differences give exactly 0 for a constant, see `sparse.Form`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from halocline_engine.kernels.indirect.indices import narrowest
from halocline_engine.kernels.indirect.problem import Index
from halocline_engine.kernels.indirect.sparse import Sparse

__all__ = ["Around", "around", "divergence", "gradient", "laplacian", "neighbour_mean"]

_Floats = NDArray[np.float64]

#: Points whose coefficients are computed at a time.
_AT_A_TIME = 1 << 15
#: Share of the largest singular value below which the points around do not determine a fit.
_LEAST = 0.02
#: Coefficients of a fit: along x and y, and the second derivatives xx, xy, yy.
_UNKNOWN = 5


@dataclass(frozen=True, slots=True, eq=False)
class Around:
    """The points around each point: those of n are `others[starts[n]:starts[n + 1]]`."""

    starts: Index
    others: Index

    @property
    def points(self) -> int:
        """Number of points."""
        return self.starts.size - 1

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.starts.nbytes + self.others.nbytes


def around(first: NDArray[np.int64], second: NDArray[np.int64], points: int) -> Around:
    """Return the points around each of `points` from pairs, which count both ways and once."""
    one, other = np.concatenate([first, second]), np.concatenate([second, first])
    pairs = np.unique((one * points + other)[one != other])
    starts = np.searchsorted(pairs, np.arange(points + 1, dtype=np.int64) * points)
    return Around(narrowest(starts, pairs.size + 1), narrowest(pairs % max(1, points), points))


def neighbour_mean(near: Around, *, total: bool = False) -> Sparse:
    """Return the mean of the points around each point; their sum if `total`."""
    counts = np.diff(near.starts)
    shares = np.ones(near.points) if total else 1.0 / np.maximum(counts, 1)
    weights = np.repeat(shares, counts)
    return Sparse(near.points, near.points, near.starts, near.others, weights)


def gradient(xyz: _Floats, near: Around, radius: float) -> tuple[Sparse, Sparse]:
    """Return the derivatives eastward and northward; `xyz` are unit vectors [point, 3]."""
    found = _fits(xyz, near, radius)
    return _matrix(near, found[:, 0]), _matrix(near, found[:, 1])


def laplacian(xyz: _Floats, near: Around, radius: float) -> Sparse:
    """Return the Laplacian on the sphere."""
    found = _fits(xyz, near, radius)
    return _matrix(near, found[:, 2] + found[:, 4])


def divergence(xyz: _Floats, near: Around, radius: float) -> Sparse:
    """Return the divergence of vectors: cells are all eastward, then all northward components.

    The vectors around a point are brought to it along geodesics.
    """
    found = _fits(xyz, near, radius)
    counts = np.diff(near.starts)
    here = np.repeat(np.arange(near.points), counts)
    turn = _turns(xyz, here, near.others)
    of_east = found[:, 0] * turn[:, 0] + found[:, 1] * turn[:, 1]
    of_north = found[:, 1] * turn[:, 0] - found[:, 0] * turn[:, 1]
    sums = [np.bincount(here, found[:, n], near.points) for n in (0, 1)]
    own = [-one.astype(np.float64) for one in sums]
    known = np.flatnonzero((counts > 0) & np.isfinite(own[0]))
    keep = np.isin(here, known)
    columns = np.concatenate(
        [near.others[keep], near.others[keep] + near.points, known, known + near.points]
    ).astype(np.int64)
    rows = np.concatenate([here[keep], here[keep], known, known])
    weights = np.concatenate([of_east[keep], of_north[keep], own[0][known], own[1][known]])
    order = np.lexsort((columns, rows))
    starts = np.searchsorted(rows[order], np.arange(near.points + 1))
    return Sparse(
        rows=near.points,
        cells=2 * near.points,
        starts=narrowest(starts, rows.size + 1),
        columns=narrowest(columns[order], 2 * near.points),
        weights=weights[order],
    )


def _matrix(near: Around, weights: _Floats) -> Sparse:
    """Return a square matrix; rows that are not known are empty."""
    counts = np.diff(near.starts)
    rows = np.repeat(np.arange(near.points), counts)
    known = np.isfinite(weights)
    starts = np.searchsorted(rows[known], np.arange(near.points + 1))
    return Sparse(
        rows=near.points,
        cells=near.points,
        starts=narrowest(starts, near.others.size + 1),
        columns=near.others[known],
        weights=weights[known],
    )


def _axes(xyz: _Floats) -> tuple[_Floats, _Floats]:
    """Return unit vectors to the east and to the north; at a pole, as on the meridian 0."""
    flat = np.hypot(xyz[:, 0], xyz[:, 1])
    pole = flat < 1e-15
    cosine = np.where(pole, 1.0, xyz[:, 0] / np.where(pole, 1.0, flat))
    sine = np.where(pole, 0.0, xyz[:, 1] / np.where(pole, 1.0, flat))
    east = np.stack([-sine, cosine, np.zeros_like(sine)], axis=1)
    return east, np.cross(xyz, east)


def _fits(xyz: _Floats, near: Around, radius: float) -> _Floats:
    """Return what each difference contributes to the coefficients, [entry, coefficient].

    They are NaN for points whose surroundings determine no fit.
    """
    found = np.full((near.others.size, _UNKNOWN), np.nan)
    east, north = _axes(xyz)
    counts = np.diff(near.starts)
    for first in range(0, near.points, _AT_A_TIME):
        here = np.arange(first, min(first + _AT_A_TIME, near.points))
        most = int(counts[here].max(initial=0))
        if most < _UNKNOWN:
            continue
        slots = near.starts[here][:, np.newaxis] + np.arange(most)
        there = np.arange(most) < counts[here][:, np.newaxis]
        others = near.others[np.where(there, slots, 0)]
        toward, angle = _logarithm(xyz[here], xyz[others])
        x = np.einsum("nkc,nc->nk", toward, east[here])
        y = np.einsum("nkc,nc->nk", toward, north[here])
        found[slots[there]] = _coefficients(x, y, angle, there)[there]
    return found * radius ** -np.array([1.0, 1.0, 2.0, 2.0, 2.0])


def _logarithm(at: _Floats, others: _Floats) -> tuple[_Floats, _Floats]:
    """Return the vectors along geodesics from points to others, and their lengths."""
    cosine = np.einsum("nkc,nc->nk", others, at)
    flat = others - cosine[..., np.newaxis] * at[:, np.newaxis]
    sine = np.linalg.norm(flat, axis=2)
    angle = np.arctan2(sine, cosine)
    scale = angle / np.where(sine == 0, 1.0, sine)
    return flat * scale[..., np.newaxis], angle


def _coefficients(x: _Floats, y: _Floats, distance: _Floats, there: NDArray[np.bool_]) -> _Floats:
    """Return what differences [point, neighbour] contribute, [point, neighbour, coefficient]."""
    counts = np.maximum(there.sum(axis=1), 1)
    scale = np.where(there, distance, 0.0).sum(axis=1) / counts
    scale = np.where(scale == 0, 1.0, scale)[:, np.newaxis]
    a, b = x / scale, y / scale
    apart = np.where(there & (distance > 0), distance / scale, 1.0)
    weight = np.where(there & (distance > 0), 1.0 / apart, 0.0)
    terms = np.stack([a, b, a * a / 2, a * b, b * b / 2], axis=2) * weight[..., np.newaxis]
    left, values, right = np.linalg.svd(terms, full_matrices=False)
    determined = values[:, -1] > _LEAST * values[:, 0]
    inverse = np.where(determined[:, np.newaxis], 1.0 / np.where(values == 0, 1.0, values), np.nan)
    found = np.einsum("nkv,nv,nvc->nkc", left, inverse, right) * weight[..., np.newaxis]
    return found / np.stack([scale, scale, scale**2, scale**2, scale**2], axis=2)


def _turns(xyz: _Floats, here: NDArray[np.intp], there: Index) -> _Floats:
    """Return cosine and sine by which vectors turn from east at `there` when brought `here`."""
    east, north = _axes(xyz)
    at, other = xyz[here], xyz[there]
    # Along the geodesic the tangent stays the tangent: the angle to it is kept.
    ahead, behind = other - _dot(at, other) * at, _dot(at, other) * other - at
    angle = _angle(ahead, east[here], north[here]) - _angle(behind, east[there], north[there])
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _dot(a: _Floats, b: _Floats) -> _Floats:
    return np.einsum("nc,nc->n", a, b)[:, np.newaxis]


def _angle(vector: _Floats, east: _Floats, north: _Floats) -> _Floats:
    return np.arctan2(_dot(vector, north)[:, 0], _dot(vector, east)[:, 0])
