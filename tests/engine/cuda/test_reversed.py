"""Every other step of many may run from the last block to the first, with the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulation.machine import EmulatedMachine
from programs import drawn, reference, scheduled
from tile_choices import changed

from halocline_engine.backends.base import Turning
from halocline_engine.backends.cuda.runtime.executable import CudaExecutable

SMOOTH = """
def smooth(u: Field[float64], v: Field[float64]):
    with computation(PARALLEL), interval(...):
        v = u + 0.2 * (u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0] - 4.0 * u)
"""
TWO = """
def two(u: Field[float64], v: Field[float64]):
    with computation(PARALLEL), interval(...):
        v = u
    with computation(FORWARD), interval(1, None):
        v = v[0, 0, -1] + u[0, 1, 0]
"""
HALO, DOMAIN = (1, 1, 0), (21, 14, 3)
#: What a step of a program reads and writes.
BYTES = 21 * 14 * 3 * 8 * 2
#: The number of the first block where blocks run from the last.
LAST = "gridDim.x - 1"


class Device(EmulatedMachine):
    """A machine with a cache of some size."""

    def __init__(self, folder: Path, cache: int) -> None:
        super().__init__(folder)
        self._cache = cache

    @property
    def cache(self) -> int:
        """How many bytes its cache holds."""
        return self._cache


@pytest.mark.parametrize(
    ("text", "cache", "turns"),
    [
        (SMOOTH, BYTES - 1, True),
        (SMOOTH, BYTES, False),
        (SMOOTH, BYTES // 4 - 1, False),
        (TWO, BYTES - 1, False),
    ],
)
def test_every_other_step(
    load: Any, emulation_folder: Path, text: str, cache: int, turns: bool
) -> None:
    schedule = scheduled(text)
    device = Device(emulation_folder / "loaded", cache)
    tiles = changed(block=(4, 2), width=2, rows=2)
    executable: CudaExecutable = load(schedule, device, tiles, cold=True)
    turning: object = executable
    assert isinstance(turning, Turning)
    fields: dict[str, Any] = {
        name: executable.memory.empty((23, 16, 3), np.dtype("float64"), HALO) for name in "uv"
    }
    executable.memory.upload(drawn((23, 16, 3), 1), fields["u"])
    origins = dict.fromkeys(fields, HALO)
    expected = reference(schedule, fields, {}, origins, DOMAIN)
    for run in (executable, executable.turned()):
        fields["v"][...] = np.nan
        run(fields, {}, origins, DOMAIN)
        np.testing.assert_array_equal(fields["v"][1:-1, 1:-1], expected["v"][1:-1, 1:-1])
    assert [LAST in source for source in device.sources] == ([False, True] if turns else [False])
