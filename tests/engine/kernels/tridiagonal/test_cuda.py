"""Plans of CUDA kernels, and that NVIDIA's compiler takes them without spilling registers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cubin import resources
from emulation.machine import ABSENT, EmulatedMachine, compiler
from kept import device_code

import halocline_engine.kernels.tridiagonal.cuda as module
from halocline_engine.kernels.machine import Library, source_of
from halocline_engine.kernels.tridiagonal.cuda import CudaTridiagonal
from halocline_engine.kernels.tridiagonal.launching import (
    Layout,
    Plan,
    plan_contiguous,
    plan_factored,
    plan_interleaved,
    plan_split,
    plan_thomas,
    plan_windows,
)

FOLDER = Path(module.__file__).parent
SHARED = 227 * 1024


def compiled(file: str, plan: Plan, architecture: str = "sm_90") -> Any:
    code = device_code(source_of(FOLDER / file, **dict(plan.constants)), architecture)
    return resources(code)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_thomas_spills_nothing(dtype: str) -> None:
    columns = Layout(1, 80, 1 << 20, dtype)
    found = compiled("thomas.cu", plan_thomas(columns, SHARED))
    assert found["thomas"].stack == 0
    found = compiled("prefactored.cu", plan_factored(columns, SHARED, shared=True))
    assert found["solve"].stack == 0


def test_both_ends_of_a_piece_take_few_registers() -> None:
    """So many threads are at work on a processor that their loads hide the division."""
    plan = Plan((("REAL", "double"), ("THREADS", 128)), 128, 0)
    assert compiled("levels.cu", plan)["reduce"].registers <= 64
    assert compiled("held.cu", plan)["hold_ends"].stack == 0
    for real in ("float", "double"):
        warp = Plan((("REAL", real), ("THREADS", 32)), 32, 0)
        assert compiled("contiguous_ends.cu", warp)["reduce_contiguous"].stack == 0


@pytest.mark.parametrize(("rows", "dtype"), [(64, "float64"), (500, "float64"), (100, "float32")])
def test_lanes_spill_nothing(rows: int, dtype: str) -> None:
    found = compiled("contiguous.cu", plan_contiguous(Layout(9, rows, 1, dtype)))
    assert found["contiguous"].stack == 0


@pytest.mark.parametrize(
    ("rows", "dtype", "paired"),
    [
        (128, "float64", False),
        (512, "float64", False),
        (512, "float32", False),
        (512, "float32", True),
        (100, "float32", True),
    ],
)
def test_several_threads_spill_nothing(rows: int, dtype: str, paired: bool) -> None:
    plan = plan_split(Layout(9, rows, 99, dtype), paired=paired)
    assert plan is not None
    assert compiled("split.cu", plan)["split"].stack == 0


def test_pairs_leave_room_for_the_cache() -> None:
    for rows in range(49, 513):
        plan = plan_interleaved(Layout(1, rows, 8, "float32"), SHARED, paired=True)
        of = {name: int(value) for name, value in plan.constants if name != "REAL"}
        assert of["NEIGHBOURS"] == 2
        assert plan.threads == of["PIECES"] * of["WIDTH"] // 2 <= 512
        assert of["BLOCKS"] * (plan.shared + 1024) <= 164 * 1024
        alone = dict(plan_interleaved(Layout(1, rows, 8, "float32"), SHARED).constants)
        assert alone["NEIGHBOURS"] == 1
        assert alone["PIECES"] == of["PIECES"]


def test_pairs_do_not_change_the_choice_of_a_kernel() -> None:
    for shared in (48 * 1024, 99 * 1024, 163 * 1024):
        for rows in range(1, 520):
            layout = Layout(1, rows, 8, "float32")
            both = [plan_interleaved(layout, shared, paired=paired) for paired in (False, True)]
            assert len({plan.pieces for plan in both}) == 1
            assert max(plan.shared for plan in both) <= shared


def test_windows_spill_nothing() -> None:
    found = compiled("long.cu", plan_windows(Layout(9, 10**6, 1, "float64"))[0])
    assert all(found[name].stack == 0 for name in ("windows", "ends", "fill"))


def banks(plan: Plan, size: int) -> int:
    """Return how often lanes of a warp want one bank at a time, when they read their rows."""
    of = dict(plan.constants)
    lanes, own, vector, pitch = (int(of[k]) for k in ("LANES", "ROWS_A_LANE", "VECTOR", "PITCH"))
    words = vector * size // 4
    most = 1
    for row in range(0, own, vector):
        places = [
            (lane // lanes * pitch + lane % lanes * own + row) * size // 4 for lane in range(32)
        ]
        for first in range(0, 32, 32 // words):
            wanted: dict[int, set[int]] = {}
            for place in places[first : first + 32 // words]:
                for word in range(place, place + words):
                    wanted.setdefault(word % 32, set()).add(word)
            most = max(most, *(len(several) for several in wanted.values()))
    return most


def test_lanes_read_from_different_banks() -> None:
    for dtype, size in (("float64", 8), ("float32", 4)):
        for rows in (*range(1, 70), 80, 100, 128, 200, 256, 300, 500, 512):
            plan = plan_contiguous(Layout(1, rows, 1, dtype))
            aligned = rows * size % 16 == 0
            assert banks(plan, size) <= (1 if aligned else 4), (rows, dtype)
            assert plan.shared <= 48 * 1024


def test_older_and_newer_devices_take_the_kernels() -> None:
    for architecture in ("sm_80", "sm_100"):
        plan = plan_thomas(Layout(1, 5, 9, "float32", periodic=True), 48 * 1024)
        assert "thomas" in compiled("thomas.cu", plan, architecture)
    assert "contiguous" in compiled(
        "contiguous.cu", plan_contiguous(Layout(1, 9, 1, "float32")), "sm_75"
    )
    constants = {"REAL": "double", "ROWS": 9, "THREADS": 128}
    plan = Plan(tuple(constants.items()), 128, 0)
    assert "pentadiagonal" in compiled("pentadiagonal.cu", plan)


def test_what_does_not_fit_on_the_chip_is_kept_in_memory() -> None:
    fits = plan_thomas(Layout(1, 400, 9, "float64"), SHARED)
    assert fits.on_chip
    assert fits.shared == 400 * 2 * 8 * fits.threads
    large = plan_thomas(Layout(1, 500, 9, "float64"), SHARED)
    assert not large.on_chip
    assert large.shared == 0
    assert plan_thomas(Layout(1, 500, 9, "float32"), SHARED).on_chip


def test_the_choice_of_a_kernel_does_not_depend_on_the_number_of_systems() -> None:
    for rows in (20, 300, 5000):
        layouts = [Layout(1, rows, inner, "float64") for inner in (1, 9, 10**6)]
        assert len({plan_interleaved(layout, SHARED) for layout in layouts}) == 1
        assert len({plan_contiguous(layout) for layout in layouts}) == 1


def test_long_systems_are_solved_by_windows(tmp_path: Path) -> None:
    if compiler() is None:
        pytest.skip(ABSENT)
    machine = EmulatedMachine(tmp_path)
    solver = CudaTridiagonal(machine, Library(machine), SHARED)
    rows = 1000
    band = np.ones((1, rows, 1))
    solver.solve(-band, 3 * band, -band, band)
    names = [launched[0] for kernels in machine.loaded for launched in kernels.launched]
    assert names == ["windows", "judge", "ends", "bridge", "fill"]
