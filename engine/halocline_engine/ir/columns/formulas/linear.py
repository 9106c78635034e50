"""Formulas of the linear operators; spec and tests call the lower face of the column face 1/2.

Sources: ClimaCore's finite-difference operators for names and interiors; widths of cells and
distances of centres as metric. At the bottom `inward(0, 1)` is the first centre.
"""

from __future__ import annotations

from collections.abc import Callable

from halocline_engine.ir.columns.formulas.algebra import Real, choose
from halocline_engine.ir.columns.formulas.window import Window

__all__ = ["LINEAR", "one_sided"]


def _interpolate_f2c(w: Window) -> Real:
    return 0.5 * (w.x(0, 1) + w.x(0, -1))


def _ends_of_interpolation(w: Window, m: int) -> Real | None:
    """Return the value at an end face: given, from a gradient, or that of the next centre."""
    if w.near:
        return None
    match w.kind:
        case "SetValue":
            return w.value
        case "SetGradient":
            return w.inward(m, 1) - (0.5 * w.sign) * (w.value * w.width())
        case "Extrapolate":
            return w.inward(m, 1)
        case _:
            return None


def _interpolate_c2f(w: Window) -> Real:
    return _ends_of_interpolation(w, 0) or 0.5 * (w.x(0, 1) + w.x(0, -1))


def _weighted_f2c(w: Window) -> Real:
    weighted = w.x(0, 1) * w.x(1, 1) + w.x(0, -1) * w.x(1, -1)
    return weighted / (w.x(0, 1) + w.x(0, -1))


def _weighted_c2f(w: Window) -> Real:
    return _ends_of_interpolation(w, 1) or _weighted_f2c(w)


def _biased(step: int) -> Callable[[Window], Real]:
    def formula(w: Window) -> Real:
        end = w.stencil.bottom if step < 0 else w.stencil.top
        distance = w.low if step < 0 else w.high
        if end is not None and distance <= 1:
            return w.level(end.value)
        return w.x(0, step)

    return formula


def _left_biased_3(w: Window, m: int) -> Real:
    """Return the third-order value from two points below and one above."""
    return (10.0 * w.x(m, -1) - 2.0 * w.x(m, -3) + 4.0 * w.x(m, 1)) / 12.0


def _right_biased_3(w: Window, m: int) -> Real:
    """Return the third-order value from two points above and one below."""
    return (4.0 * w.x(m, -1) + 10.0 * w.x(m, 1) - 2.0 * w.x(m, 3)) / 12.0


def _biased_3(step: int) -> Callable[[Window], Real]:
    """Third order; next to the end the point outside is the mirror of the first at the value.

    ClimaCore's own formula there is marked as wrong by its authors.
    """

    def formula(w: Window) -> Real:
        end = w.stencil.bottom if step < 0 else w.stencil.top
        distance = w.low if step < 0 else w.high
        if end is not None and distance <= 1:
            return w.level(end.value)
        if end is not None and distance == 2:
            outside = 2.0 * w.level(end.value) - w.x(0, step)
            return (10.0 * w.x(0, step) - 2.0 * outside + 4.0 * w.x(0, -step)) / 12.0
        return _left_biased_3(w, 0) if step < 0 else _right_biased_3(w, 0)

    return formula


def one_sided(w: Window) -> Real | None:
    """Return the flux two points from an end whose boundary condition is one-sided."""
    velocity = w.x(0, 0)
    if w.near == 2 and w.kind == "FirstOrderOneSided":
        if w.sign == 1:
            return _upwind(velocity, w.x(1, -1), _right_biased_3(w, 1))
        return _upwind(velocity, _left_biased_3(w, 1), w.x(1, 1))
    if w.near == 2 and w.kind == "ThirdOrderOneSided":
        return velocity * (_right_biased_3(w, 1) if w.sign == 1 else _left_biased_3(w, 1))
    return None


def _upwind(velocity: Real, below: Real, above: Real) -> Real:
    """Return the flux of what comes from where the velocity comes from."""
    speed = abs(velocity)
    return 0.5 * ((velocity + speed) * below + (velocity - speed) * above)


def _upwind_1(w: Window) -> Real:
    if w.near == 0:
        match w.kind:
            case "SetValue":
                pair = (w.value, w.inward(1, 1))
                return _upwind(w.x(0, 0), *(pair if w.sign == 1 else pair[::-1]))
            case "Extrapolate":
                return _upwind_1(w.inner())
            case "ExtrapolateComponents":
                ratio = w.width() / w.width(2 * w.sign)
                return _upwind_1(w.inner()) * ratio
            case _:
                pass
    return _upwind(w.x(0, 0), w.x(1, -1), w.x(1, 1))


def _upwind_3(w: Window) -> Real:
    velocity = w.x(0, 0)
    near_end = one_sided(w)
    if near_end is not None:
        return near_end
    inner, outer = w.x(1, 1) + w.x(1, -1), w.x(1, 3) + w.x(1, -3)
    step, wide = w.x(1, 1) - w.x(1, -1), w.x(1, 3) - w.x(1, -3)
    return (velocity * (7.0 * inner - outer) - abs(velocity) * (3.0 * step - wide)) / 12.0


def _advection_f2f(w: Window) -> Real:
    return 0.5 * (w.x(0, 0) / w.width()) * (w.x(1, 2) - w.x(1, -2))


def _rate(w: Window, steps: int) -> Real:
    """Return the velocity in widths per time at a point around."""
    return w.x(0, steps) / w.width(steps)


def _advection_c2c(w: Window) -> Real:
    """Half the sum of what comes through both faces; the part of an end face may be given."""
    parts: list[Real] = []
    for side in (1, -1):
        outside = w.high if side == 1 else w.low
        end = w.stencil.top if side == 1 else w.stencil.bottom
        kind = end.kind if end is not None else ""
        if outside > 1 or not kind:
            difference = side * (w.x(1, 2 * side) - w.x(1, 0))
            parts.append(_rate(w, side) * difference)
        elif kind == "SetValue" and end is not None:
            difference = 2.0 * side * (w.level(end.value) - w.x(1, 0))
            parts.append(_rate(w, side) * difference)
    if len(parts) == 2:
        return 0.5 * (parts[0] + parts[1])
    return parts[0] if parts else w.x(1, 0).number(0.0)


def _correction(w: Window) -> Real:
    """Return upwind minus centred advection; the outer part of an end may be dropped."""
    parts: list[Real] = []
    for side in (1, -1):
        reach = w.high if side == 1 else w.low
        end = w.stencil.top if side == 1 else w.stencil.bottom
        if reach > 1 or end is None:
            parts.append(abs(_rate(w, side)) * (w.x(1, 2 * side) - w.x(1, 0)))
    if len(parts) == 2:
        return parts[0] + parts[1]
    return parts[0] if parts else w.x(1, 0).number(0.0)


def _set_boundary(w: Window) -> Real:
    return w.value if w.near == 0 and w.end is not None else w.x(0, 0)


def _gradient_f2c(w: Window) -> Real:
    if w.near == 1:
        match w.kind:
            case "SetValue":
                return _two_ends(w)
            case "Extrapolate":
                return _gradient_f2c(w.inner())
            case "ExtrapolateComponents":
                ratio = w.width(2 * w.sign) / w.width()
                return _gradient_f2c(w.inner()) * ratio
            case _:
                pass
    return (w.x(0, 1) - w.x(0, -1)) / w.width()


def _two_ends(w: Window) -> Real:
    """Return the difference over a cell whose outer face is given; in a single cell both may be."""
    other = w.stencil.top if w.sign == 1 else w.stencil.bottom
    both = w.low == w.high and other is not None and other.kind == "SetValue"
    inner = w.level(other.value) if both and other is not None else w.inward(0, 1)
    return _along(w, inner - w.value) / w.width()


def _along(w: Window, inwards: Real) -> Real:
    """Return an inward difference as one along height."""
    return inwards if w.sign == 1 else -inwards


def _gradient_c2f(w: Window) -> Real:
    if w.near == 0 and w.kind == "SetValue":
        return 2.0 * _along(w, w.inward(0, 1) - w.value) / w.width()
    if w.near == 0 and w.kind == "SetGradient":
        return w.value
    return (w.x(0, 1) - w.x(0, -1)) / w.width()


def _upwind_gradient(w: Window) -> Real:
    velocity = w.x(0, 0)
    below = (w.x(1, 0) - w.x(1, -2)) / w.width() if w.low > 1 else None
    above = (w.x(1, 2) - w.x(1, 0)) / w.width() if w.high > 1 else None
    if below is None or above is None:
        one_sided = above or below
        return one_sided if one_sided is not None else w.x(1, 2)
    average = 0.5 * (below + above)
    return choose(velocity > 0.0, below, choose(velocity < 0.0, above, average))


def _divergence_f2c(w: Window) -> Real:
    if w.near == 1:
        match w.kind:
            case "SetValue":
                return _two_ends(w)
            case "SetDivergence":
                return w.value
            case "Extrapolate":
                return _divergence_f2c(w.inner())
            case _:
                pass
    return (w.x(0, 1) - w.x(0, -1)) / w.width()


def _divergence_c2f(w: Window) -> Real:
    if w.near == 0 and w.kind == "SetValue":
        return 2.0 * _along(w, w.inward(0, 1) - w.value) / w.width()
    if w.near == 0 and w.kind == "SetDivergence":
        return w.value
    return (w.x(0, 1) - w.x(0, -1)) / w.width()


def _curl_c2f(w: Window) -> Real:
    """One component of the curl of a horizontal vector: -dv/dz, or du/dz."""
    turn = -1.0 if w.stencil.word == "1" else 1.0
    if w.near == 0 and w.kind == "SetValue":
        return (2.0 * turn * w.sign) * (w.inward(0, 1) - w.value) / w.width()
    if w.near == 0 and w.kind == "SetCurl":
        return w.value
    return turn * (w.x(0, 1) - w.x(0, -1)) / w.width()


LINEAR: dict[str, Callable[[Window], Real]] = {
    "InterpolateF2C": _interpolate_f2c,
    "InterpolateC2F": _interpolate_c2f,
    "LeftBiasedC2F": _biased(-1),
    "LeftBiasedF2C": _biased(-1),
    "RightBiasedC2F": _biased(1),
    "RightBiasedF2C": _biased(1),
    "LeftBiased3rdOrderC2F": _biased_3(-1),
    "LeftBiased3rdOrderF2C": _biased_3(-1),
    "RightBiased3rdOrderC2F": _biased_3(1),
    "RightBiased3rdOrderF2C": _biased_3(1),
    "WeightedInterpolateF2C": _weighted_f2c,
    "WeightedInterpolateC2F": _weighted_c2f,
    "UpwindBiasedProductC2F": _upwind_1,
    "Upwind3rdOrderBiasedProductC2F": _upwind_3,
    "AdvectionF2F": _advection_f2f,
    "AdvectionC2C": _advection_c2c,
    "FluxCorrectionC2C": _correction,
    "FluxCorrectionF2F": _correction,
    "SetBoundaryOperator": _set_boundary,
    "GradientF2C": _gradient_f2c,
    "GradientC2F": _gradient_c2f,
    "UpwindBiasedGradient": _upwind_gradient,
    "DivergenceF2C": _divergence_f2c,
    "DivergenceC2F": _divergence_c2f,
    "CurlC2F": _curl_c2f,
}
