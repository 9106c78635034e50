"""The programs of `workloads` as array expressions, for any library with NumPy's operators.

Arrays are indexed [k, j, i] and carry the case's halo along each axis; the result has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

__all__ = ["EXPRESSIONS", "columns_by_levels"]

#: (where, fields, scalars) -> the new values; `where` is the library's own.
Expression: TypeAlias = Callable[[Any, Mapping[str, Any], Mapping[str, float]], Any]


def _at(array: Any, halo: tuple[int, int, int], i: int = 0, j: int = 0, k: int = 0) -> Any:
    """Return a field at an offset, on the domain."""
    size = array.shape[::-1]
    cut = [slice(h + o, n - h + o) for h, o, n in zip(halo, (i, j, k), size, strict=True)]
    return array[cut[2], cut[1], cut[0]]


def _copy(_where: Any, fields: Mapping[str, Any], scalars: Mapping[str, float]) -> Any:
    return fields["u"] + 0


def _five(_where: Any, fields: Mapping[str, Any], scalars: Mapping[str, float]) -> Any:
    u, h = fields["u"], (1, 1, 0)
    near = _at(u, h) + _at(u, h, -1) + _at(u, h, 1) + _at(u, h, 0, -1) + _at(u, h, 0, 1)
    return scalars["w"] * near


def _nine(_where: Any, fields: Mapping[str, Any], scalars: Mapping[str, float]) -> Any:
    u = fields["u"]
    near = [_at(u, (1, 1, 0), i, j) for j in (-1, 0, 1) for i in (-1, 0, 1)]
    return scalars["w"] * sum(near[1:], near[0])


def _seven(_where: Any, fields: Mapping[str, Any], scalars: Mapping[str, float]) -> Any:
    u, h = fields["u"], (1, 1, 1)
    near = _at(u, h) + _at(u, h, -1) + _at(u, h, 1) + _at(u, h, 0, -1) + _at(u, h, 0, 1)
    return scalars["w"] * (near + _at(u, h, 0, 0, -1) + _at(u, h, 0, 0, 1))


def _twenty_seven(_where: Any, fields: Mapping[str, Any], scalars: Mapping[str, float]) -> Any:
    u, near = fields["u"], (-1, 0, 1)
    points = [_at(u, (1, 1, 1), i, j, k) for k in near for j in near for i in near]
    return scalars["w"] * sum(points[1:], points[0])


def _star(_where: Any, fields: Mapping[str, Any], scalars: Mapping[str, float]) -> Any:
    u, h = fields["u"], (4, 4, 4)
    total = 0.25 * _at(u, h)
    for r in range(1, 5):
        ring = _at(u, h, -r) + _at(u, h, r) + _at(u, h, 0, -r) + _at(u, h, 0, r)
        total = total + 1 / 2 ** (r + 3) * (ring + _at(u, h, 0, 0, -r) + _at(u, h, 0, 0, r))
    return total


def _diffusion(where: Any, fields: Mapping[str, Any], scalars: Mapping[str, float]) -> Any:
    u, coeff = fields["inp"], fields["coeff"]
    lap = 4 * u[:, 1:-1, 1:-1] - (
        u[:, 1:-1, 2:] + u[:, 1:-1, :-2] + u[:, 2:, 1:-1] + u[:, :-2, 1:-1]
    )
    flx = lap[:, 1:-1, 1:] - lap[:, 1:-1, :-1]
    flx = where(flx * (u[:, 2:-2, 2:-1] - u[:, 2:-2, 1:-2]) > 0, 0 * flx, flx)
    fly = lap[:, 1:, 1:-1] - lap[:, :-1, 1:-1]
    fly = where(fly * (u[:, 2:-1, 2:-2] - u[:, 1:-2, 2:-2]) > 0, 0 * fly, fly)
    change = flx[:, :, 1:] - flx[:, :, :-1] + fly[:, 1:, :] - fly[:, :-1, :]
    return u[:, 2:-2, 2:-2] - coeff[:, 2:-2, 2:-2] * change


EXPRESSIONS: Mapping[str, Expression] = {
    "copy": _copy,
    "2d5pt": _five,
    "2d9pt": _nine,
    "3d7pt": _seven,
    "3d27pt": _twenty_seven,
    "star r=4": _star,
    "horizontal diffusion": _diffusion,
}


def columns_by_levels(fields: Mapping[str, Any], empty_like: Callable[[Any], Any]) -> Any:
    """Solve the tridiagonal case level by level."""
    a, b, c, d = (fields[name] for name in "abcd")
    above, x = empty_like(a), empty_like(a)
    above[0], x[0] = c[0] / b[0], d[0] / b[0]
    for k in range(1, len(a)):
        scale = 1 / (b[k] - above[k - 1] * a[k])
        above[k] = c[k] * scale
        x[k] = (d[k] - a[k] * x[k - 1]) * scale
    for k in range(len(a) - 2, -1, -1):
        x[k] -= above[k] * x[k + 1]
    return x
