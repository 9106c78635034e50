"""Make the steps of a pass on one block, in the memory of a target.

Works on any target's arrays through slices alone; between the steps nothing leaves that memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import setitem
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.analysis.boundaries import Kind
from halocline_engine.backends.base import (
    Arguments,
    Array,
    Executable,
    Placed,
    Turning,
    prepare,
)
from halocline_engine.copies import of_device
from halocline_engine.datasets.grids.match import FieldUse, Role
from halocline_engine.distribute.blocks.ghosts import fill_ghosts, ghosts_of
from halocline_engine.distribute.blocks.scalars import StepScalars
from halocline_engine.distribute.grid.geometry import Geometry, Layout, Reaches
from halocline_engine.distribute.grid.partition import Box, slices_within
from halocline_engine.distribute.tasks.cancel import CancelToken, raise_if_cancelled
from halocline_engine.ir.types import Axis

__all__ = ["BlockFields", "BlockSteps", "nothing"]

#: Steps that are made one by one before others are repeated: each field has had each of its arrays.
_EAGER = 2
#: Steps up to which it is not worth it to compile code for their ghosts.
_FEW = 4
#: Steps beyond which repeating alike ones is worth waiting for them.
_MANY = 32
_AROUND = (Kind.PERIODIC, Kind.WRAP)
_NOWHERE: Reaches = ((0, 0), (0, 0), (0, 0))


@dataclass(frozen=True, slots=True)
class BlockFields:
    """A block's arrays on a target, by field, indexed [i, j, k] over the fields' frames.

    An array has one point along an axis that its field does not have.
    """

    layout: Layout
    cells: Geometry
    executable: Executable
    arrays: Mapping[str, Array]

    @classmethod
    def of(cls, layout: Layout, cells: Geometry, executable: Executable) -> BlockFields:
        """Return fields with new arrays, whose contents are not defined."""
        arrays: dict[str, Array] = {}
        for use in layout.uses:
            frame = cells.frames[use.name]
            i, j, k = (span.size for span in frame)
            # What is read of an input may begin behind the first cell that the last step computes.
            first = [
                max(0, computed.start - span.start) if axis in use.axes else 0
                for axis, computed, span in zip(Axis, cells.domains[-1], frame, strict=True)
            ]
            halo = (first[0], first[1], first[2])
            arrays[use.name] = executable.memory.empty((i, j, k), np.dtype(use.dtype), halo)
        return cls(layout, cells, executable, arrays)

    def upload(self, name: str, values: NDArray[Any]) -> None:
        """Copy the data of a loaded field, indexed [i, j, k] over its inner cells."""
        frame = self.cells.frames[name]
        array = self.arrays[name]
        into = array[slices_within(self.cells.inner[name], frame)]
        if of_device(values):
            into[...] = values
        else:
            self.executable.memory.upload(values, into)
        use = next(use for use in self.layout.uses if use.name == name)
        if use.role is Role.INPUT:
            fill_ghosts(array, self.layout.lines_of(name), frame)

    def download(self, array: Array, name: str) -> NDArray[Any]:
        """Return the block's own cells out of an array that holds a field's frame."""
        return self.executable.memory.download(self.own(array, name))

    def own(self, array: Array, name: str) -> Any:
        """Return the view of the block's own cells of an array that holds a field's frame."""
        return array[slices_within(self.cells.own[name], self.cells.frames[name])]

    def advance(self, scalars: StepScalars, cancelled: CancelToken | None) -> Mapping[str, Array]:
        """Make all steps; return the array that each field has after the last one.

        `cancelled` is looked at before each step, and ten times a second where many are repeated;
        where it says True, `CancelledError` is raised.
        """
        steps = BlockSteps(self, scalars)
        count = len(self.cells.domains)
        for step in range(count):
            raise_if_cancelled(cancelled)
            steps.make(step)
            if step + 1 >= _EAGER and self._alike(step + 1):
                self._repeat(steps, step + 1, cancelled)
                break
        return steps.arrays

    @property
    def waits(self) -> bool:
        """Whether `queue` makes steps that are complete when it returns."""
        return len(self.cells.domains) > _MANY and self._alike(_EAGER)

    def queue(self, scalars: StepScalars, cancelled: CancelToken | None) -> Mapping[str, Array]:
        """Queue all steps as `advance` does, and wait for nothing.

        Only where very many steps compute the same cells they are made as `advance` makes them, and
        are complete then: queuing each would take longer than it does.
        """
        if self.waits:
            return self.advance(scalars, cancelled)
        steps = BlockSteps(self, scalars)
        for step in range(len(self.cells.domains)):
            raise_if_cancelled(cancelled)
            steps.make(step)
        return steps.arrays

    def part(self, name: str, box: Box) -> Array:
        """Return the view of some cells of a field."""
        return self.arrays[name][slices_within(box, self.cells.frames[name])]

    def _alike(self, first: int) -> bool:
        """Whether all steps from one on compute the same cells and leave the same ones valid.

        They have the same scalars, too.
        """
        cells = self.cells
        return (
            not self.layout.varying
            and _same(cells.domains[first:])
            and _same(cells.valid[first + 1 :])
        )

    def _repeat(self, steps: BlockSteps, step: int, cancelled: CancelToken | None) -> None:
        """Make the steps from one on, which are alike.

        After two steps each field has the array that it had before.
        """
        pair = steps.pair(step)

        def two() -> None:
            for act in pair:
                act()

        rest = len(self.cells.domains) - step
        self.executable.repeat(two, rest // 2, partial(raise_if_cancelled, cancelled))
        raise_if_cancelled(cancelled)
        if rest % 2:
            steps.make(step)


class BlockSteps:
    """Steps on the arrays of a block, each from what the one before it left.

    `scalars` are those of the steps from the first one on, at the block's point. Views of arrays
    are made once, as they take longer than a step.
    """

    def __init__(self, block_fields: BlockFields, scalars: StepScalars) -> None:
        self._layout, self._cells = block_fields.layout, block_fields.cells
        self._executable, self._scalars = block_fields.executable, scalars
        self._arrays = block_fields.arrays
        uses = self._layout.uses
        partners = {use.name: use.partner for use in uses if use.partner}
        self._partners = {use.name: partners.get(use.name, use.name) for use in uses}
        # Whose array each field has, of those that it had at the start.
        self._whose = {use.name: use.name for use in uses}
        self._begins = {use.name: _begin(use, self._cells.frames[use.name]) for use in uses}
        self._made = 0
        self._views: dict[tuple[str, str], Array] = {}
        self._fills: dict[tuple[tuple[str, str], ...], list[Callable[[], None]]] = {}

    @property
    def arrays(self) -> dict[str, Array]:
        """The array that each field has now."""
        return {name: self._arrays[owner] for name, owner in self._whose.items()}

    def owner(self, use: FieldUse) -> str:
        """Return whose array, of those at the start, a field that is kept has in the next step."""
        return self._whose[use.partner or use.name] if self._made else use.name

    def before(self, use: FieldUse) -> Array:
        """Return the array that the last step read a field that is fed from."""
        return self._array(use.name)

    def array_of(self, owner: str) -> Array:
        """Return the array that a field had at the start."""
        return self._arrays[owner]

    def exchange(self, one: str, other: str) -> None:
        """Exchange the arrays of two fields that are only read."""
        self._whose[one], self._whose[other] = self._whose[other], self._whose[one]

    def make(self, step: int, executable: Executable | None = None) -> None:
        """Make a step, which computes the cells that the geometry gives for `step`.

        An `executable` other than the block's own may make several at once, of which it is the
        last.
        """
        if self._made:
            self._turn()
        for act in self._prepare(step):
            act()
        domain = self._cells.domains[step]
        if all(span.size for span in domain):  # the stencils of some blocks leave the data
            self._placed(executable or self._executable, domain)(*self._call(domain))
        self._made += 1

    def pair(self, step: int) -> list[Callable[[], None]]:
        """Return what makes two steps that are alike, to be done again and again."""
        return [*self.recorded(step), *self.recorded(step, other=True)]

    def computed(self) -> list[Callable[[], None]]:
        """Return the calls that compute the cells of the first step, for repeated use.

        Each array has the values that its field has before the step by then.
        """
        domain = self._cells.domains[0]
        if not all(span.size for span in domain):
            return []
        return [prepare(self._placed(self._executable, domain), *self._call(domain))]

    def recorded(
        self, step: int, executable: Executable | None = None, *, other: bool = False
    ) -> list[Callable[[], None]]:
        """Return what makes the next step, after `make` was called, to be done again and again.

        It is the next one on the same arrays: what is done later must leave each field the array
        that it had before. The `other` of two steps may begin where the first one ended.
        """
        domain = self._cells.domains[step]
        prepared, calls = self.recorded_parts(step, {domain: executable}, other=other)
        return [*prepared, *calls]

    def recorded_parts(
        self, step: int, parts: Mapping[Box, Executable | None], *, other: bool = False
    ) -> tuple[list[Callable[[], None]], list[Callable[[], None]]]:
        """Return what prepares a step, and what computes each part of its domain; see `recorded`.

        Parts may be computed in any order, each by its executable.
        """
        self._turn()
        calls: list[Callable[[], None]] = []
        for box, given in parts.items():
            executable = given or self._executable
            if other and isinstance(executable, Turning):
                executable = executable.turned()
            if all(span.size for span in box):
                calls.append(prepare(self._placed(executable, box), *self._call(box)))
        return self._prepare(step), calls

    def _placed(self, executable: Executable, domain: Box) -> Executable:
        """Return what computes a domain where it lies in the data."""
        if not isinstance(executable, Placed):
            return executable
        i, j, k = (span.start for span in domain)
        around_i, around_j, around_k = (
            any(lines[at].low.kind in _AROUND for lines in self._layout.lines) for at in range(3)
        )
        sizes = self._layout.grid.sizes
        return executable.placed((i, j, k), sizes, (around_i, around_j, around_k))

    def _turn(self) -> None:
        """Give each input that is fed the array of its output, and the other way round."""
        self._whose = {name: self._whose[other] for name, other in self._partners.items()}

    def _prepare(self, step: int) -> list[Callable[[], None]]:
        """Return what gives every array the values that its field has before a step."""
        found: list[Callable[[], None]] = []
        wanted: list[FieldUse] = []
        positions = self._layout.grid.positions
        for use, reach in zip(self._layout.uses, self._layout.reaches, strict=True):
            if use.role is Role.INPUT:
                continue
            if use.role in (Role.CREATED, Role.FEEDS) and not self._overwritten(use, reach, step):
                old = nothing(use) if use.role is Role.CREATED else self._array(use.partner)
                found.append(partial(setitem, self._array(use.name), ..., old))
            if use.role is not Role.CREATED and (reach != _NOWHERE or positions):
                wanted.append(use)
        return [*found, *self._ghosts(wanted)]

    def _overwritten(self, use: FieldUse, reach: Reaches, step: int) -> bool:
        """Whether an array has what its field needs: it is written, or never read.

        What is beyond the cells that steps compute stays in both arrays of a field.
        """
        if not use.complete or reach != _NOWHERE:
            return False
        return self._made > 0 or self._cells.domains[step] == self._cells.valid[step + 1]

    def _call(self, domain: Box) -> Arguments:
        i, j, k = domain
        fields: dict[str, Array] = {}
        origins: dict[str, tuple[int, int, int]] = {}
        for use in self._layout.uses:
            name = use.name
            ((fi, si), (fj, sj), (fk, sk)) = self._begins[name]
            origins[name] = ((i.start - fi) * si, (j.start - fj) * sj, (k.start - fk) * sk)
            fields[name] = self._view(use)
        return fields, self._scalars.of(self._made), origins, (i.size, j.size, k.size)

    def _array(self, name: str) -> Array:
        return self._arrays[self._whose[name]]

    def _view(self, use: FieldUse) -> Array:
        key = (use.name, self._whose[use.name])
        found = self._views.get(key)
        if found is None:
            found = self._views[key] = _spread(self._array(use.name), use.axes)
        return found

    def _ghosts(self, uses: Sequence[FieldUse]) -> list[Callable[[], None]]:
        key = tuple((use.name, self._whose[use.name]) for use in uses)
        found = self._fills.get(key)
        if found is None:
            frames = self._cells.frames
            several = [
                (self._array(use.name), self._layout.lines_of(use.name), frames[use.name])
                for use in uses
            ]
            filler = self._executable if len(self._cells.domains) > _FEW else None
            found = self._fills[key] = ghosts_of(filler, several)
        return found


def _same(boxes: Sequence[Box]) -> bool:
    """Whether there are boxes and all are equal; many of them are mostly one object."""
    return bool(boxes) and boxes.count(boxes[0]) == len(boxes)


def _begin(use: FieldUse, frame: Box) -> tuple[tuple[int, int], ...]:
    """Return where the array of a field begins along each axis, and 0 where it has no such axis."""
    return tuple(
        (span.start, int(axis in use.axes)) for axis, span in zip(Axis, frame, strict=True)
    )


def nothing(use: FieldUse) -> float | int:
    """Return what cells hold that were never computed: NaN, or 0 where the type has none."""
    return float("nan") if use.dtype.startswith("float") else 0


def _spread(array: Array, axes: Iterable[Axis]) -> Array:
    """Return the view with stride 0 along the axes that a field does not have."""
    present = tuple(axes)
    for at, axis in enumerate(Axis):
        if axis not in present:
            before = (slice(None),) * at
            array = array[(*before, 0)][(*before, None)]
    return array
