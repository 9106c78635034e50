from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from emulation.machine import ABSENT, EmulatedMachine, compiler

from halocline_engine.cache import Cache, key_of
from halocline_engine.device.probe import device_count
from halocline_engine.kernels.machine import Library, most_shared
from halocline_engine.kernels.tree.cuda import CudaTree

#: CUDA kernels run on the host, and where there is a device, on it.
MACHINES = ("emulated", "emulated-descending", *("cuda",) * (device_count() > 0))


@pytest.fixture(scope="session")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("emulated")


@pytest.fixture(params=MACHINES)
def device(request: pytest.FixtureRequest, emulated: Path) -> CudaTree:
    """Return the CUDA kernels."""
    machine: Any
    if request.param == "cuda":
        from halocline_engine.device.machine import current_machine

        machine = current_machine()
        facts = machine.facts
        shared = most_shared(facts.capability)
        return CudaTree(machine, Library(machine), shared, facts.multiprocessors)
    if compiler() is None:
        pytest.skip(ABSENT)
    machine = EmulatedMachine(emulated, descending="descending" in request.param)
    cache = Cache(emulated / "compiled")

    def keep(name: tuple[str, str], make: Callable[[], bytes]) -> bytes:
        return cache.get(key_of(*name), make)

    return CudaTree(machine, Library(machine, keep), 227 * 1024, 2)
