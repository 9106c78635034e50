"""Blocks of columns: what a worker does with one.

A column program reads no neighbour in the horizontal, so all dimensions but the vertical one are
alike: the last one is I, the others together are J.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.base import Array, Executable, Value
from halocline_engine.datasets.stores.sink import Sink
from halocline_engine.datasets.stores.source import Source
from halocline_engine.distribute.blocks.work import Code, executable_of
from halocline_engine.distribute.grid.partition import Block, Span
from halocline_engine.distribute.jobs.blocking import region_of
from halocline_engine.distribute.tasks.cancel import CancelToken
from halocline_engine.distribute.tasks.model import Report, Task

__all__ = ["ColumnInput", "ColumnOutput", "ColumnWork"]


@dataclass(frozen=True, slots=True)
class ColumnInput:
    """A field that is read: its variable, `dims` in its own order, and which of them is vertical.

    `levels` is how many values it has there, 1 where `vertical` is empty.
    """

    field: str
    variable: str
    dims: tuple[str, ...]
    vertical: str
    levels: int
    dtype: str


@dataclass(frozen=True, slots=True)
class ColumnOutput:
    """A field that is made; as `ColumnInput`."""

    field: str
    dims: tuple[str, ...]
    vertical: str
    levels: int
    dtype: str


@dataclass(frozen=True, slots=True, eq=False)
class ColumnWork:
    """Work of a worker on a block.

    `dims` are those of a block, of which `dim` is vertical and always whole; `widths` are fields
    that have one value a level; `domain` is the number of levels of the program. With `upright`,
    levels lie beside each other in the target's memory, and not columns.
    """

    code: Code
    scalars: tuple[tuple[str, Value], ...]
    dims: tuple[str, ...]
    dim: str
    inputs: tuple[ColumnInput, ...]
    widths: Mapping[str, NDArray[Any]]
    outputs: tuple[ColumnOutput, ...]
    domain: int
    upright: bool
    source: Source
    sink: Sink
    column_bytes: int = 0

    def run(self, block: Block, cancelled: CancelToken | None = None) -> Report:
        """Read, compute and write a block."""
        task = Task(block, cancelled)
        spans = dict(zip(self.dims, block.extra, strict=True))
        read = {item.field: task.loaded(self._read(item, spans)) for item in self.inputs}
        with task.computing():
            made = self._compute(read, spans)
        for item in self.outputs:
            whole = {**spans, item.vertical: Span(0, item.levels)}
            task.write(self.sink, item.field, region_of(item.dims, whole), made[item.field])
        return task.report()

    @property
    def _others(self) -> tuple[str, ...]:
        return tuple(dim for dim in self.dims if dim != self.dim)

    def _read(self, item: ColumnInput, spans: Mapping[str, Span]) -> NDArray[Any]:
        """Return a variable indexed [others..., level], with one point where it has none."""
        whole = {**spans, item.vertical: Span(0, item.levels)}
        values = self.source.read(item.variable, region_of(item.dims, whole))
        wanted = (*self._others, item.vertical)
        there = [item.dims.index(dim) for dim in wanted if dim in item.dims]
        absent = tuple(at for at, dim in enumerate(wanted) if dim not in item.dims)
        return np.expand_dims(values.transpose(there), absent).astype(item.dtype, copy=False)

    def _compute(
        self, read: Mapping[str, NDArray[Any]], spans: Mapping[str, Span]
    ) -> dict[str, NDArray[Any]]:
        """Return the outputs, in the order of their dimensions."""
        others = tuple(spans[dim].size for dim in self._others)
        wide = (math.prod(others[:-1]), others[-1] if others else 1)
        fields: dict[str, Array] = {}
        if 0 not in wide:
            fields = self._run(read, others, (wide[1], wide[0]))
        made: dict[str, NDArray[Any]] = {}
        for item in self.outputs:
            shape = (*others, item.levels)
            values = np.empty(shape, item.dtype)
            if fields:
                values = self._downloaded(fields[item.field]).reshape(shape)
            order = (*self._others, item.vertical)
            if not item.vertical:
                values, order = values[..., 0], self._others
            made[item.field] = values.transpose([order.index(dim) for dim in item.dims])
        return made

    def _run(
        self, read: Mapping[str, NDArray[Any]], others: tuple[int, ...], wide: tuple[int, int]
    ) -> dict[str, Array]:
        """Run the program; return its outputs indexed [i, j, level] in the target's memory."""
        executable = executable_of(self.code)
        fields: dict[str, Array] = {}
        for item in self.inputs:
            values = read[item.field]
            full = np.broadcast_to(values, (*others, item.levels))
            shaped = full.reshape(wide[1], wide[0], item.levels).transpose(1, 0, 2)
            fields[item.field] = self._uploaded(executable, shaped)
            if not item.vertical:
                fields[item.field] = _flat(fields[item.field])
        for name, levels in self.widths.items():
            one = self._uploaded(executable, levels.reshape(1, 1, -1))
            fields[name] = one[0, 0][None, None]
        outputs: dict[str, Array] = {}
        for item in self.outputs:
            shape = (*wide, item.levels)
            array = _room(executable, shape, np.dtype(item.dtype), upright=self.upright)
            outputs[item.field] = array
            fields[item.field] = array if item.vertical else _flat(array)
        origins = dict.fromkeys(fields, (0, 0, 0))
        executable(fields, dict(self.scalars), origins, (*wide, self.domain))
        return outputs

    def _uploaded(self, executable: Executable, values: NDArray[Any]) -> Array:
        i, j, k = values.shape
        array = _room(executable, (i, j, k), values.dtype, upright=self.upright)
        if self.upright:
            # What lies side by side goes first, so that memory is copied in long pieces.
            executable.memory.upload(values.transpose(2, 0, 1), array.transpose(2, 0, 1))
        else:
            executable.memory.upload(values, array)
        return array

    def _downloaded(self, array: Array) -> NDArray[Any]:
        """Return an array on the host, indexed [j, i, level]."""
        memory = executable_of(self.code).memory
        if self.upright:
            return memory.download(array.transpose(2, 0, 1)).transpose(2, 1, 0)
        return memory.download(array).transpose(1, 0, 2)


def _room(
    executable: Executable, shape: tuple[int, int, int], dtype: np.dtype[Any], *, upright: bool
) -> Array:
    """Return memory indexed [i, j, level], where columns or levels lie beside each other."""
    if not upright:
        return executable.memory.empty(shape, dtype, (0, 0, 0))
    i, j, k = shape
    row = executable.memory.empty((math.prod(shape), 1, 1), dtype, (0, 0, 0))[:, 0, 0]
    return row.reshape(j, i, k).transpose(1, 0, 2)


def _flat(array: Array) -> Array:
    """Return the view of one level that has the stride 0 along K."""
    return array[:, :, 0][:, :, None]
