"""Settings of operators: one class, read from `HALOCLINE_*` variables and nowhere else.

Every process of the service (API, dispatcher, scheduler, workers) reads the same class, so one
environment describes a deployment.
"""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from platformdirs import user_data_path
from pydantic import BeforeValidator, Field, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

__all__ = ["SQLITE", "VARIABLES", "Settings", "is_loopback", "unknown_variables"]

SQLITE = "halocline.sqlite3"  # the database in the data folder, where no other is set

_MEBIBYTE = 2**20
_GIBIBYTE = 2**30
_DATABASES = ("sqlite", "postgresql", "postgresql+psycopg")


#: Variables of the client, of compose files and of scripts: no settings of the service.
_OF_OTHERS = frozenset(
    f"HALOCLINE_{name}"
    for name in ("URL", "KEY", "DATA", "TAG", "BIND", "BASE", "CPU_WORKERS", "CACHE_DIR")
)


def is_loopback(host: str) -> bool:
    """Return whether a bind host can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listed(separator: str) -> BeforeValidator:
    """Return the list in a variable: JSON, or words between separators."""

    def read(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if value.startswith("["):
            return json.loads(value)
        return [part for part in value.split(separator) if part]

    return BeforeValidator(read)


_Paths = Annotated[list[Path], NoDecode, _listed(os.pathsep)]
_Words = Annotated[list[str], NoDecode, _listed(",")]


class _RequestLimits(BaseSettings):
    """Limits of requests, uploads and results."""

    result_bytes: int = Field(
        default=1024 * _GIBIBYTE,
        ge=1024,
        description="Maximum size of a result together with its workspace, in bytes.",
    )
    result_keys: int = Field(
        default=2_000_000,
        ge=1,
        description="Maximum number of files and folders of a result together with its workspace.",
    )
    check_processes: int = Field(
        default=2,
        ge=1,
        le=64,
        description="Number of processes that check requests, for each API process. One owner may "
        "use all but one of them.",
    )
    check_seconds: float = Field(
        default=10.0,
        gt=0,
        description="Maximum processor time of one check, in seconds.",
    )
    check_memory_bytes: int = Field(
        default=_GIBIBYTE,
        ge=64 * _MEBIBYTE,
        description="Maximum memory of one check, in bytes.",
    )

    body_bytes: int = Field(
        default=_MEBIBYTE,
        ge=1024,
        description="Maximum size of a request body, in bytes.",
    )
    upload_key_bytes: int = Field(
        default=512 * _MEBIBYTE,
        ge=1024,
        description="Maximum size of one object of an upload, in bytes.",
    )
    upload_bytes: int = Field(
        default=64 * _GIBIBYTE,
        ge=1024,
        description="Maximum size of an upload, in bytes.",
    )
    upload_keys: int = Field(
        default=1_000_000,
        ge=1,
        description="Maximum number of objects and folders of an upload.",
    )
    uploads_per_owner: int = Field(
        default=100, ge=1, description="Maximum number of uploads of one owner."
    )
    upload_open_seconds: float = Field(
        default=7 * 86_400.0,
        gt=0,
        description="Seconds since the last object after which an incomplete upload, or an upload "
        "without its job, is deleted.",
    )
    chunk_bytes: int = Field(
        default=2 * _GIBIBYTE,
        ge=1024,
        description="Maximum size of a decoded chunk of a dataset, in bytes.",
    )
    download_bytes: int = Field(
        default=16 * _GIBIBYTE,
        ge=1024,
        description="Maximum size of a NetCDF or CSV file of a result, in bytes.",
    )
    download_seconds: float = Field(
        default=600.0, gt=0, description="Maximum time for writing such a file, in seconds."
    )
    disk_headroom_bytes: int = Field(
        default=256 * _MEBIBYTE,
        ge=0,
        description="Free disk space to keep, in bytes. Running jobs fail below it.",
    )


class _ProcessLimits(_RequestLimits):
    """Limits of memory and time of processes and jobs."""

    worker_memory_bytes: int | None = Field(
        default=None,
        ge=_MEBIBYTE,
        description="Memory above which a worker is killed and restarted, in bytes. Default: a "
        "share of the machine's memory.",
    )
    process_memory_bytes: int = Field(
        default=2 * _GIBIBYTE,
        ge=_MEBIBYTE,
        description="Memory above which 'up' kills and restarts the API or the scheduler, in "
        "bytes.",
    )
    dispatcher_memory_bytes: int | None = Field(
        default=None,
        ge=_MEBIBYTE,
        description="Memory above which 'up' kills and restarts the dispatcher, in bytes. "
        "Default: a quarter of the machine's memory, at least 2 GiB.",
    )
    memory_bytes: int | None = Field(
        default=None,
        ge=1,
        description="Maximum memory of all jobs together in one worker, in bytes. Default: the "
        "free memory.",
    )
    device_memory_bytes: int | None = Field(
        default=None,
        ge=1,
        description="Maximum memory of all jobs together on one GPU, in bytes. Default: nearly "
        "all of it.",
    )
    attempt_memory_bytes: int | None = Field(
        default=None,
        ge=256 * _MEBIBYTE,
        description="Maximum memory of a process that plans a job, or computes it without a "
        "scheduler, in bytes. Default: a share of the machine's memory.",
    )
    planning_seconds: float = Field(
        default=600.0,
        gt=0,
        description="Maximum time for planning a job, in seconds.",
    )
    program_size: int = Field(
        default=64_000,
        ge=1,
        description="Maximum size of a compiled program, in terms. A branch counts 40 and a loop "
        "100; compiling 1000 terms takes up to 2 s.",
    )
    stopping_seconds: float = Field(
        default=5.0,
        ge=0,
        description="Seconds that a dismissed job may take to stop before its process is killed.",
    )


class Settings(_ProcessLimits):
    """The settings of every process of the service."""

    model_config = SettingsConfigDict(env_prefix="HALOCLINE_", extra="ignore")

    data_dir: Path = Field(
        default_factory=lambda: user_data_path("halocline", appauthor=False),
        description="Folder of the database, the uploads and the results; by default a folder of"
        " the user, on Linux `~/.local/share/halocline`.",
    )
    data_roots: _Paths = Field(
        default_factory=list[Path],
        description="Folders of datasets that jobs may read by path, separated as in PATH or as a "
        "JSON list.",
    )
    database_url: str | None = Field(
        default=None,
        description="SQLAlchemy URL of an SQLite or PostgreSQL database, such as "
        "'postgresql://user:password@host/name'. Default: SQLite in the data folder.",
    )

    host: str = Field(default="127.0.0.1", description="Address on which the API listens.")
    port: int = Field(
        default=8000, ge=0, le=65535, description="Port of the API. 0 selects a free port."
    )
    public_url: str | None = Field(
        default=None,
        description="URL of the API as users see it. Default: taken from each request.",
    )
    auth: Literal["auto", "none", "keys"] = Field(
        default="auto",
        description="Whether requests need API keys: 'keys', 'none' or 'auto'. 'auto' requires "
        "keys unless the host is a loopback address.",
    )
    allowed_hosts: _Words = Field(
        default_factory=list[str],
        description="Further values of the Host header to accept, separated by commas. Loopback "
        "names, the public URL and the address of the connection are always accepted.",
    )
    operators: _Words = Field(
        default_factory=list[str],
        description="Owners whose keys may see figures of all owners, in /metrics and on the web "
        "page.",
    )
    cors_origins: _Words = Field(
        default_factory=list[str],
        description="Origins of web pages that may call the API.",
    )

    log_format: Literal["auto", "json", "text"] = Field(
        default="auto",
        description="Format of logs: 'json' (one object per line), 'text' or 'auto'. 'auto' is "
        "text on a terminal and JSON elsewhere.",
    )
    access_log: bool = Field(
        default=False,
        description="Whether the API logs every request.",
    )

    scheduler: str | None = Field(
        default=None,
        description="Address of the Dask scheduler. Default: the dispatcher computes jobs itself.",
    )
    tls_identity: Path | None = Field(
        default=None,
        description="PEM file with the certificate and key of the cluster's processes. Default: "
        "'tls/cluster.pem' in the data folder.",
    )
    tls_trusted: Path | None = Field(
        default=None,
        description="File with trusted certificates. Default: the cluster's own certificate.",
    )
    workers: int | None = Field(
        default=None,
        ge=1,
        description="Number of CPU workers that 'up' starts. Default: half the number of cores.",
    )
    gpus: int | None = Field(
        default=None,
        ge=0,
        description="Number of GPU workers that 'up' starts. Default: the number of GPUs.",
    )
    concurrency: int = Field(
        default=2,
        ge=1,
        le=64,
        description="Number of jobs that one dispatcher runs at once. One owner may use all but "
        "one of these slots.",
    )

    lease_seconds: float = Field(
        default=30.0,
        gt=0,
        description="Seconds after which a running job without heartbeats is assigned to another "
        "dispatcher. It must be at least two heartbeats.",
    )
    heartbeat_seconds: float = Field(
        default=10.0, gt=0, description="Interval of the heartbeats of a running job, in seconds."
    )
    poll_seconds: float = Field(
        default=0.5,
        gt=0,
        description="Interval at which a dispatcher looks for new and cancelled jobs, in seconds.",
    )
    retry_seconds: float = Field(
        default=2.0,
        ge=0,
        description="Wait before the first retry of a job, in seconds. It doubles with each retry.",
    )
    max_attempts: int = Field(
        default=3,
        ge=1,
        description="Number of crashes after which a job fails. Progress resets the count.",
    )
    queue_per_owner: int = Field(
        default=100,
        ge=1,
        description="Maximum number of unfinished jobs of one owner.",
    )

    connections: int = Field(
        default=1000,
        ge=1,
        description="Maximum number of connections to one API process.",
    )
    connections_per_address: int = Field(
        default=250,
        ge=1,
        description="Maximum number of connections from one address. Behind a proxy, set it to "
        "the value of HALOCLINE_CONNECTIONS.",
    )
    patience_seconds: float = Field(
        default=20.0,
        gt=0,
        description="Maximum time of a connection to send its headers or to be idle, in seconds.",
    )

    @field_validator("database_url")
    @classmethod
    def _refuse_other_databases(cls, url: str | None) -> str | None:
        scheme, colon, _ = (url or "sqlite:").partition(":")
        if not colon or scheme not in _DATABASES:
            # Only the scheme is shown: the rest may hold a password.
            raise ValueError(
                f"A database must be one of {', '.join(_DATABASES)}, got "
                f"'{scheme if colon else ''}'. Write 'postgresql://user:password@host/name', or "
                "leave HALOCLINE_DATABASE_URL out for SQLite."
            )
        return url

    @model_validator(mode="after")
    def _refuse_open_door(self) -> Self:
        if self.auth == "none" and not is_loopback(self.host):
            raise ValueError(
                f"Authentication may be 'none' only on a loopback address, got host '{self.host}'. "
                "Set HALOCLINE_AUTH=keys, or bind to 127.0.0.1."
            )
        if self.heartbeat_seconds * 2 > self.lease_seconds:
            raise ValueError(
                "A lease must last at least two heartbeats, got "
                f"{self.lease_seconds:g} s for a heartbeat of {self.heartbeat_seconds:g} s."
            )
        return self

    @property
    def needs_keys(self) -> bool:
        """Whether a request must carry an API key."""
        return self.auth == "keys" or (self.auth == "auto" and not is_loopback(self.host))

    @property
    def limits(self) -> dict[str, float]:
        """Limits of each of the jobs at once, by the names of the engine's options."""
        given = {"memory_limit": self.memory_bytes, "device_memory_limit": self.device_memory_bytes}
        sizes = {name: size // self.concurrency for name, size in given.items() if size is not None}
        return {**sizes, "memory_fraction": 1 / self.concurrency, "program_size": self.program_size}

    @property
    def identity_file(self) -> Path:
        """Path of the certificate and the key of the cluster."""
        return self.tls_identity or self.data_dir.resolve() / "tls" / "cluster.pem"

    @property
    def database(self) -> str:
        """The SQLAlchemy URL of the database."""
        return self.database_url or f"sqlite:///{self.data_dir.resolve() / SQLITE}"


#: The names of all variables that are read.
VARIABLES = tuple(f"HALOCLINE_{name.upper()}" for name in Settings.model_fields)


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Return the variables that resemble settings but are none, such as misspelt ones."""
    known = {*VARIABLES, *_OF_OTHERS}
    found = (name for name in environment if name.upper().startswith("HALOCLINE_"))
    return sorted(name for name in found if name.upper() not in known)
