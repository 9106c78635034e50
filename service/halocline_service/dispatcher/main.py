"""The dispatcher as a process: wires the parts, and stops softly on a signal."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

from halocline_service.datasets.layout import Layout
from halocline_service.datasets.references import Resolver
from halocline_service.dispatcher.attempt import Runner, Scan, Tools
from halocline_service.dispatcher.loop import Dispatcher
from halocline_service.settings import Settings
from halocline_service.store.sql import open_store

__all__ = ["run_dispatcher", "scan_file"]


def run_dispatcher(
    settings: Settings, *, runner: Runner | None = None, scan: Scan | None = None
) -> None:
    """Run jobs until SIGTERM or SIGINT."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    store = open_store(settings.database)
    layout = Layout(settings.data_dir.resolve())
    layout.make()
    tools = Tools(
        layout=layout,
        resolver=Resolver(store, layout, tuple(settings.data_roots)),
        runner=runner or _engine(),
        scan=scan or scan_file,
        cluster=settings.scheduler,
        largest_chunk=settings.chunk_bytes,
        limits=settings.limits,
        headroom=settings.disk_headroom_bytes,
    )
    try:
        Dispatcher(settings, store, tools).run(stop)
    finally:
        store.close()


def _engine() -> Runner:
    from halocline_engine.run import run

    return run


def scan_file(path: Path) -> None:
    """Refuse a file that reads other files. Raises `DatasetError`."""
    from halocline_engine.datasets.hdf5_scan import is_hdf5, refuse_outside

    if is_hdf5(path):
        refuse_outside(path)
