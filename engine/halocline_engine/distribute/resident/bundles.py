"""Bundles of steps between two exchanges of halos, recorded to be made again and again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from halocline_engine.backends.base import Executable, Overlap, Overlapping
from halocline_engine.distribute.exchanges.halos import Exchange, Halos, ResidentBlock
from halocline_engine.distribute.grid.geometry import Layout
from halocline_engine.distribute.resident.fusing import Group, groups_of
from halocline_engine.distribute.resident.overlap import Parts, parts_of

__all__ = ["Bundle", "Bundles"]

_Acts = list[Callable[[], None]]


@dataclass(frozen=True, slots=True)
class Bundle:
    """Steps, and the exchange of halos after them.

    Where there is an `overlap`, the last steps make the cells that others await as `edges`, and
    those `inside` while halos are under way.
    """

    steps: Sequence[Callable[[], None]]
    exchange: Exchange
    inside: Sequence[Callable[[], None]] = ()
    edges: Sequence[Callable[[], None]] = ()
    overlap: Overlap | None = None

    def compute(self) -> None:
        """Make the steps alone, which have no overlap."""
        for act in self.steps:
            act()

    def queue(self) -> None:
        """Queue steps and exchange; there are no messages."""
        self.compute()
        if self.overlap is None:
            for act in self.exchange.acts:
                act()
            return
        self.overlap(self.inside, [*self.edges, *self.exchange.moved])
        for act in self.exchange.wrapped:
            act()


class Bundles:
    """Bundles of up to `steps` steps on the blocks of a rank."""

    def __init__(
        self,
        layout: Layout,
        executable: Executable,
        blocks: Mapping[int, ResidentBlock],
        halos: Halos,
        steps: int,
    ) -> None:
        self._layout, self._executable = layout, executable
        self._blocks, self._halos, self._steps = blocks, halos, steps
        self._groups: dict[int, list[tuple[ResidentBlock, list[Group]]]] = {}
        self._overlap = self._overlapping()

    def make(self, steps: int) -> None:
        """Make so many steps, up to a whole bundle."""
        for block, groups in self._grouped(steps):
            for group in groups:
                block.steps.make(group.last, group.executable)

    def recorded(self, *, other: bool) -> Bundle:
        """Return the next bundle on the same arrays; see `BlockSteps.recorded`."""
        steps: _Acts = []
        inside: _Acts = []
        edges: _Acts = []
        parts = self._parts()
        for index, (block, groups) in zip(self._blocks, self._grouped(self._steps), strict=True):
            whole = groups if parts is None else groups[:-1]
            for group in whole:
                steps += block.steps.recorded(group.last, group.executable, other=other)
            if parts is not None:
                some, last = parts[index], groups[-1].last
                every = {**some.edges, **some.inner}
                prepared, calls = block.steps.recorded_parts(last, every, other=other)
                steps += prepared
                edges += calls[: len(some.edges)]
                inside += calls[len(some.edges) :]
        exchange = self._halos.prepared()
        overlap = None if parts is None else self._overlap
        return Bundle(steps, exchange, inside, edges, overlap)

    def _overlapping(self) -> Overlap | None:
        """Return what queues exchanges beside steps, None where they need a host or nothing."""
        if self._halos.alone or not self._halos.queued:
            return None
        return self._executable.overlap() if isinstance(self._executable, Overlapping) else None

    def _parts(self) -> Mapping[int, Parts] | None:
        """Return the parts of each block's last steps; None where one makes all cells at once."""
        if self._overlap is None:
            return None
        found: dict[int, Parts] = {}
        for index, (block, groups) in zip(self._blocks, self._grouped(self._steps), strict=True):
            awaited = self._halos.awaited(index)
            cells = block.fields.cells
            parts = parts_of(self._executable, self._layout, cells, groups[-1], awaited)
            if parts is None:
                return None
            found[index] = parts
        return found

    def _grouped(self, steps: int) -> list[tuple[ResidentBlock, list[Group]]]:
        """Return each block with its last `steps` steps of a bundle, as they are made together."""
        found = self._groups.get(steps)
        if found is None:
            found = self._groups[steps] = [
                (one, groups_of(self._executable, self._layout, one.fields.cells, steps))
                for one in self._blocks.values()
            ]
        return found
