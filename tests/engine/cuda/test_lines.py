"""Threads of a point each, of which those of a row begin where a line of memory does."""

from __future__ import annotations

from typing import Any

import pytest
from differential import assert_same, front, inputs, judged, run
from tile_choices import changed

from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import tiles_of
from halocline_engine.backends.cuda.model.entries import Variant, entries_of
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.plan import plan

TEXT = """
def points(a: Field[{0}], p: Field[IJ, {0}], q: Field[K, {0}], x: Field[{0}], y: Field[{0}]):
    with computation(PARALLEL):
        with interval(0, 1):
            x = a[1, -1, 1] * p
        with interval(1, None):
            if a > {0}(0.0):
                y = a[-1, 0, 0] + q
            x = a[0, 2, -1] - p[1, 0]
"""
#: Values that a temporary has beyond the domain, so that its kernel begins before it.
AROUND = """
def around(a: Field[{0}], x: Field[{0}]):
    with computation(PARALLEL), interval(...):
        t = a / {0}(3.0)
    with computation(FORWARD), interval(1, None):
        x = t[-3, 0, -1] + t[2, 1, 0] + x[0, 0, -1]
"""


@pytest.mark.parametrize("layout", ["along I", "padded", "along J", "along K", "reversed"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("text", [TEXT, AROUND])
def test_values_are_those_of_the_reference(load: Any, text: str, dtype: str, layout: str) -> None:
    meaning, facts = front(text.format(dtype))
    tiles = changed(block=(32, 2), width=1, rows=1, depth=1, line=32, levelwise=0, along=0)
    for domain in ((37, 5, 4), (1, 3, 3), (70, 1, 2)):
        expected = judged(meaning, facts, inputs(meaning, facts, domain), domain, {})
        own = inputs(meaning, facts, domain, layout=layout)
        assert_same(run(load(plan(meaning, facts), tiles=tiles), own, domain, {}), expected)


def _many(schedule: Schedule, *, aligned: bool) -> Tile:
    usual = usual_variant(schedule)
    variant = Variant(usual.arrays, usual.kinds, False, True, tuple(aligned for _ in usual.aligned))
    (entry,) = entries_of(schedule)
    return tiles_of(schedule, variant, (509, 487, 72))[entry.name]


@pytest.mark.parametrize(("dtype", "line"), [("float32", 32), ("float64", 16)])
def test_rows_of_many_arrays_that_begin_anywhere_have_lines(dtype: str, line: int) -> None:
    names = [f"f{number}" for number in range(12)]
    fields = ", ".join(f"{name}: Field[{dtype}]" for name in names)
    body = "".join(f"        {name} = {dtype}({number}.5)\n" for number, name in enumerate(names))
    text = f"def many({fields}):\n    with computation(PARALLEL), interval(...):\n{body}"
    schedule = plan(*front(text))
    assert _many(schedule, aligned=True).line == 0
    assert _many(schedule, aligned=False).line == line
    variant = usual_variant(schedule)
    code = emit(schedule, variant, {"kernel0": Tile((32, 4), line=line)})
    assert f"% {line});" in code
