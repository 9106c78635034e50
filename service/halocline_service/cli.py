"""`halocline-server`: everything on one machine, or one process of a deployment."""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from halocline_service import logs, machine
from halocline_service.settings import Settings
from halocline_service.store.base import StoreAway, StoreOutdated
from halocline_service.supervisor import Child, Gone, Supervisor

__all__ = ["app", "keys", "main"]

app = typer.Typer(
    help="Run Halocline's service. Settings are read from HALOCLINE_* variables.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # Typer's panels show a flag as '--flag <bool>'
    pretty_exceptions_enable=False,
)
keys = typer.Typer(
    help="Make, list and revoke API keys.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(keys, name="key")

_START_SECONDS = 90.0
_WAIT_SECONDS = 2.0

_Host = Annotated[str | None, typer.Option(help="Address to bind to.")]
_Port = Annotated[int | None, typer.Option(help="Port to bind to; 0 takes a free one.")]
_DataDir = Annotated[Path | None, typer.Option(help="Where jobs, uploads and results live.")]


def main() -> None:
    """Run the command; status 1 where the database does not answer or was not migrated."""
    try:
        app()
    except StoreOutdated as error:
        typer.echo(f"{error} Run 'halocline-server migrate'.", err=True)
        sys.exit(1)
    except StoreAway as error:
        typer.echo(f"{error} Is HALOCLINE_DATABASE_URL right, and the server running?", err=True)
        sys.exit(1)


def _settings(**given: Any) -> Settings:
    """Read the settings; what was given on the command line goes first."""
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
        list[Path] | None, typer.Option(help="A folder whose datasets may be named; repeatable.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="CPU workers.")] = None,
    gpus: Annotated[int | None, typer.Option(help="GPU workers; 0 for none.")] = None,
) -> None:
    """Start everything on this machine: scheduler, workers, dispatcher, API."""
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
    if settings.scheduler is None:
        updates["scheduler"] = f"tcp://127.0.0.1:{machine.free_port('127.0.0.1')}"
    settings = settings.model_copy(update=updates)
    _migrate(settings)
    try:
        with Supervisor() as supervisor:
            _up(supervisor, settings)
    except Gone as gone:
        typer.echo(f"Halocline stopped: {gone}", err=True)
        raise typer.Exit(1) from None


def _up(supervisor: Supervisor, settings: Settings) -> None:
    assert settings.scheduler is not None
    address, _, port = settings.scheduler.removeprefix("tcp://").rpartition(":")
    environment = _environment(settings)
    if machine.is_listening(settings.host, settings.port):
        raise Gone(f"port {settings.port} of {settings.host} is taken.")
    command = machine.scheduler_command(address, int(port))
    supervisor.start(Child("The scheduler", command, environment=machine.QUIET))
    if not supervisor.wait_for(
        "the scheduler", lambda: machine.is_listening(address, int(port)), seconds=_START_SECONDS
    ):
        return
    for child in _workers(settings):
        supervisor.start(child)
    for name, command in (("The dispatcher", "dispatcher"), ("The API", "api")):
        supervisor.start(Child(name, _own(command), rank=2, environment=environment))
    url = f"http://{_reachable(settings.host)}:{settings.port}"
    if supervisor.wait_for("the API", lambda: _is_ready(url), seconds=_START_SECONDS):
        typer.echo(f"Halocline is at {url}; data in {settings.data_dir}; {_who(settings)}.")
        sys.stdout.flush()
        supervisor.watch()


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


def _workers(settings: Settings) -> Iterator[Child]:
    """Give one worker for each GPU, or CPU workers where there is none."""
    assert settings.scheduler is not None
    gpus = _gpus(settings)
    for index in range(gpus or _cpus(settings)):
        gpu = index if gpus else None
        kind = "gpu" if gpus else "cpu"
        yield _worker(settings.scheduler, f"{kind}-{index}", gpu, gpus or _cpus(settings))


def _worker(scheduler: str, name: str, gpu: int | None, beside: int) -> Child:
    return Child(
        f"Worker {name}",
        machine.worker_command(scheduler, name, beside=beside, gpu=gpu is not None),
        rank=1,
        environment=machine.worker_environment(gpu=gpu, threads=max(1, machine.cores() // beside)),
    )


def _who(settings: Settings) -> str:
    gpus = _gpus(settings)
    count, kind = (gpus, "GPU") if gpus else (_cpus(settings), "CPU")
    return f"{count} {kind} worker{'' if count == 1 else 's'}"


@app.command()
def api(host: _Host = None, port: _Port = None, data_dir: _DataDir = None) -> None:
    """Answer HTTP."""
    import uvicorn

    from halocline_service.app import create_app

    settings = _settings(host=host, port=port, data_dir=data_dir)
    logs.configure("api", form=settings.log_format, access=settings.access_log)
    _migrate(settings)
    uvicorn.run(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        log_config=None,  # as `logs` set it up
        access_log=settings.access_log,
        timeout_graceful_shutdown=5,
        server_header=False,
    )


@app.command()
def dispatcher(data_dir: _DataDir = None) -> None:
    """Take jobs out of the database and have them computed."""
    from halocline_service.dispatcher.main import run_dispatcher

    settings = _settings(data_dir=data_dir)
    logs.configure("dispatcher", form=settings.log_format)
    _migrate(settings)
    run_dispatcher(settings)


@app.command()
def scheduler(
    host: Annotated[str, typer.Option(help="Address to bind to.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to bind to.")] = 8786,
) -> None:
    """Run the Dask scheduler. Let nobody reach it from outside: it runs what it is sent."""
    command = machine.scheduler_command(host, port)
    os.execv(command[0], command)


@app.command()
def worker(
    scheduler: Annotated[str | None, typer.Option(help="Address of the scheduler.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to be reached at.")] = None,
    gpu: Annotated[str | None, typer.Option(help="A GPU's index, or 'all'.")] = None,
    cpu: Annotated[int | None, typer.Option(help="Number of CPU workers.")] = None,
) -> None:
    """Run workers: one for each GPU that is named, or some on the CPU."""
    address = scheduler or _settings().scheduler
    if address is None:
        typer.echo("Name the scheduler: --scheduler tcp://host:8786.", err=True)
        raise typer.Exit(2)
    devices = _devices(gpu)
    indices: list[int | None] = [*devices] if devices else [None] * (cpu or 1)
    threads = max(1, machine.cores() // len(indices))
    children = [
        Child(
            f"Worker {number}",
            machine.worker_command(
                address,
                f"{os.uname().nodename}-{number}",
                beside=len(indices),
                gpu=index is not None,
                host=host,
            ),
            environment=machine.worker_environment(gpu=index, threads=threads),
        )
        for number, index in enumerate(indices)
    ]
    if len(children) == 1:
        os.environ.update(children[0].environment)
        os.execv(children[0].command[0], list(children[0].command))
    _watch(children)


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


def _watch(children: list[Child]) -> None:
    try:
        with Supervisor() as supervisor:
            for child in children:
                supervisor.start(child)
            supervisor.watch()
    except Gone as gone:
        typer.echo(f"The workers stopped: {gone}", err=True)
        raise typer.Exit(1) from None


@app.command()
def migrate(data_dir: _DataDir = None) -> None:
    """Make the database, or bring its schema up to date."""
    settings = _settings(data_dir=data_dir)
    _migrate(settings)
    typer.echo("The database is up to date.")


def _migrate(settings: Settings) -> None:
    from halocline_service.store.migrate import upgrade

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
    """Look at what the service needs on this machine; status 1 where something is missing."""
    from halocline_service.doctor import examine

    findings = examine(_settings(host=host, port=port, data_dir=data_dir))
    for finding in findings:
        typer.echo(f"{'ok ' if finding.well else 'BAD'} {finding.what}: {finding.seen}")
    if not all(finding.well for finding in findings):
        raise typer.Exit(1)


@app.command()
def openapi() -> None:
    """Print the API's document (OpenAPI 3.1)."""
    from halocline_service.document import openapi_text

    typer.echo(openapi_text(), nl=False)


@keys.command("create")
def key_create(
    owner: Annotated[str, typer.Option(help="Who will use it.", min=1)], data_dir: _DataDir = None
) -> None:
    """Make a key and print it; it is not shown again."""
    from halocline_service.auth.keys import create
    from halocline_service.store.sql import open_store

    settings = _settings(data_dir=data_dir)
    _migrate(settings)
    store = open_store(settings.database)
    typer.echo(create(store.keys, owner).text)
    store.close()


@keys.command("list")
def key_list(data_dir: _DataDir = None) -> None:
    """List keys, without their secrets."""
    from halocline_service.store.sql import open_store

    store = open_store(_settings(data_dir=data_dir).database)
    for key in store.keys.list():
        typer.echo(f"{key.id} {key.owner}{'' if key.revoked is None else ' (revoked)'}")
    store.close()


@keys.command("revoke")
def key_revoke(key_id: Annotated[str, typer.Argument()], data_dir: _DataDir = None) -> None:
    """Make a key void."""
    from halocline_service.store.sql import open_store

    store = open_store(_settings(data_dir=data_dir).database)
    revoked = store.keys.revoke(key_id)
    store.close()
    typer.echo("Revoked." if revoked else f"There is no key '{key_id}'.", err=not revoked)
    if not revoked:
        raise typer.Exit(1)


if __name__ == "__main__":
    main()
