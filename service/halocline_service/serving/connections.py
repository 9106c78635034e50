"""Limit of connections, and the choice of one to close for a new one.

A connection that waits for its peer costs nothing to end: a peer that has as many as it may have
loses the one that has kept the server waiting longest. So those who open connections and leave
them end their own, and others are answered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

__all__ = ["Connection", "Connections", "Stage", "Wait"]


class Stage(IntEnum):
    """Stage at which a server waits; the first ones end first."""

    HEADER = 0  # of a request, or of the next one
    BODY = 1
    READING = 2  # of an answer, by the peer


@dataclass(frozen=True, slots=True, order=True)
class Wait:
    """That a server waits for a peer, and how many seconds more; the least one ends first."""

    stage: Stage
    left: float


class Connection(Protocol):
    """One connection of a server."""

    @property
    def peer(self) -> str:
        """Give the address of the other side."""
        ...

    def wait(self) -> Wait | None:
        """Tell what it waits for; None while the server is at work for it."""
        ...

    def end(self, reason: str) -> None:
        """End it at once."""
        ...


class Connections:
    """The open connections of a server, at most so many in all and of one peer."""

    def __init__(self, most: int, most_of_peer: int) -> None:
        self._most = most
        self._most_of_peer = min(most, most_of_peer)
        self._by_peer: defaultdict[str, set[Connection]] = defaultdict(set)

    def __len__(self) -> int:
        return sum(map(len, self._by_peer.values()))

    def admit(self, new: Connection) -> None:
        """Count a new connection, and end one (maybe the new one) where there are too many."""
        mine = self._by_peer[new.peer]
        mine.add(new)
        if len(mine) > self._most_of_peer:
            self._end_one(mine, f"there are more than {self._most_of_peer} of this address")
        elif len(self) > self._most:
            largest = max(self._by_peer.values(), key=len)
            self._end_one(largest, f"there are more than {self._most}")

    def release(self, gone: Connection) -> None:
        """Count a connection no more."""
        mine = self._by_peer[gone.peer]
        mine.discard(gone)
        if not mine:
            del self._by_peer[gone.peer]

    def _end_one(self, some: Iterable[Connection], reason: str) -> None:
        waits = [(wait, each) for each in some if (wait := each.wait()) is not None]
        if not waits:  # all are worked for: the peers that wait, whoever they are
            every = (each for peer in self._by_peer.values() for each in peer)
            waits = [(wait, each) for each in every if (wait := each.wait()) is not None]
        if waits:
            _, least = min(waits, key=lambda pair: pair[0])
            self.release(least)
            least.end(reason)
