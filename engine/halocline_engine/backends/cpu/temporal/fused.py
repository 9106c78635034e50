"""Execution of several steps of a feedback, tile by tile, by the kernels of one step.

A tile's values go back and forth between two arrays of its thread for each fed field, which stay in
the cache of a core; the first step reads the caller's arrays, and the last one writes them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import cast

import numpy as np

from halocline_engine.analysis.boundaries import Kind, MadeSides
from halocline_engine.backends.base import Array, HostArray, Value
from halocline_engine.backends.cpu.calls import (
    FIRST_ARRAY,
    Box,
    Call,
    Domain,
    Kernels,
    array_along,
    buffer_place,
    cut_of,
    flat,
    sizes_of,
    threads_of_calls,
    widened,
    words_of,
)
from halocline_engine.backends.cpu.code import Compiled
from halocline_engine.backends.cpu.temporal.choose import gains_of, points_of_tile
from halocline_engine.backends.cpu.temporal.tiles import Tiling, shape_of
from halocline_engine.backends.cpu.work import Team, taken
from halocline_engine.backends.fusing import AskedSteps, Gains
from halocline_engine.backends.ghosts import Framed, Rule, Side, copies
from halocline_engine.backends.host import HostExecutable
from halocline_engine.backends.span import Span, disjoint
from halocline_engine.errors import FieldError
from halocline_engine.ir.types import Axis
from halocline_engine.schedule.storage.temporaries import kernels_of
from halocline_engine.schedule.temporal.ghosts import wider
from halocline_engine.schedule.temporal.step import Refused, Step

__all__ = ["FusedExecutable", "StepTiles"]

_Origins = Mapping[str, tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class StepTiles:
    """Makes executables for several steps of a program; see `backends.fusing.MakesSteps`."""

    kernels: Kernels
    team: Team

    def gains(self, step: Step, domain: Domain, ends: MadeSides) -> Gains:
        """Return what the model expects."""
        reach = wider(ends, step.reach)
        return gains_of(step, domain, self.kernels.caches, _between(self.kernels), reach)

    def between_fills(self, step: Step, domain: Domain, most: int) -> int:
        """Return 1: copies take a core little beside a step."""
        del step, domain, most
        return 1

    def may_fuse(self, step: Step, fields: Mapping[str, Array]) -> bool:
        """Whether none of the arrays that are written shares its memory."""
        return _are_apart(step, fields)

    def made(self, step: Step, asked: AskedSteps) -> FusedExecutable | Refused:
        """Return what makes such steps at once."""
        return FusedExecutable(self.kernels, self.team, step, asked)


class FusedExecutable(HostExecutable):
    """Several steps of a program in one pass through memory; see `backends.fusing`."""

    def __init__(self, kernels: Kernels, team: Team, step: Step, asked: AskedSteps) -> None:
        self._kernels = kernels
        self._team = team
        self._step = step
        self._asked = asked

    def __call__(
        self,
        fields: Mapping[str, HostArray],
        scalars: Mapping[str, Value],
        origins: _Origins,
        domain: Domain,
    ) -> None:
        """Make all steps; `domain` is that of the last one."""
        self.prepared(fields, scalars, origins, domain)()

    def prepared(
        self,
        fields: Mapping[str, HostArray],
        scalars: Mapping[str, Value],
        origins: _Origins,
        domain: Domain,
    ) -> Callable[[], None]:
        """Return a call that can be made again; see `backends.base.Preparable`."""
        if 0 in domain:
            return _nothing
        if not _are_apart(self._step, fields):
            raise FieldError(
                "A field that several steps at once write shares memory with another field.",
                hint="Pass arrays of their own.",
            )
        step, steps = self._step, self._asked.steps
        inner = self._kernels.call(self._kernels.places(fields, origins), domain).inner
        points = points_of_tile(step, self._kernels.caches, _between(self._kernels))
        reach, ends = wider(self._asked.ends, step.reach), self._asked.ends
        shape = shape_of(domain, reach, steps, points, list(Axis).index(inner))
        tiling = Tiling(domain, self._asked.sides, step.reach, steps, shape, ends)
        job = _Job(self._kernels, step, self._asked, tiling, inner, fields, scalars, origins)
        return _Pass(job, self._team, threads_of_calls())


@dataclass(frozen=True, slots=True)
class _Moving:
    """A call of a kernel: its arguments, and those that move with the tile, with their strides."""

    compiled: Compiled
    words: list[Value]
    moving: tuple[tuple[int, tuple[int, int, int]], ...]


@dataclass(frozen=True, slots=True)
class _Likeness:
    """What is done for all tiles of a kind: values to copy from a field first, and the steps.

    A step has calls, and what fills ghosts of what they made. `tile` is the one that it was made
    for.
    """

    tile: Box
    copies: tuple[tuple[HostArray, str, Box], ...]
    steps: tuple[tuple[tuple[_Moving, ...], tuple[Callable[[], None], ...]], ...]


@dataclass(frozen=True)
class _Job:
    """All that is known of a call."""

    kernels: Kernels
    step: Step
    asked: AskedSteps
    tiling: Tiling
    inner: Axis
    fields: Mapping[str, HostArray]
    scalars: Mapping[str, Value]
    origins: _Origins

    @cached_property
    def tiles(self) -> list[Box]:
        """All tiles."""
        return list(self.tiling.tiles())

    @cached_property
    def room(self) -> Domain:
        """The size of the largest tile with all that it has to do with."""
        return cast(
            "Domain",
            tuple(
                width + self.tiling.steps * (high - low)
                for width, (low, high) in zip(self.tiling.shape, self.tiling.reach, strict=True)
            ),
        )

    def part(self, name: str, box: Box) -> HostArray:
        """Return the points of a box in one of the caller's arrays."""
        origin, axes = self.origins[name], self.step.axes[name]
        places = (
            slice(at + start, at + stop) if axis in axes else slice(None)
            for axis, at, (start, stop) in zip(Axis, origin, box, strict=True)
        )
        return self.fields[name][tuple(places)]


@dataclass(frozen=True)
class _Pass:
    """A pass over all tiles, each by the thread that comes first."""

    job: _Job
    team: Team
    threads: int
    workers: deque[_Worker] = field(default_factory=deque["_Worker"])

    def __call__(self) -> None:
        left = deque(self.job.tiles)

        def some() -> None:
            try:
                worker = self.workers.pop()
            except IndexError:
                worker = _Worker(self.job)
            for tile in taken(left):
                worker.make(tile)
            self.workers.append(worker)

        self.team.share(some, min(self.threads, len(left)))


class _Worker:
    """A thread's own arrays, and what it does for each kind of tile."""

    def __init__(self, job: _Job) -> None:
        self._job = job
        self._likenesses: dict[object, _Likeness] = {}
        outputs = job.step.results
        self._turns = [
            {name: self._own(name) for name in outputs} for _ in range(min(2, job.asked.steps - 1))
        ]
        self._buffers = {
            one.name: buffer_place(one, job.inner, job.room) for one in job.kernels.schedule.buffers
        }

    def make(self, tile: Box) -> None:
        """Make all steps of a tile."""
        place = self._job.tiling.place(tile)
        found = self._likenesses.get(place)
        if found is None:
            found = self._likenesses[place] = self._likeness(tile)
        by = [start - first for (start, _), (first, _) in zip(tile, found.tile, strict=True)]
        for into, name, box in found.copies:
            moved = tuple(
                (start + more, stop + more) for (start, stop), more in zip(box, by, strict=True)
            )
            into[...] = self._job.part(name, cast("Box", moved))
        for calls, fills in found.steps:
            for call in calls:
                words = call.words
                if call.moving:
                    words = list(words)
                    for at, (i, j, k) in call.moving:
                        words[at] += by[0] * i + by[1] * j + by[2] * k
                call.compiled(*words)
            for fill in fills:
                fill()

    def _own(self, name: str) -> HostArray:
        dtype = np.dtype(self._job.step.dtypes[name].value)
        halo = cast(
            "Domain", tuple(-self._job.tiling.steps * low for low, _ in self._job.tiling.reach)
        )
        return array_along(self._job.inner, self._job.room, dtype, halo)

    def _likeness(self, tile: Box) -> _Likeness:
        steps = [
            (tuple(self._calls(tile, step)), tuple(self._fills(tile, step)))
            for step in range(self._job.asked.steps)
        ]
        return _Likeness(tile, tuple(self._copies(tile)), tuple(steps))

    def _fills(self, tile: Box, number: int) -> Iterator[Callable[[], None]]:
        """Yield what makes the ghosts of what a step made, which the next one reads."""
        job = self._job
        if number == job.asked.steps - 1:
            return
        corner = [start for start, _ in job.tiling.room(tile)]
        i, j, k = ((_side(low), _side(high)) for low, high in job.asked.ends)
        for old, new in job.step.feedback.items():
            boxes = (
                job.tiling.ghosts(tile, job.step.extents[old]) if old in job.step.extents else None
            )
            if boxes is None:
                continue
            whole, data = boxes
            there = tuple(
                slice(start - at, stop - at)
                for (start, stop), at in zip(whole, corner, strict=True)
            )
            inside = cast(
                "Box",
                tuple(
                    (start - at, stop - at)
                    for (start, stop), (at, _) in zip(data, whole, strict=True)
                ),
            )
            yield from copies(Framed(self._turns[number % 2][new][there], inside), (i, j, k))

    def _copies(self, tile: Box) -> Iterator[tuple[HostArray, str, Box]]:
        """Yield what fed fields hold beyond the domain, which every step finds there."""
        job = self._job
        corner = [start for start, _ in job.tiling.room(tile)]
        for turn, arrays in enumerate(self._turns):
            for old, new in job.step.feedback.items():
                if old not in job.step.extents:
                    continue
                source = new if job.asked.alternate and turn == 0 else old
                for box in job.tiling.beyond(tile, job.step.extents[old]):
                    there = tuple(
                        slice(start - first, stop - first)
                        for (start, stop), first in zip(box, corner, strict=True)
                    )
                    yield arrays[new][there], source, box

    def _calls(self, tile: Box, number: int) -> Iterator[_Moving]:
        """Yield the kernels of a step with their arguments."""
        job, step = self._job, self._job.step
        box = job.tiling.box(tile, number)
        own: dict[str, HostArray] = {}
        if number:
            made = self._turns[(number - 1) % 2]
            own |= {old: made[new] for old, new in step.feedback.items()}
        if number < job.asked.steps - 1:
            own |= self._turns[number % 2]
        corner = [start for start, _ in job.tiling.room(tile)]
        starts = [start for start, _ in box]
        inside = cast("Domain", tuple(a - b for a, b in zip(starts, corner, strict=True)))
        origins = {
            name: cast(
                "Domain",
                tuple(
                    at + start if axis in step.axes[name] else 0
                    for axis, at, start in zip(Axis, origin, starts, strict=True)
                ),
            )
            for name, origin in job.origins.items()
        }
        origins |= dict.fromkeys(own, inside)
        places = job.kernels.places({**job.fields, **own}, origins)
        call = job.kernels.call(places, sizes_of(box))
        yield from _noted(replace(call, places={**call.places, **self._buffers}), job, own)


def _noted(call: Call, job: _Job, own: Mapping[str, HostArray]) -> Iterator[_Moving]:
    """Yield the kernels of a call; arrays of the caller move with the tile."""
    schedule = job.kernels.schedule
    fields = {one.name for one in schedule.program.fields}
    for kernel, entry in zip(kernels_of(schedule.steps), call.entries, strict=True):
        box = widened(call.domain, kernel.extent, (0, call.domain[2]))
        found = cut_of(kernel, entry, call, sizes_of(box))
        scalars = (job.scalars[name] for name in entry.function.scalars)
        words = [*flat(box), *words_of(entry, call, found), *scalars]
        moving = tuple(
            (FIRST_ARRAY + 4 * n, call.places[name].words[1:])
            for n, name in enumerate(entry.function.arrays)
            if name in fields and name not in own
        )
        yield _Moving(entry.compiled, words, moving)


def _side(kind: Kind) -> Side | None:
    return None if kind is Kind.NONE else Side(Rule(kind.value))


def _between(kernels: Kernels) -> int:
    """Return the bytes of all temporaries in memory at a point."""
    return sum(one.dtype.itemsize for one in kernels.schedule.buffers)


def _are_apart(step: Step, fields: Mapping[str, Array]) -> bool:
    names = [*step.inputs, *step.results]
    spans = [Span.of(fields[name]).bounds for name in names]
    return disjoint(spans, [name in step.results for name in names])


def _nothing() -> None:
    """Run on no points."""
