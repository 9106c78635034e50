from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from emulation.machine import ABSENT, EmulatedMachine, compiler

from halocline_engine.cache import Cache, key_of
from halocline_engine.device.probe import device_count
from halocline_engine.kernels.machine import Library, most_shared
from halocline_engine.kernels.tridiagonal import cpu, reference
from halocline_engine.kernels.tridiagonal.cuda import CudaTridiagonal

#: Everything that solves; CUDA kernels run on the host, and where there is a device, on it.
TARGETS = ("reference", "cpu", "emulated", *("cuda",) * (device_count() > 0))
SHARED = 227 * 1024

Draw = Callable[..., tuple[Any, Any, Any, Any]]


@pytest.fixture(scope="session")
def solvers(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    folder = tmp_path_factory.mktemp("emulated")
    made: dict[str, Any] = {"reference": reference, "cpu": cpu}
    cache = Cache(folder / "compiled")

    def keep(name: tuple[str, str], make: Callable[[], bytes]) -> bytes:
        return cache.get(key_of(*name), make)

    def solver(target: str) -> Any:
        if target.startswith("emulated") and compiler() is None:
            pytest.skip(ABSENT)
        if target not in made:
            if target == "cuda":
                from halocline_engine.device.machine import current_machine

                machine: Any = current_machine()
                shared = most_shared(machine.facts.capability)
            else:
                machine, shared = EmulatedMachine(folder, descending="desc" in target), SHARED
            made[target] = CudaTridiagonal(machine, Library(machine, keep), shared)
        return made[target]

    return solver


@pytest.fixture(params=TARGETS)
def solver(request: pytest.FixtureRequest, solvers: Callable[[str], Any]) -> Any:
    return SimpleNamespace(
        target=request.param,
        **{
            name: getattr(solvers(request.param), name)
            for name in ("solve", "factor", "solve_factored", "solve_pentadiagonal")
        },
    )


@pytest.fixture
def draw() -> Draw:
    """Return lower, diagonal, upper and rhs; what must not be looked at is NaN."""

    def drawn(
        shape: tuple[int, int, int],
        dtype: str = "float64",
        *,
        periodic: bool = False,
        seed: int = 0,
    ) -> tuple[Any, Any, Any, Any]:
        rng = np.random.default_rng(seed)
        lower, upper, rhs = (rng.normal(size=shape).astype(dtype) for _ in range(3))
        diagonal = (np.abs(lower) + np.abs(upper) + rng.uniform(0.5, 2, shape)).astype(dtype)
        diagonal *= rng.choice([-1, 1], shape).astype(dtype)
        if not periodic:
            lower[:, 0] = np.nan
            upper[:, -1] = np.nan
        return lower, diagonal, upper, rhs

    return drawn
