from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from emulation.machine import EmulatedMachine

from halocline_engine.backends.cuda.kernels.choose import TileFor, tile_for
from halocline_engine.backends.cuda.runtime.executable import CudaExecutable
from halocline_engine.cache import Cache
from halocline_engine.schedule.nodes import Schedule

Loader = Callable[..., CudaExecutable]


@pytest.fixture
def machine(emulation_folder: Path) -> EmulatedMachine:
    return EmulatedMachine(emulation_folder / "loaded")


@pytest.fixture
def load(machine: EmulatedMachine, emulation_folder: Path, tmp_path: Path) -> Loader:
    """Return an executable of a schedule on the emulated machine, by default the fixture's.

    Where `cold`, nothing was compiled before, so that the machine sees every source.
    """

    def loaded(
        schedule: Schedule,
        on: EmulatedMachine = machine,
        tiles: TileFor = tile_for,
        *,
        cold: bool = False,
    ) -> CudaExecutable:
        folder = tmp_path if cold else emulation_folder / "compiled"
        return CudaExecutable(schedule, on, Cache(folder), tiles)

    return loaded
