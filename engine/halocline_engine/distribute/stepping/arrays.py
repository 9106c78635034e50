"""The arrays of a rank, and the steps on them: prepared once, and made again and again."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from operator import setitem
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.base import Array, Memory
from halocline_engine.backends.targets import TARGETS
from halocline_engine.device.launch.streams import wait_for_all
from halocline_engine.distribute.communicators.base import Communicator
from halocline_engine.distribute.exchanges.halos import Exchange
from halocline_engine.distribute.stepping.halos import StepHalos
from halocline_engine.distribute.stepping.held import Held, Room, new_array, planes
from halocline_engine.distribute.stepping.plan import Steps
from halocline_engine.distribute.stepping.schedule import (
    Act,
    Exchanged,
    Made,
    Turned,
    schedules,
)
from halocline_engine.distribute.stepping.stages import Acts, BoundStage, Part
from halocline_engine.distribute.tasks.model import COMPUTE
from halocline_engine.distribute.tasks.spent import Stopwatch

__all__ = ["RankArrays"]

#: Seconds between two looks at whether the job is to end.
_LOOK = 0.05


@dataclass(frozen=True, slots=True)
class _Segment:
    """Acts, and the exchange of halos after them, if there is one."""

    acts: Acts
    exchange: Exchange | None


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A step on some arrays of the variables, and the owners of arrays afterwards."""

    segments: Sequence[_Segment]
    owners: Mapping[str, str]


class _Storage:
    """The arrays of a rank: those of variables by part, and private ones of stages."""

    def __init__(self, steps: Steps, parts: Sequence[Part], memory: Memory) -> None:
        self.variables = steps.program.variables
        self._memory = memory
        self._cells = {part.index: steps.program.cells(part, steps.cut) for part in parts}
        self._arrays = {
            (part.index, name): new_array(memory, one, self._cells[part.index][name], part.spans)
            for part in parts
            for name, one in self.variables.items()
        }
        self._rooms: dict[Hashable, Array] = {}

    def held(self, part: Part, owners: Mapping[str, str]) -> dict[str, Held]:
        """Return the arrays of a part; `owners` says whose array each variable has."""
        cells = self._cells[part.index]
        return {
            name: self.variables[name].held(self._arrays[part.index, owner], cells[name])
            for name, owner in owners.items()
        }

    def room(self, number: int) -> Room:
        """Return a function that makes the arrays of a stage."""

        def room(key: Hashable, shape: tuple[int, int, int], dtype: str) -> Array:
            if (number, key) not in self._rooms:
                self._rooms[number, key] = self._memory.empty(shape, np.dtype(dtype), (0, 0, 0))
            return self._rooms[number, key]

        return room


class RankArrays:
    """The variables of the parts of one rank, and the steps on them.

    `results` are the variables that are looked at after a step.
    """

    def __init__(
        self,
        steps: Steps,
        results: frozenset[str],
        target: str,
        memory: Memory,
        communicator: Communicator,
        watch: Stopwatch,
    ) -> None:
        self._steps, self._target, self._memory = steps, target, memory
        self._communicator = communicator
        self._watch = None if TARGETS[target].on_device else watch
        self.parts = steps.ranks[communicator.rank]
        self._storage = _Storage(steps, self.parts, memory)
        self._variables = self._storage.variables
        # Whose array each variable has, of those that they had at the start.
        self._owners: Mapping[str, str] = {name: name for name in self._variables}
        operations = steps.program.operations(steps.cut)
        self._first, self._later = schedules(operations, steps.program.feedback, results)
        self._made = self._exchanges = 0
        self._looked_at = 0.0
        self._prepared: dict[tuple[bool, tuple[str, ...]], _Prepared] = {}
        self._halos = StepHalos(steps, memory, communicator, self._watch)

    def load(self, name: str, part: Part, values: NDArray[Any]) -> None:
        """Set the own cells of a variable, given along its dimensions."""
        variable, held = self._variables[name], self.held(part)[name]
        whole = variable.held(values, part.spans)
        for view, cells in planes(held, part.spans):
            self._memory.upload(whole.view(*cells), view)

    def fill(self, name: str, value: float) -> None:
        """Set all cells of a variable."""
        for part in self.parts:
            self.held(part)[name].array[...] = value

    def own(self, name: str) -> list[tuple[Part, NDArray[Any]]]:
        """Return the own cells of a variable by part, along its dimensions, as new arrays."""
        variable = self._variables[name]
        found: list[tuple[Part, NDArray[Any]]] = []
        for part in self.parts:
            shape = tuple(part.spans[dim].size for dim in variable.dims)
            values: NDArray[Any] = np.empty(shape, variable.dtype)
            whole = variable.held(values, part.spans)
            for view, cells in planes(self.held(part)[name], part.spans):
                self._memory.download(view, whole.view(*cells))
            found.append((part, values))
        return found

    def held(self, part: Part) -> dict[str, Held]:
        """Return the arrays that the variables of a part have now."""
        return self._storage.held(part, self._owners)

    def advance(self, count: int) -> None:
        """Make so many steps; they are complete when it returns."""
        for _ in range(count):
            self._communicator.check()
            prepared = self._step()
            for segment in prepared.segments:
                with self._computing():
                    for act in segment.acts:
                        self._look()
                        act()
                if segment.exchange is not None:
                    segment.exchange(self._exchanges)
                    self._exchanges += 1
            self._owners = prepared.owners
            self._made += 1
        if TARGETS[self._target].on_device:
            wait_for_all()

    def _look(self) -> None:
        """Raise if the job was cancelled; a single step may take long."""
        now = time.monotonic()
        if now - self._looked_at > _LOOK:
            self._communicator.check()
            self._looked_at = now

    def _step(self) -> _Prepared:
        """Return the next step."""
        key = (self._made == 0, tuple(self._owners.values()))
        found = self._prepared.get(key)
        if found is None:
            acts = self._later if self._made else self._first
            found = self._prepared[key] = self._prepare(acts, dict(self._owners))
        return found

    def _prepare(self, acts: Sequence[Act], owners: dict[str, str]) -> _Prepared:
        """Return a step that begins with some arrays."""
        segments: list[_Segment] = []
        calls: Acts = []
        bound: dict[tuple[int, tuple[str, ...]], list[BoundStage]] = {}
        exchanges: dict[tuple[tuple[str, ...], tuple[str, ...]], Exchange] = {}
        for act in acts:
            match act:
                case Exchanged(names):
                    place = (names, tuple(owners.values()))
                    if place not in exchanges:
                        held = {part.index: self._storage.held(part, owners) for part in self.parts}
                        exchanges[place] = self._halos.exchange(names, held)
                    exchange = exchanges[place]
                    if exchange.messages is None:
                        calls += exchange.acts
                    else:
                        segments.append(_Segment(calls, exchange))
                        calls = []
                case Made(number, ghosts, repeated):
                    key = (number, tuple(owners.values()))
                    if key not in bound:
                        bound[key] = self._bound(number, owners)
                    for one in bound[key]:
                        for name in ghosts:
                            calls += one.ghosts.get(name, ())
                        for name in repeated:
                            calls += one.repeated.get(name, ())
                        calls += one.calls
                case Turned(arrays, copied):
                    owners |= {to: owners[of] for to, of in arrays.items()}
                    for part in self.parts:
                        held = self._storage.held(part, owners)
                        calls += [
                            partial(setitem, held[to].array, ..., held[of].array)
                            for to, of in copied
                        ]
        return _Prepared([*segments, _Segment(calls, None)], owners)

    def _bound(self, number: int, owners: Mapping[str, str]) -> list[BoundStage]:
        """Return a stage on the arrays of each part."""
        stage, room = self._steps.program.stages[number], self._storage.room(number)
        return [
            stage.bound(part, self._storage.held(part, owners), room, self._steps.cut)
            for part in self.parts
        ]

    def _computing(self) -> Any:
        """Have the threads of this process for oneself; a device is shared by streams."""
        return nullcontext() if TARGETS[self._target].on_device else COMPUTE
