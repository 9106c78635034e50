"""Rows and columns that lie in no narrow region leave out what regions do there."""

from __future__ import annotations

import re

import pytest
from differential import assert_same, front
from general_runs import given_arrays, judged, ran

from halocline_engine.backends.cpu.build import CpuBackend
from halocline_engine.backends.cpu.text.emit import emit
from halocline_engine.backends.cpu.text.layout import contiguous, layout_of
from halocline_engine.ir.types import Axis
from halocline_engine.schedule.plan import plan

#: Edges, a corner that is read through a temporary at its neighbours, and a wide region.
EDGES = """
def edges(
    a: Field[float], b: Field[float], source: Field[float], x: Field[float], y: Field[float],
):
    with computation(PARALLEL):
        with interval(0, -1):
            t = a
            with horizontal(region[I[0]:I[0] + 2, :], region[:, J[-1]]):
                t = b + b[0, 0, 1]
            x = t[1, 0, 0] - t[-1, 0, 0] + t[0, 1, 0]
            with horizontal(region[I[0] + 1:I[-1], :]):
                x = x * 0.5
            if a > 0.0:
                with horizontal(region[I[-1], J[0]]):
                    x = source[0, -1, 0]
            y = x + a
        with interval(-1, None):
            x = a
            with horizontal(region[:, J[0]]):
                x = b
"""
#: Corners that nothing else is done about, and a column that regions change.
CORNERS = """
def corner(q, source):
    with horizontal(region[I[0], J[0]]):
        q = source[1, 0, 0]
    with horizontal(region[I[-1], J[-1]]):
        q = source[-1, 0, 0] + source[0, -1, 0]
    return q


def corners(q: Field[float], source: Field[float], x: Field[float]):
    with computation(PARALLEL), interval(...):
        q = corner(q, source)
    with computation(FORWARD):
        with interval(0, 1):
            x = source
        with interval(1, None):
            x = x[0, 0, -1] + source
            with horizontal(region[I[-1], :]):
                x = 0.25 * x[0, 0, -1]
"""
DOMAINS = ((37, 7, 4), (8, 6, 3), (5, 4, 2), (2, 2, 7), (1, 3, 3), (3, 1, 2))


@pytest.mark.parametrize("text", [EDGES, CORNERS], ids=["edges", "corners"])
@pytest.mark.parametrize("layout", ["along I", "along K"])
def test_values_are_those_of_the_reference(text: str, layout: str) -> None:
    meaning, facts = front(text)
    artifact = CpuBackend().build(plan(meaning, facts))
    for seed, domain in enumerate(DOMAINS):
        own = given_arrays(meaning, facts, domain, layout, seed)
        expected = judged(meaning, facts, own, domain)
        assert_same(ran(artifact, meaning, facts, own, domain).arrays, expected.arrays)


def test_points_in_no_region_read_what_they_need_alone() -> None:
    meaning, facts = front(EDGES)
    schedule = plan(meaning, facts)
    source = f"pointer_float64(f{[f.name for f in meaning.fields].index('source')}"
    text = emit(schedule, contiguous(meaning)).text
    (pointer,) = re.findall(rf"(p\d+) = {re.escape(source)}", text)
    usual = text.split("for i in range(low, high):\n")[1].split("            for k in")[0]
    assert f"load({pointer}," in text
    assert f"load({pointer}," not in usual


@pytest.mark.parametrize("inner", [Axis.I, Axis.K])
def test_points_that_nothing_is_done_about_are_not_visited(inner: Axis) -> None:
    text = CORNERS.partition("    with computation(FORWARD)")[0].replace(", x: Field[float]", "")
    meaning, facts = front(text)
    made = emit(plan(meaning, facts), contiguous(meaning, inner)).text
    assert "beside = " in made
    assert "range(low, high)" not in made
    assert "else:" not in made


def test_columns_of_corners_are_visited_beside_their_rows_only() -> None:
    meaning, facts = front(CORNERS)
    corner, column = emit(plan(meaning, facts), contiguous(meaning, Axis.I)).text.split("def ")[1:]
    assert "free0, free1 = i0, i1" in corner
    assert "while free1 < i1 and not" in column


def test_masks_do_not_decide_which_axis_is_the_innermost() -> None:
    text = CORNERS.partition("    with computation(FORWARD)")[0].replace(", x: Field[float]", "")
    meaning, _ = front(text)
    masks = {name for name in meaning.made if ".I" in name}
    assert len(masks) >= 2
    along_i, along_k = (8, 800, 8000), (8000, 800, 8)
    strides = dict.fromkeys(masks, (1, 0, 0)) | dict.fromkeys(("q", "source"), along_k)
    assert layout_of(meaning, strides).inner is Axis.K
    strides |= dict.fromkeys(("q", "source"), along_i)
    assert layout_of(meaning, strides).inner is Axis.I
