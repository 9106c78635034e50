"""Kernels whose threads climb columns: the bits of the reference, for any share of a thread."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from column_cases import lowered, stretched
from cubin import resources
from differential import Inputs, assert_same, judged, run
from emulation.machine import EmulatedMachine
from kept import device_code
from numpy.lib.stride_tricks import as_strided
from tile_choices import changed

from halocline_engine.analysis.extents import analyse
from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import tiles_of
from halocline_engine.backends.cuda.kernels.rolling.tile import ROLLING_SHARE, rolling_windows
from halocline_engine.backends.cuda.model.entries import Stride, entries_of
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.backends.cuda.runtime.executable import CudaExecutable
from halocline_engine.ir.columns.table import At
from halocline_engine.ir.nodes import Program
from halocline_engine.ir.types import Axis
from halocline_engine.schedule.plan import plan

FLUX = "DivergenceF2C(bottom=SetValue(0.0), top=SetValue(x))(f * GradientC2F()(a * b))"
NESTED = (
    "_g = GradientC2F(bottom=SetValue(x), top=SetGradient(0.0))(a)\n"
    "r = GradientF2C()(f * _g) + a * InterpolateF2C()(f * InterpolateC2F(bottom=Extrapolate(),"
    " top=SetValue(1.0))(a * a * b))"
)
PERIODIC = "DivergenceF2C()(Upwind3rdOrderBiasedProductC2F()(f, a * b))"
PLACES = {"a": At.CENTRE, "b": At.CENTRE, "f": At.FACE, "x": At.FLAT}


def fields_of(run: CudaExecutable, program: Program, domain: tuple[int, int, int]) -> Inputs:
    """Return random fields in the target's own memory, which lie along I."""
    random = np.random.default_rng(7)
    made = Inputs({}, {})
    for field in program.fields:
        shape = [n if axis in field.axes else 1 for axis, n in zip(Axis, domain, strict=True)]
        dtype = np.dtype(field.dtype.value)
        array = run.memory.empty((shape[0], shape[1], shape[2]), dtype, (0, 0, 0))
        array[...] = np.nan if field.written else random.random(shape) + 0.5
        steps = zip(Axis, array.strides, strict=True)
        strides = [step if axis in field.axes else 0 for axis, step in steps]
        made.arrays[field.name] = as_strided(array, strides=strides)
        made.origins[field.name] = (0, 0, 0)
    return made


@pytest.mark.parametrize(
    ("text", "dtype", "changes"),
    [
        (FLUX, "float64", {}),
        (FLUX, "float32", {"width": 4, "depth": 5, "ahead": 3}),
        (NESTED, "float64", {"width": 2, "depth": 7, "ahead": 1}),
        (PERIODIC, "float64", {"depth": 10, "width": 1, "ahead": 4}),
    ],
)
def test_the_share_of_a_thread_changes_no_bit(
    load: Any, emulation_folder: Path, text: str, dtype: str, changes: dict[str, int]
) -> None:
    shape = replace(stretched(29, 0.0, 1.0, 0.5), periodic=text == PERIODIC).shape
    made = lowered(text, PLACES, shape, dtype=dtype)
    schedule = plan(made, analyse(made))
    for descending, wide in ((True, (7, 2)), (False, (1, 5)), (False, (8, 1))):
        machine = EmulatedMachine(emulation_folder / "loaded", descending=descending)
        executable = load(schedule, machine, changed(**changes))
        domain = (*wide, shape.domain)
        given = fields_of(executable, made, domain)
        expected = judged(made, analyse(made), given, domain, {})
        assert_same(run(executable, given, domain, {}), expected)


def test_values_are_kept_as_long_as_a_level_reads_them_and_no_longer() -> None:
    made = lowered(FLUX, PLACES, stretched(29, 0.0, 1.0, 0.5).shape)
    schedule = plan(made, analyse(made))
    (entry,) = entries_of(schedule)
    found = rolling_windows(entry, schedule, usual_variant(schedule), 30)
    assert found is not None
    # a * b is made one level above, for the fluxes above and below; the first two steps fill.
    assert [(ring.newest, ring.size, ring.start) for ring in found.nodes.values()] == [
        (1, 2, -1),
        (1, 2, -2),
    ]
    assert all(ring.size == 1 for ring in found.streams.values())
    assert (found.start, found.steady) == (-2, (1, 28))


def test_columns_are_cut_until_there_are_enough_threads() -> None:
    made = lowered(FLUX, PLACES, stretched(1000, 0.0, 1.0, 0.5).shape, dtype="float32")
    schedule = plan(made, analyse(made))
    usual = usual_variant(schedule)
    many, few = (
        tiles_of(schedule, usual, (*wide, 1001))["kernel0"] for wide in ((4000, 4000), (60, 100))
    )
    assert (many.share, many.width, many.depth, many.block) == (ROLLING_SHARE, 1, 1000, (128, 1))
    assert (few.depth, few.block) == (33, (64, 2))
    kinds = tuple((Stride.ANY, j, k) for _, j, k in usual.kinds)
    other = replace(usual, kinds=kinds)
    assert tiles_of(schedule, other, (200, 100, 1001))["kernel0"].share == 0


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_nvidias_compiler_takes_threads_that_climb(architecture: str) -> None:
    made = lowered(FLUX, PLACES, stretched(64, 0.0, 1.0, 0.5).shape)
    schedule = plan(made, analyse(made))
    usual = usual_variant(schedule)
    source = emit(schedule, usual, tiles_of(schedule, usual, (1000, 1000, 65)))
    (used,) = resources(device_code(source, architecture)).values()
    assert used.stack <= 16
    assert used.registers <= 128
