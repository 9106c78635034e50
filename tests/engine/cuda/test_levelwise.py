"""Points along K whose threads go on to columns behind their own: the bits of the reference."""

from __future__ import annotations

from typing import Any

import pytest
from differential import assert_same, front, inputs, judged, run

from halocline_engine.backends.cuda.kernels.choose import tile_for
from halocline_engine.backends.cuda.kernels.levelwise.kind import LEVELWISE
from halocline_engine.backends.cuda.model.entries import Entry, Variant
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.plan import plan

TEXT = """
def points(a: Field[float64], p: Field[IJ, float64], q: Field[K, float64], x: Field[float64],
           y: Field[float64]):
    with computation(PARALLEL):
        with interval(0, 1):
            x = a[1, -1, 1] * p
        with interval(1, None):
            if a > 0.0:
                x = a[-1, 0, 0] + q
            else:
                y = a[0, 2, -1] - p[1, 0]
"""


@pytest.mark.parametrize(
    ("threads", "width", "rows"), [(256, 1, 1), (64, 1, 3), (96, 4, 2), (32, 3, 1), (32, 100, 1)]
)
def test_every_tile_gives_the_bits_of_the_reference(
    load: Any, threads: int, width: int, rows: int
) -> None:
    def choose(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile:
        tile = Tile((threads, 1), width, rows, levelwise=variant.near + 1)
        found = LEVELWISE.fit(tile, entry, schedule, variant, domain)
        assert found is not None
        assert (found.width, found.rows) == (width, rows)
        return found

    meaning, facts = front(TEXT)
    for domain in ((7, 5, 4), (1, 9, 11), (10, 1, 2)):
        expected = judged(meaning, facts, inputs(meaning, facts, domain), domain, {})
        own = inputs(meaning, facts, domain, layout="along K")
        assert_same(run(load(plan(meaning, facts), tiles=choose), own, domain, {}), expected)


def test_small_domains_have_a_column_a_thread(load: Any) -> None:
    meaning, facts = front(TEXT)
    schedule = plan(meaning, facts)
    seen: list[Tile] = []

    def choose(entry: Entry, of: Schedule, variant: Variant, domain: Domain) -> Tile:
        seen.append(tile_for(entry, of, variant, domain))
        return seen[-1]

    domain = (3, 4, 5)
    own = inputs(meaning, facts, domain, layout="along K")
    run(load(schedule, tiles=choose), own, domain, {})
    assert [tile.rows for tile in seen] == [1]
    assert seen[0].levelwise
