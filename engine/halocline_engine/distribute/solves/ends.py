"""The system of the ends of all pieces: each rank knows the equations of its own, and solves it.

All ranks solve for all ends, which are a thousandth of the rows, so nothing is sent back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from halocline_engine.copies import AnyArray
from halocline_engine.distribute.communicators.base import Communicator, agree, gathered
from halocline_engine.distribute.exchanges.peers import PeerMemory, connect
from halocline_engine.distribute.grid.partition import Span
from halocline_engine.distribute.tasks.model import Task
from halocline_engine.kernels.tridiagonal.cuda_ends import DeviceEnds
from halocline_engine.kernels.tridiagonal.cuda_pieces import DevicePieces
from halocline_engine.kernels.tridiagonal.pieces import (
    HostPieces,
    Judged,
    solve_ends,
    with_neighbours,
)

__all__ = ["EndsOnDevices", "EndsOnHosts", "RankEnds"]

_TAG = ("ends", 0)
#: Parts of a message begin at multiples of so many bytes.
_ALIGNED = 16


class RankEnds(Protocol):
    """The ends of all pieces, and the rows between those of a rank."""

    def prepare(self) -> None:
        """Do what has to be done once, when all rows are read; all ranks call it."""
        ...

    def solve(self, task: Task) -> None:
        """Solve for the ends, and on a device for the rows between; all ranks call it."""
        ...

    def take(self, into: AnyArray) -> Judged:
        """Leave the solution of the next pieces in an array [outer, row, inner]; see `Judged`."""
        ...

    def close(self, *, complete: bool) -> None:
        """Give back what other ranks share; where all is `complete`, they are waited for."""
        ...


class EndsOnHosts:
    """Ends that are sent from host to host; the rows between are solved when they are taken."""

    def __init__(
        self,
        communicator: Communicator,
        own: Sequence[tuple[Span, HostPieces]],
        *,
        periodic: bool,
    ) -> None:
        self._communicator, self._own, self._periodic = communicator, [*own], periodic
        self._around: NDArray[Any] = np.empty(0)

    def prepare(self) -> None:
        """Nothing has to be done."""

    def solve(self, task: Task) -> None:
        """Solve for the ends."""
        with task.computing():
            ends = np.concatenate([pieces.ends() for _, pieces in self._own], axis=2)
        every = gathered(self._communicator, _TAG, ends)
        with task.computing():
            known = solve_ends(np.concatenate(every, axis=2), periodic=self._periodic)
        self._around = with_neighbours(known, periodic=self._periodic)

    def take(self, into: AnyArray) -> Judged:
        """Solve the rows of the next pieces, whose memory is free then."""
        span, pieces = self._own.pop(0)
        return pieces.fill(self._around[:, :, span.start : span.stop + 2], into)

    def close(self, *, complete: bool) -> None:
        """Nothing is shared."""


class EndsOnDevices:
    """Ends that devices store into each other's memory, or that are sent by way of the hosts.

    `spans` are those of the pieces of each rank, and `own` the pieces of this one, in their order.
    `peers` says whether devices shall reach each other.
    """

    def __init__(
        self,
        communicator: Communicator,
        spans: Sequence[Sequence[Span]],
        own: Sequence[DevicePieces],
        ends: DeviceEnds,
        *,
        periodic: bool,
        residual: bool,
        peers: bool,
    ) -> None:
        self._communicator, self._spans = communicator, spans
        self._own, self._ends = [*own], ends
        for pieces in self._own:
            pieces.prepare(ends)
        self._periodic, self._residual = periodic, residual
        self._around: NDArray[Any] | None = None
        self._others = {
            rank: [self._part(span) for span in some]
            for rank, some in enumerate(spans)
            if rank != communicator.rank
        }
        self._reach = peers
        self._peers: PeerMemory | None = None
        self._exchange = self._by_messages

    def _part(self, span: Span) -> Any:
        return self._ends.equations(span.start, span.stop)

    @property
    def _found(self) -> list[Any]:
        return [pieces.equations for pieces in self._own]

    def _connected(self) -> PeerMemory | None:
        """Return the memory that devices share; all ranks call it."""
        sent = dict.fromkeys(self._others, _message_bytes(self._found))
        received = {rank: _message_bytes(parts) for rank, parts in self._others.items()}
        return connect(self._communicator, sent, received, self._found[0].dtype.itemsize)

    def prepare(self) -> None:
        """Let devices reach each other, if they can, and exchange once: so all code is there."""
        self._peers = self._connected() if self._reach else None
        if self._peers is not None:
            found = dict.fromkeys(self._others, self._found)
            self._exchange = self._peers.exchange(found, self._others)
            self._exchange()
            self._peers.check()

    def _by_messages(self) -> None:
        machine = self._ends.machine
        if not self._others:
            return
        own = np.concatenate([machine.download(one) for one in self._found])
        every = gathered(self._communicator, _TAG, own)
        for rank, parts in self._others.items():
            at = 0
            for part in parts:
                machine.upload(every[rank][at : at + len(part)], part)
                at += len(part)

    def solve(self, task: Task) -> None:
        """Solve for the ends, and for the rows between them."""
        with task.computing():
            for pieces in self._own:
                pieces.reduce()
        self._exchange()
        with task.computing():
            self._ends.solve()
            for pieces in self._own:
                pieces.solve()
            for pieces in self._own:
                pieces.complete()
        if self._peers is not None:
            self._peers.check()
        if self._residual:
            self._around = with_neighbours(self._ends.unknowns(), periodic=self._periodic)

    def take(self, into: AnyArray) -> Judged:
        """Bring the solution of the next pieces, whose memory is free then."""
        rank, left = self._communicator.rank, len(self._own)
        span = self._spans[rank][len(self._spans[rank]) - left]
        around = None if self._around is None else self._around[:, :, span.start : span.stop + 2]
        return self._own.pop(0).take(into, around)

    def close(self, *, complete: bool) -> None:
        """Give back memory that other devices reach."""
        if self._peers is None:
            return
        self._peers.end()
        if complete:
            agree(self._communicator, ("ended", 0), here=True)
        self._peers.close()


def _message_bytes(parts: Sequence[Any]) -> int:
    return sum(-(-part.nbytes // _ALIGNED) * _ALIGNED for part in parts)
