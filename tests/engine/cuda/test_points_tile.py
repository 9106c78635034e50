"""What decides the tile of PARALLEL kernels on arrays along I."""

from __future__ import annotations

from dataclasses import replace

import pytest
from differential import front

from halocline_engine.backends.cuda.kernels.points.tile import points_tile
from halocline_engine.backends.cuda.model.entries import Stride, Variant, arrays_of, entries_of
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.plan import plan

LARGE: Domain = (509, 487, 72)
SUM_OF_ROWS = "u + u[0, 1, 0] + u[0, -1, 0] + u[0, 2, 0] + u[0, -2, 0]"
CORNERS = "u + u[1, 0, 0] + u[0, 1, 0] + u[1, 1, 0]"
STAR = " + ".join(
    f"u[{', '.join(str(step) if axis == a else '0' for a in range(3))}]"
    for axis in range(3)
    for step in range(-4, 5)
)
SEVEN = (
    "u + 0.1 * (u[1, 0, 0] + u[-1, 0, 0] + u[0, 1, 0] + u[0, -1, 0] + u[0, 0, 1] + u[0, 0, -1]"
    " - 6.0 * u) * (u + 1.0) * (u - 1.0) * (u + 2.0) * (u - 2.0) * (u + 3.0) * (u - 3.0)"
)
SEVERAL, NINE = (" + ".join(f"f{n}" for n in range(count)) for count in (6, 9))


def _program(value: str, dtype: str) -> Schedule:
    names = [name for name in ("u", *(f"f{n}" for n in range(9))) if name in value]
    fields = ", ".join(f"{name}: Field[{dtype}]" for name in (*names, "out"))
    text = f"""
def program({fields}):
    with computation(PARALLEL), interval(...):
        out = {value}
"""
    return plan(*front(text))


def _tile(
    value: str,
    dtype: str,
    *,
    aligned: bool,
    domain: Domain = LARGE,
    level_at_hand: bool = False,
) -> Tile:
    schedule = _program(value, dtype)
    (entry,) = entries_of(schedule)
    kind = (Stride.ONE, Stride.ANY, Stride.ANY)
    count = len(arrays_of(schedule))
    variant = Variant((0,) * count, (kind,), False, True, (aligned,) * count)
    tile = points_tile(replace(entry, level_at_hand=level_at_hand), schedule, variant, domain)
    return replace(tile, strip=0, column=0)


@pytest.mark.parametrize(
    ("value", "dtype", "aligned", "expected"),
    [
        ("2.0 * u", "float64", True, Tile((32, 4), width=2, rows=2)),
        ("2.0 * u", "float32", True, Tile((32, 4), width=4)),
        ("2.0 * u", "float32", False, Tile((128, 1), rows=2)),
        # Rows have much in common.
        (SUM_OF_ROWS, "float64", True, Tile((32, 4), width=2, rows=3)),
        (SUM_OF_ROWS, "float32", False, Tile((32, 4), width=2, rows=3)),
        (SUM_OF_ROWS, "float64", False, Tile((32, 4), rows=3)),
        # Rows have loads in common, but no stores.
        (CORNERS, "float64", True, Tile((32, 4), width=2, rows=2)),
        (CORNERS, "float64", False, Tile((128, 1), rows=2)),
        (CORNERS, "float32", False, Tile((128, 1), rows=2)),
        # Much is computed of what few arrays hold.
        ("sqrt(u) / (sqrt(u + 1.0) / u)", "float64", False, Tile((32, 4), width=2)),
        # The same of what points in other rows and levels read too.
        (SEVEN, "float32", False, Tile((32, 4), width=2, rows=3)),
        (SEVEN, "float64", False, Tile((32, 4), rows=3)),
        (SEVEN, "float32", True, Tile((32, 4), width=4)),
        # Many arrays have enough under way, unless loads depend on conditions.
        (NINE, "float64", True, Tile((128, 1))),
        (NINE, "float32", True, Tile((128, 1))),
        # So have seven, where rows have nothing in common and points compute little.
        (SEVERAL, "float64", True, Tile((128, 1))),
        (SEVERAL, "float32", False, Tile((32, 4), line=32)),
        (f"{SEVERAL} + f0[0, 1, 0]", "float32", False, Tile((128, 1), rows=2)),
        (f"exp({SEVERAL}) + exp(f0) * exp(f1)", "float32", False, Tile((32, 4), width=2)),
        (f"({NINE}) if f0 > 0.0 else f1", "float64", True, Tile((32, 4), width=2, rows=2)),
        # Levels are handed on where many of them are read.
        (STAR, "float64", False, Tile((128, 1), rows=2, depth=8)),
    ],
)
def test_a_kernel_in_a_large_domain(value: str, dtype: str, aligned: bool, expected: Tile) -> None:
    assert _tile(value, dtype, aligned=aligned) == expected


@pytest.mark.parametrize(
    ("value", "dtype", "aligned", "width"),
    [
        ("2.0 * u", "float64", False, 2),
        ("2.0 * u", "float32", False, 2),
        ("2.0 * u", "float32", True, 4),
        ("sqrt(u) / (sqrt(u + 1.0) / u)", "float32", False, 4),
        (NINE, "float32", False, 1),
        # Eight bytes at once serve memory better where neighbours have nothing in common.
        (NINE, "float32", True, 2),
        (NINE, "float64", True, 1),
        (f"{NINE} + f0[1, 0, 0]", "float32", True, 1),
    ],
)
def test_a_domain_of_one_row_has_points_along_it(
    value: str, dtype: str, aligned: bool, width: int
) -> None:
    tile = _tile(value, dtype, aligned=aligned, domain=(1 << 24, 1, 1))
    assert (tile.block, tile.width, tile.rows) == ((128, 1), width, 1)


def test_planes_need_far_reads_and_many_levels() -> None:
    assert _tile(STAR, "float64", aligned=True, domain=(771, 763, 709)).planes == 2
    assert _tile(STAR, "float64", aligned=True, domain=(771, 763, 72)).planes == 0


@pytest.mark.parametrize("aligned", [True, False])
def test_levels_that_are_launched_one_by_one_are_not_climbed(aligned: bool) -> None:
    domain = (771, 763, 709)
    tile = _tile(STAR, "float64", aligned=aligned, domain=domain, level_at_hand=True)
    assert (tile.depth, tile.planes) == (1, 0)


def test_a_thread_has_no_more_points_than_registers_hold() -> None:
    heavy = "exp(u) * exp(u[0, 1, 0]) * exp(u[0, -1, 0]) * exp(u[0, 2, 0])"
    tile = _tile(heavy, "float64", aligned=True)
    assert tile.width * tile.rows <= 2


@pytest.mark.parametrize(
    ("domain", "points"), [((40, 40, 10), 1), ((256, 256, 1), 1), ((384, 384, 1), 2), (LARGE, 6)]
)
def test_small_domains_have_few_points_a_thread(domain: Domain, points: int) -> None:
    tile = _tile(SUM_OF_ROWS, "float32", aligned=False, domain=domain)
    assert tile.width * tile.rows == points
