"""Programs that can make several steps at once: what may be fused, and how many steps are best."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from halocline_engine.backends.base import Array, OpenSides
from halocline_engine.backends.cuda.kernels.temporal.choose import Gains, fits, fused_tile, gains_of
from halocline_engine.backends.cuda.kernels.temporal.form import arrays_of_steps
from halocline_engine.backends.cuda.kernels.temporal.launch import CLOSED
from halocline_engine.backends.cuda.kernels.temporal.tile import (
    Chooser,
)
from halocline_engine.backends.cuda.model.tile import Domain
from halocline_engine.backends.cuda.runtime.fused import FusedExecutable
from halocline_engine.backends.cuda.runtime.machine import Machine
from halocline_engine.backends.span import disjoint
from halocline_engine.cache import Cache
from halocline_engine.ir.types import Axis
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.temporal.levels import levels_at_once
from halocline_engine.schedule.temporal.step import Refused, Step, step_of

__all__ = ["FusingExecutable", "StepFuser"]


@dataclass(frozen=True, slots=True)
class _Asked:
    """What fused steps were asked for."""

    steps: int
    feedback: tuple[tuple[str, str], ...]
    sides: OpenSides
    alternate: bool


class StepFuser:
    """Makes executables for several steps of a program, each once."""

    def __init__(self, schedule: Schedule, machine: Machine, cache: Cache) -> None:
        self._schedule = schedule
        self._machine = machine
        self._cache = cache
        self._lock = threading.Lock()
        self._steps: dict[tuple[tuple[str, str], ...], Step | Refused] = {}
        self._known: dict[_Asked, FusedExecutable | Refused] = {}
        self._known_gains: dict[tuple[tuple[tuple[str, str], ...], Domain], Gains] = {}

    def fused(
        self, steps: int, feedback: Mapping[str, str], open_sides: OpenSides
    ) -> FusedExecutable | None:
        """Return what makes so many steps at once, or None."""
        found = self._fused(_asked(steps, feedback, open_sides))
        return None if isinstance(found, Refused) else found

    def fused_in_turns(self, steps: int, feedback: Mapping[str, str]) -> FusedExecutable | None:
        """Return what makes steps whose fed inputs and outputs change places after each of them.

        `steps` is odd, so that they are where they would be after as many single steps. Beyond the
        domain each step finds what the array holds that the input has then.
        """
        if steps % 2 == 0:
            return None
        found = self._fused(_asked(steps, feedback, CLOSED, alternate=True))
        return None if isinstance(found, Refused) else found

    def reason(self, steps: int, feedback: Mapping[str, str], open_sides: OpenSides) -> str:
        """Return why `fused` returns None, or an empty text."""
        found = self._fused(_asked(steps, feedback, open_sides))
        return found.reason if isinstance(found, Refused) else ""

    def gains(
        self,
        feedback: Mapping[str, str],
        domain: Domain,
        fields: Mapping[str, Array] | None = None,
    ) -> Gains:
        """Return what making steps at once should gain, on arrays that lie as `fields` do."""
        pairs = tuple(feedback.items())
        step = self._step(pairs)
        if isinstance(step, Refused) or 0 in domain:
            return Gains({})
        found = self._known_gains.get((pairs, domain))
        if found is None:
            found = self._known_gains[pairs, domain] = gains_of(step, domain)
        if not found.by_steps or self._may_fuse(step, fields or {}):
            return found
        return Gains({})

    def _may_fuse(self, step: Step, fields: Mapping[str, Array]) -> bool:
        """Whether points of all arrays lie along I, and none that is written shares its memory."""
        spans: list[tuple[int, int]] = []
        written: list[bool] = []
        for name in arrays_of_steps(levels_at_once(step, 1)) if fields else ():
            array, size = fields[name], step.dtypes[name].itemsize
            if Axis.I in step.axes[name] and array.shape[0] > 1 and array.strides[0] != size:
                return False
            start = self._machine.address(array)
            ends = [stride * (n - 1) for stride, n in zip(array.strides, array.shape, strict=True)]
            low, high = sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends)
            spans.append((start + low, start + high + size))
            written.append(name in step.results)
        return disjoint(spans, written)

    def _step(self, pairs: tuple[tuple[str, str], ...]) -> Step | Refused:
        found = self._steps.get(pairs)
        if found is None:
            schedule = self._schedule
            found = step_of(schedule.program, schedule.facts, dict(pairs))
            self._steps[pairs] = found
        return found

    def _fused(self, asked: _Asked) -> FusedExecutable | Refused:
        with self._lock:
            found = self._known.get(asked)
            if found is None:
                found = self._known[asked] = self._made(asked, fused_tile)
            return found

    def _made(self, asked: _Asked, choose: Chooser) -> FusedExecutable | Refused:
        step = self._step(asked.feedback)
        if isinstance(step, Refused):
            return step
        if asked.steps < 1:
            return Refused("there is no step to make")
        if any(asked.sides[2]):
            return Refused("K is open")
        levels = levels_at_once(step, asked.steps)
        if not fits(levels):
            return Refused(f"{asked.steps} steps need more registers than a thread has")
        return FusedExecutable(
            levels,
            self._machine,
            self._cache,
            choose,
            sides=asked.sides,
            alternate=asked.alternate,
        )


def _asked(
    steps: int, feedback: Mapping[str, str], sides: OpenSides, *, alternate: bool = False
) -> _Asked:
    return _Asked(steps, tuple(feedback.items()), sides, alternate)


class FusingExecutable:
    """An executable that can make several steps at once; see `backends.base.Fusing`."""

    def __init__(self, fuser: StepFuser) -> None:
        self._fuser = fuser

    def fused(
        self, steps: int, feedback: Mapping[str, str], open_sides: OpenSides
    ) -> FusedExecutable | None:
        """Return what makes so many steps at once, or None."""
        return self._fuser.fused(steps, feedback, open_sides)

    def fusing_reason(self, steps: int, feedback: Mapping[str, str], open_sides: OpenSides) -> str:
        """Return why `fused` returns None, or an empty text."""
        return self._fuser.reason(steps, feedback, open_sides)

    def fused_steps(
        self,
        feedback: Mapping[str, str],
        domain: tuple[int, int, int],
        fields: Mapping[str, Array] | None = None,
    ) -> int:
        """Return how many steps at once should be the fastest."""
        gains = self._fuser.gains(feedback, domain, fields)
        return gains.best(range(1, 1 + gains.most))

    def fused_in_turns(self, steps: int, feedback: Mapping[str, str]) -> FusedExecutable | None:
        """Return what makes steps whose arrays change places; see `backends.base.FusingInTurns`."""
        return self._fuser.fused_in_turns(steps, feedback)

    def fused_steps_in_turns(
        self,
        feedback: Mapping[str, str],
        domain: tuple[int, int, int],
        fields: Mapping[str, Array],
    ) -> int:
        """Return how many steps at once should be the fastest for `fused_in_turns`."""
        gains = self._fuser.gains(feedback, domain, fields)
        return gains.best(range(1, 1 + gains.most, 2))
