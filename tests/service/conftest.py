"""A service in one process: the real API, store and dispatcher, with a small engine."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.to_thread
import numpy as np
import pytest
import structlog
import uvicorn
import xarray as xr
from deadlines import until
from fastapi.testclient import TestClient
from postgres import Server, binaries, running

from halocline_engine.distribute.tasks.events import BlockFinished, Finished, Planned
from halocline_engine.errors import (
    CancelledError,
    CapacityError,
    DeviceError,
    FieldError,
)
from halocline_service.api.checking.base import CheckHere
from halocline_service.app import Service, create_app
from halocline_service.datasets.layout import Layout
from halocline_service.datasets.marker import claim
from halocline_service.datasets.references import Resolver
from halocline_service.datasets.tree import check_tree, consolidate
from halocline_service.dispatcher.attempts.attempt import InProcess, Tools
from halocline_service.dispatcher.loop import Dispatcher
from halocline_service.serving.server import configure
from halocline_service.settings import Settings
from halocline_service.store.base import Store
from halocline_service.store.sql.migrate import upgrade
from halocline_service.store.sql.store import open_store

#: Its scalars say how the small engine should misbehave.
PROGRAM = """
def double(
    inp: Field[np.float64],
    out: Field[np.float64],
    *,
    blocks: int = 4,
    held: int = 0,
    fail: int = 0,
    flag: bool = False,
    alpha: float = 0.0,
    do: float = 0.0,
    value: float = 0.0,
):
    with computation(PARALLEL), interval(...):
        out = inp + inp
"""

_xr: Any = xr  # typed only in part


def _any(value: object) -> Any:
    return value


ClientOf = Callable[..., TestClient]


#: Scalars of a job whose blocks wait for their turns, so that it runs until a test lets it end.
HELD: dict[str, Any] = {"held": 1}


class Engine:
    """Doubles every variable of a Zarr store; `scalars` say how it should misbehave.

    `blocks` are all that were done. Those of jobs that are held take turns, which tests release.
    """

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.resumed: list[bool] = []
        self.turns = threading.Semaphore(0)
        self.blocks = 0

    def __call__(self, program: str, dataset: str, **given: Any) -> xr.Dataset:
        self.calls.append({"program": program, "dataset": dataset, **given})
        how: dict[str, Any] = given.get("scalars") or {}
        blocks = int(how.get("blocks", 4))
        given["on_event"](
            Planned("streamed", "It is small.", "reference", 1, blocks, 1, 1, 1, 1000)
        )
        work = Path(given["workspace"]) / "pass-000001.json"
        self.resumed.append(work.exists())
        for block in range(blocks):
            self._take_turn(given["cancelled"], is_held=bool(how.get("held")))
            self.blocks += 1
            given["on_event"](BlockFinished(0, 1, block + 1, blocks, 0.01, "w0"))
        work.write_text("yes")
        self._fail(how, len(self.calls))
        with _xr.open_dataset(dataset, engine="zarr") as source:
            result: xr.Dataset = (source * 2.0).load()
        write(result, Path(given["output"]))
        given["on_event"](Finished(0.1, 10, 10, 1000))
        return result

    def _take_turn(self, cancelled: Callable[[], bool], *, is_held: bool) -> None:
        while True:
            if cancelled():
                raise CancelledError("The run was stopped.")
            if not is_held or self.turns.acquire(timeout=0.01):
                return

    def _fail(self, how: dict[str, Any], calls: int) -> None:
        match how.get("fail"):
            case 1:
                raise FieldError("Field 'inp' has no variable.", hint="Name it in 'fields'.")
            case 2 if calls < 3:
                raise DeviceError("The device failed.")
            case 3:
                raise CapacityError("It does not fit.", needed=10, available=5)
            case 4:
                raise ZeroDivisionError("a secret that users must not see")
            case 5:
                raise OSError(28, "No space left on device")
            case _:
                pass


class SmallChecks(CheckHere):
    """Checks for the small engine, to which any dataset fits."""

    async def fit(self, *_: object, **__: object) -> dict[str, Any]:
        return {}


class Pauses:
    """Pauses before answers, which last until a test ends them; `asked` are their seconds."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self._over = threading.Event()

    async def sleep(self, seconds: float) -> None:
        if not seconds:
            return
        self.asked.append(seconds)
        with anyio.fail_after(60):
            while not self._over.is_set():
                await anyio.sleep(0.01)

    def end(self) -> None:
        self._over.set()


@dataclass
class Running:
    """A service that runs."""

    settings: Settings
    store: Store
    app: Service
    engine: Engine
    client: TestClient
    data: Path

    def submit(self, process: str = "stencil", **inputs: Any) -> str:
        if process == "stencil":
            inputs = {"program": PROGRAM, "dataset": "sst.zarr"} | inputs
        answer = self.client.post(
            f"/processes/{process}/execution",
            json={"inputs": inputs},
            headers={"Prefer": "respond-async"},
        )
        assert answer.status_code == 201, answer.text
        return answer.json()["jobID"]

    def wait(self, job: str, *statuses: str, seconds: float = 10.0) -> dict[str, Any]:
        wanted = statuses or ("successful", "failed", "dismissed")
        end = time.monotonic() + seconds
        while True:
            info = self.client.get(f"/jobs/{job}").json()
            if info["status"] in wanted:
                return info
            assert time.monotonic() < end, f"Job is not {wanted}: {info}"
            time.sleep(0.02)


def write(dataset: xr.Dataset, path: Path) -> None:
    """Write a consolidated store (zarr-python warns where it does that itself)."""
    _any(dataset).to_zarr(path, zarr_format=3, consolidated=False)
    consolidate(path, check_tree(path, largest_chunk=2**30))


def small_dataset() -> xr.Dataset:
    values = np.random.default_rng(1).normal(size=(2, 6, 8))
    values[:, :2, :2] = np.nan
    return xr.Dataset(
        {"sst": (("time", "y", "x"), values)},
        coords={"time": [0.0, 1.0], "y": np.arange(6.0), "x": np.arange(8.0)},
    )


@pytest.fixture(scope="session", autouse=True)
def quiet() -> None:
    """Log nothing: rendering tracebacks for people takes seconds."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder that may be read, and is not written by tests."""
    root = tmp_path_factory.mktemp("data")
    write(_any(small_dataset()).chunk({"time": 1, "y": 3, "x": 8}), root / "sst.zarr")
    return root


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a database with no rows, to copy."""
    path = tmp_path_factory.mktemp("database") / "halocline.sqlite3"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def postgres_server() -> Generator[Server]:
    """Run a PostgreSQL server for this process of tests."""
    programs = binaries()
    if programs is None:
        pytest.skip("no PostgreSQL server (Debian package 'postgresql')")
    with running(programs) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_template(postgres_server: Server) -> str:
    """Make a PostgreSQL database with no rows, to copy."""
    name = postgres_server.create()
    upgrade(postgres_server.url(name))
    return name


@pytest.fixture
def postgres(postgres_server: Server, postgres_template: str) -> Generator[str]:
    """Give the address of a PostgreSQL database with no rows."""
    name = postgres_server.create(postgres_template)
    yield postgres_server.url(name)
    postgres_server.drop(name)


@pytest.fixture
def settings(tmp_path: Path, data: Path) -> Settings:
    return Settings(
        data_dir=tmp_path / "state",
        data_roots=[data],
        poll_seconds=0.02,
        lease_seconds=2.0,
        heartbeat_seconds=0.5,
        retry_seconds=0.01,
        upload_bytes=2**20,
        upload_key_bytes=2**19,
        body_bytes=200_000,
        disk_headroom_bytes=0,
    )


@pytest.fixture
def store(settings: Settings, empty_database: Path) -> Generator[Store]:
    settings.data_dir.mkdir()
    shutil.copy(empty_database, settings.data_dir)
    made = open_store(settings.database)
    claim(Layout(settings.data_dir.resolve()), made, database="the database")
    yield made
    made.close()


@pytest.fixture
def client_of(store: Store) -> Generator[ClientOf]:
    opened: list[TestClient] = []

    def make(settings: Settings, **headers: str) -> TestClient:
        app = create_app(settings, store=store, checks=SmallChecks())
        client = TestClient(app, headers=headers, raise_server_exceptions=False)
        opened.append(client.__enter__())
        return opened[-1]

    yield make
    for client in opened:
        client.__exit__()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Generator[Pauses]:
    made = Pauses()
    used = SimpleNamespace(sleep=made.sleep, to_thread=anyio.to_thread)
    monkeypatch.setattr("halocline_service.api.routes.processes.anyio", used)
    yield made
    made.end()


@pytest.fixture
def idle(settings: Settings, store: Store, client_of: ClientOf, data: Path) -> Running:
    """Make a service whose dispatcher does not run."""
    client = client_of(settings)
    app: Any = client.app
    return Running(settings, store, app, Engine(), client, data)


@pytest.fixture
def service(idle: Running) -> Generator[Running]:
    """Make a service with a dispatcher."""
    layout = Layout(idle.settings.data_dir.resolve())
    tools = Tools(
        layout=layout,
        resolver=Resolver(idle.store, layout, tuple(idle.settings.data_roots)),
        runner=idle.engine,
        scan=lambda path: None,
        cluster=None,
        largest_chunk=idle.settings.chunk_bytes,
    )
    stop = threading.Event()
    dispatcher = Dispatcher(idle.settings, idle.store, InProcess(tools))
    thread = threading.Thread(target=dispatcher.run, args=(stop,))
    thread.start()
    yield idle
    stop.set()
    thread.join()


@pytest.fixture
def live(service: Running) -> Generator[str]:
    """Serve the service on a real port; give its URL."""
    with answering(service) as url:
        yield url


@contextmanager
def answering(service: Running) -> Generator[str]:
    server = uvicorn.Server(
        configure(service.app, service.settings, port=0, log_level="error", lifespan="off")
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
