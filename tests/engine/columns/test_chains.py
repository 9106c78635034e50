"""Column programs of many lines that use each other, and columns of very few levels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he

LEVELS: dict[str, Any] = {"axis": {"centre": "z", "face": "zf"}, "heights": "h"}


def column(levels: int) -> xr.Dataset:
    random = np.random.default_rng(2)
    return xr.Dataset(
        {
            "a": (("y", "z"), random.random((2, levels))),
            "w": (("y", "zf"), random.random((2, levels + 1))),
            "h": ("zf", np.arange(levels + 1.0)),
        }
    )


def chain(count: int, step: str) -> str:
    lines = ["_t0 = 1.5 * a", *(f"_t{n} = {step.format(f'_t{n - 1}')}" for n in range(1, count))]
    return "\n".join([*lines, f"out = _t{count - 1}"])


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_lines_that_use_the_one_before(target: str) -> None:
    """350 lines: too deep for Python, and 250 of them for the parser of generated code."""
    data = column(3)
    found = he.column(chain(350, "0.5 * {} + a"), data, **LEVELS, target=target)
    wanted = 1.5 * data["a"].values
    for _ in range(349):
        wanted = 0.5 * wanted + data["a"].values
    np.testing.assert_array_equal(found["out"], wanted)


def test_operators_that_use_the_one_before() -> None:
    ends = "bottom=Extrapolate(), top=Extrapolate()"
    text = chain(60, f"InterpolateF2C()(InterpolateC2F({ends})({{}}))")
    data = column(4)
    found = he.column(text, data, **LEVELS, target="reference")
    wanted = 1.5 * data["a"].values
    for _ in range(59):
        faces = np.pad(0.5 * (wanted[:, 1:] + wanted[:, :-1]), ((0, 0), (1, 1)))
        faces[:, [0, -1]] = wanted[:, [0, -1]]
        wanted = 0.5 * (faces[:, 1:] + faces[:, :-1])
    np.testing.assert_array_equal(found["out"], wanted)


def test_matrices_of_long_programs() -> None:
    data = column(3)
    text = chain(60, "0.5 * {}")
    found = he.column_matrix(text, data, of="a", **LEVELS, target="cpu")
    np.testing.assert_allclose(found["out_diagonal"], np.full((3,), 1.5 * 0.5**59))
    with pytest.raises(he.LimitError) as caught:
        he.column_matrix(chain(300, "0.5 * {}"), data, of="a", **LEVELS, target="cpu")
    assert str(caught.value) == (
        "line 64, column 8: A matrix follows its variable through at most 64 operations, one"
        " behind the other, but here are more.\n"
        "_t63 = 0.5 * _t62\n       ^\n"
        "Make matrices of two parts, and multiply them."
    )
    factors = chain(300, "0.5 * {} + 0.1").replace("* a", "* b")
    beside = data.assign(b=data["a"] + 1.0)
    scaled = factors.replace("out = _t299", "out = _t299 * a")
    made = he.column_matrix(scaled, beside, of="a", **LEVELS, target="cpu")
    wanted = 1.5 * beside["b"].values
    for _ in range(299):
        wanted = 0.5 * wanted + 0.1
    np.testing.assert_array_equal(made["out_diagonal"], wanted)


COPYING = {
    "UpwindBiasedProductC2F": ("w, a", 1, "Extrapolate"),
    "GradientF2C": ("w", 2, "ExtrapolateComponents"),
    "DivergenceF2C": ("w", 2, "Extrapolate"),
}


@pytest.mark.parametrize("operator", COPYING)
def test_ends_that_copy_each_other(operator: str) -> None:
    arguments, levels, kind = COPYING[operator]
    text = f"out = {operator}(bottom={kind}(), top={kind}())({arguments})"
    with pytest.raises(he.TypeRuleError) as caught:
        he.column(text, column(levels), **LEVELS, target="reference")
    assert caught.value.message == (
        f"'{operator}' copies the value of the next level at each end with '{kind}', so it needs"
        f" more levels than {levels}."
    )
    assert caught.value.hint == "Use more levels, or another boundary condition at one end."
    more = he.column(text, column(levels + 1), **LEVELS, target="reference")
    assert np.isfinite(more["out"].values).all()
