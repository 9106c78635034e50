"""Columns that warps move in chunks: the bits of the reference under any chunk, and what fits."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import general_runs
import numpy as np
import pytest
from corpus.calls import CorpusCall, wrong
from corpus.cases import CorpusCase, corpus
from cubin import resources
from differential import assert_same, front, inputs, judged, run
from drawing import SCALARS, program
from emulation.machine import EmulatedArtifact, EmulatedMachine
from general_runs import given_arrays, ran
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from kept import device_code
from nvidia import compiled_everywhere

import halocline_engine as he
from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import (
    TileFor,
    block_memory,
    kernel_kind,
    launches,
    shared_bytes,
    tile_for,
    tiles_of,
)
from halocline_engine.backends.cuda.kernels.column_chunks.kind import COLUMN_CHUNKS
from halocline_engine.backends.cuda.kernels.column_chunks.tile import chunks_fitted
from halocline_engine.backends.cuda.kernels.column_chunks.windows import windows_of
from halocline_engine.backends.cuda.kernels.columns.placement import without_memory
from halocline_engine.backends.cuda.kernels.kind import BlockMemory
from halocline_engine.backends.cuda.model.entries import (
    Entry,
    Stride,
    Variant,
    arrays_of,
    entries_of,
)
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.backends.made.fields import with_made_fields
from halocline_engine.errors import ProgramError
from halocline_engine.ir.types import Order
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.plan import plan

#: Levels that are written under a condition, read before and behind, up and down again, at gaps.
TEXTS = {
    "conditions": """
def columns(a: Field[{0}], b: Field[{0}], x: Field[{0}]):
    with computation(FORWARD):
        with interval(0, 1):
            if a > 0.0:
                x = a
        with interval(1, None):
            if a < 0.5:
                b = b + a * x[0, 0, -1]
            x = b - b[0, 0, -1]
""",
    "far": """
def columns(a: Field[{0}], b: Field[{0}], x: Field[{0}]):
    with computation(BACKWARD):
        with interval(-3, None):
            x = a[1, 0, 0] + b[0, 0, 1]
        with interval(0, -3):
            x = a[0, -1, -2] - x[0, 0, 3] * b[0, 0, 1] + x[0, 0, 1]
    with computation(FORWARD), interval(2, None):
        x = x + 0.5 * x[0, 0, -2] + a[0, 0, 2]
""",
    "gaps": """
def columns(a: Field[{0}], b: Field[{0}], x: Field[{0}]):
    with computation(FORWARD):
        with interval(0, 1):
            x = a
        with interval(-1, None):
            x = b - a[0, 0, -1]
    with computation(BACKWARD), interval(1, -1):
        b = b[0, 0, 1] + b[0, 0, -1] + a
""",
    "temporaries": """
def columns(a: Field[{0}], b: Field[{0}], p: Field[IJ, {0}], q: Field[K, {0}], x: Field[{0}]):
    with computation(FORWARD):
        with interval(0, 2):
            t = a + p
        with interval(2, None):
            t = t[0, 0, -2] * q + b + t[0, 0, -1]
    with computation(BACKWARD):
        with interval(-1, None):
            x = t * q
        with interval(0, -1):
            x = t + x[0, 0, 1] * p
""",
    "handed on": """
def columns(a: Field[{0}], b: Field[{0}], x: Field[{0}]):
    with computation(FORWARD):
        with interval(0, 1):
            t = a * b
            u = b
        with interval(1, 3):
            t = a - b[0, 0, -1]
        with interval(3, -1):
            t = a[0, 0, -1] + a * b + t[0, 0, -1]
            if b > 0.0:
                u = a[0, 0, -1] - b[0, 0, 1]
        with interval(-1, None):
            t = a[0, 0, -1]
            u = b[0, 0, -1]
    with computation(BACKWARD):
        with interval(-1, None):
            x = t * a
        with interval(1, -1):
            x = t + x[0, 0, 1] * a[0, 0, 1] - a
    with computation(FORWARD), interval(1, -1):
        x = x + t[0, 0, -1] * b - b[0, 0, -1] * u[0, 0, -1]
""",
    "quotients": """
def columns(a: Field[{0}], b: Field[{0}], x: Field[{0}], y: Field[IJ, {0}]):
    with computation(FORWARD):
        with interval(0, 1):
            y = a / b
            t = b
            x = a / (b + {0}(2.0)) - t / a
        with interval(1, None):
            r = a / b
            t = (r - a / (b * b)) / (t[0, 0, -1] + r / a)
            if t / a > b / (a + a):
                x = x[0, 0, -1] / t
                y = y / a - x
            else:
                x = a / x[0, 0, -1]
""",
}
#: A temporary that only the way back looks up; levels hand on `a` and look ahead in `b`.
SOLVE = """
def columns(a: Field[{0}], b: Field[{0}], x: Field[{0}]):
    with computation(FORWARD):
        with interval(0, 1):
            t = a * b[0, 0, 1]
        with interval(1, -1):
            t = a - a[0, 0, -1] * t[0, 0, -1] + b[0, 0, 1] * b
        with interval(-1, None):
            t = a[0, 0, -1] * b
    with computation(BACKWARD):
        with interval(-1, None):
            x = t
        with interval(0, -1):
            x = t + x[0, 0, 1]
"""
CHUNKS = (8, 16, 32, 64)
DOMAINS: tuple[Domain, ...] = ((7, 11, 6), (1, 33, 8), (5, 13, 45))


def chunks(chunk: int, blocks: int = 0) -> TileFor:
    """Return a choice of tiles with a chunk for column kernels, where they can have one."""

    def choose(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile:
        usual = tile_for(entry, schedule, variant, domain)
        tile = Tile((32, 1), chunk=chunk, blocks=blocks)
        fits = chunks_fitted(tile, entry, schedule, variant, domain)
        return usual if fits is None else fits

    return choose


def agree(load: Any, text: str, domain: Domain, chunk: int, blocks: int = 0, **named: Any) -> None:
    meaning, facts = front(text)
    scalars = {s.name: SCALARS.get(s.name, 3.5) for s in meaning.scalars}
    layout = named.pop("layout", "along K")
    expected = judged(meaning, facts, inputs(meaning, facts, domain), domain, scalars)
    own = inputs(meaning, facts, domain, layout=layout)
    executable = load(plan(meaning, facts), tiles=chunks(chunk, blocks), **named)
    assert_same(run(executable, own, domain, scalars), expected)


@pytest.mark.parametrize("number", range(len(TEXTS) * len(CHUNKS)))
def test_every_chunk_gives_the_bits_of_the_reference(load: Any, number: int) -> None:
    name, chunk = list(TEXTS)[number % len(TEXTS)], CHUNKS[number // len(TEXTS)]
    dtype = ("float64", "float32")[number % 2]
    for domain in DOMAINS:
        agree(load, TEXTS[name].format(dtype), domain, chunk)


@pytest.mark.parametrize("name", TEXTS)
def test_threads_may_run_in_any_order(load: Any, emulation_folder: Path, name: str) -> None:
    folder = emulation_folder / "loaded"
    for machine in (
        EmulatedMachine(folder, descending=True),
        EmulatedMachine(folder, shuffled=3),
    ):
        agree(load, TEXTS[name].format("float64"), (5, 13, 21), 8, on=machine)


@pytest.mark.parametrize("name", TEXTS)
def test_few_blocks_go_through_all_columns(load: Any, name: str) -> None:
    for blocks in (1, 2, 3):
        agree(load, TEXTS[name].format("float64"), (9, 11, 21), 8, blocks)


def test_types_that_are_not_copied_asynchronously(load: Any) -> None:
    text = """
def columns(a: Field[int16], m: Field[bool], x: Field[int16], y: Field[bool]):
    with computation(FORWARD):
        with interval(0, 1):
            s = a
            n = m
        with interval(1, None):
            s = s[0, 0, -1] + a if m else a
            n = m and not n[0, 0, -1]
    with computation(BACKWARD):
        with interval(-1, None):
            x = s
            y = n
        with interval(0, -1):
            x = s - x[0, 0, 1]
            y = n or y[0, 0, 1]
"""
    for chunk in CHUNKS:
        agree(load, text, (5, 7, 37), chunk, blocks=1)


def test_solves_of_all_types(load: Any) -> None:
    for dtype in ("float64", "float32", "int32"):
        agree(load, SOLVE.format(dtype), (9, 11, 45), 16, blocks=2)


QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture]


@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=QUIET)
@given(
    st.integers(0, 2**48),
    st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(4, 20)),
    st.sampled_from(CHUNKS),
)
def test_drawn_columns_mean_what_the_program_means(
    load: Any, seed: int, domain: Domain, chunk: int
) -> None:
    text = program(seed, ("FORWARD", "BACKWARD"))
    text = re.sub(r"\b([tuvxyz])\[-?\d, -?\d, (-?\d)\]", r"\1[0, 0, \2]", text)
    try:
        facts = front(text)[1]
    except ProgramError:
        assume(False)
        return
    agree(load, text, (domain[0], domain[1], max(domain[2], facts.min_levels)), chunk)


#: Levels that only a run knows, of arrays that chunks then leave in memory, and a loop.
IRREGULAR = """
def columns(a: Field[{0}], b: Field[{0}], c: Field[{0}], p: Field[IJ, {0}], x: Field[{0}]):
    with computation(FORWARD):
        with interval(0, 1):
            s = a
            h: Field[IJ, {0}] = 0.0
        with interval(1, -1):
            s = s[0, 0, -1] * 0.5 + a * b
            if K >= p:
                x[0, 0, 1] = s + x * c[0, 0, -1]
                h = h + x[0, 0, 1]
    with computation(BACKWARD), interval(1, -1):
        n = 0
        while n < 5 and x.at(K=n) < s:
            n = n + 1
        b = h + x.at(K=n) * a[0, 0, 1] + s[0, 0, -1] + b[0, 0, 1]
"""


@pytest.mark.parametrize("chunk", CHUNKS)
def test_levels_that_only_a_run_knows(load: Any, chunk: int) -> None:
    meaning, facts = front(IRREGULAR.format("float64"))
    schedule = plan(meaning, facts)
    variant, domain = along_k(schedule), (5, 13, 45)
    for entry in entries_of(schedule):
        tile = chunks_fitted(Tile((32, 1), chunk=chunk), entry, schedule, variant, domain)
        assert tile is not None
        passes = windows_of(entry, schedule, variant, tile)
        assert passes is not None
        names = {window.name for one in passes for window in one.windows}
        assert names >= {"a", "b", "c"}
        assert "x" not in names
    artifact: Any = SimpleNamespace(load=partial(load, schedule, tiles=chunks(chunk)))
    own = given_arrays(meaning, facts, domain, "along K")
    expected = general_runs.judged(meaning, facts, own, domain)
    assert_same(ran(artifact, meaning, facts, own, domain).arrays, expected.arrays)


def has_columns(case: CorpusCase) -> bool:
    if not re.search("FORWARD|BACKWARD", case.text("float64")):
        return False  # all are asked while tests are collected
    made = CorpusCall(case, "float64", "IJK", case.domain).compiled
    every = entries_of(plan(made.program, made.facts))
    return any(entry.kernel.order is not Order.PARALLEL for entry in every)


COLUMN_CASES = [case for case in corpus() if has_columns(case)]


@pytest.mark.parametrize("number", range(len(COLUMN_CASES)), ids=[c.name for c in COLUMN_CASES])
def test_columns_of_the_corpus_along_k(number: int, emulation_folder: Path) -> None:
    dtype = ("float64", "float32")[number % 2]
    call = CorpusCall(COLUMN_CASES[number], dtype, "IJK", (5, 7, 19))
    made = call.stencil("reference").compiled
    kernels = EmulatedArtifact(plan(made.program, made.facts), emulation_folder)
    artifact = with_made_fields(kernels, made.program, made.facts)
    given = call.arrays(np)
    got = {name: array.copy(order="K") for name, array in given.items()}
    call.run(he.Stencil(replace(made, artifact=artifact)), got)
    assert wrong(call, got, given) == ""


def along_k(schedule: Schedule) -> Variant:
    """Return the variant for arrays that lie along K, J and I."""
    usual = usual_variant(schedule)
    turned = {
        Stride.ONE: Stride.ANY,
        Stride.ANY: Stride.ANY,
        Stride.NONE: Stride.NONE,
    }
    kinds = tuple(
        (turned[i], j, Stride.ONE if k is not Stride.NONE else k) for i, j, k in usual.kinds
    )
    return replace(usual, kinds=kinds, near=1)


def source(case: CorpusCase, dtype: str) -> str:
    made = CorpusCall(case, dtype, "IJK", case.domain).compiled
    schedule = plan(made.program, made.facts)
    variant = along_k(schedule)
    return emit(schedule, variant, tiles_of(schedule, variant, case.domain))


def test_nvidias_compiler_takes_them_for_each_device() -> None:
    found = compiled_everywhere(source(case, "float64") for case in COLUMN_CASES[::4])
    for needs in found.values():
        assert {number for number, _ in needs} == set(range(len(COLUMN_CASES[::4])))


def test_a_solve_keeps_its_values_in_registers() -> None:
    case = next(case for case in COLUMN_CASES if case.name == "tridiagonal_72")
    used = resources(device_code(source(case, "float64"), "sm_90"))
    assert all(one.stack <= 8 and one.registers <= 128 for one in used.values()), used


def entry_and_tile(text: str, chunk: int = 16) -> tuple[Entry, Schedule, Variant, Tile | None]:
    schedule = plan(*front(text))
    variant = along_k(schedule)
    entry = next(iter(entries_of(schedule)))
    tile = Tile((32, 1), chunk=chunk)
    return entry, schedule, variant, chunks_fitted(tile, entry, schedule, variant, (64, 64, 40))


def test_what_is_loaded_and_stored() -> None:
    """What a pass assigns before it reads it is not loaded, and what it may not assign is."""
    entry, schedule, variant, tile = entry_and_tile(TEXTS["temporaries"].format("float64"))
    assert tile is not None
    passes = windows_of(entry, schedule, variant, tile)
    assert passes is not None
    down, up = ({w.name: (bool(w.loaded), bool(w.stored)) for w in p.windows} for p in passes)
    assert down == {"a": (True, False), "b": (True, False), "t": (False, True)}
    assert up == {"t": (True, False), "x": (False, True)}
    entry, schedule, variant, tile = entry_and_tile(TEXTS["conditions"].format("float64"))
    assert tile is not None
    passes = windows_of(entry, schedule, variant, tile)
    assert passes is not None
    (one,) = passes
    assert {w.name for w in one.windows if w.loaded and w.stored} == {"b", "x"}


def test_rings_have_the_chunks_that_levels_look_at() -> None:
    entry, schedule, variant, tile = entry_and_tile(SOLVE.format("float64"))
    assert tile is not None
    passes = windows_of(entry, schedule, variant, tile)
    assert passes is not None
    down, up = ({w.name: (w.own, w.chunks) for w in one.windows} for one in passes)
    assert down == {"a": (False, 1), "b": (False, 2), "t": (True, 0)}
    assert up == {"t": (True, 1), "x": (False, 1)}


def test_blocks_have_memory_for_the_temporaries_of_their_columns() -> None:
    entry, schedule, _variant, tile = entry_and_tile(SOLVE.format("float64"))
    assert tile is not None
    domain = (64, 64, 40)
    assert tile.blocks % 132 == 0
    for blocks, launched in ((3, 3), (tile.blocks, 64 * 64 // 32)):
        tiles = {entry.name: replace(tile, blocks=blocks)}
        (memory,) = block_memory(schedule, tiles, domain)
        assert memory == BlockMemory("t", 8, launched * 32 * 40, 128)
        (launch,) = launches(entry, domain, tiles[entry.name], (0, 40))
        assert launch.grid == (launched, 1, 1)
        assert without_memory(schedule, tiles) == {"t"}
    entry, schedule, _variant, tile = entry_and_tile(TEXTS["conditions"].format("float64"))
    assert tile is not None
    assert tile.blocks == 0
    assert not tuple(block_memory(schedule, {entry.name: tile}, domain))


def test_temporaries_along_i_are_in_no_memory_of_blocks() -> None:
    """They have no windows, so they would be looked up as arrays of the domain there."""
    entry, schedule, variant, tile = entry_and_tile(SOLVE.format("float64"))
    assert tile is not None
    number = [name for name, _ in arrays_of(schedule)].index("t")
    along_i = (Stride.ONE, Stride.ANY, Stride.ANY)
    kinds = [n if at != number else len(variant.kinds) for at, n in enumerate(variant.arrays)]
    other = replace(variant, arrays=tuple(kinds), kinds=(*variant.kinds, along_i))
    assert windows_of(entry, schedule, variant, tile) is not None
    assert windows_of(entry, schedule, other, tile) is None
    assert chunks_fitted(tile, entry, schedule, other, (64, 64, 40)) is None


def test_who_gets_another_kind() -> None:
    entry, schedule, variant, tile = entry_and_tile(TEXTS["far"].format("float64"))
    assert tile is not None
    assert kernel_kind(entry, tile) is COLUMN_CHUNKS
    domain = (64, 64, 40)
    assert 0 < shared_bytes(entry, schedule, variant, tile, domain) <= 227 * 1024
    for other in (
        replace(variant, disjoint=False),
        usual_variant(schedule),
    ):
        assert chunks_fitted(tile, entry, schedule, other, domain) is None
        assert not tile_for(entry, schedule, other, domain).chunk
    assert chunks_fitted(tile, entry, schedule, variant, (2**16, 2**16, 40)) is None
    assert chunks_fitted(replace(tile, chunk=7), entry, schedule, variant, domain) is None


#: A spline whose coefficients all columns share, or has of its own, and many arrays of one level.
SPLINE = """
def spline(q: Field[float32], out: Field[float32], gk: Field[{0}float32], beta: Field[{0}float32]):
    with computation(FORWARD):
        with interval(0, 1):
            out = (gk * q + q[0, 0, 1]) / beta
        with interval(1, -1):
            out = (3.0 * (q[0, 0, -1] + gk * q) - out[0, 0, -1]) / beta
        with interval(-1, None):
            out = (gk{1} * q[0, 0, -1] + q[0, 0, -2] - out[0, 0, -1]) / beta
    with computation(BACKWARD), interval(0, -1):
        out -= gk * out[0, 0, 1]
"""
MANY = "def many({}, s: Field[float64]):\n".format(
    ", ".join(f"a{n}: Field[float64]" for n in range(20))
) + (
    "    with computation(FORWARD):\n        with interval(0, 1):\n            s = a0\n"
    "        with interval(1, None):\n            s = 0.5 * s[0, 0, -1]"
    + "".join(f" + a{n}" for n in range(20))
    + "\n"
)


def test_what_all_columns_share_takes_more_warps() -> None:
    """Looking it up makes levels longer, so that others have to compute meanwhile."""
    chunks: list[int] = []
    for words in (("K, ", "[-1]"), ("", "")):
        entry, schedule, variant, _ = entry_and_tile(SPLINE.format(*words))
        chunks.append(tile_for(entry, schedule, variant, (509, 487, 72)).chunk)
    assert chunks == [16, 32]


def test_a_processor_has_two_warps_where_it_can() -> None:
    entry, schedule, variant, _ = entry_and_tile(MANY)
    tile = tile_for(entry, schedule, variant, (509, 487, 72))
    assert tile.chunk
    assert 2 * shared_bytes(entry, schedule, variant, tile, (509, 487, 72)) <= 227 * 1024
