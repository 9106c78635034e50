"""One block, from the source to the sink: what a worker runs.

A task travels as some small frozen `BlockWork` and a `Block`, and gives back a small `Report`; the
values go between stores and workers only. Running a task again writes the same bytes again. `Work`
is that of stencil programs.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.base import Artifact, Executable
from halocline_engine.backends.compiled import Compiled
from halocline_engine.datasets.grids.match import FieldUse, Role
from halocline_engine.datasets.stores.chunks import Tally, counted
from halocline_engine.datasets.stores.sink import Sink
from halocline_engine.datasets.stores.source import Source
from halocline_engine.device.launch.streams import brought, new_array
from halocline_engine.distribute.blocks.scalars import StepScalars
from halocline_engine.distribute.blocks.steps import BlockFields, nothing
from halocline_engine.distribute.grid.geometry import Geometry, Layout, geometry
from halocline_engine.distribute.grid.partition import Block
from halocline_engine.distribute.grid.regions import read_box, write_box
from halocline_engine.distribute.tasks.cancel import CancelToken
from halocline_engine.distribute.tasks.model import Report, Task
from halocline_engine.ir.extent import Horizontal

__all__ = [
    "BoundProgram",
    "Code",
    "Work",
    "executable_of",
    "run_block",
    "saved_results",
    "saved_states",
    "sources_of",
]


@dataclass(frozen=True, slots=True)
class Code:
    """A program for a target; equal where the fingerprints are."""

    fingerprint: str
    artifact: Artifact = field(compare=False)

    @classmethod
    def of(cls, compiled: Compiled) -> Code:
        """Return that of a compiled program."""
        return cls(compiled.fingerprint, compiled.artifact)


def sources_of(
    uses: Iterable[FieldUse], source: Source, states: Mapping[str, Source] = MappingProxyType({})
) -> tuple[tuple[str, Source, str], ...]:
    """Return where loaded fields are read: in `states`, by field, as far as these have them."""
    return tuple(
        (use.name, states.get(use.name, source), use.name if use.name in states else use.variable)
        for use in uses
        if use.loaded
    )


def saved_results(uses: Iterable[FieldUse]) -> tuple[tuple[str, str], ...]:
    """Return what is written as the result."""
    return tuple((use.variable, use.name) for use in uses if use.result)


def saved_states(uses: Iterable[FieldUse]) -> tuple[tuple[str, str], ...]:
    """Return what is written for the next step: each kept field, from the one that becomes it."""
    return tuple((use.name, use.partner or use.name) for use in uses if use.kept)


@dataclass(frozen=True, slots=True, eq=False)
class BoundProgram:
    """A program with values, and where its fields are read and written.

    `scalars` are those of the steps that are made. `sources` are loaded fields, each with where it
    is read and its name there; `saved` are names in the sink, each with the field whose values are
    written.
    """

    layout: Layout
    code: Code
    scalars: StepScalars
    sources: tuple[tuple[str, Source, str], ...]
    sink: Sink
    saved: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Work(BoundProgram):
    """Work of all blocks of one pass, which makes some steps.

    Results lie `on_device`, or on the host. `temporaries` are the size and extent of those that are
    whole arrays on the target.
    """

    steps: int
    on_device: bool = False
    temporaries: tuple[tuple[int, Horizontal], ...] = ()

    def run(self, block: Block, cancelled: CancelToken | None = None) -> Report:
        """Compute a block; see `run_block`."""
        return run_block(self, block, cancelled)


def run_block(work: Work, block: Block, cancelled: CancelToken | None = None) -> Report:
    """Read a block with its halo, make the steps of the pass, write its own cells.

    `cancelled` is looked at between steps; where it says True, `CancelledError` is raised.
    """
    task = Task(block, cancelled)
    cells = geometry(work.layout, block, work.steps)
    uses = {use.name: use for use in work.layout.uses}
    tally = Tally()
    loaded = {
        name: task.loaded(
            read_box(
                counted(source, tally),
                variable,
                uses[name],
                work.layout.grid,
                block,
                cells.inner[name],
            )
        )
        for name, source, variable in work.sources
        if not cells.idle or uses[name].kept
    }
    if cells.idle:
        results = {name: _idle(uses[name], loaded, block, cells) for _, name in work.saved}
    else:
        with task.computing():
            results = _compute(work, block, cells, loaded, cancelled)
    for name, source in work.saved:
        values = brought(results[source]) if work.on_device else results[source]
        task.bytes_written += write_box(
            work.sink, name, uses[source], work.layout.grid, block, values
        )
    return task.report(fetches=tally.fetches)


def _idle(
    use: FieldUse, loaded: Mapping[str, NDArray[Any]], block: Block, cells: Geometry
) -> NDArray[Any]:
    """Return a saved field's values where no step computes anything."""
    match use.role:
        case Role.FEEDS | Role.IN_PLACE | Role.FED:
            source = use.partner if use.role is Role.FEEDS else use.name
            own = zip(cells.own[source], cells.inner[source], strict=True)
            return loaded[source][(..., *(span.within(held) for span, held in own))]
        case Role.CREATED | Role.INPUT:
            shape = [span.size for span in (*block.extra, *cells.own[use.name])]
            return np.full(shape, nothing(use), use.dtype)


def _compute(
    work: Work,
    block: Block,
    cells: Geometry,
    loaded: Mapping[str, NDArray[Any]],
    cancelled: CancelToken | None,
) -> dict[str, NDArray[Any]]:
    """Return the block's own cells of every saved field, indexed [others..., i, j, k]."""
    block_fields = BlockFields.of(work.layout, cells, executable_of(work.code))
    roles = {use.name: use.role for use in work.layout.uses}
    outer = tuple(span.size for span in block.extra)
    results: dict[str, NDArray[Any]] = {}
    before: dict[str, tuple[int, ...]] = {}
    for point in itertools.product(*(range(size) for size in outer)):
        for name, values in loaded.items():
            shape = values.shape[: len(outer)]
            at = tuple(index if size > 1 else 0 for index, size in zip(point, shape, strict=True))
            if roles[name] is not Role.INPUT or before.get(name) != at:
                block_fields.upload(name, values[at])
            before[name] = at
        scalars = work.scalars.at(work.layout.grid.extra, block, point)
        after = block_fields.advance(scalars, cancelled)
        for _, name in work.saved:
            own = block_fields.own if work.on_device else block_fields.download
            values = own(after[name], name)
            if math.prod(outer) == 1:
                results[name] = values[(np.newaxis,) * len(outer)]
                continue
            if name not in results:
                make = new_array if work.on_device else np.empty
                results[name] = _room(outer, values, make)
            results[name][point] = values
    return results


def _room(
    outer: tuple[int, ...],
    values: NDArray[Any],
    make: Callable[[tuple[int, ...], np.dtype[Any]], NDArray[Any]],
) -> NDArray[Any]:
    """Make an array [others..., i, j, k] with points along I side by side, as they come."""
    i, j, k = values.shape
    return make((*outer, k, j, i), values.dtype).swapaxes(-1, -3)


@functools.lru_cache(maxsize=8)
def executable_of(code: Code) -> Executable:
    """Load a program once in each process."""
    return code.artifact.load()
