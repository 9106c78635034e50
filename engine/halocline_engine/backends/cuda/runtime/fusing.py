"""Several steps at once on a machine; see `backends.fusing`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from halocline_engine.analysis.boundaries import MadeSides
from halocline_engine.backends.base import Array
from halocline_engine.backends.cuda.kernels.temporal.choose import (
    fits,
    fused_tile,
    gains_of,
    steps_between_fills,
)
from halocline_engine.backends.cuda.kernels.temporal.form import arrays_of_steps
from halocline_engine.backends.cuda.model.speed import Speed
from halocline_engine.backends.cuda.model.tile import Domain
from halocline_engine.backends.cuda.runtime.fused import FusedExecutable
from halocline_engine.backends.cuda.runtime.machine import Machine
from halocline_engine.backends.fusing import AskedSteps, Gains
from halocline_engine.backends.span import disjoint
from halocline_engine.cache import Cache
from halocline_engine.ir.types import Axis
from halocline_engine.schedule.temporal.levels import levels_at_once
from halocline_engine.schedule.temporal.step import Refused, Step

__all__ = ["StepStreams"]


@dataclass(frozen=True, slots=True)
class StepStreams:
    """Makes executables for several steps of a program; see `backends.fusing.MakesSteps`."""

    machine: Machine
    cache: Cache

    @property
    def _speed(self) -> Speed:
        return Speed(*self.machine.speed).known

    def gains(self, step: Step, domain: Domain, ends: MadeSides) -> Gains:
        """Return what the model expects."""
        return gains_of(step, domain, self._speed, ends)

    def between_fills(self, step: Step, domain: Domain, most: int) -> int:
        """Return what the model finds best."""
        return steps_between_fills(step, domain, most, self._speed)

    def may_fuse(self, step: Step, fields: Mapping[str, Array]) -> bool:
        """Whether points of all arrays lie along I, and none that is written shares its memory."""
        spans: list[tuple[int, int]] = []
        written: list[bool] = []
        for name in arrays_of_steps(levels_at_once(step, 1)):
            array, size = fields[name], step.dtypes[name].itemsize
            if Axis.I in step.axes[name] and array.shape[0] > 1 and array.strides[0] != size:
                return False
            start = self.machine.address(array)
            ends = [stride * (n - 1) for stride, n in zip(array.strides, array.shape, strict=True)]
            low, high = sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends)
            spans.append((start + low, start + high + size))
            written.append(name in step.results)
        return disjoint(spans, written)

    def made(self, step: Step, asked: AskedSteps) -> FusedExecutable | Refused:
        """Return what makes such steps at once."""
        levels = levels_at_once(step, asked.steps, asked.ends)
        if not fits(levels):
            return Refused(f"{asked.steps} steps need more registers than a thread has")
        return FusedExecutable(
            levels,
            self.machine,
            self.cache,
            partial(fused_tile, speed=self._speed),
            sides=asked.sides,
            alternate=asked.alternate,
        )
