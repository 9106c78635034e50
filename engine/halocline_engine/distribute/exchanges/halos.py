"""Exchange of halos between the blocks of a rank, and with those of other ranks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from operator import setitem
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.base import Array, Executable, Memory
from halocline_engine.datasets.grids.match import FieldUse
from halocline_engine.distribute.blocks.ghosts import ghosts_of
from halocline_engine.distribute.blocks.steps import BlockFields, BlockSteps
from halocline_engine.distribute.communicators.base import Communicator, Tag
from halocline_engine.distribute.exchanges.peers import PeerMemory, connect
from halocline_engine.distribute.grid.boundary import Line
from halocline_engine.distribute.grid.exchange import Piece
from halocline_engine.distribute.grid.partition import Box, slices_within
from halocline_engine.distribute.tasks.spent import Stopwatch
from halocline_engine.ir.types import Axis

__all__ = ["Exchange", "Halos", "ResidentBlock", "exchange_of"]

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
        cells = slices_within(box, frame)
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
        watch: Stopwatch | None,
    ) -> None:
        rank = communicator.rank
        self._blocks, self._lines, self._executable = blocks, lines, executable
        self._communicator, self._watch = communicator, watch
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
        self._peers: PeerMemory | None = None

    def connect(self) -> None:
        """Let devices store into each other's memory, if they can; all ranks call it."""
        sizes = (self._message_bytes(self._sent), self._message_bytes(self._received))
        itemsize = min((np.dtype(use.dtype).itemsize for use in self._uses.values()), default=1)
        self._peers = connect(self._communicator, *sizes, itemsize)

    @property
    def transport(self) -> str:
        """Transport of halos between ranks."""
        if self.alone:
            return "none"
        return "messages" if self._peers is None else "peer memory"

    def check(self) -> None:
        """Raise where a halo did not come; waits until what is queued on a device is complete."""
        if self._peers is not None:
            self._peers.check()

    def end(self) -> None:
        """Let nothing on a device wait for other ranks any more."""
        if self._peers is not None:
            self._peers.end()

    def close(self) -> None:
        """Use the memory of other ranks no more; nothing is under way."""
        if self._peers is not None:
            self._peers.close()

    @property
    def alone(self) -> bool:
        """Whether nothing comes from, or goes to, another rank."""
        return not self._sent and not self._received

    @property
    def queued(self) -> bool:
        """Whether exchanges need nothing but the device, or the processor, of this rank."""
        return self.alone or self._peers is not None

    def awaited(self, block: int) -> list[Box]:
        """Return the cells of a block that other blocks need, over all axes of the domain."""
        box = self._blocks[block].fields.cells.domains[-1]
        found: list[Box] = []
        for piece in itertools.chain(self._own, *self._sent.values()):
            if piece.source == block:
                axes = self._uses[piece.field].axes
                i, j, k = (
                    sent if axis in axes else whole
                    for axis, sent, whole in zip(Axis, piece.sent, box, strict=True)
                )
                found.append((i, j, k))
        return found

    def prepared(self) -> Exchange:
        """Return the exchange of all halos before the next step, to be done again and again.

        It is that of the arrays which the kept fields have now.
        """
        key = self.state
        found = self._exchanges.get(key)
        if found is None:
            copies: list[Callable[[], None]] = [
                partial(setitem, self._into(piece), ..., self._cells(piece)) for piece in self._own
            ]
            sent = {to: [self._cells(p) for p in some] for to, some in self._sent.items()}
            received = {of: [self._into(p) for p in some] for of, some in self._received.items()}
            wrapped = list(self._wrap())
            where = (self._executable.memory, self._communicator, self._watch)
            if self._peers is None:
                found = exchange_of(copies, wrapped, sent, received, *where)
            else:
                copies.append(self._peers.exchange(sent, received))
                found = Exchange(copies, wrapped, None, *where)
            self._exchanges[key] = found
        return found

    def _message_bytes(self, pieces: Mapping[int, Sequence[Piece]]) -> dict[int, int]:
        """Return the bytes of the message to, or from, each other rank."""
        sizes = {name: np.dtype(use.dtype).itemsize for name, use in self._uses.items()}
        return {
            rank: sum(_aligned(sizes[piece.field] * piece.cells) for piece in some)
            for rank, some in pieces.items()
        }

    @property
    def state(self) -> tuple[str, ...]:
        """Whose arrays the kept fields of each block have; blocks may fuse steps or not."""
        return tuple(
            block.steps.owner(use) for block in self._blocks.values() for use in self._uses.values()
        )

    def _cells(self, piece: Piece) -> Array:
        return self._blocks[piece.source].part(self._uses[piece.field], piece.sent)

    def _into(self, piece: Piece) -> Array:
        return self._blocks[piece.target].part(self._uses[piece.field], piece.into)

    def _wrap(self) -> Iterator[Callable[[], None]]:
        for block in self._blocks.values():
            frames = block.fields.cells.frames
            several = [
                (block.steps.array_of(block.steps.owner(use)), self._lines, frames[name])
                for name, use in self._uses.items()
            ]
            yield from ghosts_of(self._executable, several)


@dataclass(frozen=True, slots=True)
class Exchange:
    """The exchange of the halos of one rank, between arrays that stay the same.

    First come `messages`, if there are any. What is `moved` copies cells within the rank, and on a
    device exchanges those of others that it reaches; what is `wrapped` fills halos from the cells
    of a block, those that came included. Both are queued on the current stream. `watch` measures
    exchanges, if there is one.
    """

    moved: Sequence[Callable[[], None]]
    wrapped: Sequence[Callable[[], None]]
    messages: _Messages | None
    memory: Memory
    communicator: Communicator
    watch: Stopwatch | None

    @property
    def acts(self) -> Sequence[Callable[[], None]]:
        """What is queued, to be done without messages."""
        queued = [*self.moved, *self.wrapped]
        if self.watch is None or not queued:
            return queued
        return (self.watch.measured("halos", queued),)

    def __call__(self, number: int) -> None:
        """Exchange; `number` counts the exchanges of the job, alike on all ranks."""
        with nullcontext() if self.watch is None else self.watch.spending("halos"):
            if self.messages is not None:
                self.messages.exchange(("halo", number), self.memory, self.communicator)
            for act in (*self.moved, *self.wrapped):
                act()


def exchange_of(
    copies: Sequence[Callable[[], None]],
    wrapped: Sequence[Callable[[], None]],
    sent: Mapping[int, Sequence[Array]],
    received: Mapping[int, Sequence[Array]],
    memory: Memory,
    communicator: Communicator,
    watch: Stopwatch | None,
) -> Exchange:
    """Return an exchange by messages of cells [i, j, k] with other ranks, and of `copies` here."""
    if not sent and not received:
        return Exchange(copies, wrapped, None, memory, communicator, watch)
    messages = _Messages(
        copies,
        {to: _Message(views) for to, views in sent.items()},
        {of: _Message(views) for of, views in received.items()},
    )
    return Exchange([], wrapped, messages, memory, communicator, watch)


class _Message:
    """The cells of one message, one view after the other, each at a multiple of 16 bytes."""

    def __init__(self, views: Sequence[Array]) -> None:
        self._parts: list[_Packed] = []
        at = 0
        for view in views:
            size = view.dtype.itemsize * math.prod(view.shape)
            self._parts.append(_Packed(view, at, at + size))
            at += _aligned(size)
        self._bytes = at

    def packed(self, memory: Memory) -> NDArray[Any]:
        """Return the cells in a new array of the host."""
        buffer = memory.empty((max(1, self._bytes), 1, 1), np.dtype(np.uint8), (0, 0, 0))
        flat = buffer[:, 0, 0]
        for part in self._parts:
            _typed(flat, part)[...] = part.view
        return memory.download(buffer).reshape(-1)

    def unpack(self, values: NDArray[Any], memory: Memory) -> None:
        """Store the cells of a message that came."""
        buffer = memory.empty((max(1, self._bytes), 1, 1), np.dtype(np.uint8), (0, 0, 0))
        memory.upload(values.reshape(buffer.shape), buffer)
        flat = buffer[:, 0, 0]
        for part in self._parts:
            part.view[...] = _typed(flat, part)


@dataclass(frozen=True, slots=True)
class _Messages:
    """The messages to and from each other rank, and the `copies` within this one."""

    copies: Sequence[Callable[[], None]]
    sent: Mapping[int, _Message]
    received: Mapping[int, _Message]

    def exchange(self, tag: Tag, memory: Memory, communicator: Communicator) -> None:
        """Send, copy what stays in this rank meanwhile, and receive."""
        for rank, message in self.sent.items():
            communicator.send(rank, tag, message.packed(memory))
        for act in self.copies:
            act()
        for rank, message in self.received.items():
            message.unpack(communicator.receive(rank, tag), memory)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


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
