"""Futures of a cluster whose workers come, go and fall silent."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Any

from distributed.comm.core import CommClosedError

from halocline_engine.distribute.executors.base import POLL
from halocline_engine.distribute.executors.workers import Workers, ask_scheduler
from halocline_engine.errors import HaloclineError

__all__ = ["fetched", "is_of_files", "settle"]

_FETCH_SECONDS = 2.0
_SETTLE_SECONDS = 300


def fetched(future: Any, look: Callable[[], object]) -> Any:
    """Return what a task returned, or raise what it raised; it is fetched from its worker.

    A worker that is stopped would be waited for without end. When it is given up, the scheduler
    has the task done elsewhere; `look` is called from time to time, and raises where nobody may.
    """
    while True:
        try:
            return future.result(timeout=_FETCH_SECONDS)
        except TimeoutError:
            if future.status == "error":
                raise
            look()


def settle(client: Any, workers: Workers, running: Iterable[Any]) -> None:
    """Wait until nothing that was sent out is being written any more.

    What no worker has at hand is not waited for: it would be, where all of them are gone.
    """
    until = time.monotonic() + _SETTLE_SECONDS
    left = {future for future in running if not future.done()}
    with contextlib.suppress(HaloclineError):
        while left and time.monotonic() < until:
            held = _held(client, workers)
            for future in left:
                if future.key not in held:
                    future.cancel()
            time.sleep(POLL)
            left = {future for future in left if not future.done()}


def _held(client: Any, workers: Workers) -> set[str]:
    """Return the keys of what workers that are heard of have at hand."""
    there = workers.look()
    processing = ask_scheduler(client, "processing", workers=None)
    return {key for address, keys in processing.items() if address in there for key in keys}


def is_of_files(error: BaseException) -> bool:
    """Whether an error is of the work's files: those of connections have no number, or a kind."""
    lost = (ConnectionError, TimeoutError, CommClosedError)
    return isinstance(error, OSError) and error.errno is not None and not isinstance(error, lost)
