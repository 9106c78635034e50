"""Steps that are alike are queued two at a time, and give what single steps give."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.backends.cpu.run import CpuExecutable
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.errors import CancelledError

SMOOTH = """
def smooth(u: Field[float64], v: Field[float64], w: float64):
    with computation(PARALLEL), interval(...):
        v = u + w * (u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0] - 4.0 * u)
"""


def _stepped(values: np.ndarray, steps: int, mode: str) -> np.ndarray:
    for _ in range(steps):
        wide = np.pad(values, 1, mode="wrap" if mode == "periodic" else "edge")
        around = wide[1:-1, :-2] + wide[1:-1, 2:] + wide[:-2, 1:-1] + wide[2:, 1:-1]
        after = values + 0.1 * (around - 4.0 * values)
        if mode == "none":
            inner = values.copy()
            inner[1:-1, 1:-1] = after[1:-1, 1:-1]
            after = inner
        values = after
    return values


@pytest.mark.parametrize("mode", ["periodic", "edge", "none"])
@pytest.mark.parametrize("steps", [1, 2, 3, 4, 23])
def test_many_steps(steps: int, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    repeated: list[int] = []
    plain = CpuExecutable.repeat

    def counted(
        self: CpuExecutable,
        work: Callable[[], None],
        times: int,
        look: Callable[[], None] | None = None,
    ) -> None:
        repeated.append(times)
        plain(self, work, times, look)

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
        mode="streamed",
    )
    np.testing.assert_allclose(result["v"].values, _stepped(values, steps, mode), rtol=1e-13)
    assert repeated == ([(steps - 2) // 2] if steps > 2 else [])


def test_somebody_may_ask_for_the_end_between_any_two() -> None:
    asked: list[bool] = []

    def cancelled() -> bool:
        asked.append(True)
        return len(asked) > 200

    with pytest.raises(CancelledError):
        he.run(
            SMOOTH,
            xr.Dataset({"u": (("y", "x"), np.ones((12, 17)))}),
            scalars={"w": 0.1},
            axes={"I": "x", "J": "y", "K": None},
            boundary={"x": "edge", "y": "edge"},
            steps=10**6,
            feedback={"v": "u"},
            target="cpu",
            cancelled=cancelled,
        )
    assert len(asked) < 1000


#: One output is written here and there, the other everywhere; both feed.
PARTLY = """
def partly(a: Field[float64], c: Field[float64], b: Field[float64], d: Field[float64]):
    with computation(PARALLEL), interval(...):
        if a > 0.5:
            b = 0.5 * (a[-1, 0, 0] + c[1, 0, 0])
        d = c + 0.25 * (a - c)
"""


@pytest.mark.parametrize("ends", ["none", "reflect"])
def test_what_is_not_written_keeps_the_value_of_the_step_before(ends: str) -> None:
    rng = np.random.default_rng(5)
    data = xr.Dataset({name: (("y", "x"), rng.random((6, 40))) for name in "ac"})
    whole, single = (
        he.run(
            PARTLY,
            data,
            axes={"I": "x", "J": "y", "K": None},
            boundary={"x": ends},
            steps=11,
            options=Options(steps_per_pass=fused),
            feedback={"b": "a", "d": "c"},
            target="cpu",
        )
        for fused in (11, 1)
    )
    for name in "bd":
        np.testing.assert_array_equal(whole[name].values, single[name].values)
    assert not np.isnan(whole["b"].values).any()
