"""The blocks of a pass as a pipeline through a device; see `pipeline` for who waits for whom.

What a block needs and the one before it had is copied on the device, from memory that the former
left it in; only the rest is read and sent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from halocline_engine.backends.base import Array, Executable
from halocline_engine.compiling import compiled_seconds
from halocline_engine.control.interruption import interruptible
from halocline_engine.datasets.grids.match import Role
from halocline_engine.datasets.stores.chunks import Tally
from halocline_engine.distribute.blocks.ghosts import fill_ghosts
from halocline_engine.distribute.blocks.scalars import StepScalars
from halocline_engine.distribute.blocks.steps import BlockFields
from halocline_engine.distribute.blocks.work import Work, executable_of
from halocline_engine.distribute.grid.geometry import Geometry, geometry
from halocline_engine.distribute.grid.overlap import Share, points_of, same_point, share
from halocline_engine.distribute.grid.partition import Block, Box
from halocline_engine.distribute.pipeline.replay import Replays, kind_of
from halocline_engine.distribute.pipeline.resources import CopyQueues, Moment, PipelineResources
from halocline_engine.distribute.pipeline.schedule import run_pipeline
from halocline_engine.distribute.tasks.cancel import CancelToken
from halocline_engine.distribute.tasks.model import COMPUTE, Report, Task
from halocline_engine.distribute.tasks.spent import Spent
from halocline_engine.distribute.transports.base import (
    Loading,
    Part,
    Storing,
    TransferredBytes,
    shape_of,
)
from halocline_engine.distribute.transports.choose import FieldParts, loading_of, storing_of

__all__ = ["Item", "PipelineStages", "PipelinedWork", "items_of"]

#: Items that are read at the same time, at most.
_READ_AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class Item:
    """A block at one point of the outer dimensions: its cells, the new ones, its scalars.

    `shares` belong to the fields that are loaded; `last` says that its block has no more points.
    """

    block: Block
    cells: Geometry
    shares: Mapping[str, Share]
    last: bool
    scalars: StepScalars


def items_of(work: Work, blocks: Sequence[Block]) -> list[Item]:
    """Return the blocks of a pass as they go through a device."""
    items: list[Item] = []
    uses = [use for use in work.layout.uses if use.loaded]
    extra = work.layout.grid.extra
    for block in blocks:
        cells = geometry(work.layout, block, work.steps)
        points = points_of(block)
        for number, point in enumerate(points, 1):
            shares: dict[str, Share] = {}
            for use in uses:
                box = cells.inner[use.name]
                known = items and same_point(use, work.layout.grid, items[-1].block, point)
                before = items[-1].cells.inner[use.name] if known else None
                shares[use.name] = share(before, box)
            scalars = work.scalars.at(extra, point, (0,) * len(extra))
            items.append(Item(point, cells, shares, number == len(points), scalars))
    return items


@dataclass(frozen=True, slots=True, eq=False)
class PipelinedWork:
    """The work of a pass, whose blocks overlap on a device with so many slots."""

    work: Work
    slots: int
    resources: PipelineResources

    def run(self, block: Block, cancelled: CancelToken | None = None) -> Report:
        """Compute one block by itself."""
        return self.work.run(block, cancelled)

    def stream(self, blocks: Sequence[Block], cancelled: CancelToken | None) -> Iterator[Report]:
        """Compute blocks in order, and yield them as they are written."""
        items = items_of(self.work, blocks)
        if any(item.cells.idle for item in items):
            yield from (self.work.run(block, cancelled) for block in blocks)
            return
        stages = PipelineStages(self.work, items, self.slots, self.resources, cancelled)
        queues = self.resources.queues
        done = run_pipeline(stages, queues, len(items), self.slots, cancelled, stages.read_at_once)
        with closing(stages), closing(done):
            for number in done:
                report = stages.report(number)
                if report is not None:
                    yield report


@dataclass(slots=True)
class _Transfers:
    """What was moved for a block so far, and when: on the host in seconds, else by moments."""

    task: Task
    queues: CopyQueues
    zero_copy: int = 0
    direct_io: int = 0
    reading: float = 0.0
    writing: float = 0.0
    compiling: float = 0.0
    moments: list[tuple[str, Moment, Moment]] = field(
        default_factory=list["tuple[str, Moment, Moment]"]
    )
    lock: threading.Lock = field(default_factory=threading.Lock)
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def add(self, moved: TransferredBytes, *, written: bool) -> None:
        """Count bytes; several threads read points of a block, and write others."""
        with self._counting:
            self.task.bytes_read += 0 if written else moved.size
            self.task.bytes_written += moved.size if written else 0
            self.zero_copy += moved.zero_copy
            self.direct_io += moved.direct_io

    @contextmanager
    def read(self) -> Generator[None]:
        """Measure how long a point of the block is read."""
        began = time.perf_counter()
        yield
        with self._counting:
            self.reading += time.perf_counter() - began

    @contextmanager
    def written(self) -> Generator[None]:
        """Be the only one that writes the block, which is computed."""
        with self.lock:
            began = time.perf_counter()
            yield
            self.writing += time.perf_counter() - began

    @contextmanager
    def queued(self, activity: str) -> Generator[None]:
        """Measure what is put in the current queue, from when the queue comes to it."""
        began, before = self.queues.moment(), compiled_seconds()
        yield
        self.moments.append((activity, began, self.queues.moment()))
        self.compiling += compiled_seconds() - before

    @property
    def spent(self) -> Spent:
        """The seconds of each activity; the queues have come to all moments."""
        seconds = {"reading": self.reading, "writing": self.writing}
        for activity, began, ended in self.moments:
            seconds[activity] = seconds.get(activity, 0.0) + ended.since(began)
        # A queue waits for what is put there later while the host compiles it.
        computing = max(0.0, seconds.pop("computing") - self.compiling)
        return Spent(**seconds, computing=computing, compiling=self.compiling)

    def report(self, fetches: int) -> Report:
        """Return what became of the block, which is written."""
        return self.task.report(
            spent=self.spent,
            fetches=fetches,
            bytes_zero_copy=self.zero_copy,
            bytes_direct_io=self.direct_io,
        )


class PipelineStages:
    """The stages of a pass: `pipeline.Stages`."""

    def __init__(
        self,
        work: Work,
        items: Sequence[Item],
        slots: int,
        resources: PipelineResources,
        cancelled: CancelToken | None,
    ) -> None:
        self._work, self._items, self._cancelled = work, items, cancelled
        self._queues = resources.queues
        self._uses = {use.name: use for use in work.layout.uses}
        self._executable: Executable = executable_of(work.code)
        self._loading = self._all_loading(slots, resources)
        self._storing = self._all_storing(slots, resources)
        self._arrays = [self._slot() for _ in range(slots)]
        self._carried = self._carry()
        self._kinds = [self._kind(number) for number in range(len(items))]
        self._replays = Replays(self._queues, self._executable)
        self._after: dict[tuple[int, Hashable], Mapping[str, Array]] = {}
        self._tally = Tally()
        self._counting = threading.Lock()
        self._moved: dict[int, _Transfers] = {}
        self._fetches = 0

    def close(self) -> None:
        """Give the arrays of the slots back; nothing uses them any more.

        Work that was recorded refers to this, and this to it.
        """
        self._replays.clear()
        self._after.clear()
        self._arrays.clear()

    @property
    def read_at_once(self) -> int:
        """How many items may be read at the same time: several, if that leaves nothing in a cache.

        So there is something to read while the last pieces of an item are.
        """
        return _READ_AT_ONCE if all(one.several for one in self._loading.values()) else 1

    def read(self, item: int, slot: int) -> None:
        """Read what is new, and prepare for what will be made."""
        one = self._items[item]
        task = Task(one.block, self._cancelled)
        moved = self._moved.setdefault(one.block.index, _Transfers(task, self._queues))
        tally = Tally()
        with moved.read(), interruptible(task.check):
            for name, way in self._loading.items():
                if not one.shares[name].complete:
                    part = Part(item, slot, one.block, one.shares[name].fresh)
                    moved.add(way.read(part, tally), written=False)
        with self._counting:
            self._tally.fetches += tally.fetches
        for name, way in self._storing.items():
            way.prepare(Part(item, slot, one.block, one.cells.own[name]))

    def send(self, item: int, slot: int) -> None:
        """Queue the copies of what is new."""
        one = self._items[item]
        fields = self._fields(one, slot)
        with self._moved[one.block.index].queued("sending"):
            for name, way in self._loading.items():
                if not one.shares[name].complete:
                    fresh = one.shares[name].fresh
                    way.send(Part(item, slot, one.block, fresh), fields.part(name, fresh))

    def compute(self, item: int, slot: int) -> None:
        """Queue the copies of what is known, and the steps."""
        with COMPUTE, self._moved[self._items[item].block.index].queued("computing"):
            block_fields = self._fields(self._items[item], slot)
            if block_fields.waits:
                self._steps(block_fields, item, slot)
            else:
                work = partial(self._steps, block_fields, item, slot)
                self._replays.queue(slot, self._kinds[item], work)

    def _steps(self, block_fields: BlockFields, item: int, slot: int) -> None:
        one = self._items[item]
        for name in self._loading:
            kept, wanted = one.shares[name].kept, self._wanted(item, name)
            if kept is not None:
                block_fields.part(name, kept)[...] = self._known(name, kept)
            if wanted is not None:
                self._known(name, wanted)[...] = block_fields.part(name, wanted)
            if self._uses[name].role is Role.INPUT:
                frame = one.cells.frames[name]
                fill_ghosts(block_fields.arrays[name], self._work.layout.lines_of(name), frame)
        self._after[slot, self._kinds[item]] = block_fields.queue(one.scalars, self._cancelled)

    def fetch(self, item: int, slot: int) -> None:
        """Queue the copies of what was made."""
        one = self._items[item]
        after = self._after[slot, self._kinds[item]]
        fields = self._fields(one, slot, after)
        with self._moved[one.block.index].queued("fetching"):
            for name, way in self._storing.items():
                own = one.cells.own[name]
                way.fetch(Part(item, slot, one.block, own), fields.part(name, own))

    def write(self, item: int, slot: int) -> None:
        """Write what was made, if it is not where it belongs."""
        one = self._items[item]
        moved = self._moved[one.block.index]
        # Points of a block, which may share chunks, are written one after the other.
        with moved.written():
            for name, way in self._storing.items():
                part = Part(item, slot, one.block, one.cells.own[name])
                moved.add(way.write(part), written=True)

    def report(self, item: int) -> Report | None:
        """Return what became of a block when all of it is written."""
        one = self._items[item]
        if not one.last:
            return None
        moved = self._moved.pop(one.block.index)
        fetches, self._fetches = self._tally.fetches - self._fetches, self._tally.fetches
        return moved.report(fetches)

    def _wanted(self, item: int, name: str) -> Box | None:
        """Return what the next item needs and this one has."""
        following = self._items[item + 1] if item + 1 < len(self._items) else None
        return following.shares[name].kept if following is not None else None

    def _kind(self, item: int) -> Hashable:
        """Return what items have in common whose steps are queued alike in one slot."""
        one = self._items[item]
        handed = {name: (one.shares[name].kept, self._wanted(item, name)) for name in self._loading}
        alike = kind_of(self._executable, self._work.layout, one.block, one.cells, handed)
        return alike, tuple(one.scalars.constant.items())  # with which work is recorded

    def _known(self, name: str, box: Box) -> Array:
        """Return where the part of a field that the next item needs is kept meanwhile."""
        return self._carried[name][tuple(slice(0, span.size) for span in box)]

    def _fields(
        self, item: Item, slot: int, arrays: Mapping[str, Array] | None = None
    ) -> BlockFields:
        """Return the slot's arrays as far as an item has use for them."""
        cut = {
            name: array[tuple(slice(0, span.size) for span in item.cells.frames[name])]
            for name, array in (arrays or self._arrays[slot]).items()
        }
        return BlockFields(self._work.layout, item.cells, self._executable, cut)

    def _all_loading(self, slots: int, resources: PipelineResources) -> dict[str, Loading]:
        """Return what brings each field to the device."""
        found: dict[str, Loading] = {}
        for name, source, variable in self._work.sources:
            boxes = [(item.block, item.shares[name].fresh) for item in self._items]
            parts = FieldParts(self._uses[name], self._work.layout.grid, boxes, slots)
            found[name] = loading_of(resources, parts, source, variable)
        return found

    def _all_storing(self, slots: int, resources: PipelineResources) -> dict[str, Storing]:
        """Return what brings each field that is saved from the device."""
        found: dict[str, Storing] = {}
        for variable, name in self._work.saved:
            boxes = [(item.block, item.cells.own[name]) for item in self._items]
            parts = FieldParts(self._uses[name], self._work.layout.grid, boxes, slots)
            found[name] = storing_of(resources, parts, self._work.sink, variable)
        return found

    def _slot(self) -> dict[str, Array]:
        """Return arrays that hold the frames of any item; the first one's are aligned."""
        first = self._items[0].cells
        found: dict[str, Array] = {}
        for name, use in self._uses.items():
            sides = zip(*(shape_of(item.cells.frames[name]) for item in self._items), strict=True)
            i, j, k = map(max, sides)
            a, b, c = (
                max(0, at.start - span.start)
                for at, span in zip(first.own[name], first.frames[name], strict=True)
            )
            found[name] = self._executable.memory.empty((i, j, k), np.dtype(use.dtype), (a, b, c))
        return found

    def _carry(self) -> dict[str, Array]:
        """Return arrays that hold what any item leaves for the next one."""
        found: dict[str, Array] = {}
        for name in self._loading:
            kept = [s.kept for item in self._items if (s := item.shares[name]).kept is not None]
            if kept:
                i, j, k = (max(sides) for sides in zip(*map(shape_of, kept), strict=True))
                dtype = np.dtype(self._uses[name].dtype)
                found[name] = self._executable.memory.empty((i, j, k), dtype, (0, 0, 0))
        return found
