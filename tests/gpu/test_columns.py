"""Column programs of datasets on real devices: the bits of the CPU, for any blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import halocline_engine as he
from halocline_engine.device.machine import CudaMachine

pytestmark = pytest.mark.gpu

samples: Any = pytest.importorskip("iris_sample_data", reason="the data are not installed")

SAMPLE = Path(samples.path) / "hybrid_height.nc"
FIELDS = {"theta": "air_potential_temperature"}
TEXT = """gradient = GradientC2F(bottom=SetGradient(g), top=SetGradient(0.0))(theta)
tendency = DivergenceF2C(bottom=SetValue(0.0), top=SetValue(0.0))(2.5 * GradientC2F()(theta))
_face = InterpolateC2F(bottom=Extrapolate(), top=Extrapolate())(theta) / theta0
carried = DivergenceF2C(bottom=SetValue(0.0), top=SetValue(0.0))(
    LinVanLeerC2F(bottom=FirstOrderOneSided(), top=FirstOrderOneSided(),
                  constraint=MonotoneHarmonic)(_face, theta, 0.1))
heat = column_integral_definite(theta)
below = column_integral_indefinite(theta)"""


def evaluated(target: str, **options: Any) -> Any:
    scalars = {"g": 0.01, "theta0": 280.0}
    return he.column(TEXT, SAMPLE, fields=FIELDS, scalars=scalars, target=target, **options)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.usefixtures("machine")
def test_potential_temperature_on_hybrid_height(dtype: str) -> None:
    here = evaluated("cpu", dtype=dtype)
    for chunks in ({}, {"grid_latitude": 33, "grid_longitude": 41}):
        there = evaluated("cuda", dtype=dtype, chunks=chunks)
        for name in ("gradient", "tendency", "carried", "heat", "below"):
            np.testing.assert_array_equal(there[name].values, here[name].values)


def test_an_implicit_step(machine: CudaMachine) -> None:
    text = "theta - 60.0 * DivergenceF2C(bottom=SetValue(0.0), top=SetValue(0.0))("
    text += "5.0 * GradientC2F()(theta))"
    made = [
        he.column_matrix(text, SAMPLE, of="theta", fields=FIELDS, target=target)
        for target in ("cpu", "cuda")
    ]
    assert machine.facts.index >= 0
    for band in ("matrix_lower", "matrix_diagonal", "matrix_upper"):
        np.testing.assert_array_equal(made[1][band].values, made[0][band].values)
