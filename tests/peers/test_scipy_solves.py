"""Tridiagonal and pentadiagonal systems against SciPy's banded solver."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from halocline_engine.kernels.tridiagonal import cpu, reference

LINALG: Any = import_module("scipy.linalg")
TARGETS = pytest.mark.parametrize("target", [reference, cpu], ids=["reference", "cpu"])


def banded(bands: list[Any], outer: int, inner: int) -> Any:
    """Return one system as SciPy stores it; `bands` go from the lowest to the highest."""
    reach = len(bands) // 2
    rows = bands[0].shape[1]
    stored = np.zeros((len(bands), rows))
    for above, band in zip(range(-reach, reach + 1), bands, strict=True):
        for i in range(max(0, -above), min(rows, rows - above)):
            stored[reach - above, i + above] = band[outer, i, inner]
    return stored


def expected(bands: list[Any], rhs: Any) -> Any:
    found = np.empty_like(rhs)
    reach = len(bands) // 2
    for outer in range(rhs.shape[0]):
        for inner in range(rhs.shape[2]):
            stored = banded(bands, outer, inner)
            found[outer, :, inner] = LINALG.solve_banded(
                (reach, reach), stored, rhs[outer, :, inner]
            )
    return found


@TARGETS
@pytest.mark.parametrize("shape", [(3, 17, 5), (2, 200, 1)])
def test_tridiagonal(target: Any, shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(6)
    lower, upper, rhs = rng.normal(size=(3, *shape))
    diagonal = 0.5 + abs(lower) + abs(upper)
    found = target.solve(lower, diagonal, upper, rhs).solution
    assert np.abs(found - expected([lower, diagonal, upper], rhs)).max() < 1e-12


@TARGETS
def test_pentadiagonal(target: Any) -> None:
    rng = np.random.default_rng(7)
    bands = list(rng.normal(size=(5, 2, 30, 3)))
    bands[2] = 0.5 + sum(abs(band) for at, band in enumerate(bands) if at != 2)
    rhs = rng.normal(size=(2, 30, 3))
    found = target.solve_pentadiagonal(*bands, rhs)
    assert np.abs(found - expected(bands, rhs)).max() < 1e-12
