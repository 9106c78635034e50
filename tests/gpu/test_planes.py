"""Blocks that keep planes of what they read, and tiles at odd edges, on a real device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plane_programs import PROGRAMS
from programs import Box, drawn, reference, scheduled
from tile_choices import changed

from halocline_engine.backends.cuda.kernels.choose import TileFor, tile_for
from halocline_engine.backends.cuda.runtime.executable import CudaExecutable
from halocline_engine.cache import Cache
from halocline_engine.device.machine import CudaMachine

pytestmark = pytest.mark.gpu

DOMAIN: Box = (75, 43, 21)
HALO: Box = (5, 4, 4)
CHOICES: dict[str, TileFor] = {
    "usual": tile_for,
    "planes": changed(block=(8, 4), width=2, rows=4, depth=8, planes=2),
    "strips": changed(block=(16, 2), width=2, rows=2, depth=4, strip=3),
    "rings": changed(block=(32, 2), width=1, rows=2, depth=8),
    "both": changed(block=(32, 2), width=1, rows=2, depth=7, planes=1, strip=2),
}


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_the_reference(
    cupy: Any, machine: CudaMachine, tmp_path: Path, name: str, choice: str
) -> None:
    schedule = scheduled(PROGRAMS[name])
    shape = tuple(n + 2 * h for n, h in zip(DOMAIN, HALO, strict=True))
    assert len(shape) == 3
    fields = {"u": drawn(shape, 1), "v": drawn(shape, 2)}
    run = CudaExecutable(schedule, machine, Cache(tmp_path), CHOICES[choice])
    device: dict[str, Any] = {}
    for field, array in fields.items():
        device[field] = run.memory.empty(shape, array.dtype, HALO)
        run.memory.upload(array, device[field])
    origins = dict.fromkeys(fields, HALO)
    expected = reference(schedule, fields, {"w": 0.3}, origins, DOMAIN)
    run(device, {"w": 0.3}, origins, DOMAIN)
    np.testing.assert_array_equal(cupy.asnumpy(device["v"]), expected["v"])
