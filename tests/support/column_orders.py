"""Cases of which the documentation shows how fast the error falls, by family of operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from column_cases import Array, Column, norm, run_column, stretched, uniform

from halocline_engine.ir.columns.table import At

__all__ = ["FAMILIES", "LEVELS", "Case", "errors_of"]

PI = math.pi
LEVELS = (16, 32, 64, 128, 256)
Grid = Callable[[int], Column]
Fields = Callable[[Column], dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """An expression on a grid; the result should be `exact` of the heights of `at`."""

    label: str
    text: str
    exact: Callable[[Array], Array]
    at: At
    grid: Grid
    fields: Fields


def _unit(n: int) -> Column:
    return uniform(n, 0.0, 1.0)


def _thin(n: int) -> Column:
    return stretched(n, 0.0, 1.0, 0.5)


def _half(n: int) -> Column:
    return uniform(n, 0.0, PI)


def _squeezed(n: int) -> Column:
    return stretched(n, 0.0, PI, 2.0)


def _long(n: int) -> Column:
    return uniform(n, 0.0, 4 * PI)


def _round(n: int) -> Column:
    return uniform(n, 0.0, 2 * PI, periodic=True)


def _wave(z: Array) -> Array:
    return np.sin(3 * PI * z)


def _slope(z: Array) -> Array:
    return 3 * PI * np.cos(3 * PI * z)


def _waves(c: Column) -> dict[str, Any]:
    found = {"xf": _wave(c.faces), "xc": _wave(c.centres)}
    return {**found, "wf": c.face_widths, "wc": c.centre_widths}


def _sines(c: Column) -> dict[str, Any]:
    found = {"c": np.cos(c.centres), "s": np.sin(c.centres), "sf": np.sin(c.faces)}
    return {**found, "w": np.ones(len(c.faces)), "cf": np.cos(c.faces)}


def _falling(z: Array) -> Array:
    return -np.sin(z)


def _rest(z: Array) -> Array:
    return 1.0 - np.cos(z)


def _area(z: Array) -> Array:
    return np.full_like(z, PI / 2)


def _limited(label: str, flux: str) -> Case:
    return Case(label, f"DivergenceF2C()({flux})", np.cos, At.CENTRE, _round, _sines)


_UPWIND = "UpwindBiasedProductC2F()(w, s)"
_ENDS = "bottom=SetValue(0.0), top=SetValue(0.0)"
_TVD = f"{_UPWIND} + TVDLimitedFluxC2F(method={{}})(w * InterpolateC2F()(s) - {_UPWIND}, s, w)"

FAMILIES: Mapping[str, tuple[Case, ...]] = {
    "interpolation": (
        Case("InterpolateF2C", "InterpolateF2C()(xf)", _wave, At.CENTRE, _unit, _waves),
        Case("InterpolateF2C, stretched", "InterpolateF2C()(xf)", _wave, At.CENTRE, _thin, _waves),
        Case(
            "WeightedInterpolateC2F, stretched",
            f"WeightedInterpolateC2F({_ENDS})(wc, xc)",
            _wave,
            At.FACE,
            _thin,
            _waves,
        ),
        Case(
            "LeftBiased3rdOrderC2F",
            "SetBoundaryOperator(top=SetValue(0.0))("
            "LeftBiased3rdOrderC2F(bottom=SetValue(0.0))(xc))",
            _wave,
            At.FACE,
            _unit,
            _waves,
        ),
        Case("LeftBiasedF2C", "LeftBiasedF2C()(xf)", _wave, At.CENTRE, _unit, _waves),
    ),
    "gradients": (
        Case("GradientF2C", "GradientF2C()(xf)", _slope, At.CENTRE, _unit, _waves),
        Case("GradientF2C, stretched", "GradientF2C()(xf)", _slope, At.CENTRE, _thin, _waves),
        Case(
            "GradientC2F, SetGradient",
            "GradientC2F(bottom=SetGradient(0.0), top=SetGradient(0.0))(c)",
            _falling,
            At.FACE,
            _half,
            _sines,
        ),
        Case(
            "GradientC2F, SetValue",
            "GradientC2F(bottom=SetValue(1.0), top=SetValue(-1.0))(c)",
            _falling,
            At.FACE,
            _half,
            _sines,
        ),
        Case(
            "DivergenceC2F, SetValue", f"DivergenceC2F({_ENDS})(s)", np.cos, At.FACE, _half, _sines
        ),
        Case("CurlC2F", f"CurlC2F(component=2, {_ENDS})(s)", np.cos, At.FACE, _half, _sines),
    ),
    "advection": (
        _limited("UpwindBiasedProductC2F", _UPWIND),
        _limited("Upwind3rdOrderBiasedProductC2F", "Upwind3rdOrderBiasedProductC2F()(w, s)"),
        Case(
            "AdvectionC2C, SetValue and Extrapolate",
            "AdvectionC2C(bottom=SetValue(0.0), top=Extrapolate())(w, s)",
            np.cos,
            At.CENTRE,
            _long,
            _sines,
        ),
        Case(
            "AdvectionF2F",
            "SetBoundaryOperator(bottom=SetValue(1.0), top=SetValue(1.0))(AdvectionF2F()(w, sf))",
            np.cos,
            At.FACE,
            _long,
            _sines,
        ),
    ),
    "limiters": (
        *(
            _limited(f"LinVanLeerC2F, {word}", f"LinVanLeerC2F(constraint={word})(w, s, 0.0)")
            for word in ("AlgebraicMean", "MonotoneLocalExtrema")
        ),
        _limited(
            "LinVanLeerC2F, PositiveDefiniteAsCoded",
            "LinVanLeerC2F(constraint=PositiveDefiniteAsCoded)(w, s, 0.0)",
        ),
        *(
            _limited(f"TVDLimitedFluxC2F, {word}", _TVD.format(word))
            for word in ("Koren", "Minmod")
        ),
    ),
    "reductions": (
        Case(
            "column_integral_definite",
            "column_integral_definite(c * c)",
            _area,
            At.FLAT,
            _squeezed,
            _sines,
        ),
        Case(
            "column_integral_indefinite",
            "column_integral_indefinite(s)",
            _rest,
            At.FACE,
            _half,
            _sines,
        ),
    ),
}


def errors_of(case: Case, sizes: tuple[int, ...] = LEVELS) -> list[float]:
    """Return the error on so many levels each: the root of the mean square over the column."""
    found: list[float] = []
    for levels in sizes:
        column = case.grid(levels)
        fields = {name: v for name, v in case.fields(column).items() if name in case.text}
        places = {n: At.FACE if n in ("w", "cf", "sf", "xf", "wf") else At.CENTRE for n in fields}
        result = run_column(case.text, column, fields, places=places)["result"][0]
        if case.at is At.FLAT:
            found.append(float(abs(result - case.exact(column.centres)[:1]).max()))
            continue
        z = column.centres if case.at is At.CENTRE else column.faces
        found.append(norm(result - case.exact(z), column, case.at))
    return found
