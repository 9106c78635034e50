from __future__ import annotations

from typing import Any

import pytest

from halocline_engine.device.machine import CudaMachine, current_machine
from halocline_engine.device.probe import device_count


@pytest.fixture(scope="session")
def machine() -> CudaMachine:
    if device_count() == 0:
        pytest.skip("there is no CUDA device here")
    return current_machine()


@pytest.fixture(scope="session")
def cupy(machine: CudaMachine) -> Any:
    from halocline_engine.device import cupy_types

    return cupy_types.cupy()
