"""The work of a rank: some pieces of all systems, which stay in its memory until they are solved.

The passes are those of `pieces`, but bands are read once, and each rank tells each other one the
equations of its ends.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.targets import TARGETS
from halocline_engine.copies import copying_threads, near
from halocline_engine.device.launch.streams import own_stream
from halocline_engine.distribute.communicators.base import Communicator, Tell
from halocline_engine.distribute.grid.partition import Block, Span
from halocline_engine.distribute.solves.ends import EndsOnDevices, EndsOnHosts, RankEnds
from halocline_engine.distribute.solves.pieces import SpreadSystems
from halocline_engine.distribute.tasks.events import PassFinished
from halocline_engine.distribute.tasks.model import Report, Task
from halocline_engine.kernels.tridiagonal.cuda import CudaTridiagonal
from halocline_engine.kernels.tridiagonal.cuda_ends import DeviceEnds
from halocline_engine.kernels.tridiagonal.cuda_pieces import DevicePieces
from halocline_engine.kernels.tridiagonal.launching import Layout
from halocline_engine.kernels.tridiagonal.pieces import HostPieces, verdict

__all__ = ["PASSES", "RankSolve"]

#: Read pieces, solve for their ends (on a device for all rows), write the rest, put together what
#: is said of it.
PASSES = 4

_Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class RankSolve:
    """What the ranks of a job do: `communicators.base.RankWork`.

    `parts` are the pieces of each rank, of which up to `step` are computed at once; `others` are
    the sizes of the dimensions but that of the rows, `dtype` the type of all. `peers` says whether
    devices shall store into each other's memory.
    """

    systems: SpreadSystems
    others: Mapping[str, int]
    dtype: str
    parts: tuple[Span, ...]
    step: int
    peers: bool

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
        ends = self._read()
        complete = False
        try:
            ends.prepare()
            self._passed()
            ends.solve(self._task)
            self._passed()
            blocks = self._work.blocks(self._communicator.rank)
            said = [self._written(ends, span) for span in blocks]
            self._passed()
            self._judged(said)
            self._passed()
            complete = True
        finally:
            ends.close(complete=complete)
        return self._task.report()

    def _read(self) -> RankEnds:
        """Read all pieces of this rank."""
        communicator, work, systems = self._communicator, self._work, self._systems
        spans = [[*work.blocks(rank)] for rank in range(communicator.size)]
        own = spans[communicator.rank]
        if not TARGETS[systems.target].on_device:
            kept = [(span, self._on_host(span)) for span in own]
            return EndsOnHosts(communicator, kept, periodic=systems.periodic)
        kernels = cast(CudaTridiagonal, systems.solver)
        outer, _, inner = systems.batch(work.spans(own[0]))
        pieces = systems.pieces.count
        held = [self._on_device(span, kernels) for span in own]
        layout = Layout(outer, pieces, inner, work.dtype, systems.periodic)
        return EndsOnDevices(
            communicator,
            spans,
            held,
            DeviceEnds(kernels, layout),
            periodic=systems.periodic,
            residual=bool(systems.residual),
            peers=work.peers,
        )

    def _on_host(self, span: Span) -> HostPieces:
        self._communicator.check()
        systems = self._systems
        lower, diagonal, upper, rhs = systems.read(self._task, self._work.spans(span))
        return HostPieces(
            systems.solver,
            systems.pieces,
            span.start,
            span.stop,
            (lower, diagonal, upper, rhs),
            periodic=systems.periodic,
            residual=bool(systems.residual),
        )

    def _on_device(self, span: Span, kernels: CudaTridiagonal) -> DevicePieces:
        self._communicator.check()
        systems = self._systems
        # The host computes with what it reads, and what a device needs may lie anywhere.
        read = systems.read if systems.residual else systems.lying
        return DevicePieces(
            kernels,
            systems.pieces,
            span.start,
            span.stop,
            read(self._task, self._work.spans(span)),
            contiguous=systems.contiguous,
            periodic=systems.periodic,
            residual=bool(systems.residual),
            threads=copying_threads(self._communicator.size),
        )

    def _written(self, ends: RankEnds, span: Span) -> _Array:
        """Write some pieces; return what is said of systems, [word, outer, inner]."""
        self._communicator.check()
        spans, systems = self._work.spans(span), self._systems
        place = systems.place(spans)
        solution = systems.room(spans, np.dtype(self._work.dtype)) if place is None else place
        with self._task.computing():
            found = ends.take(solution)
        if place is None:
            systems.write_solution(self._task, spans, near(solution))
        else:
            self._task.bytes_written += place.nbytes
        words = [verdict(found.status, 1).astype(np.float64)]
        if found.missing is not None and found.scale is not None:
            words += [found.missing.max(axis=1), found.scale.max(axis=1)]
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
        if self._communicator.rank == 0:
            seconds, steps = time.perf_counter() - self._began, int(self._done + 1 == PASSES)
            self._tell(PassFinished(self._done, PASSES, steps, 1, seconds))
        self._done, self._began = self._done + 1, time.perf_counter()


def _joined(said: list[_Array]) -> _Array:
    """Return what is said of whole systems from what is said of their parts."""
    every = np.stack(said)
    status = verdict(every[:, 0].astype(np.uint8), 0)
    return np.stack([status.astype(np.float64), *every[:, 1:].max(axis=0)])
