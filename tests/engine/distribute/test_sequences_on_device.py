"""Sequences whose variables stay on a device, with arrays like those of CuPy, by emulation."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import xarray as xr
from emulation.machine import ABSENT, compiler
from of_device import MachineOfDevice

import halocline_engine as he
from halocline_engine.backends.cuda.runtime.executable import CudaExecutable
from halocline_engine.cache import Cache
from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.solves import banded
from halocline_engine.distribute.stepping import arrays, column_stages, stencil_stage, work
from halocline_engine.kernels.machine import Library
from halocline_engine.kernels.tridiagonal.cuda import CudaTridiagonal

BLUR = """
def blur(t: Field[float], out: Field[float], *, k: float):
    with computation(PARALLEL), interval(...):
        out = t + k * (t[1, 0, 0] - 2.0 * t + t[-1, 0, 0]) + k * (t[0, 1, 0] - t)
"""
AXES = {"I": "x", "J": "y", "K": "z"}
BANDS = {"lower": "a", "diagonal": "b", "upper": "a", "dim": "z", "rhs": "t", "name": "t"}
STAGES: list[dict[str, dict[str, Any]]] = [
    {
        "stencil": {
            "program": BLUR,
            "axes": AXES,
            "scalars": {"k": 0.125},
            "fields": {"out": "t"},
            "boundary": {"x": "periodic", "y": {"low": "edge", "high": "none"}},
        }
    },
    {"tridiagonal": {**BANDS, "residual": True}},
    {"column": {"expression": "t_total = column_integral_definite(t)\nu = t + profile"}},
]


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the target 'cuda' be the emulated machine, with arrays like CuPy's."""
    if compiler() is None:
        pytest.skip(ABSENT)
    machine: Any = MachineOfDevice(tmp_path / "loaded")
    library = Library(machine)

    def solver(_: str, *, contiguous: bool) -> Any:
        return CudaTridiagonal(machine, library, 227 * 1024, contiguous=contiguous)

    def loaded(code: Any) -> Any:
        return CudaExecutable(code.artifact.schedule, machine, Cache(tmp_path / "compiled"))

    monkeypatch.setattr(banded, "tridiagonal_solver", solver)
    for module in (stencil_stage, column_stages):
        monkeypatch.setattr(module, "executable_of", loaded)
    monkeypatch.setattr(work, "own_stream", contextlib.nullcontext)
    monkeypatch.setattr(arrays, "wait_for_all", Mock())
    monkeypatch.setattr("halocline_engine.functions.execution.resolve", str)
    monkeypatch.setattr(LocalPool, "device_memory", Mock(return_value=10**9))


def data() -> xr.Dataset:
    random = np.random.default_rng(3)
    return xr.Dataset(
        {
            "t": (("z", "y", "x"), random.random((4, 5, 6))),
            "profile": ("z", random.random(4)),
            "a": ("z", np.full(4, -0.25)),
            "b": ("z", np.full(4, 1.5)),
        },
        coords={
            "z": ("z", np.arange(4) + 0.5, {"axis": "Z"}),
            "z_f": ("z_f", np.arange(5.0), {"axis": "Z", "c_grid_axis_shift": -0.5}),
        },
    )


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("chunks", [None, {"x": 4}, {"y": 2}])
def test_stages_of_all_kinds_stay_on_a_device(chunks: dict[str, int] | None) -> None:
    result = he.sequence(STAGES, data(), steps=3, target="cuda", mode="resident", chunks=chunks)
    expected = he.sequence(STAGES, data(), steps=3, target="reference", mode="streamed")
    assert result.data_vars.keys() == expected.data_vars.keys()
    for name in expected.data_vars:
        np.testing.assert_array_equal(result[name].values, expected[name].values, str(name))


@pytest.mark.usefixtures("device")
def test_solves_alone_are_streamed() -> None:
    with pytest.raises(he.ArgumentError) as caught:
        he.sequence(STAGES[1:2], data(), steps=3, target="cuda", mode="resident")
    assert caught.value.message == (
        "A sequence cannot stay in memory: solves alone have no arrays of a device."
    )
