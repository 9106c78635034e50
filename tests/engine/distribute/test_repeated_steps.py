"""Steps that are alike are queued two at a time, and give what single steps give."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.backends.cpu.run import CpuExecutable
from halocline_engine.distribute.options import Options

SMOOTH = """
def smooth(u: Field[float64], v: Field[float64], w: float64):
    with computation(PARALLEL), interval(...):
        v = u + w * (u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0] - 4.0 * u)
"""


def _stepped(values: np.ndarray, steps: int, mode: str) -> np.ndarray:
    for _ in range(steps):
        wide = np.pad(values, 1, mode="wrap" if mode == "periodic" else "edge")
        around = wide[1:-1, :-2] + wide[1:-1, 2:] + wide[:-2, 1:-1] + wide[2:, 1:-1]
        values = values + 0.1 * (around - 4.0 * values)
    return values


@pytest.mark.parametrize("mode", ["periodic", "edge"])
@pytest.mark.parametrize("steps", [1, 2, 3, 4, 23])
def test_many_steps(steps: int, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    repeated: list[int] = []
    plain = CpuExecutable.repeat

    def counted(self: CpuExecutable, work: Callable[[], None], times: int) -> None:
        repeated.append(times)
        plain(self, work, times)

    monkeypatch.setattr(CpuExecutable, "repeat", counted)
    values = np.random.default_rng(3).random((12, 17))
    result = he.run(
        SMOOTH,
        xr.Dataset({"u": (("y", "x"), values)}),
        scalars={"w": 0.1},
        axes={"I": "x", "J": "y", "K": None},
        boundary={"x": mode, "y": mode},
        steps=steps,
        options=Options(steps_per_pass=steps),
        feedback={"v": "u"},
        target="cpu",
    )
    np.testing.assert_allclose(result["v"].values, _stepped(values, steps, mode), rtol=1e-13)
    assert repeated == ([(steps - 2) // 2] if steps > 2 else [])
