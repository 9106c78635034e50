"""The work of a rank: some pieces of all systems, which stay in its memory until they are solved.

The passes are those of `pieces`, but bands are read once, and the equations of all ends are
exchanged in one message from each rank to each other one. All ranks solve for all ends, which are a
thousandth of the rows, so nothing is sent back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.targets import TARGETS
from halocline_engine.copies import copying_threads, near
from halocline_engine.device.launch.streams import own_stream
from halocline_engine.distribute.communicators.base import Communicator, Tell, gathered
from halocline_engine.distribute.grid.partition import Block, Span
from halocline_engine.distribute.solves.pieces import SpreadSystems
from halocline_engine.distribute.solves.select import keep_pieces
from halocline_engine.distribute.tasks.events import PassFinished
from halocline_engine.distribute.tasks.model import Report, Task
from halocline_engine.kernels.tridiagonal.pieces import (
    KeptPieces,
    solve_ends,
    verdict,
    with_neighbours,
)

__all__ = ["PASSES", "RankSolve"]

#: Reduce pieces, solve for their ends, fill them, put together what is said of them.
PASSES = 4

_Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class RankSolve:
    """What the ranks of a job do: `communicators.base.RankWork`.

    `parts` are the pieces of each rank, of which up to `step` are computed at once; `others` are
    the sizes of the dimensions but that of the rows.
    """

    systems: SpreadSystems
    others: Mapping[str, int]
    parts: tuple[Span, ...]
    step: int

    def run(self, communicator: Communicator, tell: Tell) -> Report:
        """Do the part of one rank."""
        with ExitStack() as stack:
            if TARGETS[self.systems.target].on_device:
                stack.enter_context(own_stream())
            return _Rank(self, communicator, tell).run()

    def spans(self, pieces: Span) -> dict[str, Span]:
        """Return some pieces of all systems."""
        others = {name: Span(0, size) for name, size in self.others.items()}
        return {**others, self.systems.dim: pieces}

    def blocks(self, rank: int) -> Iterator[Span]:
        """Yield the pieces of a rank that are computed at once, which have as many rows each."""
        own = self.parts[rank]
        for low, high in self.systems.pieces.alike(own.start, own.stop):
            for first in range(low, high, self.step):
                yield Span(first, min(high, first + self.step))


class _Rank:
    """One rank at work."""

    def __init__(self, work: RankSolve, communicator: Communicator, tell: Tell) -> None:
        self._work, self._systems = work, work.systems
        self._communicator, self._tell = communicator, tell
        one = Span(0, 1)
        self._task = Task(Block(communicator.rank, (one, one, one), ()))
        self._began = time.perf_counter()
        self._done = 0

    def run(self) -> Report:
        """Solve the pieces of this rank."""
        communicator, task = self._communicator, self._task
        kept: list[tuple[Span, KeptPieces]] = []
        ends: list[_Array] = []
        for span in self._work.blocks(communicator.rank):
            communicator.check()
            kept.append((span, self._kept(span)))
            with task.computing():
                ends.append(kept[-1][1].ends())
        self._passed()
        every = gathered(communicator, ("ends", 0), np.concatenate(ends, axis=2))
        with task.computing():
            known = self._known(np.concatenate(every, axis=2))
        self._passed()
        said: list[_Array] = []
        while kept:  # what is solved gives its memory back
            said.append(self._filled(*kept.pop(0), known))
        self._passed()
        self._judged(said)
        self._passed()
        return task.report()

    def _kept(self, span: Span) -> KeptPieces:
        """Read some pieces."""
        systems = self._systems
        # The host computes with what it reads, and what a device needs may lie anywhere.
        on_device = TARGETS[systems.target].on_device and not systems.residual
        read = systems.lying if on_device else systems.read
        return keep_pieces(
            systems.target,
            systems.pieces,
            span.start,
            span.stop,
            read(self._task, self._work.spans(span)),
            contiguous=systems.contiguous,
            periodic=systems.periodic,
            residual=bool(systems.residual),
            threads=copying_threads(self._communicator.size),
        )

    def _known(self, ends: _Array) -> _Array:
        """Return the unknowns at all ends, with those of neighbours around them."""
        systems = self._systems
        size, periodic = systems.pieces.size, systems.periodic
        known = solve_ends(systems.solver, ends, periodic=periodic, size=size)
        return with_neighbours(known, periodic=periodic)

    def _filled(self, span: Span, pieces: KeptPieces, known: _Array) -> _Array:
        """Solve and write some pieces; return what is said of systems, [word, outer, inner]."""
        self._communicator.check()
        spans, systems = self._work.spans(span), self._systems
        place = systems.place(spans)
        solution = systems.room(spans, known.dtype) if place is None else place
        with self._task.computing():
            filled = pieces.fill(known[:, :, span.start : span.stop + 2], solution)
        if place is None:
            systems.write_solution(self._task, spans, near(solution))
        else:
            self._task.bytes_written += place.nbytes
        words = [verdict(filled.status, 1).astype(np.float64)]
        if filled.missing is not None and filled.scale is not None:
            words += [filled.missing.max(axis=1), filled.scale.max(axis=1)]
        return np.stack(words)

    def _judged(self, said: list[_Array]) -> None:
        """Let rank 0 write what all ranks say of whole systems."""
        communicator = self._communicator
        tag, own = ("said", 0), _joined(said)
        if communicator.rank:
            communicator.send(0, tag, own)
            return
        others = (communicator.receive(rank, tag) for rank in range(1, communicator.size))
        status, *worst = _joined([own, *others])
        spans = self._work.spans(Span(0, self._systems.pieces.count))
        self._systems.write_verdict(self._task, spans, status.astype(np.uint8), worst)

    def _passed(self) -> None:
        """Tell that this rank, which is like the others, has done a pass."""
        now = time.perf_counter()
        if self._communicator.rank == 0:
            steps = int(self._done + 1 == PASSES)
            self._tell(PassFinished(self._done, PASSES, steps, 1, now - self._began))
        self._done, self._began = self._done + 1, now


def _joined(said: list[_Array]) -> _Array:
    """Return what is said of whole systems from what is said of their parts."""
    every = np.stack(said)
    status = verdict(every[:, 0].astype(np.uint8), 0)
    return np.stack([status.astype(np.float64), *every[:, 1:].max(axis=0)])
