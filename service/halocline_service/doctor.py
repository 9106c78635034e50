"""Looks at what the service needs on this machine."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from halocline_engine.errors import ClusterError, HaloclineError
from halocline_service.datasets.layout import Layout
from halocline_service.datasets.marker import MARKER, is_ours
from halocline_service.identity import IdentityError
from halocline_service.machine import cores, gpu_count, join_cluster
from halocline_service.settings import SQLITE, Settings
from halocline_service.store.base import StoreAway
from halocline_service.store.sql.database import name_of

__all__ = ["Finding", "examine"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Subject of a check, its verdict, and the details."""

    what: str
    well: bool
    seen: str


def examine(settings: Settings) -> list[Finding]:
    """Look at everything; nothing is changed."""
    return [_look(what, check, settings) for what, check in _CHECKS.items()]


def _look(what: str, check: Callable[[Settings], str], settings: Settings) -> Finding:
    try:
        return Finding(what, well=True, seen=check(settings))
    except (OSError, ImportError, HaloclineError, IdentityError, StoreAway, _Unwell) as error:
        return Finding(what, well=False, seen=str(error))


class _Unwell(Exception):
    """Something is there, and not as it must be."""


def _data_dir(settings: Settings) -> str:
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=settings.data_dir):
        return f"{settings.data_dir.resolve()} is writable"


def _disk(settings: Settings) -> str:
    free = shutil.disk_usage(settings.data_dir).free
    if free < settings.disk_headroom_bytes:
        raise _Unwell(f"only {free / 2**20:.0f} MiB are free")
    return f"{free / 2**30:.1f} GiB are free"


def _database(settings: Settings) -> str:
    from halocline_service.store.sql.store import open_store

    name = name_of(settings.database)
    if settings.database_url is None and not (settings.data_dir / SQLITE).exists():
        return f"{name} is made at the first start"
    store = open_store(settings.database)
    try:
        store.check(writes=True)
        layout = Layout(settings.data_dir.resolve())
        if (layout.root / MARKER).exists() and not is_ours(layout, store):
            raise _Unwell(f"the data folder '{layout.root}' is not that of {name}")
    except SQLAlchemyError as error:
        raise _Unwell(f"{name} cannot be used: {getattr(error, 'orig', error)}") from error
    finally:
        store.close()
    return f"{name} answers"


def _scheduler(settings: Settings) -> str:
    if settings.scheduler is None:
        return "none is set; the dispatcher computes by itself"
    join_cluster(settings)
    from halocline_engine.distribute.executors.dask import connect

    try:
        with connect(settings.scheduler) as pool:
            workers = pool.workers
    except ClusterError as error:
        raise _Unwell(error.message) from error
    if workers == 0:
        raise _Unwell(f"{settings.scheduler} answers, and has no worker")
    return f"{settings.scheduler} answers; {workers} worker{'' if workers == 1 else 's'}"


def _roots(settings: Settings) -> str:
    for root in settings.data_roots:
        if not root.is_dir():
            raise _Unwell(f"'{root}' in HALOCLINE_DATA_ROOTS is not a folder")
    return ", ".join(map(str, settings.data_roots)) or "none: datasets are uploads only"


def _engine(_settings: Settings) -> str:
    importlib.import_module("halocline_engine.functions.run")
    return f"the engine can be imported; {cores()} cores"


def _gpus(_settings: Settings) -> str:
    count = gpu_count()
    if count == 0:
        return "none were seen; the CPU computes"
    if importlib.util.find_spec("cupy") is None:
        raise _Unwell(f"{count} were seen, but CuPy is not installed: install halocline[cuda13]")
    from halocline_engine.device.compile.compiler import compiler_version, find_nvrtc

    major, minor = compiler_version()
    return f"{count} were seen; kernels are compiled by '{find_nvrtc()}' of CUDA {major}.{minor}"


def _port(settings: Settings) -> str:
    with socket.create_server((settings.host, settings.port)):
        return f"{settings.host}:{settings.port} is free"


_CHECKS: dict[str, Callable[[Settings], str]] = {
    "data folder": _data_dir,
    "disk": _disk,
    "database": _database,
    "data roots": _roots,
    "scheduler": _scheduler,
    "engine": _engine,
    "GPUs": _gpus,
    "port": _port,
}
