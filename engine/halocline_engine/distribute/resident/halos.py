"""Exchange of halos between the blocks of a rank, and with those of other ranks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import setitem
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.base import Array, Executable
from halocline_engine.datasets.grids.match import FieldUse
from halocline_engine.distribute.blocks.ghosts import ghosts_of
from halocline_engine.distribute.blocks.steps import BlockFields, BlockSteps
from halocline_engine.distribute.communicators.base import Communicator
from halocline_engine.distribute.grid.boundary import Line
from halocline_engine.distribute.grid.exchange import Piece
from halocline_engine.distribute.grid.partition import Box

__all__ = ["Exchange", "Halos", "ResidentBlock"]

#: Cells of a field begin at a multiple of so many bytes of a message.
_ALIGNED = 16


@dataclass(frozen=True, slots=True, eq=False)
class ResidentBlock:
    """A block in the memory of a target, and its steps."""

    fields: BlockFields
    steps: BlockSteps

    def part(self, use: FieldUse, box: Box) -> Array:
        """Return the view of some cells of a kept field, as the next step will read it."""
        frame = self.fields.cells.frames[use.name]
        cells = tuple(span.within(whole) for span, whole in zip(box, frame, strict=True))
        return self.steps.array_of(self.steps.owner(use))[cells]


@dataclass(frozen=True, slots=True)
class _Packed:
    """Cells in a message: which array view, from which byte on, and their memory order."""

    view: Array
    start: int
    stop: int


class Halos:
    """The halos of the blocks of one rank.

    `pieces` are those of all blocks, `rank_of` says which rank has a block, `blocks` are those of
    this rank. `lines` are the rules of halos that blocks fill from their own cells. Views of arrays
    are made once for each state of the blocks: fields and the outputs that feed them alternate.
    """

    def __init__(
        self,
        pieces: Sequence[Piece],
        rank_of: Mapping[int, int],
        blocks: Mapping[int, ResidentBlock],
        lines: tuple[Line, Line, Line],
        executable: Executable,
        communicator: Communicator,
    ) -> None:
        rank = communicator.rank
        self._blocks, self._lines, self._executable = blocks, lines, executable
        self._communicator = communicator
        self._own = [p for p in pieces if rank_of[p.source] == rank == rank_of[p.target]]
        self._sent = _by_rank(pieces, rank, lambda p: (rank_of[p.source], rank_of[p.target]))
        self._received = _by_rank(pieces, rank, lambda p: (rank_of[p.target], rank_of[p.source]))
        self._uses = {
            use.name: use
            for block in blocks.values()
            for use in block.fields.layout.uses
            if use.kept
        }
        self._exchanges: dict[tuple[str, ...], Exchange] = {}

    @property
    def alone(self) -> bool:
        """Whether nothing comes from, or goes to, another rank."""
        return not self._sent and not self._received

    def prepared(self) -> Exchange:
        """Return the exchange of all halos before the next step, to be done again and again.

        It is that of the arrays which the kept fields have now.
        """
        key = self._state()
        found = self._exchanges.get(key)
        if found is None:
            copies = [
                partial(setitem, self._into(piece), ..., self._cells(piece)) for piece in self._own
            ]
            messages = None if self.alone else self._made()
            found = Exchange(
                copies, list(self._wrap()), messages, self._executable, self._communicator
            )
            self._exchanges[key] = found
        return found

    def _made(self) -> _Messages:
        """Return the messages for the arrays that the kept fields have now."""
        return _Messages(
            {to: _Message([self._cells(p) for p in some]) for to, some in self._sent.items()},
            {of: _Message([self._into(p) for p in some]) for of, some in self._received.items()},
        )

    def _state(self) -> tuple[str, ...]:
        """Return whose arrays the kept fields have; all blocks make the same steps."""
        steps = next(iter(self._blocks.values())).steps
        return tuple(steps.owner(use) for use in self._uses.values())

    def _cells(self, piece: Piece) -> Array:
        return self._blocks[piece.source].part(self._uses[piece.field], piece.sent)

    def _into(self, piece: Piece) -> Array:
        return self._blocks[piece.target].part(self._uses[piece.field], piece.into)

    def _wrap(self) -> Iterator[Callable[[], None]]:
        for block in self._blocks.values():
            framed = [
                (block.steps.array_of(block.steps.owner(use)), block.fields.cells.frames[name])
                for name, use in self._uses.items()
            ]
            yield from ghosts_of(self._executable, self._lines, framed)


@dataclass(frozen=True, slots=True)
class Exchange:
    """The exchange of the halos of one rank, between arrays that stay the same.

    `copies` are those between blocks of the rank; `wraps` fill halos from a block's own cells,
    what has come from others included. On a device both are queued on the current stream.
    """

    copies: Sequence[Callable[[], None]]
    wraps: Sequence[Callable[[], None]]
    messages: _Messages | None
    executable: Executable
    communicator: Communicator

    @property
    def inside(self) -> list[Callable[[], None]]:
        """What exchanges halos without other ranks."""
        return [*self.copies, *self.wraps]

    def __call__(self, number: int) -> None:
        """Exchange; `number` counts the exchanges of the job, alike on all ranks."""
        tag = ("halo", number)
        messages = self.messages or _Messages({}, {})
        for rank, message in messages.sent.items():
            self.communicator.send(rank, tag, message.packed(self.executable))
        for act in self.copies:
            act()
        for rank, message in messages.received.items():
            message.unpack(self.communicator.receive(rank, tag), self.executable)
        for act in self.wraps:
            act()


class _Message:
    """The cells of one message, one view after the other, each at a multiple of 16 bytes."""

    def __init__(self, views: Sequence[Array]) -> None:
        self._parts: list[_Packed] = []
        at = 0
        for view in views:
            size = view.dtype.itemsize * math.prod(view.shape)
            self._parts.append(_Packed(view, at, at + size))
            at = -(-(at + size) // _ALIGNED) * _ALIGNED
        self._bytes = at

    def packed(self, executable: Executable) -> NDArray[Any]:
        """Return the cells in a new array of the host."""
        buffer = executable.memory.empty((max(1, self._bytes), 1, 1), np.dtype(np.uint8), (0, 0, 0))
        flat = buffer[:, 0, 0]
        for part in self._parts:
            _typed(flat, part)[...] = part.view
        return executable.memory.download(buffer).reshape(-1)

    def unpack(self, values: NDArray[Any], executable: Executable) -> None:
        """Store the cells of a message that came."""
        memory = executable.memory
        buffer = memory.empty((max(1, self._bytes), 1, 1), np.dtype(np.uint8), (0, 0, 0))
        memory.upload(values.reshape(buffer.shape), buffer)
        flat = buffer[:, 0, 0]
        for part in self._parts:
            part.view[...] = _typed(flat, part)


@dataclass(frozen=True, slots=True)
class _Messages:
    """The messages to each other rank, and from each, for one state of the arrays."""

    sent: Mapping[int, _Message]
    received: Mapping[int, _Message]


def _typed(flat: Array, part: _Packed) -> Array:
    """Return a part of a buffer with the type and shape of a view, neighbours along I together."""
    i, j, k = part.view.shape
    values = flat[part.start : part.stop].view(part.view.dtype)
    return values.reshape((k, j, i)).transpose(2, 1, 0)


def _by_rank(
    pieces: Sequence[Piece], rank: int, ends: Callable[[Piece], tuple[int, int]]
) -> dict[int, list[Piece]]:
    """Return the pieces of which one end is here, by the rank at the other end."""
    found: dict[int, list[Piece]] = {}
    for piece in pieces:
        here, other = ends(piece)
        if here == rank != other:
            found.setdefault(other, []).append(piece)
    return found
