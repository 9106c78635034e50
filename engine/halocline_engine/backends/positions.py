"""Fields of positions, which kernels read as any other field: one number for each level.

A program that uses `K` as a value has a field over K that no caller gives, see
`ir.nodes.Position`. It is made in the memory of the target, once for each number of levels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from halocline_engine.backends.base import (
    Adjustable,
    Array,
    Artifact,
    Drawable,
    Executable,
    Memory,
    Tunable,
    TuneMode,
    Turning,
    Value,
    prepare,
)
from halocline_engine.backends.ghosts import Ends, Filling, Framed
from halocline_engine.ir.nodes import Position, Program
from halocline_engine.ir.types import Axis
from halocline_engine.schedule.tune import Tuning

__all__ = ["PositionArtifact", "PositionExecutable", "with_positions"]

_Point: TypeAlias = tuple[int, int, int]
_Fields: TypeAlias = Mapping[str, Array]
_Origins: TypeAlias = Mapping[str, _Point]


@dataclass(frozen=True, slots=True)
class PositionArtifact:
    """`backends.base.Artifact` of a program that reads positions."""

    artifact: Artifact
    positions: tuple[Position, ...]

    @property
    def source(self) -> str:
        """The code of the kernels."""
        return self.artifact.source

    def load(self) -> PositionExecutable:
        """Make it run in this process."""
        kernels = self.artifact.load()
        kind = _TunablePositions if isinstance(kernels, Tunable) else PositionExecutable
        return kind(self.positions, kernels)

    def tuned(self, mode: TuneMode, seconds: float) -> PositionArtifact:
        """Return the artifact with kernels that look for the fastest code, where they can."""
        if not isinstance(self.artifact, Adjustable):
            return self
        return replace(self, artifact=self.artifact.tuned(mode, seconds))

    def tilings(self) -> tuple[str, ...]:
        """Return how kernels will be cut; see `backends.base.Adjustable`."""
        return self.artifact.tilings() if isinstance(self.artifact, Adjustable) else ()

    def walks(self) -> tuple[str, ...]:
        """Return how loops go through points; see `backends.base.Drawable`."""
        return self.artifact.walks() if isinstance(self.artifact, Drawable) else ()


@dataclass(frozen=True, slots=True)
class PositionExecutable:
    """`backends.base.Executable` of a program that reads positions."""

    positions: tuple[Position, ...]
    kernels: Executable
    _made: dict[tuple[int, ...], _Fields] = field(default_factory=dict[tuple[int, ...], _Fields])

    @property
    def memory(self) -> Memory:
        """That of the kernels."""
        return self.kernels.memory

    def repeat(
        self, work: Callable[[], None], times: int, look: Callable[[], None] | None = None
    ) -> None:
        """Do work again; positions stay."""
        self.kernels.repeat(work, times, look)

    def __call__(
        self, fields: _Fields, scalars: Mapping[str, Value], origins: _Origins, domain: _Point
    ) -> None:
        """Run once."""
        self.kernels(*self._with_own(fields, origins, scalars, domain))

    def prepared(
        self, fields: _Fields, scalars: Mapping[str, Value], origins: _Origins, domain: _Point
    ) -> Callable[[], None]:
        """Return the call as one that can be made again; see `backends.base.Preparable`."""
        return prepare(self.kernels, *self._with_own(fields, origins, scalars, domain))

    def turned(self) -> Executable:
        """Return what makes every other step; see `backends.base.Turning`."""
        if not isinstance(self.kernels, Turning):
            return self
        return PositionExecutable(self.positions, self.kernels.turned(), self._made)

    def filling(self, ends: Ends, several: Sequence[Framed]) -> Callable[[], None] | None:
        """Return what fills ghosts, where the kernels can; see `backends.ghosts.Filling`."""
        return self.kernels.filling(ends, several) if isinstance(self.kernels, Filling) else None

    def _with_own(
        self, fields: _Fields, origins: _Origins, scalars: Mapping[str, Value], domain: _Point
    ) -> tuple[_Fields, Mapping[str, Value], _Origins, _Point]:
        """Return the arguments of a call of the kernels."""
        sizes = tuple(domain[list(Axis).index(one.axis)] for one in self.positions)
        made = self._made.get(sizes)
        if made is None:
            made = self._made[sizes] = _arrays(self.positions, sizes, self.memory)
        return {**fields, **made}, scalars, {**origins, **dict.fromkeys(made, (0, 0, 0))}, domain


@dataclass(frozen=True, slots=True)
class _TunablePositions(PositionExecutable):
    """The same with kernels whose tiles can be measured; see `backends.base.Tunable`."""

    def tune(
        self,
        fields: _Fields,
        scalars: Mapping[str, Value],
        origins: _Origins,
        domain: _Point,
        seconds: float,
    ) -> Tuning | None:
        """Measure for calls like this one."""
        assert isinstance(self.kernels, Tunable)
        call = self._with_own(fields, origins, scalars, domain)
        return self.kernels.tune(*call, seconds)

    def tilings(self) -> tuple[str, ...]:
        """Return how kernels are cut for each kind of call so far."""
        assert isinstance(self.kernels, Tunable)
        return self.kernels.tilings()


def with_positions(artifact: Artifact, program: Program) -> Artifact:
    """Return the artifact of a program, which makes the positions that it reads."""
    return PositionArtifact(artifact, program.positions) if program.positions else artifact


def _arrays(positions: Sequence[Position], sizes: Sequence[int], memory: Memory) -> _Fields:
    """Return the arrays of positions [i, j, k], with stride 0 along the axes they do not have."""
    made: dict[str, Array] = {}
    for position, size in zip(positions, sizes, strict=True):
        at = list(Axis).index(position.axis)
        i, j, k = (size if axis == at else 1 for axis in range(3))
        values = np.arange(size, dtype=np.int64).reshape(i, j, k)
        array = memory.empty((i, j, k), values.dtype, (0, 0, 0))
        memory.upload(values, array)
        for axis in range(3):
            if axis != at:
                before = (slice(None),) * axis
                array = array[(*before, 0)][(*before, None)]
        made[position.name] = array
    return made
