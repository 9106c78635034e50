"""Make the steps of a pass on one block, in the memory of a target.

Works on any target's arrays through slices alone; between the steps nothing leaves that memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.base import Array, Executable, Value
from halocline_engine.datasets.match import FieldUse, Role
from halocline_engine.distribute.ghosts import fill_ghosts
from halocline_engine.distribute.layout import Geometry, Layout, Reaches
from halocline_engine.distribute.partition import Box
from halocline_engine.errors import CancelledError
from halocline_engine.ir.types import Axis

__all__ = ["Asked", "Bench", "nothing"]

#: Whether somebody asked for the end.
Asked = Callable[[], bool]

#: Steps that are made one by one before others are repeated: each field has had each of its arrays.
_EAGER = 2
#: Steps beyond which repeating alike ones is worth waiting for them.
_MANY = 32
_NOWHERE: Reaches = ((0, 0), (0, 0), (0, 0))


@dataclass(frozen=True, slots=True)
class Bench:
    """A block's arrays on a target, by field, indexed [i, j, k] over the fields' frames.

    An array has one point along an axis that its field does not have.
    """

    layout: Layout
    cells: Geometry
    executable: Executable
    arrays: Mapping[str, Array]

    @classmethod
    def of(cls, layout: Layout, cells: Geometry, executable: Executable) -> Bench:
        """Return a bench with new arrays, whose contents are not defined."""
        arrays: dict[str, Array] = {}
        for use in layout.uses:
            frame, own = cells.frames[use.name], cells.own[use.name]
            i, j, k = (span.size for span in frame)
            first = tuple(at.start - span.start for at, span in zip(own, frame, strict=True))
            halo = (first[0], first[1], first[2])
            arrays[use.name] = executable.memory.empty((i, j, k), np.dtype(use.dtype), halo)
        return cls(layout, cells, executable, arrays)

    def upload(self, name: str, values: NDArray[Any]) -> None:
        """Copy the data of a loaded field, indexed [i, j, k] over its inner cells."""
        frame = self.cells.frames[name]
        array = self.arrays[name]
        self.executable.memory.upload(values, array[_within(self.cells.inner[name], frame)])
        use = next(use for use in self.layout.uses if use.name == name)
        if use.role is Role.INPUT:
            fill_ghosts(array, self.layout.lines, frame)

    def download(self, array: Array, name: str) -> NDArray[Any]:
        """Return the block's own cells out of an array that holds a field's frame."""
        part = array[_within(self.cells.own[name], self.cells.frames[name])]
        return self.executable.memory.download(part)

    def advance(self, scalars: Mapping[str, Value], asked: Asked | None) -> Mapping[str, Array]:
        """Make all steps; return the array that each field has after the last one.

        `asked` is looked at before each step; where it says True, `CancelledError` is raised.
        """
        now = dict(self.arrays)
        steps = len(self.cells.domains)
        for step in range(steps):
            _look(asked)
            now = self._step(now, scalars, step)
            if step + 1 >= _EAGER and self._alike(step + 1):
                return self._repeat(now, scalars, step + 1, asked)
        return now

    @property
    def waits(self) -> bool:
        """Whether `queue` makes steps that are complete when it returns."""
        return len(self.cells.domains) > _MANY and self._alike(_EAGER)

    def queue(self, scalars: Mapping[str, Value], asked: Asked | None) -> Mapping[str, Array]:
        """Queue all steps as `advance` does, and wait for nothing.

        Only where very many steps compute the same cells they are made as `advance` makes them, and
        are complete then: queuing each would take longer than it does.
        """
        if self.waits:
            return self.advance(scalars, asked)
        now = dict(self.arrays)
        for step in range(len(self.cells.domains)):
            _look(asked)
            now = self._step(now, scalars, step)
        return now

    def part(self, name: str, box: Box) -> Array:
        """Return the view of some cells of a field."""
        return self.arrays[name][_within(box, self.cells.frames[name])]

    def _step(
        self, now: Mapping[str, Array], scalars: Mapping[str, Value], step: int
    ) -> dict[str, Array]:
        """Make a step; return the array that each field has after it."""
        after = self._swapped(now) if step else dict(now)
        self._prepare(after, step)
        self._run(after, scalars, step)
        return after

    def _alike(self, first: int) -> bool:
        """Whether all steps from one on compute the same cells and leave the same ones valid."""
        cells = self.cells
        return len({*cells.domains[first:]}) == 1 and len({*cells.valid[first + 1 :]}) == 1

    def _repeat(
        self, now: Mapping[str, Array], scalars: Mapping[str, Value], step: int, asked: Asked | None
    ) -> Mapping[str, Array]:
        """Make the steps from one on, which are alike; return the arrays of the fields.

        After two steps each field has the array that it had before.
        """

        def two() -> None:
            _look(asked)
            self._step(self._step(now, scalars, step), scalars, step)

        rest = len(self.cells.domains) - step
        self.executable.repeat(two, rest // 2)
        _look(asked)
        return self._step(now, scalars, step) if rest % 2 else now

    def _swapped(self, now: Mapping[str, Array]) -> dict[str, Array]:
        """Give each input that is fed the array of its output, and the other way round."""
        partners = {use.name: use.partner for use in self.layout.uses if use.partner}
        return {name: now[partners.get(name, name)] for name in now}

    def _prepare(self, now: Mapping[str, Array], step: int) -> None:
        """Give every array the values that its field has before a step."""
        for use, reach in zip(self.layout.uses, self.layout.reaches, strict=True):
            array = now[use.name]
            match use.role:
                case Role.INPUT:
                    continue
                case Role.FED | Role.IN_PLACE:
                    pass
                case Role.CREATED:
                    if self._overwritten(use, reach, step):
                        continue
                    array[...] = nothing(use)
                    continue
                case Role.FEEDS:
                    if self._overwritten(use, reach, step):
                        continue
                    array[...] = now[use.partner]
            fill_ghosts(array, self.layout.lines, self.cells.frames[use.name])

    def _overwritten(self, use: FieldUse, reach: Reaches, step: int) -> bool:
        """Whether a step writes every cell that may be looked at later."""
        everywhere = self.cells.domains[step] == self.cells.valid[step + 1]
        return use.complete and everywhere and reach == _NOWHERE

    def _run(self, now: Mapping[str, Array], scalars: Mapping[str, Value], step: int) -> None:
        domain = self.cells.domains[step]
        fields: dict[str, Array] = {}
        origins: dict[str, tuple[int, int, int]] = {}
        for use in self.layout.uses:
            frame = self.cells.frames[use.name]
            i, j, k = (
                at.start - span.start if axis in use.axes else 0
                for axis, at, span in zip(Axis, domain, frame, strict=True)
            )
            origins[use.name] = (i, j, k)
            fields[use.name] = _spread(now[use.name], use.axes)
        ni, nj, nk = (span.size for span in domain)
        self.executable(fields, scalars, origins, (ni, nj, nk))


def _look(asked: Asked | None) -> None:
    if asked is not None and asked():
        raise CancelledError("The run was cancelled.")


def nothing(use: FieldUse) -> float | int:
    """Return what cells hold that were never computed: NaN, or 0 where the type has none."""
    return float("nan") if use.dtype.startswith("float") else 0


def _within(box: Box, frame: Box) -> tuple[slice, ...]:
    return tuple(span.within(whole) for span, whole in zip(box, frame, strict=True))


def _spread(array: Array, axes: Iterable[Axis]) -> Array:
    """Return the view with stride 0 along the axes that a field does not have."""
    present = tuple(axes)
    for at, axis in enumerate(Axis):
        if axis not in present:
            before = (slice(None),) * at
            array = array[(*before, 0)][(*before, None)]
    return array
