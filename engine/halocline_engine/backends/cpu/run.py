"""Generated text -> calls: compile for the layout at hand, split over threads, run in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from halocline_engine.backends.base import (
    HostFields,
    Launch,
    Origins,
    Point,
    Scalars,
)
from halocline_engine.backends.cpu.caches import Caches
from halocline_engine.backends.cpu.calls import (
    Kernels,
    Place,
    address_of,
    threads_of_calls,
)
from halocline_engine.backends.cpu.phases import phases
from halocline_engine.backends.cpu.pieces import WorkMaker, across, temporaries_of
from halocline_engine.backends.cpu.temporal.fused import FusedExecutable, StepTiles
from halocline_engine.backends.cpu.work import Places, SpareMemory, Team, Work
from halocline_engine.backends.fusing import FusingExecutable
from halocline_engine.backends.host import HostExecutable
from halocline_engine.schedule.nodes import Schedule

__all__ = ["CpuExecutable"]

#: Calls whose temporaries are kept for later ones, and slabs.
_CALLS, _SLABS = 4, 16


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Calls to be made in turn, again and again, and what their memory belongs to."""

    calls: Sequence[Callable[[], None]]
    kept: tuple[object, ...]

    def __call__(self) -> None:
        for call in self.calls:
            call()


class CpuExecutable(FusingExecutable[FusedExecutable], HostExecutable):
    """`backends.base.Executable` on the host's cores; safe to call from several threads at once.

    A call uses as many threads as `numba.get_num_threads()` says in the thread that calls. The
    caches are those that its work should fit.
    """

    def __init__(self, schedule: Schedule, caches: Caches) -> None:
        self._schedule = schedule
        self._kernels = Kernels(schedule, caches)
        self._phases = tuple(phases(schedule, axis) for axis in (0, 1))
        self._team = Team()
        self._spare, self._spare_slabs = SpareMemory(_CALLS), SpareMemory(_SLABS)
        super().__init__(schedule, StepTiles(self._kernels, self._team))

    def __call__(
        self, fields: HostFields, scalars: Scalars, origins: Origins, domain: Point
    ) -> None:
        """Run once, on the caller's arrays."""
        if 0 not in domain:
            work = self.work(self._kernels.places(fields, origins), domain, threads_of_calls())
            self.run(work, scalars)

    def prepared(
        self, fields: HostFields, scalars: Scalars, origins: Origins, domain: Point
    ) -> Callable[[], None]:
        """Return the call as one that can be made again; see `backends.base.Preparable`."""
        if 0 in domain:
            return _Prepared((), ())
        work = self.work(self._kernels.places(fields, origins), domain, threads_of_calls())
        own = work.temporaries.places()
        calls = work.bound(own, scalars, self._team, self._spare_slabs)
        return _Prepared(calls, (own, tuple(fields.values())))

    def launcher(
        self, fields: HostFields, origins: Origins, domain: Point
    ) -> Callable[[Mapping[str, int]], Launch]:
        """Return calls on arrays that lie like these; see `backends.base.Launching`."""
        here = {name: int(address_of(array)) for name, array in fields.items()}
        relative = {
            name: (place.words[0] - here[name], place.words[1:])
            for name, place in self._kernels.places(fields, origins).items()
        }

        def at(addresses: Mapping[str, int]) -> Launch:
            places = {
                name: Place((addresses[name] + ahead, *strides))
                for name, (ahead, strides) in relative.items()
            }
            return _Located(self, places, domain)

        return at

    def work(self, places: Places, domain: Point, threads: int) -> Work:
        """Return what a call on fields in some places does."""
        call = self._kernels.call(places, domain)
        several = self._phases[across(call.inner)]
        temporaries = temporaries_of(self._schedule, several, call)
        own = self._spare.take(temporaries)
        found = WorkMaker(replace(call, places={**places, **own}), temporaries, threads)
        self._spare.leave(temporaries, own)
        return found.work(several)

    def run(self, work: Work, scalars: Scalars) -> None:
        """Do the work of a call with some values of its scalars."""
        own = self._spare.take(work.temporaries)
        for one in work.bound(own, scalars, self._team, self._spare_slabs):
            one()
        self._spare.leave(work.temporaries, own)

    def machine_code(self) -> tuple[str, ...]:
        """Return the assembly of every kernel compiled so far, for people and tests."""
        return self._kernels.machine_code()


@dataclass(frozen=True, slots=True)
class _Located:
    """Calls on fields in some places, each by as many threads as it says then."""

    executable: CpuExecutable
    places: Places
    domain: Point
    known: dict[int, Work] = field(default_factory=dict[int, Work])

    def __call__(self, scalars: Scalars) -> None:
        threads = threads_of_calls()
        work = self.known.get(threads)
        if work is None:
            work = self.known[threads] = self.executable.work(self.places, self.domain, threads)
        self.executable.run(work, scalars)
