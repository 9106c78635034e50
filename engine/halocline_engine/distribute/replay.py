"""What a device does with one block after the other, queued at once where it was done before.

Blocks that are alike, but for where they lie, need the same work on the arrays of a slot. Queuing
many steps from Python takes longer than some of them do, and keeps the threads of the host from
reading and writing meanwhile; so the work of a kind of block is recorded for each slot.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Protocol

from halocline_engine.backends.base import Executable
from halocline_engine.datasets.match import FieldUse
from halocline_engine.distribute.boundary import Line
from halocline_engine.distribute.layout import Geometry
from halocline_engine.distribute.partition import Block, Box, Span
from halocline_engine.ir.types import Axis

__all__ = ["Recorder", "Replays", "kind_of"]


class Recorder(Protocol):
    """A device that can queue many things at once."""

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        """Return what queues, in the current lane, what `work` queues; it is not done yet."""
        ...


class Replays:
    """The work of the blocks of a pass, by slot and kind: recorded when a kind comes again."""

    def __init__(self, recorder: Recorder, executable: Executable) -> None:
        self._recorder, self._executable = recorder, executable
        self._seen: set[Hashable] = set()
        self._recorded: dict[tuple[int, Hashable], Callable[[], None]] = {}

    def queue(self, slot: int, kind: Hashable, work: Callable[[], None]) -> None:
        """Queue the work of a kind of block in a slot; of a kind that is new, step by step.

        By then its kernels are compiled, which must not happen while work is recorded.
        """
        if kind not in self._seen:
            self._seen.add(kind)
            work()
            return
        if (slot, kind) not in self._recorded:
            # Nothing is measured for a tuning while an executable repeats something.
            self._executable.repeat(lambda: self._record(slot, kind, work), 1)
        self._recorded[slot, kind]()

    def _record(self, slot: int, kind: Hashable, work: Callable[[], None]) -> None:
        self._recorded[slot, kind] = self._recorder.record(work)


def kind_of(
    uses: Sequence[FieldUse],
    lines: Sequence[Line],
    block: Block,
    cells: Geometry,
    parts: Mapping[str, Iterable[Box | None]],
) -> Hashable:
    """Return what two blocks have in common that are alike but for where they lie.

    `parts` are further cells of each field that its work is about. Where a block has ghost cells at
    an end of the data along an axis, its place along that axis counts.
    """
    starts = tuple(
        0
        if any(_beyond(frame[axis], line) for frame in cells.frames.values())
        else block.box[axis].start
        for axis, line in enumerate(lines)
    )

    def moved(box: Box | None, axes: Iterable[Axis] = tuple(Axis)) -> Hashable:
        if box is None:
            return None
        present = set(axes)
        return tuple(
            (span.start - start, span.stop - start) if axis in present else (span.start, span.stop)
            for axis, span, start in zip(Axis, box, starts, strict=True)
        )

    fields = tuple(
        tuple(
            moved(box, use.axes)
            for box in (
                cells.frames[use.name],
                cells.inner[use.name],
                cells.own[use.name],
                *parts.get(use.name, ()),
            )
        )
        for use in uses
    )
    return (fields, tuple(map(moved, cells.valid)), tuple(map(moved, cells.domains)))


def _beyond(frame: Span, line: Line) -> bool:
    """Whether ghost cells are filled along an axis."""
    return not line.endless and (frame.start < 0 or frame.stop > line.size)
