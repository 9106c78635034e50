"""Halos that the ranks of one host store into each other's device memory.

No host takes part in an exchange: kernels store cells into a buffer of the neighbour, set a counter
there, and wait for the counters that neighbours set here. Ranks agree on it when they begin: where
one of them cannot reach the memory of another, messages take the way through their hosts.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.base import Array
from halocline_engine.device.memory.peers import (
    OpenedMemory,
    SharedMemory,
    SharedWord,
    open_memory,
    read_word,
    write_word,
)
from halocline_engine.distribute.communicators.base import Communicator, RankLostError, agree
from halocline_engine.distribute.tasks.kernels import current, device_index
from halocline_engine.errors import CancelledError, DeviceError
from halocline_engine.kernels.halo.cuda import HaloKernels
from halocline_engine.kernels.halo.problem import (
    STATE_WORDS,
    Box,
    Link,
    packed_boxes,
    packed_links,
    widened,
)
from halocline_engine.kernels.machine import Arena

__all__ = ["PeerMemory", "connect"]

_WORD = 8
#: Counters of a rank for each other one: arrived, consumed, done (sent), done (received), token.
_COUNTERS = 5
_ALIGNED = 256
#: Bytes of a message, at most, whose words are numbered.
_SHORT = 1 << 20
#: Bytes that are numbered together.
_NUMBERED = 4
#: Seconds between two looks at whether the job is to end.
_LOOK = 0.05


@dataclass(slots=True)
class _Peer:
    """Another rank: its memory, and where what belongs to this rank is in it."""

    opened: OpenedMemory
    arrived: int
    consumed: int
    token: int
    buffer: int


@dataclass(slots=True)
class PeerMemory:
    """The memory of this rank that its neighbours store into, and theirs.

    `sent` and `received` are the bytes of a half of each buffer, by the other rank; words of those
    to and from `numbered` ranks are numbered. `places` are
    where its counters begin, `buffers` where what it sends is stored, and `states` is where this
    rank counts its exchanges.
    """

    communicator: Communicator
    own: SharedMemory
    sent: Mapping[int, int]
    received: Mapping[int, int]
    numbered: frozenset[int]
    places: Mapping[int, int]
    buffers: Mapping[int, int]
    states: int
    peers: dict[int, _Peer]
    kernels: HaloKernels
    arena: Arena
    ended: SharedWord
    _links: list[np.uint64] = field(default_factory=list["np.uint64"])
    _closed: threading.Event = field(default_factory=threading.Event)

    def exchange(
        self, sent: Mapping[int, Sequence[Array]], received: Mapping[int, Sequence[Array]]
    ) -> Callable[[], None]:
        """Return what sends, and receives, the cells of some views of arrays, by rank.

        It queues its work on the current stream.
        """
        out = self._boxes(0, sent, lambda rank: self.peers[rank].buffer)
        into = self._boxes(len(sent), received, lambda rank: self.own.address + self.buffers[rank])
        if not self._links:
            self._links.append(self._packed(out, into))
        table = int(self.arena.put(packed_boxes([*out, *into])))
        states = self.own.address + self.states
        addresses = (table, int(self._links[0]), states, self.ended.address)
        return self.kernels.exchange(out, into, addresses, follows=_machine().follows)

    def check(self) -> None:
        """Raise `RankLostError` where a kernel waited too long; all that is queued is complete."""
        for at in range(2):
            if read_word(self.own.address + self.states + (at * STATE_WORDS + 2) * _WORD):
                raise RankLostError("A neighbour did not send its halos.")

    def end(self) -> None:
        """Let kernels that wait for others end at once."""
        self.ended.set(1)

    def watch(self) -> None:
        """End waits as soon as the job is to end: the thread of the rank may wait for a kernel."""
        threading.Thread(target=self._watch, name="halocline-peers", daemon=True).start()

    def close(self) -> None:
        """Use the memory of others no more; none of them uses that of this rank any more."""
        self._closed.set()
        for peer in self.peers.values():
            with suppress(Exception):
                peer.opened.close()

    def _watch(self) -> None:
        while not self._closed.wait(_LOOK):
            try:
                self.communicator.check()
            except (CancelledError, RankLostError):
                self.end()
                return

    def _boxes(
        self, first: int, views: Mapping[int, Sequence[Array]], buffer_of: Callable[[int], int]
    ) -> list[Box]:
        machine = _machine()
        found: list[Box] = []
        for link, (rank, some) in enumerate(views.items(), first):
            at = buffer_of(rank)
            for view in some:
                i, j, k = view.shape
                di, dj, dk = view.strides
                width = view.dtype.itemsize
                box = Box(link, width, machine.address(view), at, (i, j, k), (di, dj, dk))
                found.append(widened(box, numbered=rank in self.numbered))
                at += -(-width * i * j * k // 16) * 16 * (2 if rank in self.numbered else 1)
        return found

    def _packed(self, out: Sequence[Box], into: Sequence[Box]) -> np.uint64:
        """Return the address of the links that boxes belong to."""
        base = self.own.address
        boxes = Counter(box.link for box in (*out, *into))
        links: list[Link] = []
        for rank, half in self.sent.items():
            mine, other = base + self.places[rank], self.peers[rank].arrived
            count = boxes[len(links)]
            ends = (mine + _WORD, other, mine + 2 * _WORD)
            links.append(Link(*ends, half, count, rank in self.numbered))
        for rank, half in self.received.items():
            mine, other = base + self.places[rank], self.peers[rank].consumed
            ends = (mine, other, mine + 3 * _WORD)
            links.append(Link(*ends, half, boxes[len(links)], rank in self.numbered))
        return self.arena.put(packed_links(links))


def connect(
    communicator: Communicator,
    sent: Mapping[int, int],
    received: Mapping[int, int],
    itemsize: int,
) -> PeerMemory | None:
    """Return the memory that neighbours share, or None on all ranks where one cannot do so.

    `sent` and `received` are the bytes of a message to, and from, each other rank, of cells of
    `itemsize` bytes or more. All ranks call it, whether they have neighbours or not.
    """
    others = sorted({*sent, *received})
    made: PeerMemory | None = None
    with suppress(DeviceError, _failure()):
        made = _allocated(communicator, sent, received, _numbered(sent, received, itemsize))
    for rank in others:
        told = {} if made is None else _description(made, rank)
        communicator.send(rank, ("memory", 0), _packed_json(told))
    opened = made is not None
    for rank in others:
        told = json.loads(communicator.receive(rank, ("memory", 0)).tobytes())
        if made is None or not told:
            opened = False
            continue
        try:
            made.peers[rank] = _peer(told)
            write_word(made.peers[rank].token, communicator.rank + 1)
        except (DeviceError, _failure()):
            opened = False
    if agree(communicator, ("opened", 0), here=opened) and made is not None:
        # Now all have written into the memory of others: is that what they find?
        right = all(
            read_word(made.own.address + made.places[rank] + 4 * _WORD) == rank + 1
            for rank in others
        )
    else:
        right = False
    if agree(communicator, ("written", 0), here=right) and made is not None:
        made.watch()
        return made
    if made is not None:
        made.close()
    return None


def _allocated(
    communicator: Communicator,
    sent: Mapping[int, int],
    received: Mapping[int, int],
    numbered: frozenset[int],
) -> PeerMemory:
    others = sorted({*sent, *received})
    places = {rank: at * _COUNTERS * _WORD for at, rank in enumerate(others)}
    states = len(others) * _COUNTERS * _WORD
    at = _aligned(states + 2 * STATE_WORDS * _WORD)
    buffers: dict[int, int] = {}
    out, halves = (
        {rank: _aligned(size * (2 if rank in numbered else 1)) for rank, size in some.items()}
        for some in (sent, received)
    )
    for rank, half in halves.items():
        buffers[rank] = at
        at += 2 * half
    machine, library, _ = current(device_index("cuda"))
    return PeerMemory(
        communicator,
        SharedMemory.of(at),
        out,
        halves,
        numbered,
        places,
        buffers,
        states,
        {},
        HaloKernels(library),
        Arena(machine),
        SharedWord(),
    )


def _numbered(
    sent: Mapping[int, int], received: Mapping[int, int], itemsize: int
) -> frozenset[int]:
    """Return the ranks whose messages have numbered words; the other rank finds the same."""
    both = sent.keys() & received.keys() if itemsize >= _NUMBERED else set[int]()
    return frozenset(rank for rank in both if max(sent[rank], received[rank]) <= _SHORT)


def _description(made: PeerMemory, rank: int) -> dict[str, Any]:
    """Return what another rank needs of the memory here."""
    own = made.own
    return {
        "host": own.host,
        "process": own.process,
        "handle": own.handle.hex(),
        "place": made.places[rank],
        "buffer": made.buffers.get(rank, 0),
    }


def _peer(told: Mapping[str, Any]) -> _Peer:
    opened = open_memory(told["host"], told["process"], bytes.fromhex(told["handle"]))
    place = opened.address + told["place"]
    buffer = opened.address + told["buffer"]
    return _Peer(opened, place, place + _WORD, place + 4 * _WORD, buffer)


def _packed_json(told: Mapping[str, Any]) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(told).encode(), np.uint8)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def _machine() -> Any:
    return current(device_index("cuda"))[0]


def _failure() -> type[Exception]:
    from halocline_engine.device.cupy_types import cupy

    return cupy().cuda.runtime.CUDARuntimeError
