"""Loops of points that go in step on cores: the bits that each point has by itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from differential import LAYOUTS, assert_same, front, inputs, judged, run
from drawing import SCALARS, program
from general_runs import OPTIONS, agree
from interpreted import patch

import halocline_engine as he
from halocline_engine.backends.cpu import code
from halocline_engine.backends.cpu.build import CpuBackend
from halocline_engine.backends.cpu.text import lanes
from halocline_engine.backends.cpu.text.emit import emit
from halocline_engine.backends.cpu.text.lanes import may_go_in_step
from halocline_engine.backends.cpu.text.layout import contiguous
from halocline_engine.errors import LimitError
from halocline_engine.ir.types import Axis
from halocline_engine.schedule.plan import plan
from halocline_engine.schedule.storage.temporaries import kernels_of

HEAD = """
def turns(a: Field[float64], b: Field[float32], m: Field[int32], x: Field[float64],
          y: Field[float32], n: Field[int64], z: Field[float64]):
    with computation({}), interval({}):
"""
FIELDS = {"a": "f8", "b": "f4", "m": "i4", "x": "f8", "y": "f4", "n": "i8", "z": "f8"}
#: Levels, and a statement that lets each wait for the one before.
ORDERS = {
    "PARALLEL": ("...", ""),
    "FORWARD": ("1, None", "        z = z[0, 0, -1] + x\n"),
    "BACKWARD": ("0, -1", "        z = z[0, 0, 1] - x\n"),
}
BODIES = {
    "one": """
        t = a
        c = 0
        while c < 7 and abs(t) > 0.25:
            t = 0.5 * t
            c += 1
        x = t
        n = c
""",
    "two, and what lies between": """
        t = abs(a)
        while t > 0.5:
            t = t * 0.75
        x = t
        u = abs(b)
        while u < 2.0:
            u = u + float32(0.5) + float32(t)
        y = u
""",
    "a loop in a loop": """
        t = 0.0
        i = 0
        while i < 3 and i < m:
            j = 0
            s = a
            while j < i + 2 and s < 4.0:
                s = s + 1.0
                j += 1
            t += s
            i += 1
        x = t
        n = i
""",
    "a loop in both branches": """
        t = a
        if m > 0:
            c = 0
            while c < m:
                t = t + 0.5
                c += 1
            n = c
        elif a > 0.0:
            while t > 0.1:
                t = 0.5 * t
        else:
            t = -1.0
        x = t
""",
    "branches and stores in a loop": """
        c = 0
        x = 0.0
        while c < 5:
            if a > 0.5:
                x = x + a
            elif b > float32(0.0):
                y = b
                x -= 1.0
            c += 1 if m > 0 else 2
        n = c
""",
    "a register that a turn hands on": """
        old = 0.0
        new = 1.0
        c = 0
        while c < abs(m):
            last = old
            old = new
            new = last + old
            flag = new > 4.0
            if flag:
                c += 2
            c += 1
        x = new
""",
    "nothing before and nothing behind": """
        while x > 0.5:
            x = 0.5 * x
""",
}


@pytest.fixture(autouse=True)
def any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let loops that compute little go in step too."""
    monkeypatch.setattr(lanes, "_LEAST_WORK", 1)


def _text(body: str, order: str = "PARALLEL") -> str:
    interval, last = ORDERS[order]
    return HEAD.format(order, interval) + body + last


def _agree(text: str, domain: tuple[int, int, int], layout: str) -> None:
    meaning, facts = front(text)
    given = inputs(meaning, facts, domain, layout=layout, seed=3)
    expected = judged(meaning, facts, given, domain, SCALARS)
    executable = CpuBackend().build(plan(meaning, facts)).load()
    assert_same(run(executable, given, domain, SCALARS), expected)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("body", BODIES)
def test_every_form_has_the_bits_of_the_reference(
    monkeypatch: pytest.MonkeyPatch, order: str, body: str
) -> None:
    patch(monkeypatch)
    for domain, layout in (((5, 3, 2), "along I"), ((3, 2, 5), "along K"), ((1, 1, 2), "sliced")):
        _agree(_text(BODIES[body], order), domain, layout)


def test_compiled_lanes_of_several_rounds() -> None:
    """Rows are longer than lanes are many."""
    for body in BODIES.values():
        _agree(_text(body), (131, 2, 2), "along I")


def test_turns_are_vectorised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Numba shows no code that it has loaded.
    monkeypatch.setattr(code, "code_folder", tmp_path.joinpath)
    body = "        x = a\n        while x > 0.5:\n            x = 0.5 * exp(-x)\n"
    meaning, facts = front(_text(body))
    executable = CpuBackend().build(plan(meaning, facts)).load()
    run(executable, inputs(meaning, facts, (80, 2, 2)), (80, 2, 2), SCALARS)
    (found,) = executable.machine_code()
    assert re.search(r"vfn?madd\d+pd|fmla\tv", found)


def test_a_point_whose_loop_does_not_end_is_an_error() -> None:
    text = _text("        x = a\n        while x > 0.5:\n            x = 1.0 + exp(-x) * a\n")
    run_it = he.stencil(text, target="cpu")
    shape = (70, 2, 3)
    fields: dict[str, Any] = {name: np.zeros(shape, dtype) for name, dtype in FIELDS.items()}
    run_it(**fields)
    fields["a"][66, 1, 2] = 1.0
    with pytest.raises(LimitError, match="100000 turns"):
        run_it(**fields)


#: Drawn programs with loops that may go in step: one in a hundred has.
DRAWN = (7, 148, 234, 305, 450, 472, 589, 604, 633, 645, 719, 857, 880, 1050, 1263, 1327)


@pytest.mark.parametrize("number", DRAWN)
def test_drawn_loops(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    patch(monkeypatch)
    meaning, facts = front(program(number, general=True))
    bodies = [
        section.body for one in kernels_of(plan(meaning, facts).steps) for section in one.sections
    ]
    assert any(map(may_go_in_step, bodies))
    for layout in LAYOUTS[::2]:
        agree(meaning, facts, (4, 3, max(4, facts.min_levels)), layout, number, *OPTIONS)


def test_what_keeps_points_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes are for loops of vectors alone, and never for levels that follow each other."""

    def goes_in_step(body: str, order: str = "PARALLEL", inner: Axis = Axis.I) -> bool:
        meaning, facts = front(_text(body, order))
        return "room(" in emit(plan(meaning, facts), contiguous(meaning, inner)).text

    loop = "        x = a\n        while x > 0.5:\n            x = {}\n"
    assert goes_in_step(loop.format("0.5 * x"))
    assert goes_in_step(loop.format("0.5 * x"), inner=Axis.K)
    assert goes_in_step(loop.format("0.5 * x"), "FORWARD")
    assert not goes_in_step(loop.format("0.5 * x"), "FORWARD", Axis.K)
    assert not goes_in_step(loop.format("sin(x)"))
    assert not goes_in_step(loop.format("0.5 * x * (m % 3)"))
    assert not goes_in_step(loop.format("x * a.at(K=0)"))
    assert not goes_in_step("        x = exp(a)\n")
    monkeypatch.setattr(lanes, "_LEAST_WORK", 16)
    assert not goes_in_step(loop.format("0.5 * x"))
    assert goes_in_step(loop.format("0.5 * exp(-x)"))
