"""The blocks of a pass as a pipeline through a device; see `pipeline` for who waits for whom.

What a block needs and the one before it had is copied on the device, from memory that the former
left it in; only the rest is read and sent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.base import Array, Executable
from halocline_engine.datasets.chunks import Tally
from halocline_engine.datasets.match import Role
from halocline_engine.distribute.blocks.ghosts import fill_ghosts
from halocline_engine.distribute.blocks.steps import BlockFields
from halocline_engine.distribute.blocks.work import Work, executable_of
from halocline_engine.distribute.grid.geometry import Geometry, geometry
from halocline_engine.distribute.grid.overlap import Share, points_of, same_point, share
from halocline_engine.distribute.grid.partition import Block, Box
from halocline_engine.distribute.pipeline.replay import Replays, kind_of
from halocline_engine.distribute.pipeline.resources import PipelineResources
from halocline_engine.distribute.pipeline.schedule import run_pipeline
from halocline_engine.distribute.tasks.cancel import CancelToken
from halocline_engine.distribute.tasks.model import COMPUTE, Report
from halocline_engine.distribute.transports.choose import (
    Reader,
    Writer,
    direct_result,
    direct_source,
    pin_result,
    pin_source,
    reader_of,
    writer_of,
)
from halocline_engine.distribute.transports.direct_file import DirectFiles
from halocline_engine.distribute.transports.staging import StagingLayout, box_bytes, shape_of
from halocline_engine.distribute.transports.zero_copy import PinnedPart, PinParts

if TYPE_CHECKING:
    from halocline_engine.distribute.transports.device_decode import DeviceDecoding

__all__ = ["Item", "PipelineStages", "PipelinedWork", "items_of"]

#: Items that are read at the same time, at most.
_READ_AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class Item:
    """A block at one point of the other dimensions: its cells, and what of them is new.

    `shares` belong to the fields that are loaded; `last` says that its block has no more points.
    """

    block: Block
    cells: Geometry
    shares: Mapping[str, Share]
    last: bool


def items_of(work: Work, blocks: Sequence[Block]) -> list[Item]:
    """Return the blocks of a pass as they go through a device."""
    items: list[Item] = []
    uses = [use for use in work.layout.uses if use.loaded]
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
            items.append(Item(point, cells, shares, number == len(points)))
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
class _Moved:
    """What was moved for a block so far."""

    began: float
    read: int = 0
    written: int = 0
    pinned: int = 0
    direct_io: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def add(self, *, read: int = 0, written: int = 0, pinned: int = 0, direct_io: int = 0) -> None:
        """Count bytes; several threads read points of a block, and write others."""
        with self._counting:
            self.read += read
            self.written += written
            self.pinned += pinned
            self.direct_io += direct_io


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
        self._readers: dict[str, Reader] = {
            name: reader_of(source, variable, self._uses[name], work.layout.grid, resources.readers)
            for name, source, variable in work.sources
        }
        self._writers: dict[str, Writer] = {
            name: writer_of(work.sink, name, self._uses[field], work.layout.grid, resources.writers)
            for name, field in work.saved
        }
        self._resources = resources
        self._coming, self._going = self._all_coming(), self._all_going()
        self._direct_io: Mapping[str, Mapping[str, DirectFiles | DeviceDecoding]] = {
            "in": self._coming,
            "out": self._going,
        }
        self._layouts, self._files = self._all_layouts()
        self._pinned: dict[tuple[str, int, str], list[PinnedPart]] = {}
        self._pinning = self._all_pinning()
        for side, slot in product(self._layouts, range(slots)):
            if self._direct_io[side]:
                self._memory(side, slot)
            if self._layouts[side].size and None in self._pinning[side].values():
                self._buffer(side, slot)
        self._arrays = [self._slot() for _ in range(slots)]
        self._carried = self._carry()
        self._kinds = [self._kind(number) for number in range(len(items))]
        self._replays = Replays(self._queues, self._executable)
        self._after: dict[tuple[int, Hashable], Mapping[str, Array]] = {}
        self._tally = Tally()
        self._counting = threading.Lock()
        self._moved: dict[int, _Moved] = {}
        self._fetches = 0

    def close(self) -> None:
        """Give the arrays of the slots back; nothing uses them any more.

        Work that was recorded refers to this, and this to it.
        """
        self._replays.clear()
        self._after.clear()
        self._pinned.clear()
        self._arrays.clear()

    @property
    def read_at_once(self) -> int:
        """How many items may be read at the same time: several, if that leaves nothing in a cache.

        So there is something to read while the last pieces of an item are.
        """
        ways = [self._coming.get(name) for name in self._readers]
        return _READ_AT_ONCE if all(isinstance(way, DirectFiles) for way in ways) else 1

    def read(self, item: int, slot: int) -> None:
        """Lock what is new where it lies, or read it into the slot's buffer.

        What will be made is locked as well where it belongs, if that is in memory.
        """
        one = self._items[item]
        moved = self._moved.setdefault(one.block.index, _Moved(time.perf_counter()))
        tally = Tally()
        for name, reader in self._readers.items():
            self._pinned.pop(("in", item - len(self._arrays), name), None)
            if one.shares[name].complete:
                continue
            fresh = one.shares[name].fresh
            size = box_bytes(self._uses[name], fresh)
            direct_io = self._coming.get(name)
            if direct_io is not None:
                if direct_io.read(one.block, fresh, self._part_of("in", name, slot), tally):
                    moved.add(direct_io=size)
                else:
                    self._read_otherwise(item, name, reader, tally)
            elif self._pin(("in", item, name), one.block, fresh):
                moved.add(pinned=size)
            else:
                reader(one.block, fresh, self._new(one, name, slot), tally)
            moved.add(read=size)
        with self._counting:
            self._tally.fetches += tally.fetches
        for _, name in self._work.saved:
            self._pin(("out", item, name), one.block, one.cells.own[name])

    def send(self, item: int, slot: int) -> None:
        """Queue the copies of what is new."""
        one = self._items[item]
        block_fields = self._fields(one, slot)
        for name in self._readers:
            if one.shares[name].complete:
                continue
            fresh = one.shares[name].fresh
            part, pinned = block_fields.part(name, fresh), self._pinned.get(("in", item, name))
            direct_io = self._coming.get(name)
            if direct_io is not None and pinned is None:
                direct_io.send(one.block, fresh, self._part_of("in", name, slot), part)
            elif pinned is None:
                self._queues.send(self._new(one, name, slot), part)
            for piece in pinned or ():
                self._queues.send(piece.values, part[piece.there])

    def compute(self, item: int, slot: int) -> None:
        """Queue the copies of what is known, and the steps."""
        with COMPUTE:
            block_fields = self._fields(self._items[item], slot)
            if block_fields.waits:
                self._steps(block_fields, item, slot)
            else:
                work = partial(self._steps, block_fields, item, slot)
                self._replays.queue(slot, self._kinds[item], work)

    def _steps(self, block_fields: BlockFields, item: int, slot: int) -> None:
        one = self._items[item]
        for name in self._readers:
            kept, wanted = one.shares[name].kept, self._wanted(item, name)
            if kept is not None:
                block_fields.part(name, kept)[...] = self._known(name, kept)
            if wanted is not None:
                self._known(name, wanted)[...] = block_fields.part(name, wanted)
            if self._uses[name].role is Role.INPUT:
                frame = one.cells.frames[name]
                fill_ghosts(block_fields.arrays[name], self._work.layout.lines, frame)
        after = block_fields.queue(dict(self._work.scalars), self._cancelled)
        self._after[slot, self._kinds[item]] = after

    def fetch(self, item: int, slot: int) -> None:
        """Queue the copies of what was made."""
        one = self._items[item]
        for _, name in self._work.saved:
            made = self._part(item, slot, name)
            pinned = self._pinned.get(("out", item, name))
            direct_io = self._going.get(name)
            if direct_io is not None:
                own = one.cells.own[name]
                direct_io.fetch(one.block, own, made, self._part_of("out", name, slot))
            elif pinned is None:
                self._queues.fetch(made, self._made(one, name, slot))
            for piece in pinned or ():
                self._queues.fetch(made[piece.there], piece.values)

    def write(self, item: int, slot: int) -> None:
        """Write what was made, if it is not where it belongs."""
        one = self._items[item]
        moved = self._moved[one.block.index]
        # Points of a block, which may share chunks, are written one after the other.
        with moved.lock:
            for name, field in self._work.saved:
                direct_io = self._going.get(field)
                if direct_io is not None:
                    own, room = one.cells.own[field], self._part_of("out", field, slot)
                    size = direct_io.write(one.block, own, room)
                    moved.add(written=size, direct_io=size)
                elif self._pinned.pop(("out", item, field), None) is None:
                    size = self._writers[name](one.block, self._made(one, field, slot))
                    moved.add(written=size)
                else:
                    size = box_bytes(self._uses[field], one.cells.own[field])
                    moved.add(written=size, pinned=size)

    def report(self, item: int) -> Report | None:
        """Return what became of a block when all of it is written."""
        one = self._items[item]
        if not one.last:
            return None
        moved = self._moved.pop(one.block.index)
        fetches, self._fetches = self._tally.fetches - self._fetches, self._tally.fetches
        return Report.of(
            one.block.index,
            moved.began,
            moved.read,
            moved.written,
            fetches=fetches,
            bytes_zero_copy=moved.pinned,
            bytes_direct_io=moved.direct_io,
        )

    def _new(self, item: Item, name: str, slot: int) -> NDArray[Any]:
        buffer = self._buffer("in", slot)
        return self._layouts["in"].array(buffer, self._uses[name], item.shares[name].fresh)

    def _made(self, item: Item, name: str, slot: int) -> NDArray[Any]:
        buffer = self._buffer("out", slot)
        return self._layouts["out"].array(buffer, self._uses[name], item.cells.own[name])

    def _buffer(self, side: str, slot: int) -> NDArray[np.uint8]:
        return self._resources.buffer(side, slot, self._layouts[side].size)

    def _memory(self, side: str, slot: int) -> Array:
        return self._resources.memory(side, slot, self._files[side].size)

    def _part_of(self, side: str, name: str, slot: int) -> Array:
        """Return the bytes on the device that a field has for its files."""
        return self._files[side].part(self._memory(side, slot), name)

    def _read_otherwise(self, item: int, name: str, reader: Reader, tally: Tally) -> None:
        """Read a box with chunks that are not there, or not whole, as any other is read."""
        one = self._items[item]
        fresh = one.shares[name].fresh
        values = np.empty(shape_of(fresh), self._uses[name].dtype, order="F")
        reader(one.block, fresh, values, tally)
        self._pinned["in", item, name] = [PinnedPart(values, (slice(None),) * 3)]

    def _all_pinning(self) -> dict[str, dict[str, PinParts | None]]:
        """Return what finds values where they lie: of fields that are sent, or fetched."""
        work, grid, uses, pages = (
            self._work,
            self._work.layout.grid,
            self._uses,
            self._resources.pages,
        )
        if pages is None:
            coming = dict.fromkeys(self._readers)
            return {"in": coming, "out": dict.fromkeys(field for _, field in work.saved)}
        return {
            "in": {n: pin_source(of, at, uses[n], grid, pages) for n, of, at in work.sources},
            "out": {
                f: pin_result(work.sink, at, uses[f], grid, pages, self._resources.readers)
                for at, f in work.saved
            },
        }

    def _part(self, item: int, slot: int, field: str) -> Array:
        """Return what was made of a field on the device."""
        one = self._items[item]
        after = self._after[slot, self._kinds[item]]
        return self._fields(one, slot, after).part(field, one.cells.own[field])

    def _pin(self, key: tuple[str, int, str], block: Block, box: Box) -> bool:
        """Lock a field's values in a box where they lie; False where they need a buffer."""
        side, _, name = key
        pin_parts = self._pinning[side][name]
        pinned = pin_parts(block, box) if pin_parts is not None else None
        if pinned is not None:
            self._pinned[key] = pinned
        return pinned is not None

    def _wanted(self, item: int, name: str) -> Box | None:
        """Return what the next item needs and this one has."""
        following = self._items[item + 1] if item + 1 < len(self._items) else None
        return following.shares[name].kept if following is not None else None

    def _kind(self, item: int) -> Hashable:
        """Return what items have in common whose steps are queued alike in one slot."""
        one, layout = self._items[item], self._work.layout
        handed = {name: (one.shares[name].kept, self._wanted(item, name)) for name in self._readers}
        return kind_of(layout.uses, layout.lines, one.block, one.cells, handed)

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

    def _all_coming(self) -> dict[str, DirectFiles | DeviceDecoding]:
        """Return what brings values from files to the device, of fields that have it."""
        uses, items, resources, grid = (
            self._uses,
            self._items,
            self._resources,
            self._work.layout.grid,
        )
        found: dict[str, DirectFiles | DeviceDecoding] = {}
        for name, source, variable in self._work.sources:
            boxes = [(item.block, item.shares[name].fresh) for item in items]
            way: DirectFiles | DeviceDecoding | None = None
            if resources.files is not None:
                way = direct_source(source, variable, uses[name], grid, resources.files, boxes)
            if way is None and resources.decoder is not None:
                fresh = [box for _, box in boxes]
                way = resources.decoder.reader_of(
                    source, uses[name], grid, resources.readers, fresh
                )
            if way is not None:
                found[name] = way
        return found

    def _all_going(self) -> dict[str, DirectFiles]:
        """Return what brings values from the device to files, of fields that have it."""
        found: dict[str, DirectFiles] = {}
        grid, files = self._work.layout.grid, self._resources.files
        if files is None:
            return found
        for variable, name in self._work.saved:
            boxes = [(item.block, item.cells.own[name]) for item in self._items]
            way = direct_result(self._work.sink, variable, self._uses[name], grid, files, boxes)
            if way is not None:
                found[name] = way
        return found

    def _all_layouts(self) -> tuple[dict[str, StagingLayout], dict[str, StagingLayout]]:
        """Return the buffers of each side: those on the host, and those on the device for files."""
        uses, direct_io = self._uses, self._direct_io
        boxes = {
            "in": {n: [item.shares[n].fresh for item in self._items] for n in self._readers},
            "out": {f: [item.cells.own[f] for item in self._items] for _, f in self._work.saved},
        }
        host = {
            side: {
                name: max(map(partial(box_bytes, uses[name]), several))
                for name, several in of.items()
                if name not in direct_io[side]
            }
            for side, of in boxes.items()
        }
        files = {side: {n: one.buffer_bytes for n, one in of.items()} for side, of in direct_io.items()}
        return (
            {side: StagingLayout(most) for side, most in host.items()},
            {side: StagingLayout(most) for side, most in files.items()},
        )

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
        for name in self._readers:
            kept = [s.kept for item in self._items if (s := item.shares[name]).kept is not None]
            if kept:
                i, j, k = (max(sides) for sides in zip(*map(shape_of, kept), strict=True))
                dtype = np.dtype(self._uses[name].dtype)
                found[name] = self._executable.memory.empty((i, j, k), dtype, (0, 0, 0))
        return found
