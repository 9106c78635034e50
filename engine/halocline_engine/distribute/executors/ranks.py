"""Ranks of a job on the workers of a cluster: started together, and ended together."""

from __future__ import annotations

import contextlib
import queue
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

import distributed

from halocline_engine.distribute.communicators.base import RankLostError, RankWork
from halocline_engine.distribute.communicators.dask import (
    abandon,
    close_mailbox,
    interrupt,
    open_mailbox,
    run_rank,
)
from halocline_engine.distribute.executors.base import POLL, Done
from halocline_engine.distribute.executors.futures import fetched, is_of_files, settle
from halocline_engine.distribute.executors.workers import Workers
from halocline_engine.distribute.tasks.cancel import CancelToken, raise_if_cancelled
from halocline_engine.distribute.tasks.events import Event, event_of_rank
from halocline_engine.distribute.tasks.model import Report
from halocline_engine.errors import CancelledError, HaloclineError

__all__ = ["run_on_workers"]

_dd: Any = cast(Any, distributed)
# Seconds that a worker has to answer: it may be busy before it has a rank, and is not waited for at
# the end.
_BEGIN_SECONDS = 30.0
_END_SECONDS = 5.0


def run_on_workers(
    client: Any, workers: Workers, work: RankWork, ranks: int, cancelled: CancelToken | None
) -> Iterator[Event | Done]:
    """Run a rank on each of some workers; see `Pool.run_ranks`."""
    addresses = tuple(sorted(workers.now()))[:ranks]
    job = f"halocline-{uuid.uuid4().hex}"
    told: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def logged(event: tuple[float, Mapping[str, Any]]) -> None:
        told.put(event_of_rank(event[1]["event"]))

    client.subscribe_topic(job, logged)
    running: dict[Any, str] = {}
    ending: Callable[..., None] = partial(abandon, why="Another rank of the job is gone.")
    try:
        if len(_on(client, workers, addresses, open_mailbox, job, _BEGIN_SECONDS)) < ranks:
            raise RankLostError("A worker that should have a rank does not answer.")
        for rank, address in enumerate(addresses):
            placed = {**workers.demand(), "workers": [address], "pure": False}
            future = client.submit(run_rank, work, job, rank, addresses, **placed)
            running[future] = address
            future.add_done_callback(told.put)
        while running:
            raise_if_cancelled(cancelled)
            workers.look()
            yield from workers.notices()
            _look(workers, running.values())
            with contextlib.suppress(queue.Empty):
                one = told.get(timeout=POLL)
                address = running.pop(one, "")
                yield Done(_result(one, workers, address), address) if address else one
    except CancelledError:
        ending = interrupt
        raise
    finally:
        _on(client, workers, list(running.values()), ending, job)
        settle(client, workers, running)
        _on(client, workers, addresses, close_mailbox, job)
        client.unsubscribe_topic(job)


def _on(
    client: Any,
    workers: Workers,
    addresses: Sequence[str],
    function: Callable[..., None],
    job: str,
    seconds: float = _END_SECONDS,
) -> Mapping[str, Any]:
    """Call a function for a job on some workers; return what those return that answer."""
    there = [address for address in addresses if address in workers.look()]
    if not there:
        return {}
    told = {"workers": there, "on_error": "ignore", "callback_timeout": seconds}
    try:
        return client.run(function, job, **told)
    except (OSError, TimeoutError, RuntimeError):
        return {}


def _look(workers: Workers, addresses: Iterable[str]) -> None:
    """Raise `RankLostError` where a worker with a rank is gone."""
    there = workers.look()
    if not all(address in there for address in addresses):
        raise RankLostError("A worker that has a rank is gone.")


def _result(future: Any, workers: Workers, address: str) -> Report:
    """Return the report of a rank, or raise what it raised.

    A report may be lost with its worker, and nobody else may make it again.
    """
    try:
        return fetched(future, partial(_look, workers, (address,)))
    except (HaloclineError, RankLostError):
        raise
    except (_dd.KilledWorker, _dd.CancelledError, OSError) as error:
        if is_of_files(error):
            raise
        raise RankLostError(f"A rank was lost: {type(error).__name__}: {error}.") from error
