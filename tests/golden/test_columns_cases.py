"""Analytic columns that go on for longer, or differ from column to column.

Transport and diffusion together, air at rest, and boundary values that vary over the horizontal.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from column_cases import Array, Column, Prepared, norm, run_column, runge_kutta, stretched, uniform

from halocline_engine.ir.columns_table import At

PI = math.pi
#: A wind of 1 and a diffusivity of 5 carry and spread what is at -1/2 when time is -1.
START, WIDTH, AGE = -0.5, 5.0, 1.0
CARRIED = """dT = DivergenceF2C()(
    5.0 * GradientC2F(bottom=SetGradient(below), top=SetValue(above))(T)
    - InterpolateC2F(bottom=SetValue(under), top=SetValue(above))(T))"""


def bell(z: Array | float, time: float) -> Any:
    """Return a solution of T_t + T_z = 5 T_zz."""
    age = AGE + time
    return np.exp(-((z - START - time) ** 2) / (4 * WIDTH * age)) / math.sqrt(age / AGE)


def bell_slope(z: float, time: float) -> float:
    away = z - START - time
    return float(-away / (2 * WIDTH * (AGE + time)) * bell(z, time))


def carried(levels: int, until: float) -> float:
    """Return the error of transport and diffusion, with steps that are stable and small."""
    column = uniform(levels, 0.0, 10.0)
    steps = round(until / (0.5 / levels**2 * 16))
    state = {"T": bell(column.centres, 0.0)[None]}
    names = ("below", "under", "above")
    rate = Prepared(CARRIED, column, state, target="cpu", scalars=names)

    def slopes(now: dict[str, Array], time: float) -> dict[str, Array]:
        ends = (bell_slope(0.0, time), float(bell(0.0, time)), float(bell(10.0, time)))
        return {"T": rate(now, dict(zip(names, ends, strict=True)))["dT"]}

    step = until / steps
    for number in range(steps):
        state = runge_kutta(slopes, state, number * step, step)
    return norm(state["T"][0] - bell(column.centres, until), column, At.CENTRE)


def test_transport_and_diffusion_together_converge() -> None:
    errors = [carried(levels, 0.25) for levels in (32, 64, 128)]
    for coarse, fine in pairwise(errors):
        assert 1.4 < math.log2(coarse / fine) < 2.6


GAS, HEAT, GRAVITY, SURFACE = 287.0, 1004.0, 9.81, 1e5
#: Air in flux form, with the pressure of an ideal gas; it stays inside.
AIR = f"""_p = {SURFACE} * ({GAS / SURFACE} * m) ** {HEAT / (HEAT - GAS)}
dr = -DivergenceF2C()(w * InterpolateC2F(bottom=Extrapolate(), top=Extrapolate())(r))
dm = -DivergenceF2C()(w * InterpolateC2F(bottom=Extrapolate(), top=Extrapolate())(m))
dw = SetBoundaryOperator(bottom=SetValue(0.0), top=SetValue(0.0))(
    -GradientC2F()(_p) / InterpolateC2F()(r) - {GRAVITY})"""


def at_rest(column: Column) -> dict[str, Array]:
    """Return air of 250 K whose pressure carries its weight, from level to level."""
    kelvin = 250.0
    pressures = [0.93 * SURFACE]
    for width in column.face_widths[1:-1]:
        half = 0.5 * GRAVITY * width / (GAS * kelvin)
        pressures.append(pressures[-1] * (1.0 - half) / (1.0 + half))
    p = np.array(pressures)[None]
    return {
        "r": p / (GAS * kelvin),
        "m": SURFACE / GAS * (p / SURFACE) ** ((HEAT - GAS) / HEAT),
        "w": np.zeros((1, column.levels + 1)),
    }


def test_air_at_rest_stays_at_rest() -> None:
    column = uniform(30, 0.0, 30e3)
    state = at_rest(column)
    mass = float((state["r"] * column.centre_widths).sum())
    rates = Prepared(AIR, column, state, target="cpu")

    def slopes(now: dict[str, Array], time: float) -> dict[str, Array]:
        found = rates(now)
        return {name: found[f"d{name}"] for name in now}

    for number in range(400):
        state = runge_kutta(slopes, state, float(number), 1.0)
    assert float(abs(state["w"]).max()) < 1e-8
    drift = float((state["r"] * column.centre_widths).sum()) / mass - 1.0
    assert abs(drift) < 1e-10


VARYING = """g = GradientC2F(bottom=SetGradient(s), top=SetValue(e))(x)
d = DivergenceF2C(bottom=SetValue(b), top=SetDivergence(t))(f)
i = InterpolateC2F(bottom=SetGradient(s), top=SetValue(e))(x)"""


def test_boundary_values_may_vary_from_column_to_column() -> None:
    phase = np.linspace(0.0, 2.0, 7)[:, None]
    errors: dict[str, list[float]] = {"g": [], "d": [], "i": []}
    for levels in (32, 64, 128):
        column = stretched(levels, 0.0, PI, 2.0)
        fields = {
            "x": np.sin(column.centres + phase),
            "f": np.sin(column.faces + phase),
            "s": np.cos(phase),
            "e": np.sin(PI + phase),
            "b": np.sin(phase),
            "t": np.cos(column.centres[-1] + phase),
        }
        found = run_column(VARYING, column, fields)
        for name, values in found.items():
            at, z = (At.CENTRE, column.centres) if name == "d" else (At.FACE, column.faces)
            exact = np.sin(z + phase) if name == "i" else np.cos(z + phase)
            error = np.sqrt(((values - exact) ** 2).mean(0))
            errors[name].append(norm(error, column, at))
    # A gradient beside a given value is of first order on that face, and of 1.5th in the mean.
    for name, least in (("g", 1.45), ("d", 1.85), ("i", 1.85)):
        for coarse, fine in pairwise(errors[name]):
            assert least < math.log2(coarse / fine) < 2.1, name
