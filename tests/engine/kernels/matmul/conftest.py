from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from emulation.machine import EmulatedMachine
from matmul_kernels.cuda import Multipliers

from halocline_engine.kernels.machine import Library


@pytest.fixture(scope="session")
def multipliers(emulation_folder: Path) -> Callable[[int, int], Multipliers]:
    """Return kernels on the host, whose threads a number above 0 mixes up, and multiprocessors."""
    made: dict[int, Library] = {}

    def of(shuffled: int, multiprocessors: int) -> Multipliers:
        if shuffled not in made:
            machine = EmulatedMachine(emulation_folder / "loaded", shuffled=shuffled)
            made[shuffled] = Library(machine)
        return Multipliers(made[shuffled], multiprocessors)

    return of
