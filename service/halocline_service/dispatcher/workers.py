"""Availability of workers: jobs wait for it and do not fail.

A thread asks the scheduler each second, over a connection of its own, so that the dispatcher is
never kept by a scheduler that does not answer.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import structlog

from halocline_engine.errors import HaloclineError
from halocline_service.jobs.job import JsonObject

__all__ = ["ClusterLook", "Look", "Recent", "Seen", "Workers"]

_log = structlog.get_logger()
_LOOK_SECONDS = 1.0
_SAMPLE_SECONDS = 5.0
_SAMPLES = 60


class Look(Protocol):
    """Gives the workers that are connected now; raises `HaloclineError` if nothing answers."""

    def __call__(self) -> Sequence[JsonObject]:
        """Give what is known of each."""
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


@dataclass(frozen=True, slots=True)
class Seen:
    """Number of workers seen, or None where the scheduler did not answer; what is known of each."""

    workers: int | None
    each: tuple[JsonObject, ...] = field(default=(), compare=False)

    @property
    def lacks(self) -> str:
        """Reason that no job can be computed; empty where one can."""
        if self.workers is None:
            return "the scheduler does not answer"
        return "" if self.workers else "none is connected"

    @property
    def told(self) -> JsonObject:
        """What others are told: what is lacking, and the workers."""
        return {"lacks": self.lacks, "workers": [*self.each]}


class Workers:
    """Used as `with Workers(look, changed) as workers`: calls `changed` when `seen` is another.

    Where there is no scheduler (`look` is None), this process computes by itself.
    """

    def __init__(self, look: Look | None, changed: Callable[[], None]) -> None:
        self._look = look
        self._changed = changed
        self._done = threading.Event()
        self._recent = Recent()
        self._thread = threading.Thread(target=self._watch, name="workers", daemon=True)
        #: What is there now; None until the first answer.
        self.seen: Seen | None = Seen(1) if look is None else None

    def __enter__(self) -> Self:
        """Begin to look."""
        if self._look is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Look no more; a scheduler that does not answer is not waited for."""
        self._done.set()

    def _watch(self) -> None:
        assert self._look is not None
        while not self._done.is_set():
            seen = self._once(self._look)
            before, self.seen = self.seen, seen
            if seen != before:
                _log.info("workers seen", workers=seen.workers)
                self._changed()
            self._done.wait(_LOOK_SECONDS)
        self._look.close()

    def _once(self, look: Look) -> Seen:
        try:
            workers = look()
            return Seen(len(workers), tuple(self._recent.of(workers)))
        except (HaloclineError, OSError) as error:
            if self.seen != Seen(None):
                _log.warning("scheduler not reached", error=str(error))
            return Seen(None)


class Recent:
    """The load of workers in the last minutes: processors in percent, and bytes of memory."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._sampled = float("-inf")
        self._by_name: dict[str, deque[tuple[Any, Any]]] = {}

    def of(self, workers: Sequence[JsonObject]) -> Iterator[JsonObject]:
        """Give workers with their load until now, the oldest first."""
        is_due = self._now() - self._sampled >= _SAMPLE_SECONDS
        if is_due:
            self._sampled = self._now()
            names = {str(worker["name"]) for worker in workers}
            self._by_name = {
                name: self._by_name.get(name, deque(maxlen=_SAMPLES)) for name in names
            }
        for worker in workers:
            load = self._by_name.setdefault(str(worker["name"]), deque(maxlen=_SAMPLES))
            if is_due:
                load.append((worker.get("cpu"), worker.get("memory")))
            yield {**worker, "recent": [list(each) for each in load]}


class ClusterLook:
    """Asks the scheduler at an address; the connection stays open while it answers."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._open = ExitStack()
        self._client: Any = None

    def __call__(self) -> Sequence[JsonObject]:
        """Give the workers."""
        from halocline_engine.distribute.executors.dask import connect
        from halocline_engine.distribute.executors.workers import ask_scheduler

        try:
            if self._client is None:
                self._client = self._open.enter_context(connect(self._address)).client
            workers = ask_scheduler(self._client, "identity", n_workers=-1)["workers"]
        except HaloclineError:
            self.close()
            raise
        return [_facts(address, told) for address, told in workers.items()]

    def close(self) -> None:
        """Let go of the connection."""
        self._client = None
        with suppress(OSError, RuntimeError):
            self._open.close()


def _facts(address: str, told: Mapping[str, Any]) -> JsonObject:
    """Return what people want to know of a worker, of what the scheduler knows."""
    device = "GPU" if told.get("resources", {}).get("GPU") else ""
    return {
        "name": address,
        "threads": told.get("nthreads"),
        "device": told.get("gpu", {}).get("name") or device,
        "memory": told.get("metrics", {}).get("memory"),
        "memory_limit": told.get("memory_limit"),
        "cpu": told.get("metrics", {}).get("cpu"),
    }
