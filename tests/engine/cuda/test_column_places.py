"""Places of what columns keep: on chip, in memory of blocks, and copies of fields."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from differential import assert_same, front, inputs, judged, run
from drawing import SCALARS

from halocline_engine.backends.cuda.kernels.choose import TileFor, shared_bytes, tile_for
from halocline_engine.backends.cuda.kernels.column_chunks.tile import chunks_fitted
from halocline_engine.backends.cuda.kernels.columns.placement import (
    copies_of,
    placement_of,
    with_copies,
)
from halocline_engine.backends.cuda.kernels.columns.tile import columns_fitted
from halocline_engine.backends.cuda.model.entries import Entry, Variant, entries_of
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.ir.types import DType
from halocline_engine.ir.walk import targets_of
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.plan import plan
from halocline_engine.schedule.storage.column_copies import copied

#: Four passes: what the first two need at all levels is over when the third begins.
TWICE = """
def twice(a: Field[{0}], b: Field[{0}], e: Field[{0}], x: Field[{0}]):
    with computation(FORWARD):
        with interval(0, 1):
            g = a / b
            y = e / b
        with interval(1, None):
            g = a / (b - a * g[0, 0, -1])
            y = (e - a * y[0, 0, -1]) * g
    with computation(BACKWARD):
        with interval(-1, None):
            s = y
        with interval(0, -1):
            s = y - g * s[0, 0, 1]
    with computation(FORWARD):
        with interval(0, 1):
            h = s
            z = e + s
        with interval(1, None):
            h = s * (s - s[0, 0, -1])
            z = (e + h * z[0, 0, -1]) / (h * h + b * b)
    with computation(BACKWARD):
        with interval(-1, None):
            x = z
        with interval(0, -1):
            x = z + h * x[0, 0, 1]
"""
#: A pass back updates what the first one has made, but for some levels; masks and another field.
UPDATED = """
def updated(a: Field[{0}], q: Field[{0}], u: Field[{0}], v: Field[{0}]):
    with computation(FORWARD):
        with interval(0, 1):
            u = q
            v = a
        with interval(1, None):
            u = a / (q * q + u[0, 0, -1] * u[0, 0, -1])
            v = (q + v[0, 0, -1]) * u
    with computation(BACKWARD), interval(1, -2):
        v = v - u[0, 0, 1] * v[0, 0, 1]
        if q > 0.0:
            u = u[0, 0, -1] * a
    with computation(FORWARD), interval(1, -1):
        u = u + v[0, 0, 1] * u[0, 0, -1]
"""
TEXTS = {"twice": TWICE, "updated": UPDATED}
LEVELS = 11
DOMAIN: Domain = (13, 5, LEVELS)


def only(text: str) -> tuple[Schedule, Entry, Variant]:
    schedule = plan(*front(text.format("float64")))
    (entry,) = entries_of(schedule)
    return schedule, entry, usual_variant(schedule)


def forced(tile: Tile) -> TileFor:
    def choose(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile:
        usual = tile_for(entry, schedule, variant, domain)
        if not tile.chunk:
            return replace(tile, levels=domain[2])
        return chunks_fitted(tile, entry, schedule, variant, domain) or usual

    return choose


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("on_chip", [0, 8, 16, 100])
@pytest.mark.parametrize("blocks", [1, 2])
def test_places_do_not_change_a_bit(load: Any, name: str, on_chip: int, blocks: int) -> None:
    meaning, facts = front(TEXTS[name].format("float64"))
    scalars = {s.name: SCALARS.get(s.name, 3.5) for s in meaning.scalars}
    expected = judged(meaning, facts, inputs(meaning, facts, DOMAIN), DOMAIN, scalars)
    tile = Tile((8, 2), ahead=3, on_chip=on_chip, blocks=blocks)
    warp = Tile((32, 1), chunk=8, on_chip=on_chip, blocks=blocks)
    for layout, shape in (("along I", tile), ("along K", tile), ("along K", warp)):
        own = inputs(meaning, facts, DOMAIN, layout=layout)
        executable = load(plan(meaning, facts), tiles=forced(shape))
        assert_same(run(executable, own, DOMAIN, scalars), expected)


def test_temporaries_of_later_passes_have_the_places_of_earlier_ones() -> None:
    schedule, entry, variant = only(TWICE)
    found = placement_of(entry.kernel, schedule, Tile((32, 1), on_chip=100, levels=LEVELS))
    assert sorted(len(slot.names) for slot in found.shared) == [1, 2, 2]
    assert found.on_chip == 24
    half = Tile((32, 1), on_chip=16, levels=LEVELS, blocks=3)
    placed = placement_of(entry.kernel, schedule, half)
    assert (placed.on_chip, len(placed.block)) == (16, 1)
    assert placed.names == found.names
    assert shared_bytes(entry, schedule, variant, half, DOMAIN) == 16 * 32 * LEVELS


def test_only_as_many_blocks_loop_as_processors_hold() -> None:
    schedule, entry, variant = only(TWICE)
    tile = Tile((64, 1), on_chip=8, ahead=2, levels=LEVELS)
    fitted = columns_fitted(tile, entry, schedule, variant, DOMAIN)
    assert fitted.blocks % 132 == 0 < fitted.blocks
    assert not columns_fitted(replace(tile, on_chip=24), entry, schedule, variant, DOMAIN).blocks


def test_which_fields_have_copies() -> None:
    schedule, entry, variant = only(UPDATED)
    assert set(copies_of(entry, schedule, variant, LEVELS)) == {"u", "v", "a", "q"}
    assert not copies_of(entry, schedule, replace(variant, disjoint=False), LEVELS)
    assert not copies_of(entry, schedule, variant, 0)
    made = with_copies(entry, schedule, variant, Tile((32, 1), on_chip=16, levels=LEVELS))[0]
    assert len(made.arrays) == len(entry.arrays) + 2


def test_a_level_that_is_assigned_again_is_stored_once() -> None:
    _, entry, _ = only(UPDATED)
    made = copied(entry.kernel, "v", DType.FLOAT64, LEVELS)
    assert made is not None
    stored = Counter[int]()
    for section in made.kernel.sections:
        if "v" in targets_of(section.body):
            start, end = section.interval.start, section.interval.end
            stored.update(range(start.level(LEVELS), end.level(LEVELS)))
    assert stored == dict.fromkeys(range(LEVELS), 1)


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ("v = a", "v = v + a[0, 0, -1]"),
        ("v = v + a", "u = v[0, 0, 1]"),
        ("u = a", "u = u[0, 0, 1] + u[0, 0, -1]"),
    ],
)
def test_levels_that_no_pass_has_made_need_the_field(first: str, later: str) -> None:
    text = f"""
def columns(a: Field[float64], u: Field[float64], v: Field[float64]):
    with computation(FORWARD), interval(1, None):
        {first}
        u = u[0, 0, -1] + a
    with computation(BACKWARD), interval(1, -1):
        {later}
        v = v[0, 0, 1] + u
"""
    _, entry, _ = only(text)
    assert copied(entry.kernel, later[0], DType.FLOAT64, LEVELS) is None or later[0] == "v"
