"""Threads of several points that load what narrow regions read in those regions alone."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from differential import assert_same, front
from emulation.machine import EmulatedMachine
from general_runs import given_arrays, judged, ran
from tile_choices import changed

from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import tiles_of
from halocline_engine.backends.cuda.model.entries import arrays_of
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.schedule.plan import plan

#: An edge, corners by a function, a region under a condition, and two sections.
EDGES = """
def corner(q, source):
    with horizontal(region[I[0], J[0]]):
        q = source[1, 0, 0]
    with horizontal(region[I[-1], J[0]]):
        q = source[-1, 1, 0] + source[1, 0, 0]
    return q


def edges(
    a: Field[{0}], b: Field[{0}], c: Field[{0}], wet: Field[IJ, {0}], source: Field[{0}],
    x: Field[{0}], q: Field[{0}],
):
    with computation(PARALLEL):
        with interval(0, -1):
            x = a - a[-1, 0, 0] + a[0, 1, 0]
            with horizontal(region[I[0]:I[0] + 2, :], region[:, J[-1]]):
                x = b + b[0, 0, 1]
            if wet > {0}(0.5):
                with horizontal(region[:, J[0]]):
                    x = x * c[0, -1, 0]
            q = corner(q, source)
        with interval(-1, None):
            x = a
            with horizontal(region[I[-1], :]):
                x = c
"""
#: The last points read beyond what they all read, which the threads of others have.
ENDS = """
def ends(a: Field[{0}], x: Field[{0}]):
    with computation(PARALLEL), interval(...):
        x = a
        with horizontal(region[I[-1], :], region[:, J[-1]]):
            x = a[1, 0, 0] - a[0, 1, 0]
        with horizontal(region[I[0], :]):
            x = x + a[-1, 0, 0] * a[0, -1, 0]
"""
DOMAIN = (509, 487, 72)


@pytest.mark.parametrize("text", [EDGES, ENDS])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "tile",
    [{"width": 1, "rows": 1}, {"width": 2, "rows": 3}, {"width": 4, "rows": 2, "depth": 3}],
    ids=["point", "tile", "levels"],
)
def test_values_are_those_of_the_reference(
    load: Any, emulation_folder: Path, text: str, dtype: str, tile: dict[str, int]
) -> None:
    meaning, facts = front(text.format(dtype))
    machine = EmulatedMachine(emulation_folder / "loaded")
    made = changed(**{"block": (32, 2), "depth": 1, **tile})
    tiled: Any = SimpleNamespace(load=partial(load, plan(meaning, facts), on=machine, tiles=made))
    for domain in ((37, 7, 4), (8, 6, 3), (5, 4, 2), (2, 2, 7)):
        own = given_arrays(meaning, facts, domain)
        expected = judged(meaning, facts, own, domain)
        assert_same(ran(tiled, meaning, facts, own, domain).arrays, expected.arrays)


def test_regions_load_what_they_alone_read() -> None:
    schedule = plan(*front(EDGES.format("float64")))
    variant = usual_variant(schedule)
    text = emit(schedule, variant, tiles_of(schedule, variant, DOMAIN))
    arrays = [name for name, _ in arrays_of(schedule)]
    for name in ("b", "c", "source"):
        assert f"f{arrays.index(name)}_here" not in text, name
    assert f"f{arrays.index('a')}_here" in text
