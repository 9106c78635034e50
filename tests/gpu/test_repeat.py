"""Steps that a device repeats as a graph have the bits of steps that are queued one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.device.machine import CudaMachine
from halocline_engine.distribute.tasks.options import Options

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


#: Two fields that are fed, one that is not, and one that is not always written.
SEVERAL = """
def several(
    a: Field[float64], c: Field[float32], d: Field[IJ, float64], b: Field[float64],
    e: Field[float32], kept: Field[float64],
):
    with computation(PARALLEL), interval(...):
        b = a + 0.1 * (d[-1, 0] * a[-2, 0, 0] + a[1, 0, 0] + a[0, -1, 0] + a[0, 2, 0] - 4.0 * a)
        e = c + float32(0.125) * (c[-1, -1, 0] - c[1, 1, 0])
        if a > 0.5:
            kept = a
"""
MIXED = {
    "x": {"low": "edge", "high": {"constant": 1.5}},
    "y": {"low": "reflect", "high": "extrapolate"},
}


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    "boundary", ["periodic", "edge", "reflect", "extrapolate", "none", {"constant": 0.5}, MIXED]
)
def test_ghosts_are_those_of_copies(boundary: Any) -> None:
    """Where there are few steps, ghosts are copied slice by slice."""
    rng = np.random.default_rng(1)
    data = xr.Dataset(
        {
            "a": (("z", "y", "x"), rng.random((3, 41, 67))),
            "c": (("z", "y", "x"), rng.random((3, 41, 67)).astype("float32")),
            "d": (("y", "x"), rng.random((41, 67))),
        }
    )
    sides = boundary if boundary is MIXED else {"x": boundary, "y": boundary}
    found: list[xr.Dataset] = []
    for fused in (41, 1):
        done = he.run(
            SEVERAL,
            data,
            axes={"I": "x", "J": "y", "K": "z"},
            boundary=sides,
            steps=41,
            feedback={"b": "a", "e": "c"},
            target="cuda",
            options=Options(steps_per_pass=fused),
        )
        found.append(done)
    for name in ("b", "e", "kept"):
        np.testing.assert_array_equal(found[0][name].values, found[1][name].values)


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
