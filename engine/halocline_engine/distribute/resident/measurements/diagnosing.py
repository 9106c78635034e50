"""Diagnostics of fields that stay in memory: ranks reduce blocks, and rank 0 has the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.reductions import reducer_on
from halocline_engine.backends.targets import HOST_TARGET, TARGETS
from halocline_engine.copies import of_device
from halocline_engine.datasets.stores.sink import Sink
from halocline_engine.datasets.stores.source import ArrayStore, Source
from halocline_engine.datasets.untyped import ZARR
from halocline_engine.distribute.communicators.base import Communicator
from halocline_engine.distribute.exchanges.halos import ResidentBlock
from halocline_engine.distribute.grid.partition import Block
from halocline_engine.distribute.grid.regions import to_variable
from halocline_engine.distribute.jobs.blocking import region_of
from halocline_engine.distribute.jobs.snapshots import place_of_step
from halocline_engine.distribute.reductions.bound import Reduction
from halocline_engine.distribute.reductions.running import Diagnosis
from halocline_engine.distribute.reductions.work import (
    block_states,
    has_states,
    merged_states,
    results_of,
)
from halocline_engine.distribute.tasks.model import COMPUTE
from halocline_engine.kernels.reduce.states import States

__all__ = ["Diagnoser", "keep_diagnostics"]

#: Behind the name of a variable, what its array in a checkpoint is called; no field is called so.
_KEPT = "-diagnostic"


class Diagnoser:
    """Measurements of `diagnosis` on the blocks of one rank.

    All ranks take them after the same steps. Rank 0 has the `values` of all measurements; those of
    earlier runs are in the checkpoint `kept`, "" for none. `source` has variables that no step
    changes, `ranks` are the blocks of each rank.
    """

    def __init__(
        self,
        diagnosis: Diagnosis,
        blocks: Sequence[tuple[Block, ResidentBlock]],
        ranks: Sequence[Sequence[Block]],
        among: Communicator,
        source: Source,
        target: str,
        kept: str,
    ) -> None:
        self._diagnosis, self._blocks, self._ranks = diagnosis, blocks, ranks
        self._communicator = among
        self._on_device = TARGETS[target].on_device
        # Values come to the host where they lie on a device.
        self._reducer = reducer_on(HOST_TARGET if TARGETS[target].compiles else target)
        self._constant = [
            {
                name: _here(source.read(name, diagnosis.region_of(name, block)), resident)
                for name in diagnosis.constant
            }
            for block, resident in blocks
        ]
        self.values: dict[str, NDArray[Any]] = {}
        if among.rank == 0:
            self.values = _new_values(diagnosis, kept)

    def measure_if_due(self, steps_done: int) -> None:
        """Reduce the fields as they are after so many steps, if these are to be measured."""
        every, steps = self._diagnosis.every, self._diagnosis.steps
        if steps_done % every and steps_done < steps:
            return
        with COMPUTE:
            made = [self._states(one) for one in self._diagnosis.reductions]
        place = place_of_step(steps_done, self._diagnosis.every)
        for number, (one, states) in enumerate(zip(self._diagnosis.reductions, made, strict=True)):
            tag = (f"diagnosed {number}", steps_done)
            if self._communicator.rank:
                self._communicator.send(0, tag, states)
                continue
            merged: States | None = None
            for rank, blocks in enumerate(self._ranks):
                received = states if rank == 0 else self._communicator.receive(rank, tag)
                merged = self._with(one, merged, blocks, received)
            assert merged is not None, "some block has the first cells"
            rows = merged.reshape(-1, one.columns)
            results = results_of(one, rows, self._diagnosis.numbers, self._reducer)
            for name, values in results.items():
                array = self.values[name]
                array[place] = values.reshape(array.shape[1:])

    def save(self, sink: Sink) -> int:
        """Write the values of all measurements, on rank 0; return how many bytes."""
        for name, values in self.values.items():
            sink.write(name, tuple(slice(0, size) for size in values.shape), values)
        return sum(values.nbytes for values in self.values.values())

    def _states(self, one: Reduction) -> States:
        """Return the states of the blocks of this rank, one after the other."""
        found: list[States] = [np.empty(0, np.int64)]
        for at, (block, resident) in enumerate(self._blocks):
            spans = self._diagnosis.spans_of(block, one.dims)
            if has_states(one, spans):
                read = {name: self._value(name, at, resident) for name in one.variables}
                states = block_states(one, read, self._diagnosis.own, spans, self._reducer)
                found.append(states.reshape(-1))
        return np.concatenate(found)

    def _value(self, name: str, at: int, resident: ResidentBlock) -> NDArray[Any]:
        """Return the block's own cells of a variable, in the order of its dimensions."""
        field = self._diagnosis.fields.get(name)
        if field is None:
            return self._constant[at][name]
        fields = resident.fields
        use = next(use for use in fields.layout.uses if use.name == field)
        values = fields.own(resident.steps.arrays[field], field)
        if self._on_device:
            values = fields.executable.memory.download(values)
        grid = fields.layout.grid
        return to_variable(values[(np.newaxis,) * len(grid.extra)], use, grid)

    def _with(
        self, one: Reduction, merged: States | None, blocks: Sequence[Block], received: States
    ) -> States | None:
        """Return states of all groups with those of some blocks."""
        sizes, at = [one.sizes[dim] for dim in one.kept], 0
        for block in blocks:
            spans = self._diagnosis.spans_of(block, one.dims)
            if not has_states(one, spans):
                continue
            shape = (*(spans[dim].size for dim in one.kept), one.groups, one.columns)
            count = int(np.prod(shape))
            states = received[at : at + count].reshape(-1, one.columns)
            at += count
            if merged is None and [*shape[:-2]] == sizes:
                merged = states.copy().reshape(shape)
                continue
            if merged is None:
                merged = one.new_states().reshape(*sizes, one.groups, one.columns)
            region = region_of(one.kept, spans)
            part = merged[region].reshape(-1, one.columns)
            merged[region] = merged_states(one, part, states).reshape(shape)
        return merged


def keep_diagnostics(path: Path, values: Mapping[str, NDArray[Any]]) -> None:
    """Write the values of measurements to the store of a checkpoint."""
    for name, array in values.items():
        made = ZARR.create_array(
            store=str(path),
            name=f"{name}{_KEPT}",
            shape=array.shape,
            chunks=tuple(max(1, size) for size in array.shape),
            dtype=array.dtype,
            compressors=None,
            zarr_format=3,
        )
        made[...] = array


def _new_values(diagnosis: Diagnosis, kept: str) -> dict[str, NDArray[Any]]:
    """Return arrays for the values of all measurements, with the earlier ones filled in."""
    sizes = diagnosis.sizes
    made: dict[str, NDArray[Any]] = {}
    for use in diagnosis.uses:
        shape = tuple(sizes[dim] for dim in use.dims)
        if kept:
            region = tuple(slice(0, size) for size in shape)
            made[use.name] = np.array(ArrayStore(kept).read(f"{use.name}{_KEPT}", region))
        else:
            made[use.name] = np.zeros(shape, use.dtype)
    return made


def _here(values: Any, resident: ResidentBlock) -> NDArray[Any]:
    if of_device(values):
        return resident.fields.executable.memory.download(values)
    return np.asarray(values)
