"""Fields read through tables, gathered before the kernels run.

A program names points along I by columns of tables, see `ir.nodes.Gather`. Each field that is read
so has an array of its own for each column, filled here before every call, on any target. Kernels
read it as any other field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from halocline_engine.backends.base import (
    Array,
    Artifact,
    Fields,
    Origins,
    Placed,
    Point,
    Scalars,
    WrappedArtifact,
    WrappedExecutable,
)
from halocline_engine.backends.host import repeat_work
from halocline_engine.errors import FieldError
from halocline_engine.ir.nodes import Gather, Program
from halocline_engine.ir.types import Axis

__all__ = ["TableArtifact", "TableExecutable", "check_column", "with_tables"]


@dataclass(frozen=True, slots=True)
class TableArtifact(WrappedArtifact):
    """`backends.base.Artifact` of a program that reads through tables.

    `axes` and `dtypes` are those of what is made.
    """

    gathers: tuple[Gather, ...]
    axes: Mapping[str, tuple[Axis, ...]]
    dtypes: Mapping[str, str]

    def load(self) -> TableExecutable:
        """Make it run in this process."""
        return TableExecutable(self.artifact.load(), self)


@dataclass(frozen=True, slots=True)
class TableExecutable(WrappedExecutable):
    """`backends.base.Executable` of a program that reads through tables."""

    plan: TableArtifact

    def repeat(
        self, work: Callable[[], None], times: int, look: Callable[[], None] | None = None
    ) -> None:
        """Do work again; tables are looked at each time."""
        repeat_work(work, times, look)

    def __call__(self, fields: Fields, scalars: Scalars, origins: Origins, domain: Point) -> None:
        """Run once; raises `FieldError` before anything is changed where a point does not exist."""
        if 0 in domain:
            return
        arrays, places = dict(fields), dict(origins)
        for gather in self.plan.gathers:
            arrays[gather.name] = self._made(gather, fields, origins, domain)
            places[gather.name] = (0, 0, 0)
        self.kernels(arrays, scalars, places, domain)

    def placed(
        self, first: Point, sizes: Point, periodic: tuple[bool, bool, bool]
    ) -> TableExecutable:
        """Return the same for blocks; see `backends.base.Placed`."""
        if not isinstance(self.kernels, Placed):
            return self
        return replace(self, kernels=self.kernels.placed(first, sizes, periodic))

    def _made(
        self,
        gather: Gather,
        fields: Fields,
        origins: Mapping[str, Point],
        domain: Point,
    ) -> Array:
        """Return the array of what is gathered, on the domain."""
        column, first = fields[gather.index], origins[gather.index][0]
        index: Any = column[first : first + domain[0], 0, 0]
        source = fields[gather.field][self._around(gather, origins[gather.field], domain)]
        missing = check_column(gather, index, source.shape[0])
        dtype = np.dtype(self.plan.dtypes[gather.name])
        shape = (domain[0], source.shape[1], source.shape[2])
        made = self.memory.empty(shape, dtype, (0, 0, 0))
        if source.shape[0]:
            made[...] = source[index.clip(0) if missing else index]
        if missing:
            made[(index < 0).nonzero()[0]] = np.nan if dtype.kind == "f" else 0
        return made

    def _around(self, gather: Gather, origin: Point, domain: Point) -> tuple[slice, ...]:
        """Return where the field is read: from the domain's first point along I to its end."""
        _, j, k = (
            slice(start, start + size) if axis in self.plan.axes[gather.name] else slice(0, 1)
            for axis, start, size in zip(Axis, origin, domain, strict=True)
        )
        return slice(origin[0], None), j, k


def with_tables(artifact: Artifact, program: Program) -> Artifact:
    """Return the artifact of a program, which makes what it reads through tables."""
    if not program.gathers:
        return artifact
    made = {gather.name for gather in program.gathers}
    fields = [field for field in program.fields if field.name in made]
    return TableArtifact(
        artifact,
        program.gathers,
        {field.name: field.axes for field in fields},
        {field.name: field.dtype.value for field in fields},
    )


def check_column(gather: Gather, index: Any, points: int) -> bool:
    """Return whether some points are missing; raises `FieldError` for those that do not exist.

    `index` is one-dimensional; `points` is how many the field has.
    """
    if not index.size:
        return False
    low, high = int(index.min()), int(index.max())
    if low >= -1 and high < points:
        return low < 0
    place = int(((index < -1) | (index >= points)).argmax())
    table, _, slot = gather.index.partition(".")
    where = f"[{place}, {slot}]" if slot else f"[{place}]"
    raise FieldError(
        f"Table '{table}' names point {int(index[place])} at {where}, but field '{gather.field}'"
        f" has {points} points along I.",
        hint=f"Points are numbered from 0 to {points - 1}, and -1 stands for none.",
    )
