"""Memory and processors that a job takes while it runs, told as events."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import psutil

from halocline_engine.errors import HaloclineError
from halocline_service.dispatcher.attempts.attempt import EngineEvent
from halocline_service.jobs.job import JsonObject

__all__ = ["USAGE", "Sample", "Usage", "measure"]

#: Kind of these events.
USAGE = "usage"
_LEAST_SECONDS = 2.0
_SHARE = 200  # of a run's time, between two samples: long jobs tell no more of them
_LAST = "finished"


@dataclass(frozen=True, slots=True)
class Sample:
    """Bytes of memory, and processors that were busy, of all workers together."""

    memory: int
    processors: float
    workers: int

    @property
    def progress(self) -> float:
        """It says nothing of how far the job is."""
        return 0.0

    def to_json(self) -> JsonObject:
        """Give it as an event."""
        return {
            "kind": USAGE,
            "memory": self.memory,
            "processors": round(self.processors, 2),
            "workers": self.workers,
        }


class Usage:
    """Used as `with Usage(tell, sample) as usage`: a thread tells samples until the last event.

    `usage.tell` passes on the events of the run.
    """

    def __init__(self, tell: Callable[[EngineEvent], None], sample: Callable[[], Sample]) -> None:
        self._tell = tell
        self._sample = sample
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="usage", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def tell(self, event: EngineEvent) -> None:
        """Pass an event on; after the last one nothing is sampled."""
        if event.to_json().get("kind") == _LAST:
            self._over.set()
            self._thread.join()
        self._tell(event)

    def _watch(self) -> None:
        start = time.monotonic()
        while not self._over.wait(max(_LEAST_SECONDS, (time.monotonic() - start) / _SHARE)):
            try:
                sample = self._sample()
            except (HaloclineError, OSError, psutil.Error):  # the scheduler is away for a while
                continue
            if not self._over.is_set():
                self._tell(sample)


def measure(cluster: object) -> Callable[[], Sample]:
    """Return what samples the workers of a cluster's client, or this process without one."""
    own = psutil.Process()
    own.cpu_percent()

    def of_process() -> Sample:
        return Sample(own.memory_info().rss, own.cpu_percent() / 100, 1)

    def of_workers() -> Sample:
        from halocline_engine.distribute.executors.workers import ask_scheduler

        workers: Any = ask_scheduler(cluster, "identity", n_workers=-1)["workers"]
        metrics = [each.get("metrics", {}) for each in workers.values()]
        memory = sum(int(each.get("memory", 0)) for each in metrics)
        return Sample(
            memory, sum(float(each.get("cpu", 0)) for each in metrics) / 100, len(metrics)
        )

    return of_process if cluster is None or isinstance(cluster, str) else of_workers
