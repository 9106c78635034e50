"""Columns that keep their own values: where they live, what is loaded early, and the same bits."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cubin import resources
from differential import LAYOUTS, assert_same, front, inputs, judged, run
from drawing import SCALARS, program
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from kept import device_code
from programs import COLUMNS, scheduled
from tile_choices import changed

from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.columns.placement import column_bytes, placement_of
from halocline_engine.backends.cuda.kernels.columns.tile import (
    SHARED_LIMIT,
    columns_fitted,
    columns_tile,
    shared_bytes,
)
from halocline_engine.backends.cuda.model.entries import Entry, entries_of
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.errors import ProgramError
from halocline_engine.ir.types import Order
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.options import Options
from halocline_engine.schedule.plan import plan

SOLVE = """
def solve(a: Field[{dtype}], b: Field[{dtype}], c: Field[{dtype}], d: Field[{dtype}],
          x: Field[{dtype}]):
    with computation(FORWARD):
        with interval(0, 1):
            above = c / b
            right = d / b
        with interval(1, None):
            scale = {dtype}(1.0) / (b - above[0, 0, -1] * a)
            above = c * scale
            right = (d - a * right[0, 0, -1]) * scale
    with computation(BACKWARD):
        with interval(-1, None):
            x = right
        with interval(0, -1):
            x = right - above * x[0, 0, 1]
"""
#: GT4Py's vertical advection: neighbours along I and K, and a field that is read down and up.
ADVECTION = """
def advection(stage: Field[{dtype}], u: Field[{dtype}], w: Field[{dtype}], old: Field[{dtype}],
              tens: Field[{dtype}], out: Field[{dtype}], dtr: {dtype}):
    with computation(FORWARD):
        with interval(0, 1):
            ccol = {dtype}(0.125) * (w[1, 0, 1] + w[0, 0, 1])
            bcol = dtr - ccol
            dcol = dtr * old + tens + stage - ccol * (u[0, 0, 1] - u)
            ccol = ccol / bcol
            dcol = dcol / bcol
        with interval(1, -1):
            acol = {dtype}(-0.125) * (w[1, 0, 0] + w)
            ccol = {dtype}(0.125) * (w[1, 0, 1] + w[0, 0, 1])
            corr = -acol * (u[0, 0, -1] - u) - ccol * (u[0, 0, 1] - u)
            divided = {dtype}(1.0) / (dtr - acol - ccol - ccol[0, 0, -1] * acol)
            ccol = ccol * divided
            dcol = (dtr * old + tens + stage + corr - dcol[0, 0, -1] * acol) * divided
        with interval(-1, None):
            acol = {dtype}(-0.125) * (w[1, 0, 0] + w)
            corr = -acol * (u[0, 0, -1] - u)
            divided = {dtype}(1.0) / (dtr - acol - ccol[0, 0, -1] * acol)
            dcol = (dtr * old + tens + stage + corr - dcol[0, 0, -1] * acol) * divided
    with computation(BACKWARD):
        with interval(-1, None):
            data = dcol
            out = dtr * (data - old)
        with interval(0, -1):
            data = dcol - ccol * data[0, 0, 1]
            out = dtr * (data - old)
"""
#: Points between loops, masked writes, reads two levels away, a field without levels, int and bool.
MIXED = """
def mixed(a: Field[{dtype}], n: Field[int32], p: Field[IJ, {dtype}], q: Field[K, {dtype}],
          x: Field[{dtype}], y: Field[{dtype}]):
    with computation(FORWARD):
        with interval(0, 2):
            t = a + p
            m = a > q
        with interval(2, None):
            m = a > q[-1]
            t = t[0, 0, -2] * p + a[1, 0, -2]
            if m:
                t = t + t[0, 0, -1]
    with computation(PARALLEL), interval(...):
        s = sqrt(abs(t)) / (a * a + p) + sqrt(abs(a[0, -1, 0])) if m else t - n
    with computation(BACKWARD):
        with interval(-1, None):
            x = s
            if m:
                y = s
        with interval(0, -1):
            x = s + t * x[0, 0, 1]
            if not m:
                y = x[0, 0, 1] - t[0, 0, 1]
    with computation(FORWARD), interval(1, None):
        x = 0.5 * x[0, 0, -1] + x + s
"""
#: What one level hands to the next and nothing else reads.
HANDED = """
def handed(a: Field[{dtype}], x: Field[{dtype}]):
    with computation(FORWARD):
        with interval(0, 1):
            t = a
            x = t
        with interval(1, None):
            t = t[0, 0, -1] * {dtype}(0.5) + a
            x = t
"""
#: Divisions that do not wait for each other, of which some operands need the long way.
QUOTIENTS = """
def columns(a: Field[{dtype}], b: Field[{dtype}], x: Field[{dtype}], y: Field[IJ, {dtype}]):
    with computation(FORWARD):
        with interval(0, 1):
            y = a / b
            t = b
            x = a / (b + {dtype}(2.0)) - t / a
        with interval(1, None):
            r = a / b
            t = (r - a / (b * b)) / (t[0, 0, -1] + r / a)
            if t / a > b / (a + a):
                x = x[0, 0, -1] / t
                y = y / a - x
            else:
                x = a / x[0, 0, -1]
"""
TEXTS = {
    "solve": SOLVE,
    "advection": ADVECTION,
    "mixed": MIXED,
    "handed": HANDED,
    "quotients": QUOTIENTS,
}
TILES = (
    Tile((32, 1)),
    Tile((8, 2), ahead=4),
    Tile((5, 1), on_chip=64),
    Tile((8, 1), on_chip=64, ahead=1),
    Tile((4, 2), on_chip=64, ahead=3),
    Tile((32, 1), on_chip=64, ahead=16),
)
USUAL: Domain = (1024, 1024, 80)
STAGED = Options(recompute=False)


def made(name: str, dtype: str = "float64", options: Options | None = None) -> Schedule:
    return plan(*front(TEXTS[name].format(dtype=dtype)), options)


def entry_of(schedule: Schedule) -> Entry:
    return next(e for e in entries_of(schedule) if e.kernel.order is not Order.PARALLEL)


def agree(
    load: Any, text: str, domain: Domain, tile: Tile, layout: str = "along I", seed: int = 0
) -> None:
    program, facts = front(text)
    scalars = {s.name: SCALARS.get(s.name, 3.5) for s in program.scalars}
    expected = judged(program, facts, inputs(program, facts, domain, seed=seed), domain, scalars)
    own = inputs(program, facts, domain, layout=layout, seed=seed)
    changes = {"block": tile.block, "on_chip": tile.on_chip, "ahead": tile.ahead}
    executable = load(plan(program, facts, STAGED), tiles=only_columns(changes))
    assert_same(run(executable, own, domain, scalars), expected)


def only_columns(changes: dict[str, Any]) -> Any:
    """Return a choice of tiles that changes those of column kernels."""
    usual, forced = changed(), changed(**changes)

    def choose(entry: Entry, *rest: Any) -> Tile:
        parallel = entry.kernel.order is Order.PARALLEL
        return usual(entry, *rest) if parallel else forced(entry, *rest)

    return choose


@pytest.mark.parametrize(
    ("name", "tile"),
    [
        *(("solve", TILES[n]) for n in (0, 3, 5)),
        *(("advection", TILES[n]) for n in (1, 4, 5)),
        *(("mixed", TILES[n]) for n in (0, 2, 4, 5)),
        *(("handed", TILES[n]) for n in (2, 4)),
        *(("quotients", TILES[n]) for n in (0, 2, 4, 5)),
    ],
)
def test_every_tile_gives_the_bits_of_the_reference(load: Any, name: str, tile: Tile) -> None:
    text = TEXTS[name].format(dtype="float64")
    least = front(text)[1].min_levels
    for levels in (least, 5, 20):
        agree(load, text, (13, 3, levels), tile)


@pytest.mark.parametrize(
    ("dtype", "changes", "is_near"),
    [
        ("float64", {"ahead": 8}, True),
        ("float64", {"ahead": 8, "blocks": 5 * 132}, True),
        ("float64", {"ahead": 0, "blocks": 6 * 132}, False),
        ("float32", {"ahead": 2}, True),
        ("float32", {"ahead": 4}, False),
    ],
)
def test_which_quotients_do_not_wait(dtype: str, changes: dict[str, int], is_near: bool) -> None:
    schedule = made("quotients", dtype)
    (entry,) = entries_of(schedule)
    tile = replace(Tile((128, 1), levels=80), **changes)
    text = emit(schedule, usual_variant(schedule), {entry.name: tile})
    assert ("near_quotient(" in text) == is_near


@pytest.mark.parametrize("name", ["advection", "mixed", "quotients"])
def test_single_precision_stays_single(load: Any, name: str) -> None:
    agree(load, TEXTS[name].format(dtype="float32"), (13, 3, 21), TILES[-1])


@pytest.mark.parametrize("layout", ["along K", "reversed", "sliced"])
def test_arrays_may_lie_anyhow(load: Any, layout: str) -> None:
    agree(load, ADVECTION.format(dtype="float64"), (9, 4, 12), TILES[4], layout)


def test_more_levels_than_the_chip_holds_go_to_memory(load: Any) -> None:
    schedule = made("solve")
    entry, variant = entry_of(schedule), usual_variant(schedule)
    most = SHARED_LIMIT // (32 * 16)
    tile = Tile((32, 1), on_chip=64, ahead=8)
    assert shared_bytes(entry, schedule, variant, tile, (64, 4, most)) <= SHARED_LIMIT
    assert columns_fitted(tile, entry, schedule, variant, (64, 4, most)).on_chip
    assert not columns_fitted(tile, entry, schedule, variant, (64, 4, most + 1)).on_chip
    for levels in (most, most + 1):
        agree(load, SOLVE.format(dtype="float64"), (3, 1, levels), tile)


def test_columns_go_down_and_up_in_one_kernel() -> None:
    for name, temporaries in (("solve", {"above", "right"}), ("advection", {"ccol", "dcol"})):
        schedule = made(name)
        (entry,) = entries_of(schedule)
        orders = [section.order for section in entry.kernel.sections]
        assert set(orders) == {Order.FORWARD, Order.BACKWARD}
        placement = placement_of(entry.kernel, schedule, Tile((32, 1), on_chip=64))
        assert {name for slot in placement.shared for name in slot.names} == temporaries
        assert placement_of(entry.kernel, schedule, Tile((32, 1))).shared == ()


def test_values_for_the_next_level_only_have_no_place_at_all(load: Any, machine: Any) -> None:
    schedule = made("handed")
    (entry,) = entries_of(schedule)
    assert [buffer.name for buffer in schedule.buffers] == ["t"]
    assert placement_of(entry.kernel, schedule, Tile((32, 1))).variables == {"t"}
    source = emit(schedule, usual_variant(schedule), {entry.name: Tile((32, 1), on_chip=64)})
    assert "b0[" not in source
    assert "chip" not in source


def test_temporaries_on_chip_take_no_memory(
    load: Any, machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    allocate = machine.allocate

    def counted(size: int, *rest: Any) -> Any:
        sizes.append(size)
        return allocate(size, *rest)

    monkeypatch.setattr(machine, "allocate", counted)
    both = 2 * 8 * 32 * 3 * 9
    for tile, least, count in ((TILES[0], both, 2), (TILES[5], 0, 0)):
        sizes.clear()
        agree(load, SOLVE.format(dtype="float64"), (13, 3, 9), tile)
        assert len(sizes) == count
        assert least <= sum(sizes) <= 2 * least


def test_each_element_is_loaded_once_where_levels_overlap() -> None:
    schedule = made("advection")
    (entry,) = entries_of(schedule)
    source = emit(schedule, usual_variant(schedule), {entry.name: TILES[-1]})
    loop = source[source.index("const int next =") :]
    loop = loop[: loop.index("}")]
    assert len(re.findall(r"= (?:\w+\(&)?f\d\[", loop)) == 6
    assert len(re.findall(r"f\d\[", loop)) == 6


def ways(name: str, **changes: Any) -> tuple[str, str]:
    """Return the code of the passes down and up of the usual kernel of 80 levels."""
    schedule = made(name)
    (entry,) = entries_of(schedule)
    variant = usual_variant(schedule)
    own = column_bytes(entry.kernel, schedule, USUAL[2])
    usual = replace(columns_tile(entry, schedule, variant, USUAL), on_chip=own, blocks=0)
    source = emit(schedule, variant, {entry.name: replace(usual, **changes)})
    down, up = source[source.index("kernel0(") :].split("\n  }\n  {\n")
    return down, up


def rounds(code: str) -> set[int]:
    return {int(n) for n in re.findall(r"for \(int q = 0; q < (\d+);", code)}


def test_the_way_that_loads_less_has_longer_rounds(load: Any) -> None:
    down, up = ways("advection")
    assert max(rounds(down)) == 8
    assert max(rounds(up)) == 16
    assert max(rounds(ways("advection", levels=0)[1])) == 8
    agree(load, ADVECTION.format(dtype="float64"), (13, 3, 45), Tile((8, 2), on_chip=64, ahead=2))


def test_what_the_way_up_reads_again_stays_in_the_cache() -> None:
    down, up = ways("advection")
    assert set(re.findall(r"policy_load\(&(f\d)\[[^\]]*\], (\w+)\)", down)) == {("f3", "keep")}
    assert set(re.findall(r"policy_load\(&(f\d)\[[^\]]*\], (\w+)\)", up)) == {("f3", "drop")}
    assert "policy" not in "".join((*ways("solve"), *ways("advection", on_chip=0)))


#: A scan that changes what it reads, and its body where something else was there before.
IN_PLACE = """
def fill(q: Field[float], dp: Field[float], a: Field[float]):
    with computation(FORWARD):
        with interval(0, 1):
            need = 0.0
            if q < 0.0:
                need = q * dp
                q = 0.0
        with interval(1, None):
            {body}
"""
BODIES = {
    "its own": "need = 0.0; r = q + need[0, 0, -1] / dp; q = max(r, 0.0); need = min(r, 0.0)",
    "changed before": "q = q + a; r = q + need[0, 0, -1] / dp; need = min(r, 0.0); a = q * 2.0",
    "perhaps changed": "need = 0.0; if dp > 1.0:;     q = dp; need = q + need[0, 0, -1]; a = need",
    "read behind": "need = q[0, 0, -1] + q; q = need + a",
    "under a condition": "if a + dp > 0.0:;     q = q + dp * q[0, 0, -1]; need = 0.0",
    "in both branches": "if a > 0.0:;     q = q + dp; else:;     q = -q[0, 0, -1] - q; need = q;"
    " a = need[0, 0, -1]",
    "found by a loop": "need = 0.0; while q > 1.0 and need < 3.0:;     q = q - dp;     need += 1.0;"
    " a = a[0, 0, -1] + need",
    "seldom under a condition": "if a > 0.0:;     q = q + dp * q[0, 0, -1]; need = 0.0",
    "only behind": "need = 0.0; q = q[0, 0, -1] + dp",
    "anywhere": "need = q.at(K=0); q = need + a; need = q; a = need[0, 0, -1]",
}
LATE = ("seldom under a condition", "only behind", "anywhere")


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("tile", [Tile((8, 2), ahead=2), Tile((8, 2), on_chip=64, ahead=4)])
def test_what_a_level_changes_is_loaded_early(load: Any, body: str, tile: Tile) -> None:
    text = IN_PLACE.format(body=BODIES[body].replace("; ", ";").replace(";", "\n            "))
    schedule = plan(*front(text))
    (entry,) = entries_of(schedule)
    source = emit(schedule, usual_variant(schedule), {entry.name: replace(tile, levels=21)})
    early = re.search(r"q\d+\[2 \+ q\] = f0|q\d+\[4 \+ q\] = f0", source)
    assert bool(early) == (body not in LATE)
    agree(load, text, (9, 5, 21), tile)


def test_other_levels_are_not_loaded_early_for_a_branch() -> None:
    """The first level has none below it, whatever branch names that."""
    text = """
def sunk(a: Field[float], b: Field[float], c: Field[float], q: Field[float]):
    with computation(FORWARD):
        with interval(0, 1):
            q = a
        with interval(1, None):
            if a + b > 0.0:
                q = q[0, 0, -1] + c{offset}
"""
    for offset, early in (("", True), ("[0, 0, -1]", False)):
        schedule = plan(*front(text.format(offset=offset)))
        (entry,) = entries_of(schedule)
        tile = Tile((8, 2), ahead=2, levels=21)
        source = emit(schedule, usual_variant(schedule), {entry.name: tile})
        assert bool(re.search(r"q\d+\[2 \+ q\] = f2", source)) == early


def test_what_a_sweep_before_changed_is_not_loaded_early(load: Any) -> None:
    text = """
def twice(q: Field[float], a: Field[float], b: Field[float]):
    with computation(FORWARD):
        with interval(0, 1):
            q = a
        with interval(1, None):
            q = q[0, 0, -1] + a
    with computation(FORWARD):
        with interval(0, 1):
            b = q[0, 0, 1]
        with interval(1, None):
            b = b[0, 0, -1] * 0.5 + q
            q = b
"""
    agree(load, text, (9, 5, 21), Tile((8, 2), ahead=4))


def test_the_last_level_is_loaded_with_the_last_round() -> None:
    down, _ = ways("advection")
    loop = down.index("for (; at + 16 <= count;")
    assert down.index("double e7;") < loop < down.index("e7 = f2[")
    assert down.index("e0 = f2[") < loop


def test_nothing_is_loaded_early_where_arrays_may_share_memory() -> None:
    schedule = made("solve")
    (entry,) = entries_of(schedule)
    shared = replace(usual_variant(schedule), disjoint=False)
    assert "[16]" not in emit(schedule, shared, {entry.name: TILES[-1]})
    assert columns_fitted(TILES[-1], entry, schedule, shared, USUAL).ahead == 0


def test_one_array_may_be_input_and_output(load: Any) -> None:
    text = """
def halved(a: Field[float64], x: Field[float64]):
    with computation(FORWARD), interval(...):
        t = a
        x = 0.5 * t
"""
    schedule = scheduled(text)
    values = np.asfortranarray(np.random.default_rng(1).normal(size=(7, 3, 11)))
    array = values.copy(order="F")
    executable = load(schedule, tiles=changed(on_chip=64, ahead=8))
    executable({"a": array, "x": array}, {}, dict.fromkeys("ax", (0, 0, 0)), values.shape)
    np.testing.assert_array_equal(array, 0.5 * values)


@pytest.mark.parametrize(
    ("name", "dtype", "block", "ahead"),
    [
        ("solve", "float64", (128, 1), 10),
        ("solve", "float32", (128, 1), 10),
        ("advection", "float64", (96, 1), 8),
        ("advection", "float32", (128, 1), 10),
    ],
)
def test_columns_of_80_levels_are_kept_on_chip(
    name: str, dtype: str, block: tuple[int, int], ahead: int
) -> None:
    schedule = made(name, dtype)
    variant = usual_variant(schedule)
    (entry,) = entries_of(schedule)
    tile = columns_tile(entry, schedule, variant, USUAL)
    assert (tile.block, tile.on_chip > 0, tile.ahead) == (block, True, ahead)
    assert not columns_tile(entry, schedule, variant, (1024, 1024, 4000)).on_chip
    small = columns_tile(entry, schedule, variant, USUAL, shared=32 * 1024 // 2)
    assert shared_bytes(entry, schedule, variant, small, USUAL) <= 32 * 1024 // 2


@pytest.mark.parametrize(
    ("name", "dtype", "architecture"),
    [
        ("solve", "float64", "sm_80"),
        ("solve", "float64", "sm_90"),
        ("solve", "float32", "sm_90"),
        ("advection", "float64", "sm_80"),
        ("advection", "float64", "sm_90"),
        ("advection", "float64", "sm_100"),
        ("advection", "float32", "sm_90"),
    ],
)
def test_rings_fit_in_registers(name: str, dtype: str, architecture: str) -> None:
    schedule = made(name, dtype)
    variant = usual_variant(schedule)
    (entry,) = entries_of(schedule)
    tile = columns_tile(entry, schedule, variant, USUAL)
    tile = replace(tile, on_chip=column_bytes(entry.kernel, schedule, USUAL[2]), blocks=0)
    source = emit(schedule, variant, {entry.name: tile})
    used = resources(device_code(source, architecture))[entry.name]
    assert used.stack == 0, used
    shared = shared_bytes(entry, schedule, variant, tile, USUAL) + 1024
    rounded = -(-used.registers // 8) * 8
    assert 65536 // (rounded * tile.threads) >= (SHARED_LIMIT + 1024) // shared


#: A sum over levels of what many functions make.
LONG = """
def long(a: Field[{dtype}], total: Field[IJ, {dtype}]):
    with computation(FORWARD), interval(0, 1):
        total = {dtype}(0.0)
    with computation(FORWARD), interval(...):
        total += {value}
"""


@pytest.mark.parametrize(
    ("dtype", "functions", "ahead"),
    [
        ("float64", 0, 4),
        ("float64", 2, 2),
        ("float64", 6, 1),
        ("float64", 20, 0),
        ("float32", 6, 2),
    ],
)
def test_long_levels_have_short_rounds(dtype: str, functions: int, ahead: int) -> None:
    value = "".join(f"exp({dtype}({n + 1}) * " for n in range(functions)) + "a" + ")" * functions
    schedule = plan(*front(LONG.format(dtype=dtype, value=value)))
    (entry,) = entries_of(schedule)
    tile = columns_tile(entry, schedule, usual_variant(schedule), USUAL)
    assert (tile.on_chip, tile.ahead) == (0, ahead)


def test_the_columns_of_the_usual_tests_share_a_kernel() -> None:
    assert len(list(entries_of(scheduled(COLUMNS)))) == 1


QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture]


@settings(max_examples=4, deadline=None, derandomize=True, suppress_health_check=QUIET)
@given(
    st.integers(0, 2**48),
    st.tuples(st.integers(1, 5), st.integers(1, 2), st.integers(4, 9)),
    st.sampled_from(TILES),
    st.sampled_from(LAYOUTS),
)
def test_drawn_columns_mean_what_the_program_means(
    load: Any, seed: int, domain: Domain, tile: Tile, layout: str
) -> None:
    # Values stay in their column, so that columns keep what they can.
    text = program(seed, ("FORWARD", "BACKWARD"))
    text = re.sub(r"\b([tuvxyz])\[-?\d, -?\d, (-?\d)\]", r"\1[0, 0, \2]", text)
    try:
        facts = front(text)[1]
    except ProgramError:
        assume(False)
        return
    assume(facts.min_levels <= domain[2])
    agree(load, text, domain, tile, layout)
