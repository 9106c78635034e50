"""Plans of CUDA kernels, and that NVIDIA's compiler takes them without spilling registers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cubin import resources
from lockstep import ABSENT, LockstepMachine, compiler

import halocline_engine.kernels.tridiagonal.cuda as module
from halocline_engine.device.compiler import compile_source
from halocline_engine.kernels.machine import Library, source_of
from halocline_engine.kernels.tridiagonal.cuda import CudaTridiagonal
from halocline_engine.kernels.tridiagonal.launching import (
    Layout,
    Plan,
    plan_contiguous,
    plan_factored,
    plan_thomas,
)

FOLDER = Path(module.__file__).parent
SHARED = 227 * 1024


def compiled(file: str, plan: Plan, architecture: str = "sm_90") -> Any:
    code = compile_source(source_of(FOLDER / file, **dict(plan.constants)), architecture)
    return resources(code)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_thomas_spills_nothing(dtype: str) -> None:
    columns = Layout(1, 80, 1 << 20, dtype)
    found = compiled("thomas.cu", plan_thomas(columns, SHARED))
    assert found["thomas"].stack == 0
    found = compiled("prefactored.cu", plan_factored(columns, SHARED, shared=True))
    assert found["solve"].stack == 0


@pytest.mark.parametrize(("rows", "mode"), [(80, 0), (500, 0), (10**6, 2)])
def test_warps_spill_nothing(rows: int, mode: int) -> None:
    found = compiled("contiguous.cu", plan_contiguous(Layout(9, rows, 1, "float64"), mode))
    assert found["contiguous"].stack == 0


def test_older_and_newer_devices_take_the_kernels() -> None:
    for architecture in ("sm_80", "sm_100"):
        plan = plan_thomas(Layout(1, 5, 9, "float32", periodic=True), 48 * 1024)
        assert "thomas" in compiled("thomas.cu", plan, architecture)
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
        plans = {plan_thomas(Layout(1, rows, inner, "float64"), SHARED) for inner in (1, 9, 10**6)}
        assert len(plans) == 1


def test_long_systems_are_reduced_to_their_tiles(tmp_path: Path) -> None:
    if compiler() is None:
        pytest.skip(ABSENT)
    machine = LockstepMachine(tmp_path)
    solver = CudaTridiagonal(machine, Library(machine), SHARED)
    rows = 1000
    band = np.ones((1, rows, 1))
    solver.solve(-band, 3 * band, -band, band)
    names = [launched[0] for kernels in machine.loaded for launched in kernels.launched]
    assert sorted(names) == ["contiguous", "contiguous", "contiguous", "gather_status", "join"]
