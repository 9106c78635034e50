"""Columns along K in strips: the bits of other orders of axes, whatever is brought to a strip."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from differential import assert_same, copied, front, inputs, judged, run

from halocline_engine.backends.cpu import pieces
from halocline_engine.backends.cpu import run as cpu_run
from halocline_engine.backends.cpu.build import CpuBackend
from halocline_engine.backends.cpu.text import emit as emitter
from halocline_engine.backends.cpu.text.emit import emit
from halocline_engine.backends.cpu.text.layout import contiguous
from halocline_engine.backends.cpu.text.strips import STRIP, StripRoom
from halocline_engine.ir.types import Axis
from halocline_engine.schedule.plan import plan

#: A temporary of the kernel alone, and an output that is assigned before it is read.
SOLVE = """
def solve(a: Field[np.float64], b: Field[np.float64], d: Field[np.float64], x: Field[np.float64]):
    with computation(FORWARD):
        with interval(0, 1):
            c = a / b
            x = d / b
        with interval(1, None):
            c = a / (b - a * c[0, 0, -1])
            x = (d - a * x[0, 0, -1]) / (b - a * c[0, 0, -1])
    with computation(BACKWARD), interval(0, -1):
        x = x - c * x[0, 0, 1]
"""
#: Neighbours along both axes, a level beyond the domain, and planes that are read and changed.
AROUND = """
def around(a: Field[np.float64], s: Field[IJ, np.float64], n: Field[IJ, np.float64],
           p: Field[K, np.float64], x: Field[np.float64], w: float):
    with computation(FORWARD):
        with interval(0, 1):
            n = n + a[1, 0, 0] * s[0, -1]
            x = a[-1, 2, 0] / (a[0, -1, 1] + w)
        with interval(1, -1):
            n = n + a[1, 0, 0] * s
            x = x[0, 0, -1] / (a[0, 1, -1] * a[0, 1, 1] + p)
        with interval(-1, None):
            x = x[0, 0, -1] + a[0, 0, 1] * n
"""
#: What branches assign or not, in part of the levels; other types.
BRANCHES = """
def branches(a: Field[np.float32], m: Field[bool], c: Field[np.int32], q: Field[np.float32],
             r: Field[np.float32]):
    with computation(BACKWARD):
        with interval(-1, None):
            q = q * np.float32(2.0)
        with interval(1, -1):
            if m:
                q = sqrt(abs(q[0, 0, 1])) + a
                c = c + 1
            elif a > np.float32(0.25):
                r = q[0, 0, 1] / a
            m = c > 3
"""
#: A temporary that other kernels use too, at neighbours.
SHARED = """
def shared(a: Field[np.float64], x: Field[np.float64]):
    with computation(FORWARD):
        with interval(0, 1):
            t = 1.0 / a
        with interval(1, None):
            t = t[0, 0, -1] / a + a[0, 0, -1]
    with computation(PARALLEL), interval(...):
        u = t[1, 0, 0] + t[0, -1, 0]
    with computation(BACKWARD):
        with interval(-1, None):
            x = u
        with interval(0, -1):
            x = u / (x[0, 0, 1] + t)
"""
PROGRAMS = {"solve": SOLVE, "around": AROUND, "branches": BRANCHES, "shared": SHARED}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("domain", [(5, 19, 7), (1, 70, 3), (33, 8, 4)])
def test_strips_have_the_bits_of_the_reference(
    name: str, threads: int, domain: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Domains that are no multiple of a strip, in arrays along K and padded ones."""
    monkeypatch.setattr(pieces, "SERIAL_POINTS", 8)
    monkeypatch.setattr(pieces, "_MOST_COLUMNS", 16)
    monkeypatch.setattr(emitter, "pays", Mock(return_value=True))
    monkeypatch.setattr(cpu_run, "threads_of_calls", lambda: threads)
    program, facts = front(PROGRAMS[name])
    scalars: dict[str, Any] = {one.name: 0.75 for one in program.scalars}
    executable = CpuBackend().build(plan(program, facts)).load()
    for layout in ("along K", "along I", "along J"):
        given = inputs(program, facts, domain, layout=layout)
        expected = judged(program, facts, given, domain, scalars)
        assert_same(run(executable, copied(given), domain, scalars), expected)


def rooms(text: str) -> list[StripRoom | None]:
    """Return what the strips of each kernel need, in arrays along K."""
    program, facts = front(text)
    functions = emit(plan(program, facts), contiguous(program, Axis.K)).functions
    assert all((STRIP in one.arrays) == (one.strips is not None) for one in functions)
    return [one.strips for one in functions]


def test_a_strip_has_what_its_kernel_touches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emitter, "pays", Mock(return_value=True))
    assert rooms(SOLVE) == [StripRoom(5, 0, 0)]
    # The field at three offsets along I, both planes, and the output.
    (room,) = rooms(AROUND)
    assert room == StripRoom(6, 2, 1)


def test_an_array_for_two_fields_is_in_no_strip() -> None:
    program, facts = front(SOLVE)
    layout = replace(contiguous(program, Axis.K), apart=False)
    assert [one.strips for one in emit(plan(program, facts), layout).functions] == [None]


CHEAP = """
def cheap(a: Field[np.float64], x: Field[np.float64], y: Field[np.float64]):
    with computation(FORWARD):
        with interval(0, 1):
            x = a
        with interval(1, None):
            x = x[0, 0, -1] + a * y
"""
LOOPING = """
def looping(a: Field[np.float64], x: Field[np.float64]):
    with computation(FORWARD):
        with interval(0, 1):
            x = a
        with interval(1, None):
            x = x[0, 0, -1] / a
            while x > 1.0:
                x = x / 3.0
"""
LOOKED_UP = LOOPING.replace("while x > 1.0:\n                x = x / 3.0", "x = x / a.at(K=0)")


@pytest.mark.parametrize("text", [CHEAP, LOOPING, LOOKED_UP], ids=["cheap", "loop", "look-up"])
def test_columns_without_long_operations_or_with_loops_stay_where_they_are(text: str) -> None:
    assert rooms(text) == [None]
