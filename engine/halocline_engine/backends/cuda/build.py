"""Artifacts of schedules: code for CUDA devices, with nothing alive inside."""

from __future__ import annotations

from dataclasses import dataclass, replace

from halocline_engine.backends.base import TuneMode
from halocline_engine.backends.cuda.autotune.executable import TunedExecutable
from halocline_engine.backends.cuda.autotune.store import Tunings
from halocline_engine.backends.cuda.autotune.tuner import Device, Tuner
from halocline_engine.backends.cuda.emit import emit
from halocline_engine.backends.cuda.kernels.choose import tiles_of
from halocline_engine.backends.cuda.model.tile import Domain
from halocline_engine.backends.cuda.model.views import usual_variant
from halocline_engine.backends.cuda.show import block_order_lines
from halocline_engine.cache import Cache, code_folder
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.tune_cost import Chip

__all__ = ["CudaArtifact", "CudaBackend"]

#: The domain for which the text of an artifact is shown: a large one.
_USUAL: Domain = (1024, 1024, 128)


@dataclass(frozen=True, slots=True)
class CudaArtifact:
    """A schedule, whose code is generated when strides are known, which is when it is called.

    `tune` says whether it uses tiles that were measured, or measures some, for so many `seconds`
    at most; see `tuner`.
    """

    schedule: Schedule
    tune: TuneMode = "cached"
    seconds: float = 20.0

    @property
    def source(self) -> str:
        """The code for a large domain and arrays as the target's own memory makes them."""
        usual = usual_variant(self.schedule)
        return emit(self.schedule, usual, tiles_of(self.schedule, usual, _USUAL))

    def load(self) -> TunedExecutable:
        """Make it run on the current CUDA device.

        Raises `DeviceError` where there is no such device, or no CuPy.
        """
        from halocline_engine.device.launch.stopwatch import seconds_of
        from halocline_engine.device.machine import current_machine

        machine = current_machine()
        device = Device(machine.facts.name, Chip(machine.facts.multiprocessors), seconds_of)
        tunings = Tunings(code_folder("cuda") / "tunings")
        tuner = Tuner(self.schedule, device, tunings, self.tune, self.seconds)
        return TunedExecutable(tuner, machine, Cache(code_folder("cuda")))

    @property
    def tuning(self) -> tuple[TuneMode, float]:
        """Its mode and seconds; see `backends.base.Adjustable`."""
        return self.tune, self.seconds

    def tuned(self, mode: TuneMode, seconds: float) -> CudaArtifact:
        """Return the artifact with another mode; see `backends.base.Adjustable`."""
        return replace(self, tune=mode, seconds=seconds)

    def tilings(self) -> tuple[str, ...]:
        """Return how kernels will be cut; see `backends.base.Adjustable`."""
        ways = {
            "off": "by the cost model",
            "cached": "as measured before, or else by the cost model",
            "measure": "as measured, which begins with the first call",
        }
        return (f"tiles are chosen when it is called, {ways[self.tune]}",)

    def walks(self) -> tuple[str, ...]:
        """Return how blocks go through a large domain; see `backends.base.Drawable`."""
        return tuple(block_order_lines(self.schedule))


@dataclass(frozen=True, slots=True)
class CudaBackend:
    """The target 'cuda'."""

    def build(self, schedule: Schedule) -> CudaArtifact:
        """Return the artifact of the schedule; needs no device."""
        return CudaArtifact(schedule)
