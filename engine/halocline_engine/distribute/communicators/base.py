"""Interface of communication between the ranks of a job.

A rank is one of the processes, or threads, that keep the blocks of a job and make its steps at the
same time. Ranks are numbered from 0; rank 0 decides what all of them do next.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from halocline_engine.control.interruption import interruptible
from halocline_engine.distribute.tasks.events import Event
from halocline_engine.distribute.tasks.model import Report

__all__ = [
    "SILENCE",
    "Communicator",
    "RankLostError",
    "RankWork",
    "Tag",
    "Tell",
    "agree",
    "from_all",
    "gathered",
    "run_rank",
    "shared",
]

#: What a message is, and which one of its kind.
Tag: TypeAlias = tuple[str, int]
#: Takes the events of rank 0.
Tell: TypeAlias = Callable[[Event], None]
#: Seconds that a rank waits for a message of one that it has heard of before it takes it for lost.
#: Whoever started the ranks knows much sooner of one that is gone; this is for who is left alone.
SILENCE = 1200.0


class RankLostError(Exception):
    """A rank of the job is gone, or no longer answers: the others end, and the job is resumed.

    It stays inside the engine; whoever started the ranks handles it.
    """


class Communicator(Protocol):
    """The other ranks, as one of them sees them; every wait ends with the job."""

    @property
    def rank(self) -> int:
        """The number of this rank."""
        ...

    @property
    def size(self) -> int:
        """Number of ranks."""
        ...

    def send(self, to: int, tag: Tag, values: NDArray[Any]) -> None:
        """Send an array, which must not change afterwards; waits for nobody."""
        ...

    def receive(self, source: int, tag: Tag) -> NDArray[Any]:
        """Return the array that a rank sends under a tag; waits for it.

        Raises `CancelledError` where the job was cancelled, and `RankLostError` where a rank is
        lost or nothing came for `SILENCE` seconds. A rank that was never heard of may not have
        begun, as its worker has other work: it is waited for.
        """
        ...

    def check(self) -> None:
        """Raise what `receive` would raise by now."""
        ...


class RankWork(Protocol):
    """Work of each rank of a job; it can be pickled."""

    def run(self, communicator: Communicator, tell: Tell) -> Report:
        """Do the part of one rank, from its sources to its sinks.

        Rank 0 tells what happens. Running it again writes the same values again.
        """
        ...


def run_rank(work: RankWork, communicator: Communicator, tell: Tell) -> Report:
    """Do the part of one rank in this thread, and end with the job, also while reading."""
    with interruptible(communicator.check):
        return work.run(communicator, tell)


def shared(communicator: Communicator, tag: Tag, decide: Callable[[], dict[str, Any]]) -> Any:
    """Return what rank 0 decides, on every rank; `decide` is called there alone.

    A decision is a mapping that JSON knows.
    """
    if communicator.rank:
        return _decoded(communicator.receive(0, tag))
    decision = decide()
    for rank in range(1, communicator.size):
        communicator.send(rank, tag, _encoded(decision))
    return decision


def from_all(communicator: Communicator, tag: Tag, value: Any) -> list[Any]:
    """Return what every rank says, on every rank and in their order; JSON knows it."""
    asked = (f"{tag[0]}?", tag[1])
    if communicator.rank:
        communicator.send(0, asked, _encoded(value))

    def decide() -> dict[str, Any]:
        others = range(1, communicator.size)
        return {"all": [value, *(_decoded(communicator.receive(one, asked)) for one in others)]}

    return shared(communicator, tag, decide)["all"]


def gathered(communicator: Communicator, tag: Tag, values: NDArray[Any]) -> list[NDArray[Any]]:
    """Return the arrays of all ranks, on every rank and in their order."""
    ranks = range(communicator.size)
    for rank in ranks:
        if rank != communicator.rank:
            communicator.send(rank, tag, values)
    return [
        values if rank == communicator.rank else communicator.receive(rank, tag) for rank in ranks
    ]


def agree(communicator: Communicator, tag: Tag, *, here: bool) -> bool:
    """Return whether all ranks say yes; each waits for all others."""
    return all(from_all(communicator, tag, here))


def _encoded(value: Any) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def _decoded(values: NDArray[Any]) -> Any:
    return json.loads(values.tobytes())
