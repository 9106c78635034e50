"""An executable that uses what was measured about its program, and may measure it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from halocline_engine.backends.base import Array, Fields, Launcher, Origins, Point, Scalars
from halocline_engine.backends.cuda.autotune.choice import Choice, choice_from
from halocline_engine.backends.cuda.autotune.scratch import scratch_fields
from halocline_engine.backends.cuda.autotune.trial import Prospect
from halocline_engine.backends.cuda.autotune.tuner import Attempt, Tuner
from halocline_engine.backends.cuda.model.views import View
from halocline_engine.backends.cuda.runtime.calls import CallKind, Prepared
from halocline_engine.backends.cuda.runtime.executable import CudaExecutable
from halocline_engine.backends.cuda.runtime.machine import Machine
from halocline_engine.backends.targets import DEVICE_TARGET, TARGETS
from halocline_engine.cache import Cache
from halocline_engine.errors import DeviceError
from halocline_engine.schedule.plan import plan
from halocline_engine.schedule.tune import Tuning

__all__ = ["TunedExecutable"]

_LOG = logging.getLogger(__name__)


class TunedExecutable(CudaExecutable):
    """A program that runs as its tuner knows best; results are the same bits however it runs."""

    def __init__(self, tuner: Tuner, machine: Machine, cache: Cache) -> None:
        super().__init__(tuner.schedule, machine, cache)
        self._tuner = tuner
        self._settled: set[CallKind] = set()
        self._elsewhere: dict[tuple[Choice, str], CudaExecutable] = {}
        self._repeating = 0

    def __call__(self, fields: Fields, scalars: Scalars, origins: Origins, domain: Point) -> None:
        """Queue the program; where that is asked for and it is time, find out first how."""
        if self._tuner.mode == "measure" and not self._repeating and 0 not in domain:
            views, kind = self._lying(fields, origins, domain)
            if kind not in self._settled:
                attempt = self._attempt(kind, views, fields, scalars, origins, domain)
                if self._tuner.attend(attempt):
                    self._settled.add(kind)
                    self.forget()
        super().__call__(fields, scalars, origins, domain)

    def prepared(
        self, fields: Fields, scalars: Scalars, origins: Origins, domain: Point
    ) -> Callable[[], None]:
        """Return a call that only launches, where nothing is to be found out before one."""
        if self._tuner.mode == "measure":
            return partial(self, fields, scalars, origins, domain)
        return super().prepared(fields, scalars, origins, domain)

    def launcher(self, fields: Fields, origins: Origins, domain: Point) -> Launcher | None:
        """Return calls on arrays that lie like these, where none of them is to be measured."""
        if self._tuner.mode == "measure":
            return None
        return super().launcher(fields, origins, domain)

    def repeat(
        self, work: Callable[[], None], times: int, look: Callable[[], None] | None = None
    ) -> None:
        """Do again what `work` queues; nothing is measured meanwhile."""
        with self._lock:
            self._repeating += 1
        try:
            super().repeat(work, times, look)
        finally:
            with self._lock:
                self._repeating -= 1

    def tune(
        self, fields: Fields, scalars: Scalars, origins: Origins, domain: Point, seconds: float
    ) -> Tuning | None:
        """Measure for calls like this one; see `backends.base.Tunable`."""
        if 0 in domain:
            return None
        views, kind = self._lying(fields, origins, domain)
        attempt = self._attempt(kind, views, fields, scalars, origins, domain)
        found = self._tuner.tune(attempt, seconds)
        self.forget()
        return found

    def _new(self, kind: CallKind) -> Prepared | CudaExecutable:
        """Prepare a kind of call as it was tuned, or in the usual way."""
        tuning = self._tuner.known(kind.variant, kind.domain)
        if tuning is None:
            return super()._new(kind)
        choice = choice_from(tuning.options)
        reason = f"as measured on {tuning.date}, {tuning.gain:.2f} times as fast as unmeasured"
        if choice.temporaries != "auto":
            reason = f"with temporaries in '{choice.temporaries}', {reason}"
            # It stays when calls are prepared anew, as graphs may have recorded some of it.
            if (choice, reason) not in self._elsewhere:
                self._elsewhere[choice, reason] = self._chosen(choice, reason)
            return self._elsewhere[choice, reason]
        if choice == Choice():
            reason = f"by the cost model, the best of {len(tuning.measured)} on {tuning.date}"
        try:
            return self._made(kind, choice.tile_for, reason)
        except DeviceError as error:
            _LOG.warning("Tiles that were measured before do not compile now: %s", error)
            return super()._new(kind)

    def _attempt(
        self,
        kind: CallKind,
        views: Mapping[str, View],
        fields: Fields,
        scalars: Scalars,
        origins: Origins,
        domain: Point,
    ) -> Attempt:
        own = [field for field in self._schedule.program.fields if field.name in fields]
        written = [field.name for field in own if field.written]
        read = [field.name for field in own if field.read]
        scratch: dict[str, Array] = {}

        def timed(prospect: Prospect) -> float:
            if not scratch:
                scratch.update(scratch_fields(self._machine, fields, written, read))
            return self._tuner.device.seconds_of(
                lambda: prospect(scratch, scalars, origins, domain)
            )

        return Attempt(kind.variant, kind.domain, views, self._chosen, timed)

    def _chosen(self, choice: Choice, reason: str = "to be measured") -> CudaExecutable:
        """Return the same program, run as a choice says."""
        schedule = self._schedule
        if choice.temporaries != "auto":
            options = TARGETS[DEVICE_TARGET].options(choice.temporaries)
            schedule = plan(schedule.program, schedule.facts, options)
        return CudaExecutable(schedule, self._machine, self._cache, choice.tile_for, reason)
