"""Metrics of one API process, and of the queue in the database."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from halocline_service.store.base import Store

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """Metrics of requests, and of the store when they are read."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "halocline_http_requests",
            "Requests answered.",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "halocline_http_request_seconds",
            "Time to the start of the response.",
            ["route"],
            registry=self._registry,
        )
        self._queue = _Queue(self._registry)
        self._dispatchers = Gauge(
            "halocline_dispatchers",
            "Dispatchers with a heartbeat in the last 30 seconds.",
            registry=self._registry,
        )

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request; `route` is the pattern of the path."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def expose(self, store: Store, now: float) -> bytes:
        """Return the metrics of all owners and of this process, in Prometheus' text format."""
        self._queue.show(store, now, owner=None)
        self._dispatchers.set(len(store.presence.alive(within=30.0)))
        return generate_latest(self._registry)

    @staticmethod
    def expose_own(store: Store, now: float, owner: str) -> bytes:
        """Return the metrics of one owner's jobs."""
        registry = CollectorRegistry()
        _Queue(registry).show(store, now, owner=owner)
        return generate_latest(registry)


class _Queue:
    """Metrics of jobs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._jobs = Gauge("halocline_jobs", "Jobs in the database.", ["state"], registry=registry)
        self._oldest = Gauge(
            "halocline_queue_oldest_seconds",
            "Longest waiting time of a queued job.",
            registry=registry,
        )

    def show(self, store: Store, now: float, *, owner: str | None) -> None:
        """Count the jobs of an owner, or of all owners."""
        for state, number in store.jobs.counts(owner=owner).items():
            self._jobs.labels(state).set(number)
        oldest = store.jobs.oldest_queued(owner=owner)
        self._oldest.set(0.0 if oldest is None else max(0.0, now - oldest))
