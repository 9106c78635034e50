"""A process that makes attempts, one after the other, as its dispatcher asks for them.

It lives as long as its dispatcher: what was imported, the cache of analysed indices and the client
of the scheduler are there for later jobs. It has no database and no keys: what a reference names
was found out by the dispatcher.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO

import structlog

from halocline_engine.device.probe import device_count
from halocline_engine.errors import HaloclineError, InternalError
from halocline_service import logs
from halocline_service.datasets.layout import Layout
from halocline_service.datasets.tree import scan_file
from halocline_service.dispatcher.attempts.attempt import (
    EngineEvent,
    EngineFunctions,
    Tools,
    attempt,
)
from halocline_service.dispatcher.attempts.memory import lower_ceiling
from halocline_service.dispatcher.attempts.setup import Setup
from halocline_service.dispatcher.attempts.usage import Usage, measure
from halocline_service.dispatcher.attempts.wire import error_to, job_from, line_of, message_of
from halocline_service.jobs.job import JsonObject
from halocline_service.lifetime import end_with

__all__ = ["main", "serve"]

_log = structlog.get_logger()
# What jobs need sooner or later: loading it takes seconds.
_HEAVY = (
    "numba",
    "xarray",
    "zarr",
    "halocline_engine.functions.run",
    "halocline_engine.distribute.executors.dask",
)


def main() -> None:
    """Serve the dispatcher that started this process."""
    serve(_tools)


def serve(tools_of: Callable[[Setup], Tools]) -> None:
    """Make attempts until the dispatcher ends; `tools_of` loads what takes long."""
    end_with(os.getppid())  # the end of the pipe tells of one that ended before
    asked, told = _pipes()
    first = asked.readline()
    if not first:  # the dispatcher is gone
        return
    setup = Setup.from_json(message_of(first)["setup"])
    logs.configure("attempt", form=setup.log_format)
    tools = tools_of(setup)
    client = _Scheduler(setup.cluster)
    client()
    if setup.cluster is not None or device_count() == 0:  # its driver maps far more than it takes
        lower_ceiling(setup.memory)
    send = _Sender(told)
    jobs: SimpleQueue[_AttemptRequest] = SimpleQueue()
    threading.Thread(target=_listen, args=(asked, jobs), daemon=True).start()
    send({"ready": True})
    while True:
        one = jobs.get()
        roots = [Path(root) for root in setup.roots]
        resolver = _Resolved(one.message["places"], one.message["datasets"], roots)
        send(_attempted(one, replace(tools, resolver=resolver, cluster=client()), send))


@dataclass(frozen=True, slots=True)
class _AttemptRequest:
    """A job that was asked for, and whether to stop it."""

    message: JsonObject
    stop: threading.Event


@dataclass(frozen=True, slots=True)
class _Resolved:
    """Places of the datasets of one job, as the dispatcher found them."""

    places: Mapping[str, str]
    datasets: Mapping[str, Mapping[str, str]]
    roots: Sequence[Path]

    def resolve(self, reference: str, *, owner: str) -> Path:  # noqa: ARG002  it was asked before
        """Give the path of a dataset."""
        return Path(self.places[reference])

    def described(self, reference: str, *, owner: str) -> Mapping[str, str]:  # noqa: ARG002
        """Give how a dataset is named and, where known, its content's SHA-256."""
        return self.datasets[reference]


class _Sender:
    """Writes messages, from any thread."""

    def __init__(self, told: BinaryIO) -> None:
        self._told = told
        self._lock = threading.Lock()

    def __call__(self, message: JsonObject) -> None:
        line = line_of(message)
        with self._lock:
            self._told.write(line)
            self._told.flush()

    def tell(self, event: EngineEvent) -> None:
        """Write an event."""
        self({"event": dict(event.to_json()), "progress": event.progress})


class _Scheduler:
    """The client of the scheduler, which is kept while it is connected."""

    def __init__(self, address: str | None) -> None:
        self._address = address
        self._client: Any = None

    def __call__(self) -> object:
        """Give the client, or the address where nothing answers: who uses it says so."""
        if self._address is None:
            return None
        if self._client is None or self._client.status != "running":
            self._client = self._opened(self._address)
        return self._client or self._address

    def _opened(self, address: str) -> Any:
        from halocline_engine.distribute.executors.dask import open_client

        try:
            return open_client(address)
        except HaloclineError:
            return None


def _attempted(asked: _AttemptRequest, tools: Tools, send: _Sender) -> JsonObject:
    job = job_from(asked.message["job"])
    try:
        with Usage(send.tell, measure(tools.cluster)) as usage:
            return {"outputs": attempt(job, tools, usage.tell, asked.stop.is_set)}
    except Exception as error:
        if not isinstance(error, HaloclineError) or isinstance(error, InternalError):
            _log.exception("attempt failed", job_id=job.id)
        return {"error": error_to(error)}


def _listen(asked: BinaryIO, jobs: SimpleQueue[_AttemptRequest]) -> None:
    stop = threading.Event()
    for line in asked:
        message = message_of(line)
        if "stop" in message:
            stop.set()
        else:
            stop = threading.Event()
            jobs.put(_AttemptRequest(message, stop))
    os._exit(0)  # the dispatcher is gone, or needs this process no more


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    """Take over standard input and output; what prints to them does no harm."""
    asked = os.fdopen(os.dup(0), "rb")
    told = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return asked, told


def _tools(setup: Setup) -> Tools:
    for name in _HEAVY:
        importlib.import_module(name)
    from halocline_engine.functions.run import run

    return Tools(
        layout=Layout(Path(setup.root)),
        resolver=_Resolved({}, {}, []),
        runner=run,
        scan=scan_file,
        cluster=setup.cluster,
        largest_chunk=setup.largest_chunk,
        engine=EngineFunctions(),
        limits=setup.limits,
    )


if __name__ == "__main__":
    main()
