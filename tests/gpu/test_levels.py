"""Columns whose levels lie on threads, or that threads climb, on a real device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from programs import Box, drawn, reference, scheduled
from tile_choices import changed

from halocline_engine.backends.cuda.kernels.choose import TileFor
from halocline_engine.backends.cuda.runtime.executable import CudaExecutable
from halocline_engine.cache import Cache
from halocline_engine.device.machine import CudaMachine

pytestmark = pytest.mark.gpu

#: The divergence of f times the gradient of a * b; with other operators, four values are shared.
TEXT = """
def flux(a: Field[float64], b: Field[float64], f: Field[float64], w: Field[float64],
         r: Field[float64]):
    with computation(PARALLEL):
        with interval(0, 1):
            r = f[0, 0, 1] * ((a[0, 0, 1] * b[0, 0, 1] - a * b) / w[0, 0, 1]) / w
        with interval(1, -1):
            up = f[0, 0, 1] * ((a[0, 0, 1] * b[0, 0, 1] - a * b) / w[0, 0, 1])
            down = f * ((a * b - a[0, 0, -1] * b[0, 0, -1]) / w)
            r = (up - down) / w
        with interval(-1, None):
            r = -f * ((a * b - a[0, 0, -1] * b[0, 0, -1]) / w) / w
"""
DOMAIN: Box = (21, 19, 150)
CHOICES: dict[str, tuple[str, TileFor]] = {
    "nodes": ("K", changed(share=1, rows=3)),
    "staging in parts": ("K", changed(share=2, depth=41, rows=2)),
    "direct": ("K", changed(share=0, rows=2)),
    "rings": ("I", changed(depth=37)),
    "rings of two columns": ("I", changed(width=2, depth=150, ahead=3)),
}


@pytest.mark.parametrize("choice", CHOICES)
def test_values_are_those_of_the_reference(
    cupy: Any, machine: CudaMachine, tmp_path: Path, choice: str
) -> None:
    layout, tiles = CHOICES[choice]
    schedule = scheduled(TEXT)
    fields = {name: abs(drawn(DOMAIN, n)) + 0.5 for n, name in enumerate("abfwr")}
    seen: list[tuple[int, int]] = []

    def noted(*arguments: Any) -> Any:
        tile = tiles(*arguments)
        seen.append((tile.along, tile.share))
        return tile

    run = CudaExecutable(schedule, machine, Cache(tmp_path), noted)
    device: dict[str, Any] = {}
    for name, array in fields.items():
        if layout == "K":
            device[name] = cupy.asarray(np.ascontiguousarray(array))
        else:
            device[name] = run.memory.empty(DOMAIN, array.dtype, (0, 0, 0))
            run.memory.upload(array, device[name])
    origins: dict[str, Box] = dict.fromkeys(fields, (0, 0, 0))
    expected = reference(schedule, fields, {}, origins, DOMAIN)
    run(device, {}, origins, DOMAIN)
    assert seen[0][0] == (1 if layout == "K" else 0)
    np.testing.assert_array_equal(cupy.asnumpy(device["r"]), expected["r"])
