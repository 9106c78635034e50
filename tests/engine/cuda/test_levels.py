"""Kernels whose threads lie along K: the bits of the reference, for every form and order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from column_cases import lowered, stretched
from cubin import resources
from differential import (
    Inputs,
    assert_same,
    front,
    inputs,
    judged,
    run,
)
from emulation.machine import EmulatedArtifact, EmulatedMachine
from general_runs import given_arrays, ran
from general_runs import judged as general_judged
from kept import device_code
from numpy.lib.stride_tricks import as_strided

from halocline_engine.analysis.extents import analyse
from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import TileFor, shared_bytes, tiles_of
from halocline_engine.backends.cuda.kernels.levels.tile import levels_tile
from halocline_engine.backends.cuda.model.entries import Entry, Stride, Variant, entries_of
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.ir.columns.table import At
from halocline_engine.ir.nodes import Program
from halocline_engine.ir.types import Axis
from halocline_engine.schedule.levels.exchange import Form
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.plan import plan

FLUX = "DivergenceF2C(bottom=SetValue(0.0), top=SetValue(x))(f * GradientC2F()(a * b))"
NESTED = (
    "_g = GradientC2F(bottom=SetValue(x), top=SetGradient(0.0))(a)\n"
    "r = GradientF2C()(f * _g) + a * InterpolateF2C()(f * InterpolateC2F(bottom=Extrapolate(),"
    " top=SetValue(1.0))(a * a * b))"
)
PERIODIC = "DivergenceF2C()(Upwind3rdOrderBiasedProductC2F()(f, a * b))"
STENCIL = """
def stencil(u: Field[float64], m: Field[IJ, float32], p: Field[K, float64], x: Field[float64],
            y: Field[float64], c: float64):
    with computation(PARALLEL):
        with interval(0, 1):
            x = u - p + m
            y = c
        with interval(1, -1):
            s = u[1, 0, 0] + u[-1, 0, 0] + u[0, 1, 0] + u[0, -1, 0] if u > 0.0 else u * m
            x = s + p[1] * (u[0, 0, 1] - u) - p * (u - u[0, 0, -1])
            y = sqrt(abs(s)) + c * s
        with interval(-1, None):
            x = u[0, 0, -1] * p[-1] + u**3
            y = u
"""
MIXED = """
def mixed(
    c: Field[float32], a: Field[float64], n: Field[int32], x: Field[float64], y: Field[float64]
):
    with computation(PARALLEL):
        with interval(0, -1):
            x = n + 0.5
            y = 1.5 if n > 0 else a
        with interval(-1, None):
            x = c + 0.5
            y = 1.5 if c > float32(0.25) else a
"""
PLACES = {"a": At.CENTRE, "b": At.CENTRE, "f": At.FACE, "x": At.FLAT}
ORDERS: tuple[dict[str, Any], ...] = ({}, {"descending": True}, {"shuffled": 3})


def chosen(form: Form, rows: int, depth: int = 0, columns: int = 0) -> TileFor:
    """Return the choice of threads along K with a form and sizes; 0 leaves what is usual."""

    def choose(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile:
        tile = levels_tile(entry, schedule, variant, domain, form, rows)
        assert tile is not None
        block = (tile.block[0], columns or tile.block[1])
        return replace(tile, depth=depth or tile.depth, block=block)

    return choose


def columns_of(program: Program, levels: int, wide: tuple[int, int], *, near: int) -> Inputs:
    """Return random fields with unit stride along K; neighbouring columns lie along axis `near`."""
    random = np.random.default_rng(3)
    made = Inputs({}, {})
    for field in program.fields:
        dtype = field.dtype.value
        shape = [
            n if axis in field.axes else 1 for axis, n in zip(Axis, (*wide, levels), strict=True)
        ]
        values = random.random(shape).astype(dtype) + 0.5
        if field.written:
            values[...] = np.nan
        turned = values if near == 1 else values.transpose(1, 0, 2).copy().transpose(1, 0, 2)
        steps = [
            step if axis in field.axes else 0
            for axis, step in zip(Axis, turned.strides, strict=True)
        ]
        made.arrays[field.name] = as_strided(turned, strides=steps)
        made.origins[field.name] = (0, 0, 0)
    return made


@pytest.mark.parametrize(
    ("text", "form", "rows", "depth", "columns", "dtype"),
    [
        (FLUX, Form.NODES, 3, 0, 2, "float64"),
        (FLUX, Form.STAGING, 1, 7, 3, "float32"),
        (NESTED, Form.STAGING, 2, 0, 1, "float64"),
        (NESTED, Form.NODES, 1, 5, 2, "float64"),
        (PERIODIC, Form.NODES, 2, 9, 2, "float64"),
    ],
)
def test_forms_and_parts_and_orders_of_threads_change_no_bit(
    load: Any,
    emulation_folder: Path,
    text: str,
    form: Form,
    rows: int,
    depth: int,
    columns: int,
    dtype: str,
) -> None:
    shape = replace(stretched(37, 0.0, 1.0, 0.5), periodic=text == PERIODIC).shape
    made = lowered(text, PLACES, shape, dtype=dtype)
    schedule = plan(made, analyse(made))
    for number, order in enumerate(ORDERS):
        domain = ((7, 5), (3, 8), (1, 9))[number]
        given = columns_of(made, shape.domain, domain, near=number % 2)
        whole = (*domain, shape.domain)
        expected = judged(made, analyse(made), given, whole, {})
        machine = EmulatedMachine(emulation_folder / "loaded", **order)
        own = copied_along(given)
        tiles = chosen(form, rows, depth, columns)
        assert_same(run(load(schedule, machine, tiles), own, whole, {}), expected)


def copied_along(given: Inputs) -> Inputs:
    """Return the same values in arrays of their own that lie the same way."""
    arrays: dict[str, Any] = {}
    for name, array in given.arrays.items():
        size = sum(abs(s) * (n - 1) for s, n in zip(array.strides, array.shape, strict=True))
        room = np.full(size // array.itemsize + 1, np.nan, array.dtype)
        arrays[name] = as_strided(room, array.shape, array.strides)
        arrays[name][...] = array
    return Inputs(arrays, given.origins)


def test_stencils_with_neighbours_in_all_directions_do_it_too(
    load: Any, emulation_folder: Path
) -> None:
    made, facts = front(STENCIL)
    schedule = plan(made, facts)
    domain = (5, 4, 11)
    given = inputs(made, facts, domain, layout="along K")
    expected = judged(made, facts, given, domain, {"c": 0.25})
    forms = (Form.NODES, Form.DIRECT)
    for number, (form, order) in enumerate(zip(forms, ORDERS[1:], strict=True)):
        machine = EmulatedMachine(emulation_folder / "loaded", **order)
        own = inputs(made, facts, domain, layout="along K")
        tiles = chosen(form, 2, 4 * number)
        assert_same(run(load(schedule, machine, tiles), own, domain, {"c": 0.25}), expected)


def test_a_barrier_left_out_is_seen(
    load: Any, emulation_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lowered(FLUX, PLACES, stretched(37, 0.0, 1.0, 0.5).shape)
    schedule, domain = plan(made, analyse(made)), (3, 2, 38)
    given = columns_of(made, 38, domain[:2], near=1)
    expected = judged(made, analyse(made), given, domain, {})
    machine = EmulatedMachine(emulation_folder / "loaded", shuffled=3)
    whole = machine.compile

    def without(text: str) -> bytes:
        return whole(without_last_barrier(text))

    monkeypatch.setattr(machine, "compile", without)
    executable = load(schedule, machine, chosen(Form.NODES, 1), cold=True)
    got = run(executable, copied_along(given), domain, {})
    with pytest.raises(AssertionError):
        assert_same(got, expected)


def without_last_barrier(text: str) -> str:
    head, barrier, tail = text.rpartition("__syncthreads();")
    assert barrier
    return head + tail


def flux_of(levels: int, dtype: str) -> tuple[Schedule, Variant]:
    """Return the flux over many levels, and how arrays lie that are contiguous along K."""
    made = lowered(FLUX, PLACES, stretched(levels, 0.0, 1.0, 0.5).shape, dtype=dtype)
    schedule = plan(made, analyse(made))
    usual = usual_variant(schedule)
    turned = {(Stride.ONE, Stride.ANY, Stride.ANY): (Stride.ANY, Stride.ANY, Stride.ONE)}
    kinds = tuple(turned.get(kind, kind) for kind in usual.kinds)
    return schedule, replace(usual, kinds=kinds, near=1)


@pytest.mark.parametrize("levels", [15, 64, 300, 1000, 5000])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blocks_have_what_keeps_memory_busy_and_leave_room(levels: int, dtype: str) -> None:
    schedule, variant = flux_of(levels, dtype)
    domain = (1000, 1 + 10**8 // levels // 1000, levels + 1)
    tile = tiles_of(schedule, variant, domain)["kernel0"]
    (entry,) = entries_of(schedule)
    assert (tile.along, tile.share) == (2, 1)
    assert 96 <= tile.threads <= 256
    size = 4 if dtype == "float32" else 8
    assert 3 * tile.rows * size >= 64
    room = shared_bytes(entry, schedule, variant, tile, domain)
    assert room == 2 * tile.threads * tile.rows * size
    assert 4 * room <= 227 * 1024
    few = tiles_of(schedule, variant, (2, 3, levels + 1))["kernel0"]
    assert few.rows == 1


def test_what_does_not_fit_is_not_shared_and_other_layouts_have_threads_along_i() -> None:
    schedule, variant = flux_of(64, "float64")
    domain = (1000, 1000, 65)
    large = replace(tiles_of(schedule, variant, domain)["kernel0"], rows=400)

    def one(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile:
        return large

    refused = tiles_of(schedule, variant, domain, one)["kernel0"]
    assert refused.along == 0
    usual = usual_variant(schedule)
    assert tiles_of(schedule, usual, domain)["kernel0"].along == 0
    shared_memory = replace(variant, disjoint=False)
    assert tiles_of(schedule, shared_memory, domain)["kernel0"].along == 0


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_nvidias_compiler_takes_threads_along_k(architecture: str) -> None:
    schedule, variant = flux_of(1000, "float64")
    tiles = tiles_of(schedule, variant, (1000, 1000, 1001))
    (used,) = resources(device_code(emit(schedule, variant, tiles), architecture)).values()
    # Division of doubles is a call, which saves a register or two.
    assert used.stack <= 16
    assert used.registers <= 64


def test_sections_that_convert_and_compare_other_types_have_their_own(
    emulation_folder: Path,
) -> None:
    meaning, facts = front(MIXED)
    domain = (9, 7, 12)
    own = given_arrays(meaning, facts, domain, "along K", seed=3)
    expected = general_judged(meaning, facts, own, domain)
    artifact = EmulatedArtifact(plan(meaning, facts), emulation_folder)
    assert_same(ran(artifact, meaning, facts, own, domain).arrays, expected.arrays)
