"""Formulas of the operators with limiters: they are linear in none of their arguments.

Where ClimaCore's code differs from the paper that it cites, the paper's form is the default and
the other one has a name that ends in `AsCoded`. Conditions are written so that NaN stays NaN.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from halocline_engine.ir.columns.formulas.algebra import Real, choose
from halocline_engine.ir.columns.formulas.linear import one_sided
from halocline_engine.ir.columns.formulas.window import Window

__all__ = ["LIMITED"]


def _signed(magnitude: Real, like: Real) -> Real:
    """Return a magnitude with the sign of another value."""
    return choose(like < 0.0, -magnitude, magnitude)


def _slope(word: str, below: Real, here: Real, above: Real) -> Real:
    """Return the slope of a cell from three cell means; Lin et al. 1994, equations 4 to 6."""
    average = 0.5 * (above - below)
    low, high = here.least(below, above), here.most(below, above)
    match word:
        case "MonotoneLocalExtrema":
            return _signed(abs(average).least(2.0 * (here - low), 2.0 * (high - here)), average)
        case "MonotoneHarmonic":
            product = (here - below) * (above - here)
            return choose(product <= 0.0, product.number(0.0), product / average)
        case "PositiveDefinite":
            return _signed(abs(average).least(2.0 * here.most(0.0)), average)
        case "PositiveDefiniteAsCoded":
            down, up = (above - low).most(0.0), (high - above).most(0.0)
            return _signed(abs(average).least(2.0 * down, 2.0 * up), average)
        case _:
            return average


def _van_leer(w: Window) -> Real:
    velocity = w.x(0, 0)
    near_end = one_sided(w)
    if near_end is not None:
        return near_end
    word = w.stencil.word
    inside = 1.0 - abs(velocity / w.width()) * w.x(2, 0)
    rising = _slope(word, w.x(1, -3), w.x(1, -1), w.x(1, 1)) * inside
    falling = _slope(word, w.x(1, -1), w.x(1, 1), w.x(1, 3)) * inside
    carried = choose(velocity < 0.0, w.x(1, 1) - 0.5 * falling, w.x(1, -1) + 0.5 * rising)
    return velocity * carried


def _is_closed(w: Window) -> bool:
    """Whether this face is one of the two at an end where no correction is made."""
    return w.near <= 2 and w.kind == "FirstOrderOneSided"


def _boris_book(w: Window) -> Real:
    """Return the correction that makes no new extremum; Boris and Book 1973, field over dt."""
    if _is_closed(w):
        return w.x(0, 0).number(0.0)
    flux = w.x(0, 0)
    sign = _signed(flux.number(1.0), flux)
    above = sign * (w.x(1, 3) - w.x(1, 1)) * w.width(1)
    below = sign * (w.x(1, -1) - w.x(1, -3)) * w.width(-1)
    return sign * abs(flux).least(above, below).most(0.0)


def _zalesak(w: Window) -> Real:
    """Return the correction that stays between the neighbours' values; Zalesak 1979, section 4.

    The arguments are the correction A on faces, the field and its low-order update, both over dt.
    """
    if _is_closed(w):
        return w.x(0, 0).number(0.0)
    flux = _against_gradient(w)
    before, after = w.x(0, -2), w.x(0, 2)
    out_below, into_below = _outward(flux, before), _outward(before, flux)
    out_above, into_above = _outward(after, flux), _outward(flux, after)
    low_below, high_below = _bounds(w, -1)
    low_above, high_above = _bounds(w, 1)
    below, above = w.x(2, -1), w.x(2, 1)
    width_below, width_above = w.width(-1), w.width(1)
    rising = _ratio((high_above - above) * width_above, into_above).least(
        _ratio((below - low_below) * width_below, out_below)
    )
    falling = _ratio((high_below - below) * width_below, into_below).least(
        _ratio((above - low_above) * width_above, out_above)
    )
    return flux * choose(flux < 0.0, falling, rising)


def _against_gradient(w: Window) -> Real:
    """Return A, but 0 where it would flatten what the low-order update left steep."""
    flux = w.x(0, 0)
    here = w.x(2, 1) - w.x(2, -1)
    above, below = w.x(2, 3) - w.x(2, 1), w.x(2, -1) - w.x(2, -3)
    kept = (flux * here).most((flux * above).least(flux * below))
    return choose(kept < 0.0, flux.number(0.0), flux)


def _outward(upper: Real, lower: Real) -> Real:
    """Return what leaves a cell through both faces; with faces exchanged, what enters it."""
    return upper.most(0.0) - lower.least(0.0)


def _bounds(w: Window, side: int) -> tuple[Real, Real]:
    """Return the least and the largest value of a cell and its neighbours, before and after."""
    values = [w.x(m, side + step) for m in (1, 2) for step in (-2, 0, 2)]
    return values[0].least(*values[1:]), values[0].most(*values[1:])


def _ratio(room: Real, flux: Real) -> Real:
    """Return which part of a flux there is room for; nothing where nothing flows."""
    return choose(flux <= 0.0, flux.number(0.0), (room / flux).least(1.0))


def _limiter(word: str, r: Real) -> Real:
    """Return C(r); Sweby 1984 for the region, the authors' names for the functions."""
    zero, one = r.number(0.0), r.number(1.0)
    match word:
        case "Zero":
            return zero
        case "Half":
            return r.number(0.5)
        case "Max":
            return one
        case "Minmod":
            return r.least(1.0).most(0.0)
        case "Superbee":
            return (2.0 * r).least(1.0).most(0.0, r.least(2.0))
        case "SuperbeeAsCoded":
            return r.least(1.0).most(0.0, r.least(2.0))
        case "MC":
            return (2.0 * r).least((1.0 + r) / 2.0, 2.0).most(0.0)
        case _:
            return (2.0 * r).least((1.0 + 2.0 * r) / 3.0, 2.0).most(0.0)


def _tvd(w: Window) -> Real:
    """Return a high-order correction times a limiter of the ratio of neighbouring slopes."""
    if _is_closed(w):
        return w.x(0, 0).number(0.0)
    flux, velocity = w.x(0, 0), w.x(2, 0)
    tiny = float(np.finfo(flux.expr.dtype.value).eps)
    upstream = choose(velocity < 0.0, w.x(1, 3) - w.x(1, 1), w.x(1, -1) - w.x(1, -3))
    ratio = upstream / (w.x(1, 1) - w.x(1, -1) + tiny)
    return _limiter(w.stencil.word, ratio) * flux


LIMITED: dict[str, Callable[[Window], Real]] = {
    "LinVanLeerC2F": _van_leer,
    "FCTBorisBook": _boris_book,
    "FCTZalesak": _zalesak,
    "TVDLimitedFluxC2F": _tvd,
}
