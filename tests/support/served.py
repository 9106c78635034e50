"""A service on a loopback port in this process: API, dispatcher and engine."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from deadlines import until

from halocline_engine.functions.run import run
from halocline_service.app import create_app
from halocline_service.datasets.layout import Layout
from halocline_service.datasets.marker import claim
from halocline_service.datasets.references import Resolver
from halocline_service.datasets.tree import scan_file
from halocline_service.dispatcher.attempts.attempt import InProcess, Runner, Tools
from halocline_service.dispatcher.loop import Dispatcher
from halocline_service.serving.server import configure
from halocline_service.settings import Settings
from halocline_service.store.base import Store
from halocline_service.store.sql.migrate import upgrade
from halocline_service.store.sql.store import open_store


@contextmanager
def thread(work: Callable[[], object]) -> Generator[None]:
    """Run something beside the tests; what is inside must make it end."""
    running = threading.Thread(target=work, daemon=True)
    running.start()
    yield
    running.join(20)
    assert not running.is_alive()


def dispatcher(settings: Settings, store: Store, runner: Runner = run) -> Dispatcher:
    layout = Layout(settings.data_dir)
    resolver = Resolver(store, layout, tuple(settings.data_roots))
    tools = Tools(
        layout=layout,
        resolver=resolver,
        runner=runner,
        scan=scan_file,
        cluster=None,
        largest_chunk=settings.chunk_bytes,
    )
    return Dispatcher(settings, store, InProcess(tools))


@contextmanager
def serving(settings: Settings, runner: Runner = run) -> Generator[Store]:
    """Answer HTTP and run jobs; `runner` runs stencils."""
    upgrade(settings.database)
    store = open_store(settings.database)
    claim(Layout(settings.data_dir.resolve()), store, database="the database")
    app = create_app(settings, store=store)
    server = uvicorn.Server(configure(app, settings, log_level="error", lifespan="off"))
    stop = threading.Event()
    jobs = dispatcher(settings, store, runner)
    with thread(server.run), thread(lambda: jobs.run(stop)):
        until(lambda: server.started)
        try:
            yield store
        finally:
            server.should_exit = True
            stop.set()
    store.close()


def settings_for(folder: Path, auth: str) -> Settings:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    given = {"data_dir": folder, "port": port, "auth": auth}
    return Settings.model_validate({**given, "data_roots": [folder / "roots"]})
