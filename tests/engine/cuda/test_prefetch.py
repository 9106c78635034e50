"""What blocks in strips ask for early: lines that are read later, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kept import device_code
from plane_programs import PROGRAMS
from programs import Box, drawn, reference, scheduled
from tile_choices import changed

from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import tiles_of
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.backends.cuda.model.views import usual_variant

DOMAIN: Box = (37, 13, 9)
HALO: Box = (5, 4, 4)
STRIP = Tile((8, 2), strip=2)
SEVEN = """
def seven(u: Field[float32], v: Field[float32]):
    with computation(PARALLEL), interval(...):
        v = u[-1, 0, 0] + u[0, 1, 0] + u[0, 0, -1] + 2 * u[0, 0, 2]
"""
TWO_INTERVALS = """
def two(u: Field[float32], v: Field[float32]):
    with computation(PARALLEL):
        with interval(0, -1):
            v = u[0, 0, 1]
        with interval(-1, None):
            v = u
"""


def source(text: str, tile: Tile) -> str:
    schedule = scheduled(text)
    return emit(schedule, usual_variant(schedule), {"kernel0": tile})


def test_the_furthest_level_is_asked_for_where_blocks_run_in_strips() -> None:
    """Of the array with the reads, and never a level that no point reads."""
    up = source(SEVEN, STRIP)
    assert "fetch(&f0[o0 + 2 * s0k + (k + 1 < top ? s0k : 0)]);" in up
    assert up.count("fetch(&") == 1
    down = source(SEVEN, Tile((8, 2), strip=2, backward=True))
    assert "fetch(&f0[o0 - s0k - (k > level ? s0k : 0)]);" in down
    device_code(up, "sm_90")


@pytest.mark.parametrize(
    ("text", "tile"),
    [
        (SEVEN, Tile((8, 2))),
        (SEVEN, Tile((8, 2), width=4, strip=2)),
        (SEVEN, Tile((8, 2), column=2)),
        (SEVEN.replace("float32", "float64"), STRIP),
        (TWO_INTERVALS, STRIP),
    ],
    ids=["row order", "wide", "columns", "much", "levels that read less"],
)
def test_elsewhere_nothing_is_asked_for(text: str, tile: Tile) -> None:
    assert "fetch" not in source(text, tile)


def test_large_calls_in_place_have_large_blocks_that_ask_early() -> None:
    schedule = scheduled(SEVEN)
    variant = replace(usual_variant(schedule), disjoint=False)
    small, large = (tiles_of(schedule, variant, (n, n, 64))["kernel0"] for n in (64, 2048))
    assert (small.block, large.block) == ((32, 4), (32, 8))
    assert large.strip
    assert not small.strip
    assert "fetch(&" in emit(schedule, variant, {"kernel0": large})


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("name", ["star", "aside"])
def test_values_are_those_of_the_reference(load: Any, name: str, *, backward: bool) -> None:
    schedule = scheduled(PROGRAMS[name].replace("float64", "float32"))
    executable = load(schedule, tiles=changed(block=(8, 2), strip=2, width=1, backward=backward))
    shape = tuple(n + 2 * h for n, h in zip(DOMAIN, HALO, strict=True))
    assert len(shape) == 3
    fields: dict[str, Any] = {
        field: drawn(shape, number).astype("float32") for number, field in enumerate("uv")
    }
    origins = dict.fromkeys(fields, HALO)
    expected = reference(schedule, fields, {"w": 0.3}, origins, DOMAIN)
    executable(fields, {"w": 0.3}, origins, DOMAIN)
    np.testing.assert_array_equal(fields["v"], expected["v"])
