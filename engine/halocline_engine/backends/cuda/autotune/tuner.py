"""Fastest way to run one program on one device, as known or measured.

In the mode "cached", what was measured before is looked up when a kind of call comes first: one
small file. In the mode "measure", a kind of which nothing is known runs as usual while candidates
are compiled beside it, and a later call times them before it goes on; see `trial`. There is one
trial of a kind in a process. It takes `seconds` at most, and what it finds is kept on disk, also
that the usual way is best.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from halocline_engine.backends.base import TuneMode
from halocline_engine.backends.cuda.autotune.candidates import candidates, counts_levels
from halocline_engine.backends.cuda.autotune.choice import Choice
from halocline_engine.backends.cuda.autotune.store import Tunings
from halocline_engine.backends.cuda.autotune.trial import Prospect, Trial
from halocline_engine.backends.cuda.model.entries import Variant
from halocline_engine.backends.cuda.model.tile import Domain
from halocline_engine.backends.cuda.model.views import View
from halocline_engine.cache import key_of
from halocline_engine.errors import ArgumentError, CapacityError, HaloclineError
from halocline_engine.ir.show import show
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.tune import Candidate, Measured, Subject, Tuning, choose, shape_class
from halocline_engine.schedule.tune_cost import Chip
from halocline_engine.version import halocline_version

__all__ = ["Attempt", "Device", "Tuner"]

_LOG = logging.getLogger(__name__)
#: The share of a trial's time that compiling may take.
_COMPILING = 0.8


@dataclass(frozen=True, slots=True)
class Device:
    """Properties of a device that tuning needs: name, size, and the seconds of a call."""

    name: str
    chip: Chip
    seconds_of: Callable[[Callable[[], None]], float]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A call for which something better may be found.

    `make` makes a program run as a choice says, and `timed` returns the seconds that it takes, on
    arrays where nothing of the caller's is written.
    """

    variant: Variant
    domain: Domain
    views: Mapping[str, View]
    make: Callable[[Choice], Prospect]
    timed: Callable[[Prospect], float]


@dataclass(slots=True)
class _Begun:
    trial: Trial
    at: float
    over: bool = False


@dataclass(slots=True)
class Tuner:
    """Tunings of one schedule; several threads may ask."""

    schedule: Schedule
    device: Device
    tunings: Tunings
    mode: TuneMode = "cached"
    seconds: float = 20.0
    now: Callable[[], float] = time.monotonic
    _program: str = field(init=False)
    _known: dict[Subject, Tuning] = field(init=False, default_factory=dict[Subject, Tuning])
    _begun: dict[Subject, _Begun] = field(init=False, default_factory=dict[Subject, _Begun])
    _lock: threading.RLock = field(init=False, default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self._program = key_of(show(self.schedule.program), halocline_version())

    def subject(self, variant: Variant, domain: Domain) -> Subject:
        """Return what a measurement of calls like this one is good for."""
        program = self.schedule.program
        dtypes = sorted({str(f.dtype.value) for f in program.fields if f.read or f.written})
        kinds = ["-".join(map(str, kind)) for kind in variant.kinds]
        looks = [
            f"{kinds[number]}{' aligned' if aligned else ''}"
            for number, aligned in zip(variant.arrays, variant.aligned, strict=True)
        ]
        return Subject(
            device=self.device.name,
            program=self._program,
            shape=shape_class(domain, exact_levels=counts_levels(self.schedule, variant)),
            dtypes=" ".join(dtypes),
            layout=f"{', '.join(looks)}{'; wide' if variant.wide else ''}",
        )

    def known(self, variant: Variant, domain: Domain) -> Tuning | None:
        """Return what was measured for calls like this one, here or by another process."""
        if self.mode == "off" or not variant.disjoint:
            return None
        subject = self.subject(variant, domain)
        with self._lock:
            if subject not in self._known:
                found = self.tunings.load(subject)
                if found is None:
                    return None
                self._known[subject] = found
            return self._known[subject]

    def attend(self, attempt: Attempt) -> bool:
        """Begin a trial for a kind of call, or end it if it is time; return whether it is settled.

        Then nothing is left to find out, and `known` says what was found.
        """
        if not attempt.variant.disjoint or self.known(attempt.variant, attempt.domain) is not None:
            return True
        subject = self.subject(attempt.variant, attempt.domain)
        with self._lock:
            begun = self._begun.get(subject)
            if begun is None:
                self._begun[subject] = self._begin(attempt)
                return False
            late = self.now() >= begun.at + _COMPILING * self.seconds
            if begun.over or not (begun.trial.complete or late):
                return begun.over
            begun.over = True
            try:
                self._end(subject, begun, attempt, self.seconds)
            except HaloclineError as error:
                _LOG.warning("A program was not tuned: %s", error)
            return True

    def tune(self, attempt: Attempt, seconds: float) -> Tuning | None:
        """Find out now what is best, whatever is known; None where nothing can be found."""
        if self.mode == "off":
            raise ArgumentError(
                "The stencil was made with tune='off', so measurements would have no effect.",
                hint="Leave 'tune' out, or use tune='cached'.",
            )
        if not attempt.variant.disjoint:
            return None
        begun = self._begin(attempt)
        begun.trial.wait(_COMPILING * seconds)
        with self._lock:
            subject = self.subject(attempt.variant, attempt.domain)
            return self._end(subject, begun, attempt, seconds)

    def _begin(self, attempt: Attempt) -> _Begun:
        def draw() -> Sequence[Candidate]:
            chip = self.device.chip
            return candidates(self.schedule, attempt.variant, attempt.domain, chip)

        trial = Trial(draw, attempt.make, attempt.views, attempt.domain)
        trial.begin()
        return _Begun(trial, self.now())

    def _end(
        self, subject: Subject, begun: _Begun, attempt: Attempt, seconds: float
    ) -> Tuning | None:
        """Measure what is compiled, and keep what was found."""
        start = self.now()
        until = max(begun.at + seconds, start + (1 - _COMPILING) * seconds)
        try:
            results = begun.trial.results(attempt.timed, self.now, until)
        except CapacityError as error:
            _LOG.warning("A program was not tuned, as its arrays leave no memory: %s", error)
            return None
        if not results:
            return None
        tuning = _tuning(subject, results, self.now() - begun.at)
        self._known[subject] = tuning
        self.tunings.store(tuning)
        return tuning


def _tuning(subject: Subject, results: tuple[Measured, ...], took: float) -> Tuning:
    best = choose(results)
    default = results[0].seconds or 0.0
    return Tuning(
        subject=subject,
        options=best.options,
        label=best.label,
        default=default,
        chosen=best.seconds or default,
        measured=results,
        took=took,
        date=datetime.now(UTC).date().isoformat(),
    )
