"""`Stencil.repeat` makes the steps that a loop of calls makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import halocline_engine as he

SMOOTH = """
def smooth(u: Field[float64], v: Field[float64], w: float64):
    with computation(PARALLEL), interval(...):
        v = u + w * (u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0] - 4.0 * u)
"""


def fields() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    return {name: rng.random((9, 7, 3)) for name in ("u", "v")}


@pytest.mark.parametrize("target", ["reference", "cpu"])
@pytest.mark.parametrize("steps", [1, 2, 3, 8, 41])
def test_steps_of_a_loop(target: str, steps: int) -> None:
    smooth = he.stencil(SMOOTH, target=target)
    looped, repeated = fields(), fields()
    old, new = looped["u"], looped["v"]
    for _ in range(steps):
        smooth(old, new, 0.1, origin=(1, 1, 0), domain=(7, 5, 3))
        old, new = new, old
    given = dict(repeated)
    after = smooth.repeat(
        steps, given["u"], given["v"], 0.1, feedback={"v": "u"}, origin=(1, 1, 0), domain=(7, 5, 3)
    )
    assert after["v"] is (given["v"] if steps % 2 else given["u"])
    np.testing.assert_array_equal(after["v"], old)
    np.testing.assert_array_equal(after["u"], new)


@pytest.mark.parametrize(
    ("steps", "feedback", "message"),
    [
        (0, {"v": "u"}, "Argument 'steps' must be at least 1, got 0."),
        (
            2,
            {"v": "x"},
            "Argument 'feedback' names 'x', which is not a field of the stencil. The fields are u,"
            " v.",
        ),
        (
            2,
            {"v": "u", "u": "v"},
            "Argument 'feedback' names 'v' twice, but arrays are exchanged in pairs. For example"
            " feedback={'v': 'u'}: what is written to v is read from u next.",
        ),
    ],
)
def test_messages(steps: int, feedback: dict[str, str], message: str) -> None:
    given = fields()
    before = {name: array.copy() for name, array in given.items()}
    with pytest.raises(he.ArgumentError) as caught:
        he.stencil(SMOOTH, target="reference").repeat(steps, **given, w=0.1, feedback=feedback)
    assert str(caught.value) == message
    for name, array in given.items():
        np.testing.assert_array_equal(array, before[name])
