"""Several steps at once, by the emulation of a device, compared with single ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from emulation.machine import EmulatedMachine
from feedback_steps import Grid

from halocline_engine.backends.cuda.kernels.temporal.tile import FusedTile
from halocline_engine.backends.cuda.runtime.fused import FusedExecutable
from halocline_engine.cache import Cache
from halocline_engine.schedule.temporal.levels import levels_at_once

__all__ = ["Emulated", "assert_steps"]


class Emulated:
    """Executables of fused steps on the host, with threads in some order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def machine(self, order: int = 0) -> EmulatedMachine:
        loaded = self.folder / "loaded"
        return EmulatedMachine(loaded, descending=order == 1, shuffled=order if order > 1 else 0)

    def __call__(
        self, grid: Grid, tile: FusedTile, *, order: int = 0, alternate: bool = False
    ) -> FusedExecutable:
        return FusedExecutable(
            levels_at_once(grid.fed.step(), grid.steps, grid.ends),
            self.machine(order),
            Cache(self.folder / "compiled"),
            lambda _levels, _domain: tile,
            sides=grid.sides,
            alternate=alternate,
        )


def assert_steps(executable: Any, grid: Grid) -> None:
    """Assert that outputs have the bits of single steps on the domain, and are NaN around it."""
    before = {name: array.copy() for name, array in grid.arrays.items()}
    executable(grid.arrays, grid.scalars, grid.origins, grid.domain)
    expected = grid.expected()
    for name, values in expected.items():
        got = grid.inside(grid.arrays, name)
        np.testing.assert_array_equal(got, values, err_msg=name)
        assert np.isnan(grid.arrays[name]).sum() - np.isnan(got).sum() == (
            grid.arrays[name].size - got.size
        )
    for name, array in grid.arrays.items():
        if name not in expected:
            np.testing.assert_array_equal(array, before[name])
