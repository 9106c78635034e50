"""What operators of the column language promise: every one at every end, on every target."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from column_cases import Array, Column, Prepared, run_column, stretched, uniform
from emulation.machine import EmulatedArtifact
from interpreted import patch

from halocline_engine.backends.base import Executable
from halocline_engine.backends.registry import find
from halocline_engine.ir.columns.table import CONDITIONS, OPERATORS, At, Operator
from halocline_engine.schedule.nodes import Schedule

SIZED = {At.CENTRE: "c", At.FACE: "f", At.FLAT: "k", None: "c"}
#: They have no value on the outermost faces, which an outer operator must set.
OPEN = ("Upwind3rdOrderBiasedProductC2F", "LinVanLeerC2F")


def spelled(operator: Operator, bottom: str, top: str, word: str) -> str:
    """Return an application to c1, f2 and so on, where it has a value on every level."""
    ends = [(side, kind) for side, kind in (("bottom", bottom), ("top", top)) if kind]
    options = [f"{s}={k}({('b' if s == 'bottom' else 't') * CONDITIONS[k]})" for s, k in ends]
    options += [f"{operator.option}={word}"] if word else []
    arguments = [f"{SIZED[at]}{n}" for n, at in enumerate(operator.arguments)]
    text = f"{operator.name}({', '.join(options)})({', '.join(arguments)})"
    if operator.result is not At.FACE or (bottom and top and operator.name not in OPEN):
        return text
    return f"SetBoundaryOperator(bottom=SetValue(0.0), top=SetValue(0.0))({text})"


def every() -> Iterator[Any]:
    for operator in OPERATORS.values():
        bottoms, tops = operator.bottom or ("",), operator.top or ("",)
        # Every condition is once at each end, mixed where there are several.
        pairs = [(kind, tops[(at + 1) % len(tops)]) for at, kind in enumerate(bottoms)]
        for (bottom, top), word in itertools.product(pairs, operator.words or ("",)):
            name = "-".join(part for part in (operator.name, bottom, top, word) if part)
            yield pytest.param(operator, spelled(operator, bottom, top, word), id=name)


def fields_for(operator: Operator, column: Column, seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    sizes = {At.CENTRE: column.levels, At.FACE: column.levels + 1, At.FLAT: 1, None: column.levels}
    made = {
        f"{SIZED[at]}{n}": random.normal(size=(3, sizes[at]))
        for n, at in enumerate(operator.arguments)
    }
    if operator.name.startswith("Weighted"):
        first = next(iter(made))
        made[first] = abs(made[first]) + 0.5
    return {**made, "b": random.normal(size=(3, 1)), "t": random.normal(size=(3, 1))}


@pytest.mark.parametrize(("operator", "text"), list(every()))
def test_turning_the_column_over_in_memory_changes_no_bit(operator: Operator, text: str) -> None:
    column = stretched(12, 0.0, 2.0, 0.7)
    fields = fields_for(operator, column)
    up = run_column(text, column, fields)["result"]
    down = run_column(text, Column(column.heights, flipped=True), fields)["result"]
    assert np.isfinite(up).all()
    np.testing.assert_array_equal(up, down)


#: What an operator gives for mirrored arguments: itself, or its negative.
MIRRORED = {
    "InterpolateC2F": 1,
    "WeightedInterpolateC2F": 1,
    "GradientF2C": -1,
    "GradientC2F": -1,
    "DivergenceF2C": -1,
    "DivergenceC2F": -1,
    "CurlC2F": -1,
    "InterpolateF2C": 1,
    "WeightedInterpolateF2C": 1,
}


@pytest.mark.parametrize("name", MIRRORED)
def test_even_and_odd_columns_stay_so(name: str) -> None:
    operator = OPERATORS[name]
    column = uniform(20, -1.0, 1.0)
    fields = fields_for(operator, column)
    turned = {n: values[..., ::-1] for n, values in fields.items()}
    set_value = "SetValue" if operator.bottom else ""
    text = spelled(operator, set_value, set_value, "")
    mirrored = {**turned, "b": fields["t"], "t": fields["b"]}
    one = run_column(text, column, fields)["result"]
    two = run_column(text, column, mirrored)["result"][:, ::-1]
    np.testing.assert_allclose(two, MIRRORED[name] * one, rtol=1e-12, atol=1e-12)


#: The same for operators with a velocity or a flux, which turns as well: a sign, and its places.
TURNED = {
    "UpwindBiasedProductC2F": (-1, (0,)),
    "Upwind3rdOrderBiasedProductC2F": (-1, (0,)),
    "LinVanLeerC2F": (-1, (0,)),
    "FCTBorisBook": (-1, (0,)),
    "FCTZalesak": (-1, (0,)),
    "TVDLimitedFluxC2F": (-1, (0, 2)),
    "AdvectionC2C": (1, (0,)),
    "AdvectionF2F": (1, (0,)),
    "FluxCorrectionC2C": (1, (0,)),
    "FluxCorrectionF2F": (1, (0,)),
    "UpwindBiasedGradient": (-1, (0,)),
}


@pytest.mark.parametrize("name", TURNED)
def test_flows_that_turn_around_turn_their_results(name: str) -> None:
    operator, (sign, flows) = OPERATORS[name], TURNED[name]
    column = uniform(20, -1.0, 1.0)
    fields = fields_for(operator, column)
    turned = {n: values[..., ::-1] for n, values in fields.items()}
    arguments = [f"{SIZED[at]}{n}" for n, at in enumerate(operator.arguments)]
    turned |= {arguments[n]: -turned[arguments[n]] for n in flows}
    mirrored = {**turned, "b": fields["t"], "t": fields["b"]}
    for condition in operator.bottom or ("",):
        for word in operator.words or ("",):
            text = spelled(operator, condition, condition, word)
            one = run_column(text, column, fields)["result"]
            two = run_column(text, column, mirrored)["result"][:, ::-1]
            if word == "PositiveDefiniteAsCoded":
                # It limits with the mean of the cell above, whichever way the wind blows.
                assert not np.allclose(two, sign * one)
                continue
            np.testing.assert_allclose(two, sign * one, rtol=1e-11, atol=1e-11, err_msg=text)


@pytest.mark.parametrize("levels", [1, 2, 3, 4, 5, 9, 70])
def test_any_number_of_levels_is_right(levels: int) -> None:
    column = stretched(levels, 0.0, 1.0, 0.6)
    random = np.random.default_rng(levels)
    f, a = random.normal(size=(4, levels + 1)), random.normal(size=(4, levels))
    g = random.normal(size=(4, 1))
    text = """out = DivergenceF2C(bottom=SetValue(0.5))(f * GradientC2F(top=SetGradient(g))(a * a))
mean = InterpolateC2F(bottom=SetGradient(g), top=Extrapolate())(a)
total = column_integral_definite(a)
sum = column_integral_indefinite(a)"""
    places = {"f": At.FACE, "a": At.CENTRE, "g": At.FLAT}
    got = run_column(text, column, {"f": f, "a": a, "g": g}, places=places)
    flux = np.empty((4, levels + 1))
    flux[:, 1:-1] = f[:, 1:-1] * np.diff(a * a) / np.diff(column.centres)
    flux[:, 0], flux[:, -1] = 0.5, f[:, -1] * g[:, 0]
    np.testing.assert_allclose(got["out"], np.diff(flux) / column.centre_widths, rtol=1e-10)
    first = a[:, :1] - 0.5 * g * column.centre_widths[0]
    inner = 0.5 * (a[:, 1:] + a[:, :-1])
    np.testing.assert_allclose(got["mean"], np.hstack([first, inner, a[:, -1:]]), rtol=1e-12)
    sums = np.cumsum(a * column.centre_widths, axis=1)
    np.testing.assert_allclose(got["total"][:, 0], sums[:, -1], rtol=1e-12, atol=1e-15)
    zero = np.zeros((4, 1))
    np.testing.assert_allclose(got["sum"], np.hstack([zero, sums]), rtol=1e-12, atol=1e-15)


def test_values_that_an_outer_condition_replaces_never_leak() -> None:
    column = uniform(8, 0.0, 1.0)
    f = np.ones((1, 9))
    f[0, [0, -1]] = np.nan
    text = "DivergenceF2C(bottom=SetValue(1.0), top=SetValue(2.0))(f * GradientC2F()(a))"
    got = run_column(text, column, {"f": f, "a": column.centres[None]})["result"]
    np.testing.assert_allclose(got, [[0, 0, 0, 0, 0, 0, 0, 8.0]], atol=1e-12)


def test_missing_cells_stay_missing_and_spread_no_further() -> None:
    column = uniform(12, 0.0, 1.0)
    a = np.random.default_rng(1).normal(size=(1, 12))
    w = np.ones((1, 13))
    a[0, 5] = np.nan
    ends = "bottom=FirstOrderOneSided(), top=FirstOrderOneSided()"
    for name, arguments, faces in (
        ("FCTBorisBook", "(w, a)", range(4, 8)),
        ("FCTZalesak", "(w, a, a)", range(4, 8)),
        ("TVDLimitedFluxC2F", "(w, a, w)", range(5, 8)),
    ):
        got = run_column(f"{name}({ends}){arguments}", column, {"w": w, "a": a})["result"]
        assert np.isnan(got[0, list(faces)]).all(), name
        assert np.isfinite(np.delete(got[0], [4, 5, 6, 7])).all(), name


def test_upwind_is_the_biased_value_times_the_velocity() -> None:
    column = stretched(16, 0.0, 1.0, 0.4)
    random = np.random.default_rng(2)
    w, x = random.normal(size=(2, 17)), random.normal(size=(2, 16))
    text = "UpwindBiasedProductC2F(bottom=SetValue(b), top=SetValue(t))(w, x)"
    got = run_column(text, column, {"w": w, "x": x}, scalars={"b": 0.3, "t": -0.7})["result"]
    below = np.hstack([np.full((2, 1), 0.3), x])
    above = np.hstack([x, np.full((2, 1), -0.7)])
    np.testing.assert_allclose(got, w * np.where(w > 0, below, above), rtol=1e-13, atol=1e-15)


def test_third_order_values_are_exact_for_means_of_parabolas() -> None:
    column = uniform(10, 0.0, 1.0)
    means = np.diff(column.faces**3) / 3.0 / column.centre_widths
    left = "SetBoundaryOperator(top=SetValue(1.0))(LeftBiased3rdOrderC2F(bottom=SetValue(0.0))(x))"
    right = (
        "SetBoundaryOperator(bottom=SetValue(0.0))(RightBiased3rdOrderC2F(top=SetValue(1.0))(x))"
    )
    for text, inner in ((left, slice(2, None)), (right, slice(None, -2))):
        got = run_column(text, column, {"x": means[None]})["result"][0]
        np.testing.assert_allclose(got[inner], column.faces[inner] ** 2, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("method", ["BorisBook", "Zalesak", "Monotone", "Koren", "Superbee", "MC"])
def test_a_step_stays_between_its_values(method: str) -> None:
    """Ten forward steps of a top hat around a periodic column, half a cell each."""
    levels, step = 40, 0.5
    column = Column(np.arange(levels + 1.0), periodic=True)
    low = "_low = UpwindBiasedProductC2F()(one, x)\n"
    low += "_high = Upwind3rdOrderBiasedProductC2F()(one, x)\n"
    done = "_done = x - dt * DivergenceF2C()(_low)\n"
    text = {
        "BorisBook": low + done + "_flux = _low + FCTBorisBook()(_high - _low, _done / dt)\n",
        "Zalesak": low + done + "_flux = _low + FCTZalesak()(_high - _low, x / dt, _done / dt)\n",
        "Monotone": "_flux = LinVanLeerC2F(constraint=MonotoneLocalExtrema)(one, x, dt)\n",
    }
    limited = "_mean = InterpolateC2F()(x) - 0.5 * dt * GradientC2F()(x)\n" + low
    limited += f"_flux = _low + TVDLimitedFluxC2F(method={method})(_mean - _low, x, one)\n"
    program = text.get(method, limited) + "out = x - dt * DivergenceF2C()(_flux)"
    x: Array = np.where(np.arange(levels) < 10, 1.0, 0.0)[None]
    one = np.ones((1, levels))
    places = {"one": At.FACE, "x": At.CENTRE}
    advance = Prepared(program, column, {"one": one, "x": x}, places=places, scalars=("dt",))
    for _ in range(10):
        x = advance({"one": one, "x": x}, {"dt": step})["out"]
    assert x.min() >= -1e-12
    assert x.max() <= 1.0 + 1e-12
    assert x.sum() == pytest.approx(10.0)
    exact = np.roll(np.where(np.arange(levels) < 10, 1.0, 0.0), 5)
    assert abs(x[0] - exact).sum() < 4.0, "no sharper than upwind"


_SIDED = "bottom=FirstOrderOneSided(), top=FirstOrderOneSided()"
_UPWIND = "UpwindBiasedProductC2F(bottom=SetValue(k), top=SetValue(k))(one, x)"
_MEAN = "InterpolateC2F(bottom=Extrapolate(), top=Extrapolate())(x)"
#: Fluxes of a wind of 1 that carries x; limited ones are corrections of the upwind flux.
FLUXES = {
    "upwind": _UPWIND,
    "upwind, copied": "UpwindBiasedProductC2F(bottom=Extrapolate(), top=Extrapolate())(one, x)",
    "third order": f"Upwind3rdOrderBiasedProductC2F({_SIDED})(one, x)",
    "third order at ends": "Upwind3rdOrderBiasedProductC2F("
    "bottom=ThirdOrderOneSided(), top=ThirdOrderOneSided())(one, x)",
    "mean": _MEAN,
    "weighted mean": "WeightedInterpolateC2F(bottom=Extrapolate(), top=Extrapolate())(x, x)",
    "BorisBook": f"{_UPWIND} + FCTBorisBook({_SIDED})(0.3 * one, x)",
    "Zalesak": f"{_UPWIND} + FCTZalesak({_SIDED})(0.3 * one, x, x)",
    **{
        word: f"LinVanLeerC2F({_SIDED}, constraint={word})(one, x, 0.01)"
        for word in OPERATORS["LinVanLeerC2F"].words
    },
    **{
        word: f"{_UPWIND} + TVDLimitedFluxC2F({_SIDED}, method={word})({_MEAN} - {_UPWIND}, x, one)"
        for word in OPERATORS["TVDLimitedFluxC2F"].words
    },
}


@pytest.mark.parametrize("name", FLUXES)
def test_constants_are_kept(name: str) -> None:
    column = stretched(14, 0.0, 1.0, 0.5)
    text = f"DivergenceF2C(bottom=SetValue(k), top=SetValue(k))({FLUXES[name]})"
    fields = {"one": np.ones((1, 15)), "x": np.full((1, 14), 7.3)}
    got = run_column(text, column, fields, scalars={"k": 7.3})["result"]
    scale = 7.3 / column.centre_widths.min()
    assert abs(got).max() <= 10 * np.finfo(float).eps * scale


def test_limiters_are_those_of_their_names() -> None:
    column = uniform(6, 0.0, 6.0)
    x = np.array([[0.0, 1.0, 1.5, 4.0, 3.0, 3.5]])
    r = {2: 1.0 / 0.5, 3: 0.5 / 2.5, 4: 2.5 / -1.0}
    expected: dict[str, Callable[[float], float]] = {
        "Zero": lambda r: 0.0,
        "Half": lambda r: 0.5,
        "Max": lambda r: 1.0,
        "Minmod": lambda r: max(0.0, min(1.0, r)),
        "Koren": lambda r: max(0.0, min(2 * r, (1 + 2 * r) / 3, 2.0)),
        "Superbee": lambda r: max(0.0, min(1.0, 2 * r), min(2.0, r)),
        "SuperbeeAsCoded": lambda r: max(0.0, min(1.0, r), min(2.0, r)),
        "MC": lambda r: max(0.0, min(2 * r, (1 + r) / 2, 2.0)),
    }
    ends = "bottom=FirstOrderOneSided(), top=FirstOrderOneSided()"
    text = "\n".join(
        f"{word} = TVDLimitedFluxC2F({ends}, method={word})(w, x, w)" for word in expected
    )
    got = run_column(text, column, {"w": np.ones((1, 7)), "x": x})
    for word, limiter in expected.items():
        wanted = [limiter(r[face]) for face in (2, 3, 4)]
        np.testing.assert_allclose(got[word][0, 2:5], wanted, rtol=1e-12, atol=1e-14)
        assert not got[word][0, [0, 1, 5, 6]].any()


def test_polynomials_are_integrated() -> None:
    column = uniform(10, 0.0, 1.0)
    text = "\n".join(f"i{p} = column_integral_definite(z ** {p})" for p in range(4))
    got = run_column(text, column, {"z": column.centres[None]})
    for power in range(4):
        assert got[f"i{power}"][0, 0] == pytest.approx(1 / (power + 1), rel=6e-3)


def test_integrals_inside_of_expressions() -> None:
    column = uniform(10, 0.0, 2.0)
    x = np.random.default_rng(3).normal(size=(2, 10))
    text = """out = x - column_integral_definite(x) / 2.0
rest = column_integral_indefinite(x, reverse=True)
face = column_integral_definite(InterpolateC2F(bottom=Extrapolate(), top=Extrapolate())(x))"""
    got = run_column(text, column, {"x": x})
    np.testing.assert_allclose(got["out"], x - x.mean(1, keepdims=True), rtol=1e-12, atol=1e-13)
    upper = 0.2 * np.cumsum(x[:, ::-1], axis=1)[:, ::-1]
    np.testing.assert_allclose(got["rest"][:, :-1], upper, rtol=1e-12, atol=1e-13)
    assert not got["rest"][:, -1].any()
    np.testing.assert_allclose(got["face"][:, 0], 0.2 * x.sum(1), rtol=1e-12)


#: M(n) = ((2 n + 1) M(n - 1) + (3 n - 3) M(n - 2)) / (n + 2)
MOTZKIN = [1, 1, 2, 4, 9, 21, 51, 127, 323, 835, 2188, 5798, 15511]
RECURRENCE = """init=(1.0, 1.0),
    f=lambda m, n: (((2.0 * n + 1.0) * m[0] + (3.0 * n - 3.0) * m[1]) / (n + 2.0), m[0])"""


@pytest.mark.parametrize("flipped", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_motzkin_numbers(reverse: bool, flipped: bool) -> None:
    column = Column(np.arange(12.0), flipped=flipped)
    n = np.arange(2.0, 13.0)
    n = n[::-1] if reverse else n
    text = f"""last = column_reduce(n, {RECURRENCE}, reverse={reverse})
same = column_accumulate(n, {RECURRENCE}, reverse={reverse}, transform=lambda m: m[0])
face = column_accumulate(n, {RECURRENCE}, reverse={reverse}, to=Faces)"""
    got = run_column(text, column, {"n": n[None]})
    order = slice(None, None, -1 if reverse else 1)
    assert got["last"][0, 0] == MOTZKIN[12]
    np.testing.assert_array_equal(got["same"][0][order], MOTZKIN[2:])
    np.testing.assert_array_equal(got["face"][0][order], MOTZKIN[1:])


def test_scans_from_faces_to_centres() -> None:
    column = uniform(5, 0.0, 1.0)
    x = np.arange(1.0, 7.0)[None]
    text = "column_accumulate(x, f=lambda s, x: s + x, init=0.0, to=Centres)"
    got = run_column(text, column, {"x": x})["result"]
    np.testing.assert_array_equal(got, np.cumsum(x)[None, 1:])


def test_large_values_are_kept_in_temporaries() -> None:
    column = uniform(30, 0.0, 1.0)
    x = np.random.default_rng(4).normal(size=(2, 30))
    text = "a0 = x\n" + "\n".join(
        f"_a{n} = InterpolateF2C()(InterpolateC2F(bottom=Extrapolate(), top=Extrapolate())"
        f"({'a0' if n == 1 else f'_a{n - 1}'}))"
        for n in range(1, 12)
    )
    got = run_column(text + "\nout = _a11", column, {"x": x})["out"]
    want = x
    for _ in range(11):
        faces = np.hstack([want[:, :1], 0.5 * (want[:, 1:] + want[:, :-1]), want[:, -1:]])
        want = 0.5 * (faces[:, 1:] + faces[:, :-1])
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


def interpreted(schedule: Schedule) -> Executable:
    """Return a program that Python interprets as the target 'cpu' compiles it."""
    return find("cpu").build(schedule).load()


@pytest.mark.parametrize(("operator", "text"), list(every()))
def test_the_cpu_target_gives_the_bits_of_the_reference(
    operator: Operator, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch(monkeypatch)
    column = stretched(7, 0.0, 2.0, 0.7)
    fields = fields_for(operator, column)
    judged = run_column(text, column, fields)["result"]
    np.testing.assert_array_equal(
        run_column(text, column, fields, target=interpreted)["result"], judged
    )


def test_generated_cuda_gives_the_bits_of_the_reference(emulation_folder: Path) -> None:
    """All operators with all conditions are one program here, so that it is compiled once."""
    column = stretched(7, 0.0, 2.0, 0.7)
    fields: dict[str, Any] = {}
    lines: list[str] = []
    for number, case in enumerate(every()):
        operator, text = case.values
        own = fields_for(operator, column)
        kind = "p" if operator.name.startswith("Weighted") else "n"
        for name, values in own.items():
            fields[f"{kind}_{name}"] = values
            text = re.sub(rf"\b{name}\b", f"{kind}_{name}", text)
        lines.append(f"r{number} = {text}")
    program = "\n".join(lines)
    judged = run_column(program, column, fields)
    made = run_column(
        program, column, fields, target=lambda s: EmulatedArtifact(s, emulation_folder).load()
    )
    assert len(judged) == len(lines)
    for name, values in judged.items():
        np.testing.assert_array_equal(made[name], values, err_msg=lines[int(name[1:])])
