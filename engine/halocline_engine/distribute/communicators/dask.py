"""Communication between workers of a Dask cluster: messages go from worker to worker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, cast

import distributed
import numpy as np
from distributed.protocol.serialize import to_serialize
from numpy.typing import NDArray

from halocline_engine.device.memory.idle import DEVICE_USE
from halocline_engine.distribute.communicators.base import RankWork, Tag
from halocline_engine.distribute.communicators.base import run_rank as run_interruptibly
from halocline_engine.distribute.communicators.local import Mailbox
from halocline_engine.distribute.tasks.events import Event
from halocline_engine.distribute.tasks.model import Report

__all__ = ["abandon", "close_mailbox", "interrupt", "open_mailbox", "run_rank"]

_dd: Any = cast(Any, distributed)
#: The name of the mailboxes among a worker's extensions, and of the call that fills them.
_NAME = "halocline_put"


@dataclass(slots=True)
class _Box:
    """The mailbox of a job in a worker process, and whether the job was cancelled."""

    ended: threading.Event = field(default_factory=threading.Event)
    mailbox: Mailbox = field(init=False)

    def __post_init__(self) -> None:
        self.mailbox = Mailbox(self.ended.is_set)


class _Mailboxes:
    """The mailboxes of a worker, by job."""

    def __init__(self) -> None:
        self.boxes: dict[str, _Box] = {}

    async def put(self, *, job: str, to: int, source: int, tag: Sequence[Any], values: Any) -> None:
        """Take a message; one of a job that has ended is dropped."""
        box = self.boxes.get(job)
        if box is not None:
            box.mailbox.put(to, source, (str(tag[0]), int(tag[1])), values)


@dataclass(frozen=True, slots=True)
class _DaskCommunicator:
    """The ranks of a job on the workers `addresses`; see `Communicator`."""

    rank: int
    addresses: tuple[str, ...]
    job: str
    worker: Any
    mailbox: Mailbox

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self.addresses)

    def send(self, to: int, tag: Tag, values: NDArray[Any]) -> None:
        """Send an array to the worker of a rank; where that fails, the rank is lost."""
        loop = self.worker.loop.asyncio_loop
        sent = asyncio.run_coroutine_threadsafe(self._send(to, tag, values), loop)
        sent.add_done_callback(self._sent)

    def receive(self, source: int, tag: Tag) -> NDArray[Any]:
        """Return the array that a rank sends under a tag."""
        return self.mailbox.take(self.rank, source, tag)

    def check(self) -> None:
        """Raise where the job is to end."""
        self.mailbox.check()

    async def _send(self, to: int, tag: Tag, values: NDArray[Any]) -> None:
        await self.worker.rpc(self.addresses[to]).halocline_put(
            job=self.job,
            to=to,
            source=self.rank,
            tag=tag,
            values=to_serialize(np.ascontiguousarray(values)),
        )

    def _sent(self, sent: Future[None]) -> None:
        error = None if sent.cancelled() else sent.exception()
        if error is not None:
            self.mailbox.lose(f"A rank cannot be reached: {type(error).__name__}: {error}.")


def open_mailbox(job: str, dask_worker: Any = None) -> None:
    """Take messages of a job on this worker from now on, whether its rank runs already or not."""
    mailboxes = dask_worker.extensions.get(_NAME)
    if mailboxes is None:
        mailboxes = dask_worker.extensions[_NAME] = _Mailboxes()
        dask_worker.handlers[_NAME] = mailboxes.put
    mailboxes.boxes.setdefault(job, _Box())


def interrupt(job: str, dask_worker: Any = None) -> None:
    """Let the rank of a cancelled job end soon."""
    box = _boxes(dask_worker).get(job)
    if box is not None:
        box.ended.set()


def abandon(job: str, *, why: str, dask_worker: Any = None) -> None:
    """Let the rank of a job that has lost another rank end soon."""
    box = _boxes(dask_worker).get(job)
    if box is not None:
        box.mailbox.lose(why)


def close_mailbox(job: str, dask_worker: Any = None) -> None:
    """Drop what is left of a job that has ended."""
    _boxes(dask_worker).pop(job, None)


def run_rank(work: RankWork, job: str, rank: int, addresses: tuple[str, ...]) -> Report:
    """Do the part of a rank on this worker; rank 0 logs what happens under the job's name."""
    worker = _dd.get_worker()
    box = _boxes(worker)[job]

    def tell(event: Event) -> None:
        worker.log_event(job, {"event": event.to_json()})

    communicator = _DaskCommunicator(rank, addresses, job, worker, box.mailbox)
    with DEVICE_USE:
        return run_interruptibly(work, communicator, tell)


def _boxes(worker: Any) -> dict[str, _Box]:
    mailboxes: _Mailboxes | None = worker.extensions.get(_NAME)
    return {} if mailboxes is None else mailboxes.boxes
