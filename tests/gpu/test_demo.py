"""The demo's job on real devices: any blocks, passes and workers give the same bits."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from halocline_engine.device.machine import CudaMachine
from halocline_engine.device.probe import device_count
from halocline_engine.distribute.tasks.events import Event, Planned
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.functions.run import run

pytestmark = pytest.mark.gpu

pytest.importorskip("iris_sample_data", reason="the demo's data are not installed")

DEMO = Path(__file__).resolve().parents[2] / "demo"
STEPS = 24
BLOCKS = {1: {}, 4: {"time": 3, "y": 165, "x": 180}, 37: {"time": 3, "y": 9}}


@pytest.fixture(scope="module")
def sea(machine: CudaMachine) -> Any:
    return runpy.run_path(str(DEMO / "data.py"))["sea_surface"]()


def diffused(sea: xr.Dataset, target: str, **options: Any) -> xr.Dataset:
    return run(
        (DEMO / "diffusion.py").read_text(),
        sea,
        scalars={"strength": 1 / 32},
        boundary={"x": "periodic", "y": "edge"},
        steps=STEPS,
        feedback={"diffused": "tos"},
        target=target,
        **options,
    )


@pytest.fixture(scope="module")
def expected(sea: xr.Dataset) -> bytes:
    result = diffused(sea, "cuda")["diffused"]
    judged = diffused(sea, "reference")["diffused"]
    np.testing.assert_array_equal(np.isnan(result.values), np.isnan(sea["tos"].values))
    np.testing.assert_allclose(result.values, judged.values, rtol=1e-12, atol=0)
    return result.values.tobytes()


@pytest.mark.parametrize("per_pass", [1, 5, STEPS])
@pytest.mark.parametrize("count", BLOCKS)
def test_blocks_and_passes(sea: xr.Dataset, expected: bytes, count: int, per_pass: int) -> None:
    events: list[Event] = []
    result = diffused(
        sea,
        "cuda",
        chunks=BLOCKS[count],
        options=Options(steps_per_pass=per_pass),
        on_event=events.append,
    )
    assert isinstance(events[0], Planned)
    assert events[0].blocks == count
    assert result["diffused"].values.tobytes() == expected


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_one_worker_per_device(sea: xr.Dataset, expected: bytes, workers: int) -> None:
    if device_count() < workers:
        pytest.skip(f"there are fewer than {workers} CUDA devices here")
    result = diffused(sea, "cuda", chunks=BLOCKS[37], cluster=workers)
    assert result["diffused"].values.tobytes() == expected
