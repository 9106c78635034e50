"""Points along K whose threads go on to columns behind their own: the bits of the reference."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from differential import assert_same, front, inputs, judged, run
from general_runs import given_arrays, ran
from general_runs import judged as judged_with_made_fields

from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import tile_for, tiles_of
from halocline_engine.backends.cuda.kernels.levelwise.kind import LEVELWISE
from halocline_engine.backends.cuda.model.entries import Entry, Stride, Variant, entries_of
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.backends.cuda.model.views import usual_variant
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


def _chosen(text: str, domain: Domain = (509, 487, 72)) -> tuple[Tile, str]:
    """Return the tile of a kernel on arrays that lie along K, and its text."""
    schedule = plan(*front(text))
    usual = usual_variant(schedule)
    kinds = ((Stride.ANY, Stride.ANY, Stride.ONE),) * len(usual.kinds)
    variant = replace(usual, kinds=kinds, near=1)
    tiles = tiles_of(schedule, variant, domain)
    (entry,) = entries_of(schedule)
    assert tiles[entry.name].levelwise
    return tiles[entry.name], emit(schedule, variant, tiles)


LAPLACIANS = """
def laplacians(q: Field[{0}], out: Field[{0}]):
    with computation(PARALLEL), interval(...):
        a = q[1, 0, 0] + q[-1, 0, 0] + q[0, 1, 0] + q[0, -1, 0] - {0}(4.0) * q
        out = a[1, 0, 0] + a[-1, 0, 0] + a[0, 1, 0] + a[0, -1, 0] - {0}(4.0) * a{1}
"""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_threads_have_columns_that_share_loads(dtype: str) -> None:
    tile, text = _chosen(LAPLACIANS.format(dtype, ""))
    assert tile.width > 1 < tile.rows
    assert "f0_here" in text
    assert "loads_before();" not in text


def test_few_columns_of_a_small_domain_are_apart() -> None:
    tile, _ = _chosen(LAPLACIANS.format("float64", ""), (20, 10, 5))
    assert (tile.width, tile.rows) == (1, 1)


def test_loads_stay_before_quotients() -> None:
    _, text = _chosen(LAPLACIANS.format("float64", " / q"))
    loads, kept, points = "f0_here[0][", "loads_before();", "for (int r = 0"
    assert text.index(loads) < text.index(kept) < text.index(points)


def test_points_without_neighbours_load_first_and_are_apart() -> None:
    names = [f"f{number}" for number in range(7)]
    fields = ", ".join(f"{name}: Field[float64]" for name in names)
    body = "".join(f"        {name} = {name} * (1.0 - 0.5 * f0)\n" for name in names[1:])
    tile, text = _chosen(
        f"def rates({fields}):\n    with computation(PARALLEL), interval(...):\n{body}"
    )
    assert (tile.width, tile.rows) == (1, 1)
    assert text.index("f6_new[0][0] = f6[") < text.index("f1[o0] = ")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_lies_along_i_is_loaded_by_elements(load: Any, dtype: str) -> None:
    """Masks of regions do; tiles of columns begin where no vector of theirs is aligned."""
    text = f"""
def points(a: Field[{dtype}], x: Field[{dtype}]):
    with computation(PARALLEL), interval(...):
        x = a[1, 0, 0] + a[-1, 0, 0] + a[0, 1, 0] + a[0, -1, 0]
        with horizontal(region[I[0] : I[0] + 3, :]):
            x = a
"""
    meaning, facts = front(text)
    domain = (21, 7, 5)

    def choose(entry: Entry, schedule: Schedule, variant: Variant, _: Domain) -> Tile:
        return tile_for(entry, schedule, variant, (512, 512, 72))

    own = given_arrays(meaning, facts, domain, "along K")
    expected = judged_with_made_fields(meaning, facts, own, domain)
    kernels = load(plan(meaning, facts), tiles=choose)
    artifact: Any = SimpleNamespace(load=lambda: kernels)
    ran(artifact, meaning, facts, own, domain)
    assert_same(own.arrays, expected.arrays)
