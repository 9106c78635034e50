"""Ways in which a stencil may run are such that the target can take, with the same bits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from emulation.machine import EmulatedMachine
from programs import COLUMNS, DIFFUSION, SCALED, Box, drawn, reference, scheduled

from halocline_engine.backends.cuda.autotune.candidates import candidates
from halocline_engine.backends.cuda.autotune.choice import Choice, choice_from, choice_text
from halocline_engine.backends.cuda.model.entries import Stride
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.backends.cuda.runtime.executable import CudaExecutable
from halocline_engine.cache import Cache
from halocline_engine.schedule.tune import proposed
from halocline_engine.schedule.tune_cost import Chip

DOMAIN: Box = (70, 40, 9)


@pytest.mark.parametrize("text", [SCALED, DIFFUSION])
def test_candidates_are_ways_that_the_target_can_take(text: str) -> None:
    schedule = scheduled(text)
    found = candidates(schedule, usual_variant(schedule), (1021, 1019, 80), Chip())
    assert choice_from(found[0].options) == Choice()
    assert len({one.options for one in found}) == len(found) > 20
    for one in found:
        assert choice_text(choice_from(one.options)) == one.options
        assert one.cost > 0
    few = proposed(found, 12)
    assert len(few) == 12
    assert few[1].cost <= few[-1].cost


STAR = """
def star(u: Field[float64], v: Field[float64]):
    with computation(PARALLEL), interval(...):
        v = u + 0.5 * u[-2, 0, 0] - u[2, 0, 0] * u[0, -1, 0] + u[0, 2, 0] - u[0, 0, 1] * u[0, 0, -2]
"""


@pytest.mark.parametrize("text", [STAR, COLUMNS])
def test_candidates_have_the_bits_of_the_reference(
    tmp_path: Path, machine: EmulatedMachine, text: str
) -> None:
    schedule = scheduled(text)
    names = [f.name for f in schedule.program.fields]
    several = candidates(schedule, usual_variant(schedule), (1024, 1024, 64), Chip())
    domain: Box = (37, 19, 9)
    memory = CudaExecutable(schedule, machine, Cache(tmp_path)).memory
    for one in Random(7).sample(several, 5):
        fields: dict[str, Any] = {}
        for seed, name in enumerate(names):
            fields[name] = memory.empty((41, 23, 12), np.dtype("float64"), (2, 2, 2))
            fields[name][...] = drawn((41, 23, 12), seed)
        origins: dict[str, Box] = dict.fromkeys(names, (2, 2, 2))
        expected = reference(schedule, fields, {}, origins, domain)
        choose = choice_from(one.options).tile_for
        CudaExecutable(schedule, machine, Cache(tmp_path), choose)(fields, {}, origins, domain)
        for name in names:
            np.testing.assert_array_equal(fields[name], expected[name], err_msg=one.label)


def test_columns_of_threads_that_have_a_level_each_are_candidates() -> None:
    schedule = scheduled(DIFFUSION)
    usual = usual_variant(schedule)
    variant = replace(usual, kinds=((Stride.ANY, Stride.ANY, Stride.ONE),) * len(usual.kinds))
    found = candidates(schedule, variant, (1021, 1019, 80), Chip())
    tiles = [tile for one in found for _, tile in choice_from(one.options).tiles]
    levelwise = {(tile.width, tile.rows) for tile in tiles if tile.levelwise}
    assert {(1, 1), (4, 1), (2, 2), (4, 2)} <= levelwise
