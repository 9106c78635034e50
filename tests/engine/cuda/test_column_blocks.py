"""Blocks that have all levels of columns: the bits of the reference, and what is on chip."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from corpus.calls import CorpusCall, wrong
from corpus.cases import CorpusCase, corpus
from nvidia import compiled_everywhere

import halocline_engine as he
from conftest import Loader
from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import TileFor, tile_for, tiles_of
from halocline_engine.backends.cuda.kernels.column_blocks.held import held_on_chip
from halocline_engine.backends.cuda.model.entries import Entry, Variant, entries_of
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.backends.made.fields import with_made_fields
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.plan import plan

#: A sweep down that makes a field and temporaries of two types, read at other levels and looked up.
DOWN = """
def down(a: Field[real], b: Field[real], s: Field[real], out: Field[real]):
    with computation(BACKWARD):
        with interval(-1, None):
            s = a
            n = 0
        with interval(0, -1):
            s = s[0, 0, 1] + a * b[0, 0, 1]
            n = n[0, 0, 1] + (1 if a > 1.0 else 0)
    with computation(PARALLEL):
        with interval(0, 2):
            out = s.at(K=n) + n[0, 0, 1]
        with interval(2, -1):
            m = 0
            while m < 4 and s.at(K=m) > b[0, 1, 0] + n.at(K=m):
                m = m + 1
            out = a.at(K=K - m) + s * 0.5
"""
#: Values of the level itself that are handed on with those that are looked up.
OWN = """
def own(a: Field[real], b: Field[real], out: Field[real], *, last: int):
    with computation(FORWARD):
        with interval(0, 1):
            x = 0.0
            y = b
        with interval(1, None):
            x = x[0, 0, -1] + a
            y = y[0, 0, -1] + b
    with computation(PARALLEL), interval(1, None):
        n = 0
        while n < last and x.at(K=n) <= y:
            n += 1
        out = x.at(K=n) - y + b.at(K=n - 1)
"""
#: Points alone, which look up again and again.
ALONE = """
def alone(a: Field[real], b: Field[real], p: Field[IJ, real], out: Field[real]):
    with computation(PARALLEL):
        with interval(0, -2):
            x = p
            n = 1
            while n < 6 and a[0, 0, n] < 1.2:
                x = x + b[0, 0, n] * a[0, 0, -n] + b[1, 0, 0]
                n += 1
            out = x
        with interval(-2, None):
            out = a[0, 0, -1]
"""
CASES = [
    *(case for case in corpus() if "at(K=" in case.source or "th[0,0,n]" in case.source),
    CorpusCase("down", "", (11, 5, 9), {}, {}, DOWN),
    CorpusCase("own", "", (11, 5, 9), {}, {"last": 8}, OWN),
    CorpusCase("alone", "", (11, 5, 9), {}, {}, ALONE),
]


def blocks(tile: Tile) -> TileFor:
    """Return a choice of blocks of columns for every kernel that can have them."""

    def choose(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile:
        usual = tile_for(entry, schedule, variant, domain)
        return tile if entry.swept or usual.upright or usual.levelwise else usual

    return choose


def tiles_for(case: CorpusCase, domain: Domain) -> tuple[Schedule, dict[str, Tile]]:
    made = CorpusCall(case, "float64", "KJI", domain).compiled
    schedule = plan(made.program, made.facts)
    return schedule, dict(tiles_of(schedule, usual_variant(schedule), domain))


def ran(load: Loader, call: CorpusCall, tile: Tile, given: dict[str, Any], **place: Any) -> Any:
    made = call.compiled
    kernels: Any = SimpleNamespace(
        load=partial(load, plan(made.program, made.facts), tiles=blocks(tile))
    )
    stencil = he.Stencil(
        replace(made, artifact=with_made_fields(kernels, made.program, made.facts))
    )
    got = {name: array.copy(order="K") for name, array in given.items()}
    stencil(**got, **call.case.scalars, **place)
    return got


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
@pytest.mark.parametrize("layout", ["KJI", "IJK"])
@pytest.mark.parametrize(
    "tile",
    [
        Tile((32, 3), held=True, on_chip=64),
        Tile((8, 16), held=True, on_chip=16),
        Tile((16, 2), held=True),
    ],
    ids=["all on chip", "some on chip", "nothing on chip"],
)
def test_every_block_has_the_bits_of_the_reference(
    load: Loader, case: CorpusCase, layout: str, tile: Tile
) -> None:
    call = CorpusCall(case, "float64", layout, (11, 5, case.domain[2]))
    given = call.arrays(np)
    got = ran(load, call, tile, given, origin=call.halo, domain=call.domain)
    assert wrong(call, got, given) == ""


@pytest.mark.parametrize("name", ["alone", "down", "parcel_lifting"])
def test_levels_beyond_the_domain_are_looked_up_in_memory(load: Loader, name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    levels = case.domain[2]
    call = CorpusCall(case, "float64", "KJI", (12, 6, levels + 5))
    given = call.arrays(np)
    place = {"origin": (1, 1, 2), "domain": (9, 4, levels)}
    expected = {name: array.copy(order="K") for name, array in given.items()}
    call.stencil("reference")(**expected, **case.scalars, **place)
    got = ran(load, call, Tile((32, 4), held=True, on_chip=64), given, **place)
    for array in call.written:
        np.testing.assert_array_equal(got[array], expected[array])


def test_sweeps_and_points_that_search_are_one_kernel_and_need_no_buffer() -> None:
    for case in CASES:
        schedule, tiles = tiles_for(case, (509, 487, 64))
        if case.name in ("bisection", "level_search", "remap_level_search", "remap_mass", "own"):
            entries = tuple(entries_of(schedule))
            assert list(tiles) == ["kernel0"]
            assert tiles["kernel0"].held
            assert held_on_chip(entries, tiles) == {buffer.name for buffer in schedule.buffers}


def test_fields_that_loops_look_up_are_copied_and_others_are_not() -> None:
    assert tiles_for(case_of("parcel_lifting"), (509, 487, 48))[1]["kernel0"].on_chip == 16
    assert tiles_for(case_of("remap_mass"), (509, 487, 48))[1]["kernel0"].on_chip == 24
    assert not tiles_for(other("flux_form_levels"), (509, 487, 48))[1]["kernel0"].held


def test_high_columns_have_fewer_on_chip_then_fewer_columns_then_nothing() -> None:
    seen = [tiles_for(case_of("bisection"), (509, 487, n))[1]["kernel0"] for n in HIGH]
    assert [(tile.block[0], tile.on_chip) for tile in seen] == [(32, 16), (32, 8), (16, 8), (32, 0)]


HIGH = (64, 200, 500, 5000)


def test_small_domains_have_threads_for_points_alone() -> None:
    assert not tiles_for(case_of("parcel_lifting"), (40, 30, 48))[1]["kernel0"].held


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x = x[0, 0, -1] + a", "x = x[0, 0, -1] + exp(log(sin(cos(sqrt(a / b)))))"),
        ("x.at(K=n) - y", "x.at(K=n) - x[1, 0, 0]"),
    ],
    ids=["much work", "other columns"],
)
def test_other_sweeps_are_kernels_of_their_own(old: str, new: str) -> None:
    case = CorpusCase("own", "", (9, 9, 9), {}, {}, OWN.replace(old, new))
    schedule, _ = tiles_for(case, (509, 487, 64))
    assert not any(entry.swept for entry in entries_of(schedule))


def test_nvidias_compiler_takes_them_for_each_device() -> None:
    sources: list[str] = []
    for case in CASES:
        schedule, tiles = tiles_for(case, (509, 487, case.domain[2]))
        sources.append(emit(schedule, usual_variant(schedule), tiles))
    for needs in compiled_everywhere(sources).values():
        assert all(one.stack <= 16 and one.registers <= 64 for one in needs.values())


def other(name: str) -> CorpusCase:
    return next(case for case in corpus() if case.name == name)


def case_of(name: str) -> CorpusCase:
    return next(case for case in CASES if case.name == name)
