"""Work of a device block after block, replayed if it was recorded before.

Blocks that are alike, but for where they lie, need the same work on the arrays of a slot. Queuing
many steps from Python takes longer than some of them do, and keeps the threads of the host from
reading and writing meanwhile; so the work of a kind of block is recorded for each slot.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Protocol

from halocline_engine.backends.base import Executable, Placed
from halocline_engine.distribute.grid.geometry import Geometry, Layout
from halocline_engine.distribute.grid.partition import Block, Box
from halocline_engine.ir.types import Axis

__all__ = ["Recorder", "Replays", "kind_of"]


class Recorder(Protocol):
    """A device that can queue recorded work at once."""

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        """Return what queues, in the current queue, what `work` queues; it is not done yet."""
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

    def clear(self) -> None:
        """Forget what was recorded; none of it is under way."""
        self._recorded.clear()

    def _record(self, slot: int, kind: Hashable, work: Callable[[], None]) -> None:
        self._recorded[slot, kind] = self._recorder.record(work)


def kind_of(
    executable: Executable,
    layout: Layout,
    block: Block,
    cells: Geometry,
    parts: Mapping[str, Iterable[Box | None]],
) -> Hashable:
    """Return what two blocks have in common that are alike but for where they lie.

    `parts` are further cells of each field that its work is about. Far from the ends of an axis all
    cells follow from those of the block; at an end, its place counts, and everywhere for an
    executable that asks for it.
    """
    uses, counts = layout.uses, isinstance(executable, Placed)
    inside = [not counts and _inside(axis, layout, cells) for axis in Axis]
    starts = [span.start if far else 0 for far, span in zip(inside, block.box, strict=True)]

    def moved(box: Box, axes: Iterable[Axis]) -> Hashable:
        return tuple(
            (span.start - start, span.stop - start) if axis in axes else (span.start, span.stop)
            for axis, span, start in zip(Axis, box, starts, strict=True)
        )

    fields = tuple(
        tuple(None if box is None else moved(box, use.axes) for box in parts.get(use.name, ()))
        for use in uses
    )
    return (tuple(inside), moved(block.box, tuple(Axis)), fields)


def _inside(axis: Axis, layout: Layout, cells: Geometry) -> bool:
    """Whether nothing that a block looks at reaches an end of the data."""
    at = list(Axis).index(axis)
    spans = [
        (lines[at], span)
        for use, lines in zip(layout.uses, layout.lines, strict=True)
        if axis in use.axes
        for span in (cells.valid[0][at], cells.frames[use.name][at])
    ]
    return layout.endless[at] or all(s.start > 0 and s.stop < line.size for line, s in spans)
