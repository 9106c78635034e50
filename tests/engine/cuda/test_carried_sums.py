"""Sums over levels that threads carry: what they hold, and that no bit depends on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cubin import resources
from plane_programs import BOX, program
from programs import Box, drawn, reference, scheduled
from tile_choices import changed

from halocline_engine.backends.cuda.autotune.candidates import candidates
from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.points.carried_sums import carried
from halocline_engine.backends.cuda.model.entries import entries_of
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.device.compile.compiler import compile_source
from halocline_engine.schedule.tune_cost import Chip

DOMAIN: Box = (37, 13, 9)
HALO: Box = (3, 2, 3)
#: Programs with the levels from the lowest one that a sum reads to its highest.
PROGRAMS: dict[str, tuple[str, range]] = {
    "box": (program(f"w * ({BOX})"), range(-1, 2)),
    "signs": (program("w - (u[1,0,-2] * w - u[-2,1,-2] - u[0,2,1] / w + u[3,0,1])"), range(-2, 2)),
    "rest": (program("u[0,1,0] + u[1,0,1] - w + u[0,0,3] * u[0,0,-1] + u"), range(2)),
    "above": (program("u[0,0,-3] + u[0,-1,-2] + u", "3, -1"), range(-3, 1)),
    "several": (
        "def sums(u: Field[float64], v: Field[float64], x: Field[float64], y: Field[IJ, float64],"
        " w: float64):\n"
        "    with computation(PARALLEL), interval(...):\n"
        "        x = u[0,1,-1] + y[1,0] * w + u[0,1,0] - u[2,0,1] + y[-1,1]\n"
        "        v = x - (u[1,0,-1] - u[0,-2,1])\n"
        "        x = v if v > w else (u[0,-1,-1] + u[0,0,1]) + (u[0,0,0] + u[1,0,1])\n",
        range(-1, 2),
    ),
}
#: Blocks, widths, rows, depths and levels that are written out.
TILES = [((8, 2), 2, 3, 4, 1), ((4, 2), 1, 1, 16, 2)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_the_reference(load: Any, name: str) -> None:
    schedule = scheduled(PROGRAMS[name][0])
    wide, tall, high = (n + 2 * h for n, h in zip(DOMAIN, HALO, strict=True))
    for number, (block, width, rows, depth, unroll) in enumerate(TILES):
        tile = changed(
            block=block, width=width, rows=rows, depth=depth, unroll=unroll, planes=0, sums=True
        )
        executable = load(schedule, tiles=tile)
        fields: dict[str, Any] = {}
        for one in schedule.program.fields:
            flat = one.name == "y"
            size, halo = (wide, tall, 1 if flat else high), (*HALO[:2], 0 if flat else HALO[2])
            fields[one.name] = executable.memory.empty(size, np.dtype("float64"), halo)
            executable.memory.upload(drawn(size, number), fields[one.name])
        origins = {name: (*HALO[:2], 0 if name == "y" else HALO[2]) for name in fields}
        expected = reference(schedule, fields, {"w": 0.3}, origins, DOMAIN)
        executable(fields, {"w": 0.3}, origins, DOMAIN)
        for one, values in fields.items():
            np.testing.assert_array_equal(values, expected[one])


@pytest.mark.parametrize("name", PROGRAMS)
def test_sums_have_a_value_for_each_level_below_the_highest(name: str) -> None:
    (entry,) = entries_of(scheduled(PROGRAMS[name][0]))
    found = carried(entry.kernel.sections[0], entry)
    assert found is not None
    levels = PROGRAMS[name][1]
    assert [level for level, _ in found.starts] == list(levels[:-1])
    assert len(found.sums) == (3 if name == "several" else 1) * (len(levels) - 1)
    assert found.top == levels[-1]


@pytest.mark.parametrize(
    "value",
    [
        "u[0,0,1] + u[0,1,0] + u[0,0,-1]",
        "u[0,0,-1] * u[0,0,1] + u",
        "u[0,1,0] + u[1,0,0]",
        "v + u[0,0,-1]",
        "u[0,0,-1] + v",
    ],
)
def test_nothing_is_carried_where_no_sum_goes_up_the_levels(value: str) -> None:
    (entry,) = entries_of(scheduled(program(value)))
    assert carried(entry.kernel.sections[0], entry) is None


def test_a_condition_guards_its_sums() -> None:
    text = program("u[0,0,-1] + u").replace("        v =", "        if u > w:\n            v =")
    (entry,) = entries_of(scheduled(text))
    assert carried(entry.kernel.sections[0], entry) is None


def test_the_tuner_tries_sums_where_there_are_some() -> None:
    for value, tried in ((BOX, True), ("u[0,0,1] + u[0,0,-1] + u[0,1,0]", False)):
        schedule = scheduled(program(value))
        found = candidates(schedule, usual_variant(schedule), (1024, 1024, 256), Chip())
        assert any("sums" in one.label for one in found) == tried


def test_sums_take_the_place_of_elements_in_registers() -> None:
    """Two sums a point and one level of elements; three levels of them alone are 144 registers."""
    schedule = scheduled(PROGRAMS["box"][0])
    tile = Tile((64, 2), width=2, rows=4, depth=48, unroll=1, sums=True)
    text = emit(schedule, usual_variant(schedule), {"kernel0": tile})
    (found,) = resources(compile_source(text, "sm_90")).values()
    assert found.stack == 0
    assert found.registers <= 120
