"""Points that look elements up, several of a thread, which loads for all: the reference's bits."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from corpus.calls import CorpusCall, wrong
from corpus.cases import CorpusCase, corpus
from emulation.machine import EmulatedArtifact

import halocline_engine as he
from conftest import Loader
from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import tile_for, tiles_of
from halocline_engine.backends.cuda.model.entries import Entry, Stride, Variant, entries_of
from halocline_engine.backends.cuda.model.tile import Domain, Tile, tile_words
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.backends.made.fields import with_made_fields
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.plan import plan

#: A place in a table between bounds, and one that may be anywhere; sections that look up levels.
TABLES = """
def tables(t: Field[real], w: Field[real], small: GlobalTable[(real, (9,))],
           plane: GlobalTable[(real, (4, 3))], x: Field[real], y: Field[real]):
    with computation(PARALLEL), interval(0, 2):
        x = small.A[int64(t)]
        y = w
    with computation(PARALLEL), interval(2, None):
        place = min(max(4.0 * t, 0.0), 7.5)
        n = int64(floor(place))
        x = small.A[n] + (place - n) * (small.A[n + 1] - small.A[n])
        y = plane.A[n, int64(w)] - small.A[int64(4.0 * w)]
"""
LEVELS = """
def levels(w: Field[real], a: Field[real], top: Field[IJ, real], x: Field[real]):
    with computation(PARALLEL), interval(0, 2):
        x = a
    with computation(PARALLEL), interval(2, -1):
        n = int64(floor(w))
        x = a[0, 0, n] + (w - n) * a[0, 0, n + 1]
    with computation(PARALLEL), interval(-1, None):
        x = a.at(K=int64(top))
"""
OWN = [
    CorpusCase("tables", "", (11, 7, 9), {"t": (-1, 4), "w": (-2, 5)}, {}, TABLES),
    CorpusCase("levels", "", (11, 7, 9), {"w": (-4, 4), "top": (-1, 12)}, {}, LEVELS),
]
CASES = [*OWN, *(case for case in corpus() if "GlobalTable" in case.source)]


def text(case: CorpusCase) -> str:
    return sources(case, "KJI")[1]


def sources(case: CorpusCase, layout: str) -> tuple[str, str]:
    """Return the tile of the last kernel of a program on a large domain, and the source."""
    made = CorpusCall(case, "float64", layout, case.domain).compiled
    schedule, domain = plan(made.program, made.facts), (509, 487, 72)
    variant = usual_variant(schedule)
    if layout == "IJK":
        full = (Stride.ANY, Stride.ANY, Stride.ONE)
        kinds = tuple(k if Stride.NONE in k else full for k in variant.kinds)
        variant = replace(variant, kinds=kinds, near=1)
    tiles = tiles_of(schedule, variant, domain)
    last = tiles[[*entries_of(schedule)][-1].name]
    return tile_words(last), emit(schedule, variant, tiles)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
@pytest.mark.parametrize("layout", ["KJI", "IJK"])
@pytest.mark.parametrize("points", [1, 3, 4])
def test_any_number_of_points_of_a_thread_gives_the_bits_of_the_reference(
    load: Loader, case: CorpusCase, layout: str, points: int
) -> None:
    def choose(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile:
        usual = tile_for(entry, schedule, variant, domain)
        if usual.upright or usual.held:
            return usual
        return replace(usual, width=points) if usual.levelwise else replace(usual, rows=points)

    call = CorpusCall(case, "float64", layout, (11, 7, 9))
    made, given = call.compiled, call.arrays(np)
    kernels: Any = SimpleNamespace(load=partial(load, plan(made.program, made.facts), tiles=choose))
    artifact = with_made_fields(kernels, made.program, made.facts)
    got = {name: array.copy(order="K") for name, array in given.items()}
    call.run(he.Stencil(replace(made, artifact=artifact)), got)
    assert wrong(call, got, given) == ""


@pytest.mark.parametrize("case", OWN, ids=["tables", "levels"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_places_that_are_no_numbers_or_infinite_read_what_the_reference_reads(
    case: CorpusCase, dtype: str, emulation_folder: Path
) -> None:
    call = CorpusCall(case, dtype, "KJI", (11, 7, 9))
    made, given = call.compiled, call.arrays(np)
    for name in ("t", "w"):
        if name in given:
            odd = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9, -3e9], dtype)
            given[name][1:8, 1, :] = odd[:, None]
    kernels = EmulatedArtifact(plan(made.program, made.facts), emulation_folder)
    artifact = with_made_fields(kernels, made.program, made.facts)
    got, expected = (
        {name: array.copy(order="K") for name, array in given.items()} for _ in range(2)
    )
    with np.errstate(all="ignore"):
        call.run(call.stencil("reference"), expected)
    call.run(he.Stencil(replace(made, artifact=artifact)), got)
    for name in call.written:
        np.testing.assert_array_equal(got[name], expected[name])


def test_a_place_between_bounds_has_32_bits_and_is_not_bounded_again() -> None:
    """The sum of a first index is in the table of 80 as well; one without bounds has 64 bits."""
    riming = next(case for case in corpus() if case.name == "riming_table")
    assert "long long r" not in text(riming)
    assert text(riming).count("minimum(maximum(") == 0
    saturation = next(case for case in corpus() if case.name == "saturation_table")
    assert text(saturation).count("long long r") == 2
    assert text(saturation).count("minimum(maximum(") == 4


@pytest.mark.parametrize(
    ("name", "rounds"),
    [("flux_form_levels", 2), ("interpolated_rows", 2), ("plume_top", 2)],
)
def test_few_levels_that_are_looked_up_load_for_two(name: str, rounds: int) -> None:
    case = next(case for case in corpus() if case.name == name)
    assert f"#pragma unroll {rounds}\n" in text(case)


MANY = """
def many(w: Field[real], a: Field[real], b: Field[real], c: Field[real], x: Field[real]):
    with computation(PARALLEL), interval(...):
        n = int64(w)
        x = {}
"""


@pytest.mark.parametrize(
    "reads", ["a[0, 0, n] + a[0, 0, n + 1] + a[0, 0, n + 2]", "a[0, 0, n] * w * b - c + y"]
)
def test_many_levels_or_arrays_load_for_one(reads: str) -> None:
    source = MANY.format(reads).replace("b: Field[real],", "b: Field[real], y: Field[real],")
    case = CorpusCase("many", "", (9, 8, 7), {}, {}, source)
    assert "#pragma unroll 1\n" in text(case)


def test_rows_and_columns_of_a_thread() -> None:
    """Tables are looked up by four rows; along K by columns, with any number of arrays."""
    riming = next(case for case in corpus() if case.name == "riming_table")
    assert sources(riming, "KJI")[0] == "blocks of 128 x 1 threads, rows 4"
    assert "width 4" in sources(riming, "IJK")[0]
