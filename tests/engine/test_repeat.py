"""`Stencil.repeat` makes the steps that a loop of calls makes, and calls may be prepared."""

from __future__ import annotations

import timeit
from typing import Any

import numpy as np
import pytest

import halocline_engine as he
from halocline_engine.analysis.extents import analyse
from halocline_engine.backends.base import prepare
from halocline_engine.backends.reference import run as reference
from halocline_engine.ir.extent import Facts
from halocline_engine.ir.nodes import Program

SMOOTH = """
def smooth(u: Field[float64], v: Field[float64], w: float64):
    with computation(PARALLEL), interval(...):
        v = u + w * (u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0] - 4.0 * u)
"""


#: Temporaries in memory, levels one after the other, and values at some points only.
MIXED = """
def mixed(u: Field[float64], v: Field[float64], w: float64):
    with computation(PARALLEL), interval(...):
        t = w * (u[-1, 0, 0] + u[1, 0, 0])
        s = t[0, -1, 0] + t[0, 1, 0]
    with computation(FORWARD):
        with interval(0, 1):
            v = s
        with interval(1, None):
            v = 0.5 * (v[0, 0, -1] + t + s)
            if v > 0.6:
                v = v - w
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


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_prepared_calls_are_calls(target: str) -> None:
    executable = he.stencil(MIXED, target=target).compiled.artifact.load()
    called, prepared = fields(), fields()
    domain, scalars = (7, 5, 3), {"w": 0.1}
    origins = dict.fromkeys("uv", (1, 1, 0))
    forth = prepare(executable, prepared, scalars, origins, domain)
    back = prepare(executable, {"u": prepared["v"], "v": prepared["u"]}, scalars, origins, domain)
    for _ in range(3):
        executable(called, scalars, origins, domain)
        forth()
        np.testing.assert_array_equal(prepared["v"], called["v"])
        executable({"u": called["v"], "v": called["u"]}, scalars, origins, domain)
        # A call on other arrays has temporaries of its own.
        executable(fields(), scalars, origins, domain)
        back()
        np.testing.assert_array_equal(prepared["u"], called["u"])


def test_the_reference_analyses_a_program_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def counted(program: Program) -> Facts:
        calls.append(program.name)
        return analyse(program)

    monkeypatch.setattr(reference, "analyse", counted)
    smooth, given = he.stencil(SMOOTH, target="reference"), fields()
    for _ in range(3):
        smooth(**given, w=0.1, origin=(1, 1, 0), domain=(7, 5, 3))
    assert calls == ["smooth"]


def test_a_prepared_call_costs_a_part_of_a_call() -> None:
    executable = he.stencil(SMOOTH, target="cpu").compiled.artifact.load()
    arguments = (fields(), {"w": 0.1}, dict.fromkeys("uv", (1, 1, 0)), (7, 5, 3))
    ready = prepare(executable, *arguments)
    whole = min(timeit.repeat(lambda: executable(*arguments), number=200, repeat=5))
    assert min(timeit.repeat(ready, number=200, repeat=5)) < 0.5 * whole
