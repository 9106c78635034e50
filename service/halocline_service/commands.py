"""`halocline-server`: everything on one machine, or one process of a deployment."""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from halocline_service import logs, machine
from halocline_service.cluster import Cluster, dispatcher_memory
from halocline_service.datasets.layout import Layout
from halocline_service.datasets.marker import ForeignFolder
from halocline_service.identity import IdentityError, make_identity, read_identity
from halocline_service.settings import VARIABLES, Settings, unknown_variables
from halocline_service.store.base import Store, StoreAway, StoreNewer, StoreOutdated
from halocline_service.supervisor import Child, Gone, Supervisor, limit_memory

__all__ = ["app", "keys", "main"]

app = typer.Typer(
    help="Run the Halocline service. Settings are environment variables HALOCLINE_*, described in "
    "docs/settings.md.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # Typer's panels show a flag as '--flag <bool>'
    pretty_exceptions_enable=False,
)
keys = typer.Typer(
    help="Create, list and revoke API keys.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(keys, name="key")

_START_SECONDS = 90.0
_WAIT_SECONDS = 2.0
_SHOWN = 5

_Host = Annotated[str | None, typer.Option(help="Address to listen on.")]
_Port = Annotated[int | None, typer.Option(help="Port to listen on; 0 selects a free port.")]
_DataDir = Annotated[
    Path | None,
    typer.Option(help="Folder of jobs, uploads and results; by default a folder of the user."),
]


def main() -> None:
    """Run the command; status 1 if the database or the data folder is not usable."""
    try:
        app()
    except (ForeignFolder, IdentityError, StoreNewer) as error:
        typer.echo(f"{error} {error.hint}", err=True)
        sys.exit(1)
    except StoreOutdated as error:
        typer.echo(f"{error} Run 'halocline-server migrate'.", err=True)
        sys.exit(1)
    except StoreAway as error:
        typer.echo(f"{error} Is HALOCLINE_DATABASE_URL right, and the server running?", err=True)
        sys.exit(1)


def _settings(**given: Any) -> Settings:
    """Read the settings; options of the command line override them."""
    for name in unknown_variables(os.environ):
        meant = get_close_matches(name, VARIABLES, 1, 0.8)
        if meant:
            typer.echo(f"Variable '{name}' is unknown. Did you mean '{meant[0]}'?", err=True)
            raise typer.Exit(2)
        typer.echo(f"Variable '{name}' is unknown, and has no effect.", err=True)
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        for fault in error.errors():
            place = ".".join(str(part) for part in fault["loc"])
            typer.echo(f"Setting {place}: {fault['msg']}".replace("Setting : ", ""), err=True)
        raise typer.Exit(2) from None


def _environment(settings: Settings) -> dict[str, str]:
    """Give the variables by which another process reads the same settings."""
    values = settings.model_dump(mode="json", exclude_none=True)
    return {
        f"HALOCLINE_{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in values.items()
    }


@app.command()
def up(
    host: _Host = None,
    port: _Port = None,
    data_dir: _DataDir = None,
    data_root: Annotated[
        list[Path] | None, typer.Option(help="Folder of datasets that jobs may read; repeatable.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Number of CPU workers.")] = None,
    gpus: Annotated[int | None, typer.Option(help="Number of GPU workers; 0 for none.")] = None,
) -> None:
    """Start a whole service on this machine: scheduler, workers, dispatcher and API."""
    settings = _settings(
        host=host,
        port=port,
        data_dir=data_dir,
        data_roots=None if not data_root else [path.resolve() for path in data_root],
        workers=workers,
        gpus=gpus,
    )
    updates: dict[str, Any] = {"data_dir": settings.data_dir.resolve()}
    if settings.port == 0:
        updates["port"] = machine.free_port(settings.host)
    at = settings.scheduler or f"tls://127.0.0.1:{machine.free_port('127.0.0.1')}"
    updates["scheduler"] = _secured(at)
    own = settings.tls_identity is None
    settings = settings.model_copy(update=updates)
    _prepare(settings)
    if own:
        make_identity(settings.identity_file)
    try:
        with Supervisor() as supervisor:
            _up(supervisor, settings)
    except Gone as gone:
        typer.echo(f"Halocline stopped: {gone}", err=True)
        raise typer.Exit(1) from None


def _up(supervisor: Supervisor, settings: Settings) -> None:
    cluster = _cluster(settings, settings.scheduler or "")
    if machine.is_listening(settings.host, settings.port):
        raise Gone(f"port {settings.port} of {settings.host} is taken.")
    supervisor.start(cluster.scheduler_child())
    if not supervisor.wait_for("the scheduler", cluster.answers, seconds=_START_SECONDS):
        return
    for child in (*_workers(cluster), *_service(settings)):
        supervisor.start(child)
    url = f"http://{_reachable(settings.host)}:{settings.port}"
    if supervisor.wait_for("the API", lambda: _is_ready(url), seconds=_START_SECONDS):
        typer.echo(f"Halocline is at {url}; data in {settings.data_dir}; {_who(settings)}.")
        sys.stdout.flush()
        supervisor.watch()


def _service(settings: Settings) -> Iterator[Child]:
    environment = _environment(settings)
    for name, command, memory in (
        ("The dispatcher", "dispatcher", dispatcher_memory(settings)),
        ("The API", "api", settings.process_memory_bytes),
    ):
        yield Child(name, _own(command), rank=2, environment=environment, memory=memory)


def _cluster(settings: Settings, address: str) -> Cluster:
    """Give the cluster of a scheduler; status 2 where the address is invalid."""
    try:
        machine.host_and_port(address)
    except ValueError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    return Cluster(address, read_identity(settings.identity_file, settings.tls_trusted), settings)


def _secured(address: str) -> str:
    """Give the address of a scheduler that asks everybody for a certificate, as ours do."""
    return f"tls://{address.removeprefix('tcp://')}" if address.startswith("tcp://") else address


def _own(*words: str) -> list[str]:
    return [sys.executable, "-m", "halocline_service.cli", *words]


def _reachable(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=2) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def _gpus(settings: Settings) -> int:
    return machine.gpu_count() if settings.gpus is None else settings.gpus


def _cpus(settings: Settings) -> int:
    return settings.workers or machine.default_workers()


def _workers(cluster: Cluster) -> Iterator[Child]:
    """Give one worker for each GPU, or CPU workers where there is none."""
    gpus = _gpus(cluster.settings)
    kind, count = ("gpu", gpus) if gpus else ("cpu", _cpus(cluster.settings))
    devices = range(gpus) if gpus else [None] * count
    return cluster.workers([f"{kind}-{index}" for index in range(count)], devices)


def _who(settings: Settings) -> str:
    gpus = _gpus(settings)
    count, kind = (gpus, "GPU") if gpus else (_cpus(settings), "CPU")
    return f"{count} {kind} worker{'' if count == 1 else 's'}"


@app.command()
def api(host: _Host = None, port: _Port = None, data_dir: _DataDir = None) -> None:
    """Run the API."""
    from halocline_service.api.checking.processes import CheckProcesses
    from halocline_service.app import create_app
    from halocline_service.serving.server import serve

    settings = _settings(host=host, port=port, data_dir=data_dir)
    logs.configure("api", form=settings.log_format, access=settings.access_log)
    _prepare(settings)
    checks = CheckProcesses(
        settings.check_processes,
        seconds=settings.check_seconds,
        memory=settings.check_memory_bytes,
    )
    if not serve(create_app(settings, checks=checks), settings):
        raise typer.Exit(3)


@app.command()
def dispatcher(data_dir: _DataDir = None) -> None:
    """Run the dispatcher, which starts the jobs of the database."""
    settings = _settings(data_dir=data_dir)
    machine.join_cluster(settings)
    from halocline_service.dispatcher.main import run_dispatcher

    logs.configure("dispatcher", form=settings.log_format)
    _migrate(settings)
    run_dispatcher(settings)


@app.command()
def scheduler(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8786,
) -> None:
    """Run the Dask scheduler, for processes with the certificate of the cluster."""
    child = _cluster(_settings(), f"tls://{_bracketed(host)}:{port}").scheduler_child()
    if child.memory is not None:
        limit_memory(child.memory)
    os.execve(child.command[0], [*child.command], {**os.environ, **child.environment})


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@app.command()
def worker(
    scheduler: Annotated[str | None, typer.Option(help="Address of the scheduler.")] = None,
    host: Annotated[
        str | None, typer.Option(help="Address of this worker for other machines.")
    ] = None,
    gpu: Annotated[str | None, typer.Option(help="Index of a GPU, or 'all'.")] = None,
    cpu: Annotated[int | None, typer.Option(help="Number of CPU workers.")] = None,
) -> None:
    """Run one worker for each selected GPU, or CPU workers."""
    settings = _settings()
    address = scheduler or settings.scheduler
    if address is None:
        typer.echo("Name the scheduler: --scheduler tls://host:8786.", err=True)
        raise typer.Exit(2)
    cluster = _cluster(settings, _secured(address))
    indices: list[int | None] = [*_devices(gpu)] or [None] * (cpu or 1)
    names = [f"{os.uname().nodename}-{number}" for number in range(len(indices))]
    with Supervisor() as supervisor:
        for child in cluster.workers(names, indices, host):
            supervisor.start(child)
        supervisor.watch()


def _devices(gpu: str | None) -> list[int]:
    if gpu is None:
        return []
    if gpu.isdigit():
        return [int(gpu)]
    found = list(range(machine.gpu_count()))
    if not found:
        typer.echo("No GPU was seen: nvidia-smi lists none.", err=True)
        raise typer.Exit(1)
    return found


@app.command()
def certificate(data_dir: _DataDir = None) -> None:
    """Create the certificate that all machines of the cluster need."""
    file = _settings(data_dir=data_dir).identity_file
    if make_identity(file):
        typer.echo(f"Made '{file}', with its key: whoever has it can run anything here.")
    else:
        typer.echo(f"'{file}' is there already.")


@app.command()
def reach(
    scheduler: Annotated[str | None, typer.Option(help="Address of the scheduler.")] = None,
) -> None:
    """Check whether the scheduler accepts the certificate; status 1 if not."""
    settings = _settings()
    address = scheduler or settings.scheduler or "tls://127.0.0.1:8786"
    if not _cluster(settings, _secured(address)).answers():
        typer.echo(f"The scheduler at '{address}' does not answer, or does not trust us.", err=True)
        raise typer.Exit(1)


@app.command()
def migrate(data_dir: _DataDir = None) -> None:
    """Create the database, or migrate its schema to this version."""
    settings = _settings(data_dir=data_dir)
    _migrate(settings)
    typer.echo("The database is up to date.")


@app.command()
def adopt(data_dir: _DataDir = None) -> None:
    """Assign the data folder to the database, for example after restoring a backup."""
    from halocline_service.datasets import marker

    settings = _settings(data_dir=data_dir)
    _migrate(settings)
    with _opened(settings) as (layout, store):
        marker.adopt(layout, store)
        unknown = marker.unknown(layout, store)
    typer.echo(f"The data folder '{layout.root}' is this database's now.")
    if unknown:
        names = ", ".join(unknown[:_SHOWN]) + (" and others" if len(unknown) > _SHOWN else "")
        typer.echo(f"It does not know {len(unknown)} of the names there, which stay: {names}.")


def _prepare(settings: Settings) -> None:
    """Migrate the database, and see that the data folder is its own. Raises `ForeignFolder`."""
    from halocline_service.datasets import marker
    from halocline_service.store.sql.database import name_of

    _migrate(settings)
    with _opened(settings) as (layout, store):
        marker.claim(layout, store, database=name_of(settings.database))


@contextmanager
def _opened(settings: Settings) -> Generator[tuple[Layout, Store]]:
    from halocline_service.store.sql.store import open_store

    store = open_store(settings.database)
    try:
        yield Layout(settings.data_dir.resolve()), store
    finally:
        store.close()


def _migrate(settings: Settings) -> None:
    from halocline_service.store.sql.migrate import upgrade

    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    deadline = time.monotonic() + (_START_SECONDS if settings.database_url else 0.0)
    while True:
        try:
            return upgrade(settings.database)
        except StoreAway as error:
            if time.monotonic() > deadline:
                raise
            typer.echo(f"{error} Waiting for it.", err=True)
            time.sleep(_WAIT_SECONDS)


@app.command()
def doctor(host: _Host = None, port: _Port = None, data_dir: _DataDir = None) -> None:
    """Check what the service needs on this machine; status 1 if something is missing."""
    from halocline_service.doctor import examine

    findings = examine(_settings(host=host, port=port, data_dir=data_dir))
    for finding in findings:
        typer.echo(f"{'ok ' if finding.well else 'BAD'} {finding.what}: {finding.seen}")
    if not all(finding.well for finding in findings):
        raise typer.Exit(1)


@app.command()
def openapi() -> None:
    """Print the OpenAPI 3.1 document of the API."""
    from halocline_service.document import openapi_text

    typer.echo(openapi_text(), nl=False)


@app.command("job-schema")
def job_schema() -> None:
    """Print the JSON Schema of job files."""
    from halocline_service.document import job_file_schema

    typer.echo(job_file_schema(), nl=False)


@keys.command("create")
def key_create(
    owner: Annotated[str, typer.Option(help="User of the key.", min=1)], data_dir: _DataDir = None
) -> None:
    """Create a key and print it. It is not shown again."""
    from halocline_service.auth.keys import create
    from halocline_service.store.sql.store import open_store

    settings = _settings(data_dir=data_dir)
    _migrate(settings)
    store = open_store(settings.database)
    try:
        typer.echo(create(store.keys, owner).text)
    except ValueError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    finally:
        store.close()


@keys.command("list")
def key_list(data_dir: _DataDir = None) -> None:
    """List keys, without their secrets."""
    from halocline_service.store.sql.store import open_store

    store = open_store(_settings(data_dir=data_dir).database)
    for key in store.keys.list():
        typer.echo(f"{key.id} {key.owner}{'' if key.revoked is None else ' (revoked)'}")
    store.close()


@keys.command("revoke")
def key_revoke(key_id: Annotated[str, typer.Argument()], data_dir: _DataDir = None) -> None:
    """Revoke a key."""
    from halocline_service.store.sql.store import open_store

    store = open_store(_settings(data_dir=data_dir).database)
    revoked = store.keys.revoke(key_id)
    store.close()
    typer.echo("Revoked." if revoked else f"There is no key '{key_id}'.", err=not revoked)
    if not revoked:
        raise typer.Exit(1)
