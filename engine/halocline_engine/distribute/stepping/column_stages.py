"""Column programs and solves along columns as stages on arrays that stay."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from operator import setitem
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.base import Array, Executable, Memory, prepare
from halocline_engine.distribute.blocks.work import executable_of
from halocline_engine.distribute.columns.work import ColumnInput, ColumnOutput, ColumnWork
from halocline_engine.distribute.grid.partition import Span
from halocline_engine.distribute.solves.banded import BandedWork
from halocline_engine.distribute.stepping.held import Cells, Held, Room, Variable
from halocline_engine.distribute.stepping.schedule import StageFields
from halocline_engine.distribute.stepping.stages import BoundStage, Part

__all__ = ["ColumnStage", "SolveStage"]

#: Bytes of a right-hand side that is solved at once, and arrays of its size meanwhile.
_AT_ONCE = 4 << 20
_HELD = 12


@dataclass(frozen=True, slots=True)
class _OnPoints:
    """What stages have in common that read no neighbours."""

    @property
    def turned(self) -> Mapping[str, str]:
        """Nothing: results are written when all is read."""
        return {}

    @property
    def around(self) -> Mapping[str, bool]:
        """Nothing: no neighbours are read."""
        return {}

    @property
    def reach(self) -> Mapping[str, int]:
        """Nothing."""
        return {}


@dataclass(frozen=True, slots=True)
class ColumnStage(_OnPoints):
    """A column program: `work` is that of a streamed block.

    The last dimension but the vertical one is I, the one before it J.
    """

    work: ColumnWork

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables that are read and written."""
        read = [_plain(one.variable, one.dims, one.dtype) for one in self.work.inputs]
        made = [_plain(one.field, one.dims, one.dtype) for one in self.work.outputs]
        return (*read, *made)

    @property
    def memory(self) -> Memory:
        """The memory of the program's target."""
        return executable_of(self.work.code).memory

    @property
    def whole(self) -> frozenset[str]:
        """The vertical dimensions."""
        items = (*self.work.inputs, *self.work.outputs)
        return frozenset({self.work.dim, *(item.vertical for item in items)} - {""})

    def fields(self, _cut: frozenset[str]) -> StageFields:
        """Return the variables by their use."""
        made = frozenset(item.field for item in self.work.outputs)
        repeated = frozenset(i.variable for i in self.work.inputs if self._is_repeated(i))
        read = frozenset(item.variable for item in self.work.inputs)
        return StageFields(read, made, made, repeated=repeated)

    def cells(self, part: Part, _cut: frozenset[str]) -> Mapping[str, Cells]:
        """Return the cells of each variable."""
        return {one.name: _own(one.dims, part) for one in self.variables}

    def bytes(self, part: Part, _cut: frozenset[str]) -> int:
        """Return the bytes of temporaries, and of copies that have more dimensions."""
        columns = math.prod(part.spans[dim].size for dim in self._others)
        return columns * (
            self.work.column_bytes
            + sum(
                item.levels * np.dtype(item.dtype).itemsize
                for item in self.work.inputs
                if self._is_repeated(item)
            )
        )

    def bound(
        self, part: Part, held: Mapping[str, Held], room: Room, _cut: frozenset[str]
    ) -> BoundStage:
        """Return the calls on arrays, one for each point of the dimensions beside I and J."""
        executable = executable_of(self.work.code)
        found = BoundStage([], {}, {})
        rest = self._others[:-2]
        ranges = [range(part.spans[dim].start, part.spans[dim].stop) for dim in rest]
        widths = {
            name: _width(executable, room((name,), (1, 1, values.size), str(values.dtype)), values)
            for name, values in self.work.widths.items()
        }
        for point in itertools.product(*ranges):
            at = dict(zip(rest, point, strict=True))
            fields: dict[str, Array] = dict(widths)
            for item in self.work.inputs:
                fields[item.field] = self._input(item, found, part, held, room, at)
            for one in self.work.outputs:
                fields[one.field] = self._view(one, held[one.field], part, at)
            origins = dict.fromkeys(fields, (0, 0, 0))
            i, j = (1 if dim is None else part.spans[dim].size for dim in self._plane)
            domain = (i, j, self.work.domain)
            scalars = dict(self.work.scalars)
            found.calls.append(prepare(executable, fields, scalars, origins, domain))
        return found

    @property
    def _others(self) -> tuple[str, ...]:
        return tuple(dim for dim in self.work.dims if dim != self.work.dim)

    @property
    def _plane(self) -> tuple[str | None, str | None]:
        """The dimensions that are I and J."""
        i, j, *_ = (*reversed(self._others), None, None)
        return i, j

    def _is_repeated(self, item: ColumnInput) -> bool:
        return any(dim is not None and dim not in item.dims for dim in self._plane)

    def _input(
        self,
        item: ColumnInput,
        found: BoundStage,
        part: Part,
        held: Mapping[str, Held],
        room: Room,
        at: Mapping[str, int],
    ) -> Array:
        """Return the array of an input, broadcast along missing dimensions."""
        here = {dim: index for dim, index in at.items() if dim in item.dims}
        if not self._is_repeated(item):
            return self._view(item, held[item.variable], part, here)
        i, j = (1 if dim is None else part.spans[dim].size for dim in self._plane)
        key = (part.index, item.field, tuple(here.items()))
        array = room(key, (i, j, item.levels), item.dtype)
        some = self._view(item, held[item.variable], part, here)
        assert isinstance(found.repeated, dict)
        copies = found.repeated.setdefault(item.variable, [])
        copies.append(partial(setitem, array, ..., some))
        return array if item.vertical else _flat(array)

    def _view(
        self, item: ColumnInput | ColumnOutput, held: Held, part: Part, at: Mapping[str, int]
    ) -> Array:
        here = {dim: index for dim, index in at.items() if dim in item.dims}
        axes = (*self._plane, item.vertical or None)
        found = held.view(axes, _own(item.dims, part), here)
        return found if item.vertical else _flat(found)


@dataclass(frozen=True, slots=True)
class SolveStage(_OnPoints):
    """Solves along an uncut dimension.

    `work` is that of a block, `dtype` the type of its systems.
    """

    work: BandedWork
    dtype: str

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables that are read and written."""
        kinds = {self.work.name: self.dtype, self.work.status: "uint8"}
        made = [self.work.name, self.work.status]
        made += [self.work.residual] if self.work.residual else []
        return (
            *(_plain(band.name, band.dims, self.dtype) for band in self.work.bands),
            *(_plain(name, self.work.dims_of(name), kinds.get(name, "float64")) for name in made),
        )

    @property
    def memory(self) -> None:
        """Unknown: arrays of any memory of the target will do."""
        return

    @property
    def whole(self) -> frozenset[str]:
        """The dimension of the rows."""
        return frozenset({self.work.dim})

    def fields(self, _cut: frozenset[str]) -> StageFields:
        """Return the variables by their use."""
        read = frozenset(band.name for band in self.work.bands)
        made = frozenset({self.work.name, self.work.status, self.work.residual} - {""})
        return StageFields(read, made, made)

    def cells(self, part: Part, _cut: frozenset[str]) -> Mapping[str, Cells]:
        """Return the cells of each variable."""
        return {one.name: _own(one.dims, part) for one in self.variables}

    def bytes(self, part: Part, _cut: frozenset[str]) -> int:
        """Return the bytes of the systems that are solved at once."""
        return _HELD * max(self._size(spans) for spans in self._slabs(part))

    def bound(
        self, part: Part, held: Mapping[str, Held], _room: Room, _cut: frozenset[str]
    ) -> BoundStage:
        """Return the calls on arrays, one for each slab of systems."""
        return BoundStage([self._call(spans, held) for spans in self._slabs(part)])

    def _call(self, spans: Mapping[str, Span], held: Mapping[str, Held]) -> Callable[[], None]:
        """Return the calls that solve some systems and write the results."""
        work = self.work
        read = [held[band.name].view(work.dims, _some(band.dims, spans)) for band in work.bands]
        names = [work.name, work.status, *([work.residual] if work.residual else [])]
        into = {
            name: held[name].view(work.dims_of(name), _some(work.dims_of(name), spans))
            for name in names
        }

        def solve() -> None:
            for name, values in work.solved(read, spans).items():
                into[name][...] = values

        return solve

    def _slabs(self, part: Part) -> Iterator[dict[str, Span]]:
        """Yield the spans of systems that are solved one after the other."""
        spans = {dim: part.spans[dim] for dim in self.work.dims}
        others = [dim for dim in self.work.dims if dim != self.work.dim]
        if not others:
            yield spans
            return
        longest = max(others, key=lambda dim: spans[dim].size)
        row = self._size(spans) // max(1, spans[longest].size)
        step = max(1, _AT_ONCE // max(1, row))
        for start in range(spans[longest].start, spans[longest].stop, step):
            yield {**spans, longest: Span(start, min(start + step, spans[longest].stop))}

    def _size(self, spans: Mapping[str, Span]) -> int:
        """Return the bytes of the right-hand sides of some systems."""
        points = math.prod(spans[dim].size for dim in self.work.dims)
        return points * np.dtype(self.dtype).itemsize


def _own(dims: tuple[str, ...], part: Part) -> dict[str, Span]:
    return _some(dims, part.spans)


def _some(dims: tuple[str, ...], spans: Mapping[str, Span]) -> dict[str, Span]:
    return {dim: spans[dim] for dim in dims}


def _plain(name: str, dims: tuple[str, ...], dtype: str) -> Variable:
    return Variable(name, dims, dtype, dims)


def _flat(array: Array) -> Array:
    """Return the view of one level that has the stride 0 along K."""
    return array[:, :, 0][:, :, None]


def _width(executable: Executable, array: Array, values: NDArray[Any]) -> Array:
    """Return values of levels in an array, with the stride 0 along I and J."""
    executable.memory.upload(values.reshape(1, 1, -1), array)
    return array[0, 0][None, None]
