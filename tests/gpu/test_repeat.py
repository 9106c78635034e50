"""Steps that a device repeats as a graph have the bits of steps that are queued one by one."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.device.machine import CudaMachine
from halocline_engine.distribute.options import Options

pytestmark = pytest.mark.gpu

SMOOTH = """
def smooth(u: Field[float64], v: Field[float64], w: float64):
    with computation(PARALLEL), interval(...):
        v = u + w * (u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0] - 4.0 * u)
"""
#: A temporary between columns needs memory while the graph is recorded.
COLUMNS = """
def columns(u: Field[float64], v: Field[float64], w: float64):
    with computation(FORWARD), interval(...):
        t = w * u
    with computation(BACKWARD), interval(...):
        v = t[1, 0, 0] + u
"""


@pytest.mark.parametrize("text", [SMOOTH, COLUMNS])
@pytest.mark.parametrize("steps", [3, 35, 80])
def test_stencil_repeat(machine: CudaMachine, text: str, steps: int) -> None:
    cupy = pytest.importorskip("cupy")
    assert machine.facts.index >= 0
    program = he.stencil(text, target="cuda")
    rng = np.random.default_rng(4)
    first, second = rng.random((34, 21, 5)), rng.random((34, 21, 5))
    looped = [cupy.asarray(first), cupy.asarray(second)]
    u, v = cupy.asarray(first), cupy.asarray(second)
    old, new = looped
    for _ in range(steps):
        program(old, new, 0.1, origin=(1, 1, 0), domain=(32, 19, 5))
        old, new = new, old
    after = program.repeat(
        steps, u, v, 0.1, feedback={"v": "u"}, origin=(1, 1, 0), domain=(32, 19, 5)
    )
    np.testing.assert_array_equal(cupy.asnumpy(after["v"]), cupy.asnumpy(old))
    np.testing.assert_array_equal(cupy.asnumpy(after["u"]), cupy.asnumpy(new))


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("steps", [35, 80])
def test_steps_of_a_job(steps: int) -> None:
    values = np.random.default_rng(1).random((64, 80))

    def after(fused: int) -> np.ndarray:
        done = he.run(
            SMOOTH,
            xr.Dataset({"u": (("y", "x"), values)}),
            scalars={"w": 0.1},
            axes={"I": "x", "J": "y", "K": None},
            boundary={"x": "edge", "y": "periodic"},
            steps=steps,
            feedback={"v": "u"},
            target="cuda",
            options=Options(steps_per_pass=fused),
        )
        return done["v"].values

    np.testing.assert_array_equal(after(steps), after(1))
