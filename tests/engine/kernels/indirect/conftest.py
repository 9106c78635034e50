from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from emulation.machine import EmulatedMachine

from halocline_engine.kernels.indirect.cuda import Movers
from halocline_engine.kernels.machine import Library


@pytest.fixture(scope="session")
def machines(emulation_folder: Path) -> Callable[[int], Movers]:
    """Return kernels on the host, whose threads a number above 0 mixes up."""
    made: dict[int, Movers] = {}

    def movers(shuffled: int) -> Movers:
        if shuffled not in made:
            machine = EmulatedMachine(emulation_folder / "loaded", shuffled=shuffled)
            made[shuffled] = Movers(Library(machine))
        return made[shuffled]

    return movers
