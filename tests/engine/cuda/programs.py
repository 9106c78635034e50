"""Programs and schedules for tests of generated CUDA."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import halocline_engine as he
from halocline_engine.backends.base import Value
from halocline_engine.backends.reference.build import ReferenceBackend
from halocline_engine.ir.extent import CENTRE, Facts
from halocline_engine.ir.nodes import (
    Assign,
    Binary,
    Bound,
    Field,
    Interval,
    Number,
    Program,
    Read,
    Temporary,
)
from halocline_engine.ir.types import Axis, DType, Order
from halocline_engine.schedule.nodes import Buffer, Kernel, Level, Levels, Schedule, Section

__all__ = [
    "CHOSEN",
    "COLUMNS",
    "COMPONENT",
    "DIFFUSION",
    "FILLED",
    "LEVELS",
    "MASKED",
    "NEVER_WRITTEN",
    "SCALED",
    "Box",
    "drawn",
    "levels_schedule",
    "reference",
    "scheduled",
]

Box = tuple[int, int, int]

SCALED = """
def scaled(a: Field[float64], b: Field[float64], c: float64):
    with computation(PARALLEL), interval(...):
        b = c * a[1, 0, 0] - a[0, -1, 0]
"""
DIFFUSION = """
def diffusion(inp: Field[float64], coeff: Field[float64], out: Field[float64]):
    with computation(PARALLEL), interval(...):
        lap = 4.0 * inp - (inp[-1, 0, 0] + inp[1, 0, 0] + inp[0, -1, 0] + inp[0, 1, 0])
        flx = lap[1, 0, 0] - lap
        flx = 0.0 if flx * (inp[1, 0, 0] - inp) > 0.0 else flx
        fly = lap[0, 1, 0] - lap
        fly = 0.0 if fly * (inp[0, 1, 0] - inp) > 0.0 else fly
        out = inp - coeff * (flx - flx[-1, 0, 0] + fly - fly[0, -1, 0])
"""
#: Conditions choose between arrays of which kernels write some.
CHOSEN = """
def chosen(x: Field[float64], a: Field[float64], m: Field[int32]):
    with computation(FORWARD), interval(1, None):
        x = a if m < 1 else x[0, 0, -1]
"""
COMPONENT = """
def component(d: Field[(float64, (3,))], x: Field[float64], m: Field[int32], s: float64):
    with computation(PARALLEL), interval(...):
        turns = 0
        while turns < 2:
            x = 2.0 + d[0, 0, 0][m % 3]
            d[0, 0, 0][2] = s
            turns += 1
"""
#: No condition for a store to the first two components ever holds.
NEVER_WRITTEN = """
def never_written(d: Field[(float64, (2, 2))], x: Field[float64], m: Field[int32]):
    with computation(PARALLEL), interval(...):
        d[0, 0, 0][1, m % 2] = 3.0
        x = 2.0 * d[0, 0, 0][m % 2, 1]
"""


#: Fields that are updated in place where a condition holds, and one that always is.
FILLED = """
def filled(a: Field[float64], b: Field[float64], c: Field[float64], limit: float64):
    with computation(PARALLEL), interval(...):
        if a < limit:
            b = b + a
            a = limit
        if b > c:
            b = c
        c = c + 1.0
"""
#: Columns that carry values up and down, some of them written under a condition.
COLUMNS = """
def columns(a: Field[float64], up: Field[float64], down: Field[float64]):
    with computation(FORWARD):
        with interval(0, 1):
            up = a
        with interval(1, -2):
            up = 0.5 * up[0, 0, -1] + a
            if a > 0.5:
                up = up + up[0, 0, -1]
        with interval(-2, None):
            if a > 0.0:
                up = up[0, 0, -1] - a[0, 0, -2]
            else:
                up = a
    with computation(BACKWARD):
        with interval(-1, None):
            down = up
        with interval(0, -1):
            down = up - 0.25 * down[0, 0, 1]
"""
#: Reads along all axes, two sections, and a field that is updated in place where it is positive.
LEVELS = """
def levels(a: Field[float64], b: Field[float64], c: Field[float64]):
    with computation(PARALLEL):
        with interval(0, 3):
            b = a[0, 0, -1] + a[0, 1, 2] - a[-1, 0, 0]
            if a > 0.0:
                c = c + b
        with interval(3, None):
            b = a[0, 0, 1] * a + a[0, 0, -1]
            if b > 0.5:
                c = a[0, 1, 0]
"""
MASKED = """
def masked(a: Field[float64], k: Field[K, float64], p: Field[IJ, float64], b: Field[float64],
           limit: float64):
    with computation(PARALLEL):
        with interval(0, 2):
            b = a[0, 0, 1] + k
        with interval(2, -1):
            if a > limit:
                b = a - p[1, 0]
            else:
                b = k[1]
        with interval(-1, None):
            b = a * p
"""


def levels_schedule(order: Order) -> Schedule:
    """Return a schedule whose planes need neighbours of the same level: made by hand.

    t = 0.5 * t[before] + a, with a alone on the first visited level, then b = t[1, 0, 0].
    """
    kind = DType.FLOAT64
    around = ((0, 1), (0, 0))
    forward = order is Order.FORWARD
    before = -1 if forward else 1
    a, t = Read("a", (0, 0, 0), kind), Read("t", (0, 0, before), kind)
    half = Binary("*", Number(kind, 0.5), t, kind)
    top, bottom = Bound(from_end=True, offset=0), Bound(from_end=False, offset=0)
    if forward:
        start = Interval(bottom, Bound(from_end=False, offset=1))
        rest = Interval(Bound(from_end=False, offset=1), top)
    else:
        start = Interval(Bound(from_end=True, offset=-1), top)
        rest = Interval(bottom, Bound(from_end=True, offset=-1))

    def level(interval: Interval, value: Any) -> Level:
        first = Section(interval, (Assign("t", value),))
        second = Section(interval, (Assign("b", Read("t", (1, 0, 0), kind)),))
        return Level(
            interval,
            (
                Kernel(Order.PARALLEL, around, (first,), ()),
                Kernel(Order.PARALLEL, CENTRE, (second,), ()),
            ),
        )

    axes = (Axis.I, Axis.J, Axis.K)
    program = Program(
        "levels",
        ("a", "b"),
        (
            Field("a", kind, axes, read=True, written=False),
            Field("b", kind, axes, read=False, written=True),
        ),
        (),
        (Temporary("t", kind),),
        (),
    )
    step = Levels(order, (level(start, a), level(rest, Binary("+", half, a, kind))))
    facts = Facts({}, {"t": around}, (), 1)
    return Schedule(program, facts, (Buffer("t", kind, around),), (step,))


def scheduled(text: str) -> Schedule:
    return he.stencil(text, target="reference").compiled.schedule


def drawn(shape: Box, seed: int = 0, dtype: str = "float64") -> NDArray[Any]:
    """Return rough random numbers around zero."""
    return np.random.default_rng(seed).normal(0.0, 1.0, shape).astype(dtype)


def reference(
    schedule: Schedule,
    fields: dict[str, Any],
    scalars: dict[str, Value],
    origins: dict[str, Box],
    domain: Box,
) -> dict[str, Any]:
    """Return copies of the fields after a run of the reference."""
    copies = {name: array.copy() for name, array in fields.items()}
    ReferenceBackend().build(schedule).load()(copies, scalars, origins, domain)
    return copies
