"""Properties of targets that are known without their libraries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from halocline_engine.schedule.options import Options, Temporaries

__all__ = ["DEVICE_TARGET", "HOST_TARGET", "TARGETS", "Target"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A target, and what the parts that are of no backend ask of it.

    Attributes
    ----------
    backend
        Where its backend is: "module:class".
    on_device
        Whether its arrays lie in the memory of a device, to and from which they are copied.
    compiles
        Whether it compiles programs, whose temporaries are then those of the schedule. One that
        does not makes an array for each temporary and for parts of expressions.
    cell_cost
        Time of a step of one field, in nanoseconds per cell, roughly.
    memory_rate
        Bytes that a core, or a device, moves to and from its memory each second, roughly.
    most_memory_rate
        The same of all cores of a machine, at most.
    step_cost
        Seconds that a step of a block takes beside its cells.
    unseen
        Seconds that a pass in memory may take without showing progress.
    recompute_limit
        What a temporary in memory is worth, in additions of a point, see `schedule.options`.

    """

    backend: str
    on_device: bool = False
    compiles: bool = True
    cell_cost: float
    memory_rate: float
    most_memory_rate: float
    step_cost: float
    unseen: float = 0.5
    recompute_limit: int = 64

    def options(self, temporaries: Temporaries = "auto") -> Options:
        """Return the options of schedules for this target."""
        return Options(recompute_limit=self.recompute_limit, temporaries=temporaries)


HOST_TARGET, DEVICE_TARGET = "cpu", "cuda"

#: The targets by their names, which the user gives.
TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        HOST_TARGET: Target(
            backend="halocline_engine.backends.cpu.build:CpuBackend",
            cell_cost=4.0,
            memory_rate=5e9,
            most_memory_rate=2e11,
            step_cost=2e-5,
        ),
        # Steps that a device repeats take a twentieth of a pass that shows progress, or less.
        DEVICE_TARGET: Target(
            backend="halocline_engine.backends.cuda.build:CudaBackend",
            on_device=True,
            cell_cost=0.1,
            memory_rate=2.5e12,
            most_memory_rate=2.5e12,
            step_cost=5e-6,
            unseen=10.0,
            recompute_limit=96,
        ),
        "reference": Target(
            backend="halocline_engine.backends.reference.build:ReferenceBackend",
            compiles=False,
            cell_cost=40.0,
            memory_rate=1e9,
            most_memory_rate=1e9,
            step_cost=2e-4,
        ),
    }
)
