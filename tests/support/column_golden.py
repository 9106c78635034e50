"""How fast errors of operators fall: ClimaCore's own tests, with the figures that they give.

Orders are per halving of the first cell, as there. Cases that share a grid run as one program, so
that each target compiles once: a program is the same for every number of levels, unless the column
is periodic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from column_cases import Array, Column, Loader, norm, run_column, stretched, uniform

from halocline_engine.ir.columns.table import At

__all__ = ["GROUPS", "Found", "Group", "Row", "faults", "measure"]

PI = math.pi
Function: TypeAlias = Callable[[Array], Array]
#: The first error, and the orders.
Found: TypeAlias = tuple[float, list[float]]


@dataclass(frozen=True, eq=False)
class Row:
    """An expression, what it should be, and how its error begins and falls.

    The first error is known within a share, `orders` within `room`; None where the source says
    nothing, and where it gives a range, orders are (low, high).
    """

    formula: str
    exact: Function
    at: At
    first: float | None = None
    share: float = 1e-3
    orders: tuple[float, ...] | None = None
    room: float = 1e-3
    between: tuple[float, float] | None = None


@dataclass(frozen=True, eq=False)
class Group:
    """Rows on one grid, which are one program."""

    rows: Mapping[str, Row]
    grid: Callable[[int], Column]
    fields: Callable[[Column], dict[str, Any]]
    sizes: tuple[int, ...] = (32, 64, 128, 256)
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


def measure(
    group: Group,
    target: str | Loader,
    *,
    names: Iterable[str] | None = None,
    sizes: tuple[int, ...] | None = None,
) -> dict[str, Found]:
    """Return the first error and the orders of rows of a group, by default of all."""
    rows = {name: group.rows[name] for name in names or group.rows}
    text = "\n".join(f"{name} = {row.formula}" for name, row in rows.items())
    errors: dict[str, list[float]] = {name: [] for name in rows}
    widths: list[float] = []
    for size in sizes or group.sizes:
        column = group.grid(size)
        widths.append(float(column.centre_widths[0]))
        given = {name: v for name, v in group.fields(column).items() if name in text}
        found = run_column(text, column, given, target=target, **group.options)
        for name, row in rows.items():
            z = column.centres if row.at is At.CENTRE else column.faces
            errors[name].append(norm(found[name][0] - row.exact(z), column, row.at))
    return {name: (found[0], _orders(found, widths)) for name, found in errors.items()}


def faults(group: Group, found: Mapping[str, Found]) -> list[str]:
    """Return which figures are not what they must be, in words; orders may be fewer than all."""
    wrong: list[str] = []
    for name, (first, orders) in found.items():
        row = group.rows[name]
        if row.first is not None and abs(first / row.first - 1.0) > row.share:
            wrong.append(f"{name}: the first error is {first:.5g}, not {row.first:.5g}")
        if row.orders is not None:
            for got, wanted in zip(orders, row.orders, strict=False):
                if abs(got - wanted) > row.room:
                    wrong.append(f"{name}: an order is {got:.4f}, not {wanted:.4f}")
        if row.between is not None:
            low, high = row.between
            outside = [order for order in orders if not low <= round(order, 3) <= high]
            wrong += [f"{name}: an order is {order:.4f}" for order in outside]
    return wrong


def _orders(errors: list[float], widths: list[float]) -> list[float]:
    return [
        math.log(coarse / fine) / math.log(wide / thin)
        for (coarse, fine), (wide, thin) in zip(pairwise(errors), pairwise(widths), strict=True)
    ]


def _wave(z: Array) -> Array:
    return np.sin(3 * PI * z)


def _slope(z: Array) -> Array:
    return 3 * PI * np.cos(3 * PI * z)


_ENDS = "bottom=SetValue(0.0), top=SetValue(0.0)"
_MEAN_C = "InterpolateF2C()(xf)"
_GRADIENT_F = "GradientC2F(bottom=SetGradient(g), top=SetGradient(-g))(xc)"
#: One program for both grids.
_UNIT = {
    "mean_c": (_MEAN_C, _wave, At.CENTRE),
    "weighted_c": ("WeightedInterpolateF2C()(wf, xf)", _wave, At.CENTRE),
    "mean_f": (f"InterpolateC2F({_ENDS})(xc)", _wave, At.FACE),
    "weighted_f": (f"WeightedInterpolateC2F({_ENDS})(wc, xc)", _wave, At.FACE),
    "gradient_c": ("GradientF2C()(xf)", _slope, At.CENTRE),
    "gradient_f": (_GRADIENT_F, _slope, At.FACE),
}
_UNIFORM = {
    **{name: Row(*parts) for name, parts in _UNIT.items()},
    "mean_c": Row(*_UNIT["mean_c"], 7.653e-3, orders=(1.998, 2.0, 2.0)),
    "gradient_c": Row(*_UNIT["gradient_c"], 2.406e-2, orders=(2.0, 2.0, 2.0), room=2e-3),
    "gradient_f": Row(*_UNIT["gradient_f"], between=(1.975, 1.994)),
}
_STRETCHED = {
    **{name: Row(*parts) for name, parts in _UNIT.items()},
    "mean_c": Row(*_UNIT["mean_c"], 2.524e-2, orders=(1.973, 1.987, 1.994)),
    "weighted_c": Row(*_UNIT["weighted_c"], orders=(1.893, 1.946, 1.976)),
    "mean_f": Row(*_UNIT["mean_f"], orders=(1.899, 1.961, 1.983)),
    "weighted_f": Row(*_UNIT["weighted_f"], orders=(1.838, 1.933, 1.969)),
}
_HALF = {
    "given": Row(
        "GradientC2F(bottom=SetValue(1.0), top=SetValue(-1.0))(cosine)",
        lambda z: -np.sin(z),
        At.FACE,
        4.347e-3,
        orders=(1.5, 1.5, 1.5),
        room=2e-3,
    ),
    "flat": Row(
        "GradientC2F(bottom=SetGradient(0.0), top=SetGradient(0.0))(cosine)",
        lambda z: -np.sin(z),
        At.FACE,
        orders=(2.0, 2.0, 2.0),
    ),
    "divergence": Row(
        f"DivergenceC2F({_ENDS})(sine)", np.cos, At.FACE, 2.839e-4, orders=(2.0, 2.0, 2.0)
    ),
}
_UPWIND3 = "DivergenceF2C()(Upwind3rdOrderBiasedProductC2F()({0}, x))"
_ROUND = {
    "steady": Row(_UPWIND3.format("one"), np.cos, At.CENTRE, 4.446e-4, orders=(2.996, 2.999, 3.0)),
    "swirl": Row(
        _UPWIND3.format("w"),
        lambda z: np.cos(2 * z),
        At.CENTRE,
        3.468e-3,
        orders=(2.019, 2.005, 2.001),
    ),
}
_LIMITED = {
    name: Row(
        f"DivergenceF2C()(LinVanLeerC2F(constraint={word})(one, x, 0.0))",
        np.cos,
        At.CENTRE,
        first,
        share=3e-3,
        orders=(order,),
        room=0.02,
    )
    for name, word, first, order in (
        ("mono5", "MonotoneLocalExtrema", 2.99e-2, 1.5),
        ("mono4", "MonotoneHarmonic", 2.74e-2, 1.5),
        ("coded", "PositiveDefiniteAsCoded", 6.94e-2, 1.0),
        ("plain", "AlgebraicMean", 2.31e-3, 2.0),
    )
}
_OPEN = {
    "advection": Row(
        "AdvectionC2C(bottom=SetValue(0.0), top=Extrapolate())(one, x)",
        np.cos,
        At.CENTRE,
        2.071e-2,
        orders=(2.08, 2.05, 2.03),
        room=5e-3,
    )
}
_SIDED = f"""DivergenceF2C({_ENDS})(
    Upwind3rdOrderBiasedProductC2F(bottom={{0}}(), top={{0}}())({{1}}, {{2}}))"""
_FIRST = _SIDED.format("FirstOrderOneSided", "one", "mean")
_THIRD = _SIDED.format("ThirdOrderOneSided", "w", "x")
_CLOSED = {
    "first": Row(_FIRST, np.cos, At.CENTRE, 1.685e-1, 5e-4, orders=(0.468, 0.498, 0.5)),
    "third": Row(
        _THIRD,
        lambda z: np.cos(2 * z),
        At.CENTRE,
        1.460e-2,
        orders=(2.02, 2.02, 2.01),
        room=6e-3,
    ),
}
_THIN = {"first": Row(_FIRST, np.cos, At.CENTRE, 2.005e-1, 5e-4, orders=(0.653, 0.214, 1.015))}


def _unit_fields(c: Column) -> dict[str, Any]:
    return {
        "xf": _wave(c.faces),
        "xc": _wave(c.centres),
        "wf": c.face_widths,
        "wc": c.centre_widths,
    }


def _half_fields(c: Column) -> dict[str, Any]:
    return {"cosine": np.cos(c.centres), "sine": np.sin(c.centres)}


def _round_fields(c: Column) -> dict[str, Any]:
    return {"one": np.ones(c.levels), "w": np.cos(c.faces), "x": np.sin(c.centres)}


def _open_fields(c: Column) -> dict[str, Any]:
    """Return a wind and a sine, and its means over 2 pi / n around each centre, however wide."""
    half = PI / c.levels
    mean = np.sin(c.centres) * (math.sin(half) / half)
    return {
        "one": np.ones(c.levels + 1),
        "w": np.cos(c.faces),
        "x": np.sin(c.centres),
        "mean": mean,
    }


def _round(n: int) -> Column:
    return uniform(n, 0.0, 2 * PI, periodic=True)


_SCALARS = {"scalars": {"g": 3 * PI}}
_PLACES = {"places": {"one": At.FACE, "w": At.FACE, "x": At.CENTRE}}
_WIDE = (16, 64, 256, 1024)
GROUPS: Mapping[str, Group] = {
    "uniform": Group(_UNIFORM, lambda n: uniform(n, 0.0, 1.0), _unit_fields, options=_SCALARS),
    "stretched": Group(
        _STRETCHED, lambda n: stretched(n, 0.0, 1.0, 0.5), _unit_fields, options=_SCALARS
    ),
    "half": Group(_HALF, lambda n: uniform(n, 0.0, PI), _half_fields),
    "round": Group(_ROUND, _round, _round_fields, options=_PLACES),
    "limited": Group(_LIMITED, _round, _round_fields, (32, 64), options=_PLACES),
    "open": Group(_OPEN, lambda n: uniform(n, 0.0, 4 * PI), _open_fields),
    "closed": Group(_CLOSED, lambda n: uniform(n, -PI, PI), _open_fields, _WIDE),
    "thin": Group(_THIN, lambda n: stretched(n, -PI, PI, 1.0), _open_fields, _WIDE),
}
