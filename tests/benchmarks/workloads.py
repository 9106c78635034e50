"""What is timed: programs, with the bytes that each must move, for every target and peer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["CASES", "Case", "Domain", "case", "drawn"]

Domain: TypeAlias = tuple[int, int, int]
_Range: TypeAlias = tuple[float, float]
NEAR = (-3.0, 3.0)


@dataclass(frozen=True)
class Case:
    """A program in which `{dtype}` stands for "float32" or "float64".

    `inputs` gives the range from which each field that is read is drawn, in the order of the text,
    and `outputs` the fields that are written. Each of them counts once per point. `halo` is what
    arrays hold around the domain along I, J and K.
    """

    name: str
    text: str
    inputs: Mapping[str, _Range]
    outputs: tuple[str, ...]
    halo: Domain
    scalars: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def fields(self) -> tuple[str, ...]:
        """The arrays, in the order of the text."""
        return (*self.inputs, *self.outputs)

    @property
    def passes(self) -> int:
        """How often the whole domain is read or written at least."""
        return len(self.fields)

    def bytes_per_point(self, dtype: str) -> int:
        """Return the compulsory bytes."""
        return self.passes * np.dtype(dtype).itemsize


def _one(name: str, body: str, halo: Domain, scalar: float | None = None) -> Case:
    """Return a case of one input and one output."""
    weight = "" if scalar is None else ", w: {dtype}"
    text = f"""
def program(u: Field[{{dtype}}], v: Field[{{dtype}}]{weight}):
    with computation(PARALLEL), interval(...):
        v = {body}
"""
    scalars = {} if scalar is None else {"w": scalar}
    return Case(name, text, {"u": NEAR}, ("v",), halo, scalars)


def _box(levels: tuple[int, ...]) -> str:
    """Return the sum over a square of nine points on each of some levels."""
    points = [(i, j, k) for k in levels for j in (-1, 0, 1) for i in (-1, 0, 1)]
    return " + ".join(f"u[{i}, {j}, {k}]" for i, j, k in points)


def _star(radius: int) -> str:
    """Return a weighted star, the same weight for all points at one distance."""
    rings = ["{dtype}(0.25) * u"]
    for r in range(1, radius + 1):
        ring = " + ".join(
            f"u[{', '.join(str(sign * r) if axis == a else '0' for a in range(3))}]"
            for axis in range(3)
            for sign in (-1, 1)
        )
        rings.append(f"{{dtype}}({1 / 2 ** (r + 3)}) * ({ring})")
    return " + ".join(rings)


DIFFUSION = """
def program(inp: Field[{dtype}], coeff: Field[{dtype}], out: Field[{dtype}]):
    with computation(PARALLEL), interval(...):
        lap = {dtype}(4.0) * inp - (inp[-1, 0, 0] + inp[1, 0, 0] + inp[0, -1, 0] + inp[0, 1, 0])
        flx = lap[1, 0, 0] - lap
        flx = {dtype}(0.0) if flx * (inp[1, 0, 0] - inp) > {dtype}(0.0) else flx
        fly = lap[0, 1, 0] - lap
        fly = {dtype}(0.0) if fly * (inp[0, 1, 0] - inp) > {dtype}(0.0) else fly
        out = inp - coeff * (flx - flx[-1, 0, 0] + fly - fly[0, -1, 0])
"""
ADVECTION = """
def program(utens_stage: Field[{dtype}], u_stage: Field[{dtype}], wcon: Field[{dtype}],
            u_pos: Field[{dtype}], utens: Field[{dtype}], out: Field[{dtype}], dtr: {dtype}):
    with computation(FORWARD):
        with interval(0, 1):
            gcv = {dtype}(0.25) * (wcon[1, 0, 1] + wcon[0, 0, 1])
            cs = gcv * {dtype}(0.5)
            ccol = gcv * {dtype}(0.5)
            bcol = dtr - ccol
            corr = -cs * (u_stage[0, 0, 1] - u_stage)
            dcol = dtr * u_pos + utens + utens_stage + corr
            divided = {dtype}(1.0) / bcol
            ccol = ccol * divided
            dcol = dcol * divided
        with interval(1, -1):
            gav = {dtype}(-0.25) * (wcon[1, 0, 0] + wcon)
            gcv = {dtype}(0.25) * (wcon[1, 0, 1] + wcon[0, 0, 1])
            as_ = gav * {dtype}(0.5)
            cs = gcv * {dtype}(0.5)
            acol = gav * {dtype}(0.5)
            ccol = gcv * {dtype}(0.5)
            bcol = dtr - acol - ccol
            corr = -as_ * (u_stage[0, 0, -1] - u_stage) - cs * (u_stage[0, 0, 1] - u_stage)
            dcol = dtr * u_pos + utens + utens_stage + corr
            divided = {dtype}(1.0) / (bcol - ccol[0, 0, -1] * acol)
            ccol = ccol * divided
            dcol = (dcol - dcol[0, 0, -1] * acol) * divided
        with interval(-1, None):
            gav = {dtype}(-0.25) * (wcon[1, 0, 0] + wcon)
            as_ = gav * {dtype}(0.5)
            acol = gav * {dtype}(0.5)
            bcol = dtr - acol
            corr = -as_ * (u_stage[0, 0, -1] - u_stage)
            dcol = dtr * u_pos + utens + utens_stage + corr
            divided = {dtype}(1.0) / (bcol - ccol[0, 0, -1] * acol)
            dcol = (dcol - dcol[0, 0, -1] * acol) * divided
    with computation(BACKWARD):
        with interval(-1, None):
            data = dcol
            out = dtr * (data - u_pos)
        with interval(0, -1):
            data = dcol - ccol * data[0, 0, 1]
            out = dtr * (data - u_pos)
"""
TRIDIAGONAL = """
def program(a: Field[{dtype}], b: Field[{dtype}], c: Field[{dtype}], d: Field[{dtype}],
            x: Field[{dtype}]):
    with computation(FORWARD):
        with interval(0, 1):
            above = c / b
            right = d / b
        with interval(1, None):
            scale = {dtype}(1.0) / (b - above[0, 0, -1] * a)
            above = c * scale
            right = (d - a * right[0, 0, -1]) * scale
    with computation(BACKWARD):
        with interval(-1, None):
            x = right
        with interval(0, -1):
            x = right - above * x[0, 0, 1]
"""
_FIVE = "w * (u + u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0])"
_SEVEN = _FIVE[:-1] + " + u[0, 0, -1] + u[0, 0, 1])"
CASES = (
    _one("copy", "u", (0, 0, 0)),
    _one("2d5pt", _FIVE, (1, 1, 0), 0.2),
    _one("2d9pt", f"w * ({_box((0,))})", (1, 1, 0), 1 / 9),
    _one("3d7pt", _SEVEN, (1, 1, 1), 1 / 7),
    _one("3d27pt", f"w * ({_box((-1, 0, 1))})", (1, 1, 1), 1 / 27),
    _one("star r=4", _star(4), (4, 4, 4)),
    Case(
        "horizontal diffusion",
        DIFFUSION,
        {"inp": NEAR, "coeff": (0.0, 0.1)},
        ("out",),
        (2, 2, 0),
    ),
    Case(
        "vertical advection",
        ADVECTION,
        {
            "utens_stage": NEAR,
            "u_stage": NEAR,
            "wcon": (-0.05, 0.05),
            "u_pos": NEAR,
            "utens": (-0.1, 0.1),
        },
        ("out",),
        (1, 0, 0),
        {"dtr": 3 / 20},
    ),
    Case(
        "tridiagonal",
        TRIDIAGONAL,
        {"a": (-1.0, 1.0), "b": (3.0, 4.0), "c": (-1.0, 1.0), "d": NEAR},
        ("x",),
        (0, 0, 0),
    ),
)


def case(name: str) -> Case:
    """Return the case of a name."""
    return next(one for one in CASES if one.name == name)


def drawn(one: Case, domain: Domain, dtype: str, seed: int = 7) -> dict[str, NDArray[np.floating]]:
    """Return random inputs and NaN outputs, indexed [k, j, i], with the case's halo."""
    ni, nj, nk = (n + 2 * h for n, h in zip(domain, one.halo, strict=True))
    random = np.random.default_rng(seed)
    fields: dict[str, NDArray[np.floating]] = {
        name: random.uniform(*bounds, (nk, nj, ni)).astype(dtype)
        for name, bounds in one.inputs.items()
    }
    return fields | {name: np.full((nk, nj, ni), np.nan, dtype) for name in one.outputs}
