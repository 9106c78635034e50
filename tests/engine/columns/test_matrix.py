"""Operators as banded matrices: every linear one with every boundary condition, and products."""

# xarray's own annotations are partial.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import xarray as xr
from column_cases import Array, stretched

import halocline_engine as he
from halocline_engine.ir.columns.table import CONDITIONS, OPERATORS, At, Operator

LEVELS = 9
SIZED = {At.CENTRE: "c", At.FACE: "f", At.FLAT: "k", None: "c"}
OPEN = ("Upwind3rdOrderBiasedProductC2F",)


def columns(*, flipped: bool = False, seed: int = 0) -> xr.Dataset:
    """Return three columns on a stretched grid, with fields c0, f1 and so on, and end values."""
    grid, random = stretched(LEVELS, 0.0, 2.0, 0.7), np.random.default_rng(seed)
    data: dict[str, Any] = {}
    for name, dim, size in (("c", "z", LEVELS), ("f", "z_f", LEVELS + 1)):
        for number in range(2):
            values = random.normal(size=(3, size))
            positive = 0.5 + abs(values) if number == 0 else values
            data[f"{name}{number}"] = (("x", dim), positive)
            data[f"{name}w"] = (("x", dim), random.normal(size=(3, size)))
    data |= {end: ("x", random.normal(size=3)) for end in "bt"}
    coords = {
        "z": ("z", grid.centres, {"axis": "Z"}),
        "z_f": ("z_f", grid.faces, {"axis": "Z", "c_grid_axis_shift": -0.5}),
    }
    dataset = xr.Dataset(data, coords=coords)
    backwards = slice(None, None, -1)
    return dataset.isel(z=backwards, z_f=backwards) if flipped else dataset


def spelled(operator: Operator, bottom: str, top: str, word: str) -> tuple[str, str]:
    """Return an application that has a value on every level, and its linear argument."""
    ends = [(side, kind) for side, kind in (("bottom", bottom), ("top", top)) if kind]
    options = [f"{s}={k}({('b' if s == 'bottom' else 't') * CONDITIONS[k]})" for s, k in ends]
    options += [f"{operator.option}={word}"] if word else []
    arguments = [f"{SIZED[at]}{n}" for n, at in enumerate(operator.arguments)]
    if "Upwind" in operator.name or operator.name.startswith(("Flux", "Advection")):
        arguments[0] = f"{arguments[0][0]}w"
    text = f"{operator.name}({', '.join(options)})({', '.join(arguments)})"
    if operator.result is At.FACE and (not (bottom and top) or operator.name in OPEN):
        text = f"SetBoundaryOperator(bottom=SetValue(0.0), top=SetValue(0.0))({text})"
    return text, arguments[operator.linear]


def ends(operator: Operator) -> list[tuple[str, str]]:
    """Return pairs in which every condition is once at each end, mixed where there are several."""
    bottom, top = operator.bottom or ("",), operator.top or ("",)
    return [(kind, top[(at + 1) % len(top)]) for at, kind in enumerate(bottom)]


def every() -> Iterator[Any]:
    for operator in OPERATORS.values():
        if operator.linear < 0:
            continue
        for (bottom, top), word in itertools.product(ends(operator), operator.words or ("",)):
            name = "-".join(part for part in (operator.name, bottom, top, word) if part)
            yield pytest.param(*spelled(operator, bottom, top, word), id=name)


def dense(text: str, dataset: xr.Dataset, of: str, **options: Any) -> Array:
    """Return the matrix, indexed [column, row, element]; bands outside of it must not matter."""
    bands = he.column_matrix(text, dataset, of=of, target="reference", **options)
    size = int(dataset.sizes[str(dataset[of].dims[-1])])
    offsets: list[int] = []
    made: Array | None = None
    for band in bands.data_vars.values():
        if "matrix_offset" not in band.attrs:
            continue
        values = np.broadcast_to(band.values, (3, band.shape[-1]))
        made = np.zeros((3, values.shape[1], size)) if made is None else made
        offsets.append(int(band.attrs["matrix_offset"]))
        for row in range(values.shape[1]):
            element = row + offsets[-1]
            if options.get("boundary"):
                element %= size
            if 0 <= element < size:
                made[:, row, element] += values[:, row]
            else:
                assert not values[:, row].any()
    assert made is not None
    assert offsets == sorted(set(offsets))
    return made


def applied(text: str, dataset: xr.Dataset, of: str) -> tuple[Array, Array]:
    """Return an expression's value, and what it is where the variable is zero."""
    found: list[Array] = []
    for each in (dataset, dataset.assign({of: 0.0 * dataset[of]})):
        result = he.column(text, each, target="reference")["result"]
        found.append(np.broadcast_to(result.values, (3, result.shape[-1])))
    return found[0], found[1]


@pytest.mark.parametrize(("text", "of"), list(every()))
def test_an_operator_is_its_matrix(text: str, of: str) -> None:
    dataset = columns()
    whole, constant = applied(text, dataset, of)
    product = (dense(text, dataset, of) @ dataset[of].values[..., None])[..., 0]
    assert np.isfinite(product).all()
    np.testing.assert_allclose(product + constant, whole, rtol=1e-12, atol=1e-12)


FLUX = "DivergenceF2C(bottom=SetValue(b))(f0 * GradientC2F(top=SetGradient(t))(c1 * c0))"


@pytest.mark.parametrize("flipped", [False, True])
def test_a_composed_expression_is_its_matrix(flipped: bool) -> None:
    dataset = columns(flipped=flipped)
    text = f"c1 / 2.0 - 0.1 * ({FLUX}) + (c1 if c0 > 1.0 else -c1) + b"
    whole, constant = applied(text, dataset, "c1")
    matrix = dense(text, dataset, "c1")
    product = (matrix @ dataset["c1"].values[..., None])[..., 0]
    np.testing.assert_allclose(product + constant, whole, rtol=1e-12, atol=1e-12)
    bands = he.column_matrix(text, dataset, of="c1", target="reference")
    assert list(bands.data_vars) == ["matrix_lower", "matrix_diagonal", "matrix_upper"]


def test_the_matrix_of_two_operators_is_the_product_of_theirs() -> None:
    dataset = columns()
    outer = dense("DivergenceF2C(top=SetValue(t))(f1)", dataset, "f1")
    inner = dense("GradientC2F(bottom=SetValue(b), top=SetValue(t))(c1)", dataset, "c1")
    both = "DivergenceF2C(top=SetValue(t))(GradientC2F(bottom=SetValue(b), top=SetValue(t))(c1))"
    np.testing.assert_allclose(dense(both, dataset, "c1"), outer @ inner, rtol=1e-12, atol=1e-12)


def test_periodic_rows_go_round() -> None:
    grid = stretched(7, 0.0, 1.0, 0.6)
    bounds = np.stack([grid.faces[:-1], grid.faces[1:]], axis=1)
    coords = {"z": ("z", grid.centres, {"axis": "Z", "bounds": "edges"})}
    a = np.random.default_rng(2).normal(size=(3, 7))
    dataset = xr.Dataset({"a": (("x", "z"), a), "edges": (("z", "n"), bounds)}, coords=coords)
    text, around = "DivergenceF2C()(GradientC2F()(a))", {"z": "periodic"}
    whole = he.column(text, dataset, boundary=around, target="reference")["result"]
    matrix = dense(text, dataset, "a", boundary=around)
    product = (matrix @ a[..., None])[..., 0]
    np.testing.assert_allclose(product, whole, rtol=1e-11, atol=1e-11)


def test_an_implicit_step_of_diffusion() -> None:
    """A step as large as you like keeps the bounds, the mean and the steady state."""
    dataset = columns().assign(dt=10.0)
    text = (
        "c1 - dt * DivergenceF2C(bottom=SetValue(0.0), top=SetValue(0.0))(f0 * GradientC2F()(c1))"
    )
    bands = he.column_matrix(text, dataset, of="c1", name="system", target="reference")
    system = dataset.assign(dict(bands.data_vars))
    names: Any = {band: f"system_{band}" for band in ("lower", "diagonal", "upper")}
    step = he.tridiagonal(system, **names, rhs="c1", dim="z", target="reference")
    after = dataset.assign(c1=step["solution"])
    back = he.column(text, after, target="reference")["result"]
    np.testing.assert_allclose(back, dataset["c1"], rtol=1e-10, atol=1e-11)
    widths = stretched(LEVELS, 0.0, 2.0, 0.7).centre_widths
    before, now = dataset["c1"].values, after["c1"].values
    np.testing.assert_allclose((now * widths).sum(1), (before * widths).sum(1), rtol=1e-11)
    assert (now.max(1) <= before.max(1)).all()
    assert now.std() < 0.2 * before.std()
