"""Points that look up levels of their column: every block has the bits of the reference."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from corpus.calls import CorpusCall, wrong
from corpus.cases import CorpusCase, corpus

import halocline_engine as he
from conftest import Loader
from halocline_engine.backends.cuda.kernels.choose import tile_for, tiles_of
from halocline_engine.backends.cuda.model.entries import Entry, Variant, entries_of
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.backends.made.fields import with_made_fields
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.plan import plan

CASES = [case for case in corpus() if "at(K=" in case.source or "th[0,0,n]" in case.source]


def upright(domain: Domain, name: str = "flux_form_levels") -> Tile:
    """Return the tile of the last kernel of a program."""
    made = CorpusCall(case_of(name), "float64", "KJI", domain).compiled
    schedule = plan(made.program, made.facts)
    tiles = tiles_of(schedule, usual_variant(schedule), domain)
    return tiles[[entry.name for entry in entries_of(schedule)][-1]]


def case_of(name: str) -> CorpusCase:
    return next(case for case in corpus() if case.name == name)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
@pytest.mark.parametrize("tile", [Tile((32, 3), depth=4), Tile((8, 8), depth=64)])
def test_every_block_has_the_bits_of_the_reference(
    load: Loader, case: CorpusCase, tile: Tile
) -> None:
    def choose(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile:
        usual = tile_for(entry, schedule, variant, domain)
        if not usual.upright:
            return usual
        return replace(usual, block=tile.block, depth=tile.depth)

    call = CorpusCall(case, "float64", "KJI", (11, 5, case.domain[2]))
    made, given = call.compiled, call.arrays(np)
    kernels: Any = SimpleNamespace(load=partial(load, plan(made.program, made.facts), tiles=choose))
    artifact = with_made_fields(kernels, made.program, made.facts)
    got = {name: array.copy(order="K") for name, array in given.items()}
    call.run(he.Stencil(replace(made, artifact=artifact)), got)
    assert wrong(call, got, given) == ""


def test_blocks_go_up_columns_in_rounds_that_are_even() -> None:
    assert upright((509, 487, 48)) == Tile((32, 16), depth=128, upright=True)
    assert upright((509, 487, 72)) == Tile((32, 15), depth=120, upright=True)
    assert upright((509, 487, 3)) == Tile((32, 3), depth=126, upright=True)


def test_small_domains_have_a_block_for_each_round() -> None:
    assert upright((40, 30, 72)) == Tile((32, 15), depth=15, upright=True)


@pytest.mark.parametrize("name", ["accretion_table_2d", "flipped_levels"])
def test_what_each_point_reads_once_is_for_blocks_of_points(name: str) -> None:
    """Tables have nothing to do with columns, and some levels are the same for a whole level."""
    assert not upright((509, 487, 72), name).upright
