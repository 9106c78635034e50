"""The dispatcher as a process: wires the parts, and stops softly on a signal."""

from __future__ import annotations

import contextlib
import signal
import threading
from contextlib import AbstractContextManager

from halocline_service.datasets.layout import Layout
from halocline_service.datasets.marker import claim
from halocline_service.datasets.references import Resolver
from halocline_service.dispatcher.attempts.attempt import Attempt
from halocline_service.dispatcher.attempts.processes import Limits, Processes
from halocline_service.dispatcher.attempts.setup import setup_of
from halocline_service.dispatcher.loop import Dispatcher
from halocline_service.dispatcher.workers import ClusterLook
from halocline_service.settings import Settings
from halocline_service.store.sql.database import name_of
from halocline_service.store.sql.store import open_store

__all__ = ["run_dispatcher"]


def run_dispatcher(settings: Settings, *, attempt: Attempt | None = None) -> None:
    """Run jobs until SIGTERM or SIGINT: in processes, or where `attempt` does.

    Raises `ForeignFolder`.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    store = open_store(settings.database)
    layout = Layout(settings.data_dir.resolve())
    claim(layout, store, database=name_of(settings.database))
    resolver = Resolver(store, layout, tuple(settings.data_roots))
    made = contextlib.nullcontext(attempt) if attempt else _processes(settings, resolver)
    look = None if settings.scheduler is None else ClusterLook(settings.scheduler)
    try:
        with made as one:
            Dispatcher(settings, store, one, look=look).run(stop)
    finally:
        store.close()


def _processes(settings: Settings, resolver: Resolver) -> AbstractContextManager[Attempt]:
    limits = Limits(planning=settings.planning_seconds, stopping=settings.stopping_seconds)
    return Processes(setup_of(settings), resolver, limits, ahead=settings.concurrency)
