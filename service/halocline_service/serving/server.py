"""uvicorn, set for the API."""

from __future__ import annotations

import resource
from contextlib import suppress
from functools import partial
from typing import Any

import uvicorn

from halocline_service.serving.connections import Connections
from halocline_service.serving.protocol import BoundedProtocol
from halocline_service.settings import Settings

__all__ = ["configure", "room", "serve"]

_BACKLOG = 128  # connections that are accepted before the first of them is looked at
_OTHER_FILES = 150  # of the database, the log and libraries
_LEAST = 16


def configure(app: Any, settings: Settings, **given: Any) -> uvicorn.Config:
    """Make the configuration of a server; `given` goes before what is set here."""
    connections = Connections(room(settings.connections), settings.connections_per_address)
    protocol: Any = partial(BoundedProtocol, connections, settings.patience_seconds)
    chosen: dict[str, Any] = {
        "host": settings.host,
        "port": settings.port,
        "http": protocol,
        "ws": "none",
        "backlog": _BACKLOG,
        "log_config": None,  # as `logs` set it up
        "access_log": settings.access_log,
        "timeout_graceful_shutdown": 5,
        "server_header": False,
    }
    return uvicorn.Config(app, **(chosen | given))


def serve(app: Any, settings: Settings) -> bool:
    """Answer until the process is told to stop; False where the server could not start."""
    server = uvicorn.Server(configure(app, settings))
    with suppress(KeyboardInterrupt):
        server.run()
    return server.started


def room(wanted: int) -> int:
    """Give for how many connections there are files; each may have one that is being answered."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(_LEAST, min(wanted, (files - _OTHER_FILES - _BACKLOG) // 2))
