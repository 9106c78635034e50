"""Fields that no caller gives, which kernels see as any other: indices, tests of regions, planes.

A program that uses `K` as a value, or has horizontal regions, has fields over one axis, see
`ir.nodes.Position`. They are made in the memory of the target, once for each domain. Each call has
its own temporaries over I and J, which are zero before it, since several threads may call at once.
Fields that are needed less far than kernels read them, because only regions do, are copied to
larger arrays where a caller's are too small: what is there is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from halocline_engine.backends.base import (
    Arguments,
    Array,
    Artifact,
    Executable,
    Fields,
    Launch,
    Launcher,
    Launching,
    Origins,
    Point,
    Scalars,
    Tunable,
    Turning,
    WrappedArtifact,
    WrappedExecutable,
    prepare,
)
from halocline_engine.backends.ghosts import Ends, Filling, Framed
from halocline_engine.backends.host import repeat_work
from halocline_engine.backends.made.arrays import (
    Along,
    Reach,
    check_loops,
    chosen_parts,
    limit_of,
    position_array,
    table_array,
    watched,
    widened,
)
from halocline_engine.backends.span import Span
from halocline_engine.ir.extent import Facts, Range
from halocline_engine.ir.nodes import Choice, Field, Limit, Position, Program, Scratch
from halocline_engine.ir.types import Axis
from halocline_engine.ir.walk import reads, targets_of
from halocline_engine.schedule.storage.coverage import assigns, flow
from halocline_engine.schedule.tune import Tuning

__all__ = ["MadeFieldsArtifact", "MadeFieldsExecutable", "with_made_fields"]

_NOWHERE: Point = (0, 0, 0)
#: Places of temporaries over I and J at which the launches of a call are remembered.
_PLACES = 16


@dataclass(frozen=True, slots=True)
class MadeFieldsArtifact(WrappedArtifact):
    """`backends.base.Artifact` of a program with fields that no caller gives.

    `reaches` says how far beyond the domain each position is read; `planes` are temporaries over I
    and J with their types, of which those in `zeroed` are zero at first; `wide` are the fields that
    are needed less far than they are read, `limits` the scalars of levels, and `loops` the field
    that says which loop did not end; `tables` are the arrays that travel with the program, with
    their types and values, and `choices` the fields that are components which scalars choose.
    """

    positions: tuple[Position, ...]
    reaches: tuple[Range, ...]
    planes: tuple[tuple[str, str], ...]
    zeroed: tuple[str, ...]
    wide: tuple[Reach, ...]
    limits: tuple[Limit, ...] = ()
    loops: Scratch | None = None
    tables: tuple[tuple[str, str, bytes], ...] = ()
    choices: tuple[Choice, ...] = ()

    def load(self) -> MadeFieldsExecutable:
        """Make it run in this process."""
        kernels = self.artifact.load()
        kind = _TunableMadeFields if isinstance(kernels, Tunable) else MadeFieldsExecutable
        return kind(kernels, self)


@dataclass(frozen=True, slots=True)
class MadeFieldsExecutable(WrappedExecutable):
    """`backends.base.Executable` of a program with fields that no caller gives.

    The domains of calls begin at `first` of a whole of some `sizes`, or are the whole.
    """

    plan: MadeFieldsArtifact
    first: Point = _NOWHERE
    sizes: Point | None = None
    periodic: tuple[bool, bool, bool] = (False, False, False)
    _made: dict[tuple[object, ...], Fields] = field(
        default_factory=dict[tuple[object, ...], Fields]
    )

    def repeat(
        self, work: Callable[[], None], times: int, look: Callable[[], None] | None = None
    ) -> None:
        """Do work again; positions stay, but what is copied to larger arrays does not."""
        if self.plan.wide or self.plan.loops is not None:
            repeat_work(work, times, look)
        else:
            self.kernels.repeat(work, times, look)

    def __call__(self, fields: Fields, scalars: Scalars, origins: Origins, domain: Point) -> None:
        """Run once."""
        if 0 in domain:
            return
        call = self._call(fields, scalars, origins, domain)
        loops = self._watched(call[1], domain)
        self._clear(call[0], loops)
        self.kernels(*call)
        check_loops(loops, call[0], self.memory)

    def prepared(
        self, fields: Fields, scalars: Scalars, origins: Origins, domain: Point
    ) -> Callable[[], None]:
        """Return the call as one that can be made again; see `backends.base.Preparable`."""
        call = None if 0 in domain else self._call(fields, scalars, origins, domain)
        if call is None or _has_copies(self.plan, fields, call):
            return partial(self, fields, scalars, origins, domain)
        kernels, loops = prepare(self.kernels, *call), self._watched(call[1], domain)
        if not self.plan.zeroed and loops is None:
            return kernels

        def run() -> None:
            self._clear(call[0], loops)
            kernels()
            check_loops(loops, call[0], self.memory)

        return run

    def launcher(self, fields: Fields, origins: Origins, domain: Point) -> Launcher | None:
        """Return calls on arrays that lie like these; see `backends.base.Launching`."""
        arrays, levels, places, _ = call = self._call(fields, {}, origins, domain)
        if not isinstance(self.kernels, Launching) or not _lies_as_given(self.plan, fields, call):
            return None
        kernels, choices = self.kernels.launcher(arrays, places, domain), self.plan.choices
        if kernels is None:
            return None
        others = {*self._planes(domain), *(one.name for one in choices)}
        kept = {n: a for n, a in arrays.items() if n not in fields and n not in others}
        made = {name: Span.of(array).address for name, array in kept.items()}

        def at(addresses: Mapping[str, int]) -> Launch:
            known = {**addresses, **made}
            if not others:
                launch = kernels(known)
                return lambda scalars: launch({**scalars, **levels})

            placed: dict[tuple[int, ...], Launch] = {}

            def call(scalars: Scalars) -> None:
                given = {**scalars, **levels}
                own, loops = self._planes(domain), self._watched(given, domain)
                self._clear(own, loops)
                # Memory that one call gave back is most often that of the next one.
                places = {name: Span.of(array).address for name, array in own.items()}
                places |= {name: known[part] for name, part in chosen_parts(choices, scalars)}
                launch = placed.get(there := tuple(places.values()))
                if launch is None:
                    launch = kernels({**known, **places})
                    if len(placed) >= _PLACES:
                        placed.clear()
                    placed[there] = launch
                launch(given)
                check_loops(loops, own, self.memory)

            return call

        return at

    def turned(self) -> Executable:
        """Return what makes every other step; see `backends.base.Turning`."""
        if not isinstance(self.kernels, Turning):
            return self
        turned = self.kernels.turned()
        place = (self.first, self.sizes, self.periodic)
        return MadeFieldsExecutable(turned, self.plan, *place, self._made)

    def placed(self, first: Point, sizes: Point, periodic: tuple[bool, bool, bool]) -> Executable:
        """Return the same for blocks; see `backends.base.Placed`."""
        return MadeFieldsExecutable(self.kernels, self.plan, first, sizes, periodic, self._made)

    def filling(self, ends: Ends, several: Sequence[Framed]) -> Callable[[], None] | None:
        """Return what fills ghosts, where the kernels can; see `backends.ghosts.Filling`."""
        return self.kernels.filling(ends, several) if isinstance(self.kernels, Filling) else None

    def _call(self, fields: Fields, scalars: Scalars, origins: Origins, domain: Point) -> Arguments:
        """Return the arguments of a call of the kernels."""
        arrays, places = dict(fields), dict(origins)
        for read in self.plan.wide:
            name = read.name
            arrays[name], places[name] = widened(
                read, fields[name], origins[name], domain, self.memory
            )
        for name, part in chosen_parts(self.plan.choices, scalars):
            arrays[name], places[name] = arrays[part], places[part]
        key = tuple(
            (self.first[at], self.sizes and self.sizes[at], self.periodic[at], domain[at])
            for at in {list(Axis).index(one.axis) for one in self.plan.positions}
        )
        made = self._made.get(key)
        if made is None:
            # All threads use the same arrays, which stay as long as calls that were prepared.
            made = self._made.setdefault(key, self._kept(domain))
        planes = self._planes(domain)
        arrays |= {**made, **planes}
        places |= dict.fromkeys((*made, *planes), _NOWHERE)
        for one, (low, _) in zip(self.plan.positions, self.plan.reaches, strict=True):
            i, j, k = (-low if axis is one.axis else 0 for axis in Axis)
            places[one.name] = (i, j, k)
        levels = {one.name: limit_of(one, arrays, places, domain) for one in self.plan.limits}
        return arrays, {**scalars, **levels}, places, domain

    def _kept(self, domain: Point) -> Fields:
        """Return the arrays [i, j, k] of positions and of tables, which calls leave as they are."""
        sizes = domain if self.sizes is None else self.sizes
        tables = {one[0]: table_array(*one[1:], self.memory) for one in self.plan.tables}
        return tables | {
            one.name: position_array(
                one, Along(domain, self.first, sizes, self.periodic), reach, self.memory
            )
            for one, reach in zip(self.plan.positions, self.plan.reaches, strict=True)
        }

    def _planes(self, domain: Point) -> Fields:
        """Return arrays [i, j, k] of temporaries over I and J, with stride 0 along K.

        With them the row in which points store the number of a loop that did not end. Points with
        one index along I share an element, and any of their numbers may be the one that stays.
        """
        shape = (domain[0], domain[1], 1)
        planes: dict[str, Array] = {
            name: self.memory.empty(shape, np.dtype(dtype), _NOWHERE)[:, :, 0][:, :, None]
            for name, dtype in self.plan.planes
        }
        if self.plan.loops is not None:
            planes[self.plan.loops.name] = self.memory.shared_row(domain, np.dtype("int16"))
        return planes

    def _watched(self, scalars: Scalars, domain: Point) -> Scratch | None:
        return watched(self.plan.loops, scalars, (self.sizes or domain)[2])

    def _clear(self, arrays: Fields, loops: Scratch | None) -> None:
        """Set temporaries to zero that need it, and say of no loop that it did not end."""
        for name in self.plan.zeroed:
            arrays[name][...] = 0
        if loops is not None:
            arrays[loops.name][:, :1, :1] = 0


def _lies_as_given(plan: MadeFieldsArtifact, fields: Fields, call: Arguments) -> bool:
    """Whether kernels have the arrays of callers, of which all parts of a choice lie alike."""
    arrays, _, places, _ = call
    several = [
        {(arrays[part].shape, arrays[part].strides, places[part]) for part in one.parts}
        for one in plan.choices
    ]
    return all(len(one) == 1 for one in several) and not _has_copies(plan, fields, call)


def _has_copies(plan: MadeFieldsArtifact, fields: Fields, call: Arguments) -> bool:
    """Whether a call has copies of fields, which hold what those held when they were made."""
    return any(call[0][read.name] is not fields[read.name] for read in plan.wide)


@dataclass(frozen=True, slots=True)
class _TunableMadeFields(MadeFieldsExecutable):
    """The same with kernels whose tiles can be measured; see `backends.base.Tunable`."""

    def tune(
        self, fields: Fields, scalars: Scalars, origins: Origins, domain: Point, seconds: float
    ) -> Tuning | None:
        """Measure for calls like this one."""
        assert isinstance(self.kernels, Tunable)
        return self.kernels.tune(*self._call(fields, scalars, origins, domain), seconds)

    def tilings(self) -> tuple[str, ...]:
        """Return how kernels are cut for each kind of call so far."""
        assert isinstance(self.kernels, Tunable)
        return self.kernels.tilings()


def with_made_fields(
    artifact: Artifact, program: Program, facts: Facts, choices: tuple[Choice, ...] = ()
) -> Artifact:
    """Return the artifact of a program, which makes what no caller gives.

    `choices` are the fields of its kernels that are other ones of the program.
    """
    known = any(one.values is not None for one in program.lookups)
    if not (program.positions or program.scratch or program.limits or known or choices):
        return artifact
    scratch = {one.name for one in program.scratch if not one.loops}
    zeroed = tuple(name for name in sorted(scratch) if not _begins_assigned(name, program, facts))
    planes = tuple((f.name, f.dtype.value) for f in program.fields if f.name in scratch)
    reaches = tuple(
        facts.fields[one.name][list(Axis).index(one.axis)] if one.axis is not Axis.K else (0, 0)
        for one in program.positions
    )
    wide = tuple(
        Reach(one.name, tuple((at, facts.fields[one.name][at]) for at in _horizontal(one)))
        for one in program.fields
        if one.name in facts.in_regions
        and one.name not in program.made
        and (one.read or one.written)
    )
    types = {field.name: field.dtype.value for field in program.fields}
    tables = tuple(
        (one.name, types[one.name], one.values) for one in program.lookups if one.values is not None
    )
    loops = next((one for one in program.scratch if one.loops), None)
    return MadeFieldsArtifact(
        artifact,
        program.positions,
        reaches,
        planes,
        zeroed,
        wide,
        program.limits,
        loops,
        tables,
        choices,
    )


def _begins_assigned(name: str, program: Program, facts: Facts) -> bool:
    """Return whether the first statement with a temporary over I and J assigns it everywhere."""
    least = max(1, facts.min_levels)
    for computation in program.computations:
        for block in computation.blocks:
            for statement in block.body:
                if name in {*targets_of((statement,)), *(r.name for r in reads((statement,)))}:
                    start, end = block.interval.start, block.interval.end
                    grows = end.from_end or not start.from_end
                    is_somewhere = grows and start.level(least) < end.level(least)
                    first = (statement,)
                    return is_somewhere and assigns(first, name) and name not in flow(first)[0]
    return True


def _horizontal(field: Field) -> list[int]:
    """Return the numbers of the axes I and J that a field has."""
    return [at for at, axis in enumerate((Axis.I, Axis.J)) if axis in field.axes]
