"""Convergence orders and analytic columns of staggered operators, from ClimaCore's own tests.

Orders are per halving of the first cell, as there. Cases that share a grid run as one program, so
that each target compiles once: a program is the same for every number of levels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from column_cases import (
    Array,
    Column,
    Loader,
    Prepared,
    norm,
    run_column,
    runge_kutta,
    stretched,
    uniform,
)
from emulation.machine import EmulatedArtifact

from halocline_engine.backends.base import Executable
from halocline_engine.ir.columns_table import At
from halocline_engine.schedule.nodes import Schedule

PI = math.pi
SIZES = (32, 64, 128, 256)
Function = Callable[[Array], Array]
Fields = Callable[[Column], dict[str, Any]]


@pytest.fixture(scope="session")
def emulated() -> dict[str, Executable]:
    """Keep what was compiled in this run, equal sources once."""
    return {}


@pytest.fixture(params=("reference", "cpu", "cuda-emulated"))
def target(request: pytest.FixtureRequest) -> str | Loader:
    if request.param != "cuda-emulated":
        return str(request.param)
    folder: Path = request.getfixturevalue("emulation_folder")
    known: dict[str, Executable] = request.getfixturevalue("emulated")

    def load(schedule: Schedule) -> Executable:
        artifact = EmulatedArtifact(schedule, folder)
        return known.setdefault(artifact.source, artifact.load())

    return load


def wave(z: Array) -> Array:
    return np.sin(3 * PI * z)


def slope(z: Array) -> Array:
    return 3 * PI * np.cos(3 * PI * z)


def zero(z: Array) -> Array:
    return np.zeros_like(z)


#: Result: formula, exact function, place.
UNIT: dict[str, tuple[str, Function, At]] = {
    "mean_c": ("InterpolateF2C()(xf)", wave, At.CENTRE),
    "weighted_c": ("WeightedInterpolateF2C()(wf, xf)", wave, At.CENTRE),
    "mean_f": ("InterpolateC2F(bottom=SetValue(0.0), top=SetValue(0.0))(xc)", wave, At.FACE),
    "weighted_f": (
        "WeightedInterpolateC2F(bottom=SetValue(0.0), top=SetValue(0.0))(wc, xc)",
        wave,
        At.FACE,
    ),
    "gradient_c": ("GradientF2C()(xf)", slope, At.CENTRE),
    "gradient_f": (
        "GradientC2F(bottom=SetGradient(g), top=SetGradient(-g))(xc)",
        slope,
        At.FACE,
    ),
}
HALF: dict[str, tuple[str, Function, At]] = {
    "given": (
        "GradientC2F(bottom=SetValue(1.0), top=SetValue(-1.0))(cosine)",
        lambda z: -np.sin(z),
        At.FACE,
    ),
    "flat": (
        "GradientC2F(bottom=SetGradient(0.0), top=SetGradient(0.0))(cosine)",
        lambda z: -np.sin(z),
        At.FACE,
    ),
    "divergence": ("DivergenceC2F(bottom=SetValue(0.0), top=SetValue(0.0))(sine)", np.cos, At.FACE),
}


def unit_fields(c: Column) -> dict[str, Any]:
    return {
        "xf": wave(c.faces),
        "xc": wave(c.centres),
        "wf": c.face_widths,
        "wc": c.centre_widths,
    }


def half_fields(c: Column) -> dict[str, Any]:
    return {"cosine": np.cos(c.centres), "sine": np.sin(c.centres)}


def converge(
    cases: dict[str, tuple[str, Function, At]],
    grid: Callable[[int], Column],
    fields: Fields,
    target: str | Loader,
    *,
    sizes: tuple[int, ...] = SIZES,
    **kwargs: Any,
) -> dict[str, tuple[float, list[float]]]:
    """Return the first error and the orders of every case."""
    text = "\n".join(f"{name} = {formula}" for name, (formula, _, _) in cases.items())
    errors: dict[str, list[float]] = {name: [] for name in cases}
    widths: list[float] = []
    for size in sizes:
        column = grid(size)
        widths.append(float(column.centre_widths[0]))
        results = run_column(text, column, fields(column), target=target, **kwargs)
        for name, (_, exact, at) in cases.items():
            z = column.centres if at is At.CENTRE else column.faces
            errors[name].append(norm(results[name][0] - exact(z), column, at))
    return {name: (found[0], orders(found, widths)) for name, found in errors.items()}


def orders(errors: list[float], widths: list[float]) -> list[float]:
    return [
        math.log(e / f) / math.log(v / w)
        for e, f, v, w in zip(errors, errors[1:], widths, widths[1:], strict=False)
    ]


@pytest.mark.parametrize("kind", ["uniform", "stretched"])
def test_interpolation_and_gradients_converge(kind: str, target: str | Loader) -> None:
    def grid(n: int) -> Column:
        return uniform(n, 0.0, 1.0) if kind == "uniform" else stretched(n, 0.0, 1.0, 0.5)

    found = converge(UNIT, grid, unit_fields, target, scalars={"g": 3 * PI})
    if kind == "uniform":
        assert found["mean_c"][0] == pytest.approx(7.653e-3, rel=1e-3)
        assert found["mean_c"][1] == pytest.approx([1.998, 2.0, 2.0], abs=1e-3)
        assert found["gradient_c"][0] == pytest.approx(2.406e-2, rel=1e-3)
        assert found["gradient_c"][1] == pytest.approx([2.0] * 3, abs=2e-3)
        assert all(1.975 <= order <= 1.9945 for order in np.round(found["gradient_f"][1], 3))
        return
    assert found["mean_c"][0] == pytest.approx(2.524e-2, rel=1e-3)
    assert found["mean_c"][1] == pytest.approx([1.973, 1.987, 1.994], abs=1e-3)
    assert found["weighted_c"][1] == pytest.approx([1.893, 1.946, 1.976], abs=1e-3)
    assert found["mean_f"][1] == pytest.approx([1.899, 1.961, 1.983], abs=1e-3)
    assert found["weighted_f"][1] == pytest.approx([1.838, 1.933, 1.969], abs=1e-3)


def test_boundary_conditions_of_gradient_and_divergence(target: str | Loader) -> None:
    found = converge(HALF, lambda n: uniform(n, 0.0, PI), half_fields, target)
    first, given = found["given"]
    assert first == pytest.approx(4.347e-3, rel=1e-3)
    assert given == pytest.approx([1.5] * 3, abs=2e-3)
    assert found["flat"][1] == pytest.approx([2.0] * 3, abs=1e-3)
    assert found["divergence"][0] == pytest.approx(2.839e-4, rel=1e-3)
    assert found["divergence"][1] == pytest.approx([2.0] * 3, abs=1e-3)


ROUND: dict[str, tuple[str, Function, At]] = {
    "steady": (
        "DivergenceF2C()(Upwind3rdOrderBiasedProductC2F()(one, x))",
        np.cos,
        At.CENTRE,
    ),
    "swirl": (
        "DivergenceF2C()(Upwind3rdOrderBiasedProductC2F()(w, x))",
        lambda z: np.cos(2 * z),
        At.CENTRE,
    ),
    **{
        name: (
            f"DivergenceF2C()(LinVanLeerC2F(constraint={word})(one, x, 0.0))",
            np.cos,
            At.CENTRE,
        )
        for name, word in (
            ("mono5", "MonotoneLocalExtrema"),
            ("mono4", "MonotoneHarmonic"),
            ("coded", "PositiveDefiniteAsCoded"),
            ("plain", "AlgebraicMean"),
        )
    },
}


def around(
    names: tuple[str, ...], sizes: tuple[int, ...], target: str | Loader
) -> dict[str, tuple[float, list[float]]]:
    """Return the errors of cases on a periodic column."""
    return converge(
        {name: ROUND[name] for name in names},
        lambda n: uniform(n, 0.0, 2 * PI, periodic=True),
        lambda c: {"one": np.ones(c.levels), "w": np.cos(c.faces), "x": np.sin(c.centres)},
        target,
        sizes=sizes,
        places={"one": At.FACE, "w": At.FACE, "x": At.CENTRE},
    )


def test_transport_around_a_periodic_column(target: str | Loader) -> None:
    # Periodic programs know their size: what must compile each takes one, for the first errors.
    whole = target == "reference"
    if whole:
        limited = tuple(name for name in ROUND if name not in ("steady", "swirl"))
        found = around(("steady", "swirl"), SIZES, target) | around(limited, SIZES[:2], target)
    else:
        found = around(("steady",) if target == "cpu" else ("steady", "mono5"), SIZES[:1], target)
    first, steady = found["steady"]
    assert first == pytest.approx(4.446e-4, rel=1e-3)
    assert first <= 5e-4
    assert steady == pytest.approx([2.996, 2.999, 3.0][: len(steady)], abs=1e-3)
    if whole:
        first, swirl = found["swirl"]
        assert first == pytest.approx(3.468e-3, rel=1e-3)
        assert swirl == pytest.approx([2.019, 2.005, 2.001], abs=1e-3)
    expected = {"mono5": (2.99e-2, 1.5), "mono4": (2.74e-2, 1.5), "coded": (6.94e-2, 1.0)}
    for name, (error, order) in {**expected, "plain": (2.31e-3, 2.0)}.items():
        if name in found:
            assert found[name][0] == pytest.approx(error, rel=3e-3)
            assert found[name][1] == pytest.approx([order] * len(found[name][1]), abs=0.02)


OPEN: dict[str, tuple[str, Function, At]] = {
    "advection": (
        "AdvectionC2C(bottom=SetValue(0.0), top=Extrapolate())(one, x)",
        np.cos,
        At.CENTRE,
    ),
}
SIDED = """DivergenceF2C(bottom=SetValue(0.0), top=SetValue(0.0))(
    Upwind3rdOrderBiasedProductC2F(bottom={0}(), top={0}())({1}, {2}))"""
CLOSED: dict[str, tuple[str, Function, At]] = {
    "first": (SIDED.format("FirstOrderOneSided", "one", "mean"), np.cos, At.CENTRE),
    "third": (SIDED.format("ThirdOrderOneSided", "w", "x"), lambda z: np.cos(2 * z), At.CENTRE),
}


def open_fields(c: Column) -> dict[str, Any]:
    return {"one": np.ones(c.levels + 1), "w": np.cos(c.faces), "x": np.sin(c.centres)}


def sided_fields(c: Column) -> dict[str, Any]:
    """As between open ends, and means over 2 pi / n around each centre, however wide it is."""
    half = PI / c.levels
    return {**open_fields(c), "mean": np.sin(c.centres) * (math.sin(half) / half)}


def test_advection_between_two_ends(target: str | Loader) -> None:
    found = converge(OPEN, lambda n: uniform(n, 0.0, 4 * PI), open_fields, target)
    assert found["advection"][0] == pytest.approx(2.071e-2, rel=1e-3)
    assert found["advection"][1] == pytest.approx([2.08, 2.05, 2.03], abs=5e-3)


def squeezed(n: int) -> Column:
    return stretched(n, -PI, PI, 1.0)


def test_third_order_transport_with_one_sided_ends(target: str | Loader) -> None:
    sizes = (16, 64, 256, 1024)
    cases = CLOSED if target == "reference" else {"first": CLOSED["first"]}
    found = converge(cases, lambda n: uniform(n, -PI, PI), sided_fields, target, sizes=sizes)
    assert found["first"][0] == pytest.approx(1.685e-1, rel=5e-4)
    assert found["first"][1] == pytest.approx([0.468, 0.498, 0.5], abs=1e-3)
    if target != "reference":
        return
    thin = converge({"first": CLOSED["first"]}, squeezed, sided_fields, target, sizes=sizes)
    assert thin["first"][0] == pytest.approx(2.005e-1, rel=5e-4)
    assert thin["first"][1] == pytest.approx([0.653, 0.214, 1.015], abs=1e-3)
    assert found["third"][0] == pytest.approx(1.460e-2, rel=1e-3)
    assert found["third"][1] == pytest.approx([2.02, 2.02, 2.01], abs=6e-3)


HEAT = "d = DivergenceF2C()(0.1 * GradientC2F(bottom=SetValue(0.0), top=SetGradient(1.0))(T))"


def heat(levels: int, step: float, until: float, target: str | Loader) -> tuple[float, float]:
    """Return the largest error at multiples of 0.2 and the largest excess over 0 <= T <= z."""
    column = uniform(levels, 0.0, 1.0)
    z = column.centres
    rate = Prepared(HEAT, column, {"T": z}, target=target)
    m = np.arange(1, 201)[:, None]
    decay = (m - 0.5) * PI
    state, worst, excess = {"T": np.zeros((1, levels))}, 0.0, 0.0
    for number in range(round(until / step)):
        state = runge_kutta(lambda now, _: {"T": rate(now)["d"]}, state, number * step, step)
        time = (number + 1) * step
        excess = max(excess, float((state["T"] - z).max()), float(-state["T"].min()))
        if math.isclose(time / 0.2, round(time / 0.2)):
            series = (-1.0) ** (m + 1) * np.sin(decay * z) * np.exp(-0.1 * decay**2 * time)
            exact = z - 2 * (series / decay**2).sum(0)
            worst = max(worst, float(abs(state["T"][0] - exact).max()))
    return worst, excess


def test_heat_conduction(target: str | Loader) -> None:
    worst, excess = heat(10, 0.02, 1.0, target)
    assert worst == pytest.approx(1.2008e-3, rel=1e-3)
    assert worst < 2e-3
    assert excess <= 0.0
    if target == "cpu":
        coarse, _ = heat(10, 0.005, 0.2, target)
        fine, _ = heat(20, 0.005, 0.2, target)
        assert coarse / fine == pytest.approx(4.0, rel=0.05)


def same_as_cpu(
    text: str, column: Column, fields: dict[str, Any], scalars: dict[str, float]
) -> None:
    """Assert that the reference, slow to call, once makes the bits that the CPU makes."""
    one = run_column(text, column, fields, scalars=scalars)
    two = run_column(text, column, fields, scalars=scalars, target="cpu")
    for name, values in one.items():
        np.testing.assert_array_equal(values, two[name])


WAVE = """du = -DivergenceF2C()(p)
dp = -GradientC2F(bottom=SetValue(0.0), top=SetValue(0.0))(u)"""


def test_a_standing_wave(target: str | Loader) -> None:
    column, step = uniform(30, 0.0, 4 * PI), 4 * PI / 300
    fields = {"u": column.centres, "p": column.faces}
    if target == "reference":
        same_as_cpu(WAVE, column, fields, {})
        return
    rates = Prepared(WAVE, column, fields, target=target)
    weights = column.face_widths.copy()
    weights[[0, -1]] *= 0.5

    def energy(now: dict[str, Array]) -> float:
        return float((now["u"] ** 2 * column.centre_widths).sum() + (now["p"] ** 2 * weights).sum())

    def slopes(now: dict[str, Array], time: float) -> dict[str, Array]:
        found = rates(now)
        return {"u": found["du"], "p": found["dp"]}

    start = {"u": np.sin(column.centres)[None], "p": np.zeros((1, 31))}
    state, worst = start, [0.0, 0.0]
    for number in range(300):
        state = runge_kutta(slopes, state, number * step, step)
        time = (number + 1) * step
        off = (
            abs(state["u"][0] - np.sin(column.centres) * np.cos(time)).max(),
            abs(state["p"][0] + np.cos(column.faces) * np.sin(time)).max(),
        )
        worst = [max(w, float(o)) for w, o in zip(worst, off, strict=True)]
    assert worst == pytest.approx([0.0804, 0.0915], rel=2e-3)
    assert max(worst) < 0.15
    # The drift goes with the cube of the step: 1.02e-6 at 0.01, which takes three times as long.
    drift = energy(state) / energy(start) - 1.0
    assert drift / (step / 0.01) ** 3 == pytest.approx(-1.02e-6, rel=0.03)
    assert float(abs(state["u"] - start["u"]).max()) < 2e-2


ADVECT = """dq = -DivergenceF2C()(UpwindBiasedProductC2F(bottom=SetValue(s), top=SetValue(e))(w, q))
dr = FluxCorrectionC2C(bottom=Extrapolate(), top=Extrapolate())(w, r) - DivergenceF2C()(
    UpwindBiasedProductC2F(bottom=SetValue(s), top=SetValue(e))(w, r))
dx = -AdvectionC2C(bottom=SetValue(s), top=Extrapolate())(w, x)
dy = FluxCorrectionC2C(bottom=Extrapolate(), top=Extrapolate())(w, y) - AdvectionC2C(
    bottom=SetValue(s), top=Extrapolate())(w, y)"""


def test_advection_of_a_sine(target: str | Loader) -> None:
    column, step = uniform(128, 0.0, 4 * PI), 0.025
    wind = {"w": np.ones((1, 129))}
    state = dict.fromkeys("qrxy", np.sin(column.centres)[None])
    rates = Prepared(ADVECT, column, {**state, **wind}, target=target, scalars=("s", "e"))

    def slopes(now: dict[str, Array], time: float) -> dict[str, Array]:
        ends = {"s": math.sin(-time), "e": math.sin(4 * PI - time)}
        found = rates({**now, **wind}, ends)
        return {name: found[f"d{name}"] for name in now}

    if target == "reference":
        same_as_cpu(ADVECT, column, {**state, **wind}, {"s": -0.2, "e": 0.1})
        return
    for number in range(400):
        state = runge_kutta(slopes, state, number * step, step)
    exact = np.sin(column.centres - 10.0)
    errors = [float(abs(state[name][0] - exact).max()) for name in "qrxy"]
    assert errors == pytest.approx([0.386, 0.770, 0.0181, 0.621], rel=2e-3)
    assert all(error < bound for error, bound in zip(errors, (0.5, 1, 0.05, 1), strict=True))
    assert all(float(abs(values).max()) < 1.05 for values in state.values())
