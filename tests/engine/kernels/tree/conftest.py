from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lockstep import ABSENT, LockstepMachine, compiler

from halocline_engine.device.probe import device_count
from halocline_engine.kernels.machine import Library, most_shared
from halocline_engine.kernels.tree.cuda import CudaTree

#: CUDA kernels run on the host, and where there is a device, on it.
MACHINES = ("emulated", "emulated-descending", *("cuda",) * (device_count() > 0))


@pytest.fixture(scope="session")
def lockstep_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lockstep")


@pytest.fixture(params=MACHINES)
def device(request: pytest.FixtureRequest, lockstep_folder: Path) -> CudaTree:
    """Return the CUDA kernels."""
    machine: Any
    if request.param == "cuda":
        from halocline_engine.device.machine import current_machine

        machine = current_machine()
        return CudaTree(machine, Library(machine), most_shared(machine.facts.capability))
    if compiler() is None:
        pytest.skip(ABSENT)
    machine = LockstepMachine(lockstep_folder, descending="descending" in request.param)
    return CudaTree(machine, Library(machine), 227 * 1024)
