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
    """Say whether a bind host can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listed(separator: str) -> BeforeValidator:
    """Read a list from a variable: JSON, or words with a separator between them."""

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
    """Limits of what requests may send and keep."""

    result_bytes: int = Field(
        default=1024 * _GIBIBYTE, ge=1024, description="Largest result, with its workspace."
    )
    result_keys: int = Field(
        default=2_000_000, ge=1, description="Most files and folders of a result and its workspace."
    )
    check_processes: int = Field(
        default=2,
        ge=1,
        le=64,
        description="Processes of one API process that check requests; one owner has all but one "
        "of them at most.",
    )
    check_seconds: float = Field(
        default=10.0, gt=0, description="How long a processor may be busy with one check."
    )
    check_memory_bytes: int = Field(
        default=_GIBIBYTE, ge=64 * _MEBIBYTE, description="Most memory that a check may take."
    )

    body_bytes: int = Field(default=_MEBIBYTE, ge=1024, description="Largest body of a request.")
    upload_key_bytes: int = Field(
        default=512 * _MEBIBYTE, ge=1024, description="Largest single object of an upload."
    )
    upload_bytes: int = Field(default=64 * _GIBIBYTE, ge=1024, description="Largest upload.")
    upload_keys: int = Field(
        default=1_000_000, ge=1, description="Most objects and folders of an upload."
    )
    uploads_per_owner: int = Field(default=100, ge=1)
    upload_open_seconds: float = Field(
        default=7 * 86_400.0,
        gt=0,
        description="How long an upload that is not completed is kept after its last object, and "
        "one that was sent for a job which never came.",
    )
    chunk_bytes: int = Field(
        default=2 * _GIBIBYTE, ge=1024, description="Largest chunk of a dataset, decoded."
    )
    download_bytes: int = Field(
        default=16 * _GIBIBYTE,
        ge=1024,
        description="Largest NetCDF or CSV file that is made of a result.",
    )
    download_seconds: float = Field(
        default=600.0, gt=0, description="How long making such a file may take."
    )
    disk_headroom_bytes: int = Field(
        default=256 * _MEBIBYTE,
        ge=0,
        description="Free space that must be left; jobs that compute end where there is less.",
    )


class Settings(_RequestLimits):
    """The settings of every process of the service."""

    model_config = SettingsConfigDict(env_prefix="HALOCLINE_", extra="ignore")

    data_dir: Path = Field(
        default_factory=lambda: user_data_path("halocline", appauthor=False),
        description="Where the database, the uploads and the results live; by default a folder of"
        " the user, on Linux '~/.local/share/halocline'.",
    )
    data_roots: _Paths = Field(
        default_factory=list[Path],
        description="Folders whose datasets may be named by path; as PATH is written, or JSON.",
    )
    database_url: str | None = Field(
        default=None,
        description="SQLAlchemy URL of SQLite or PostgreSQL ('postgresql://user:password@host/name');"
        " SQLite under the data folder where left out.",
    )

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    public_url: str | None = Field(
        default=None, description="How users reach the API; links are made from the request if out."
    )
    auth: Literal["auto", "none", "keys"] = Field(
        default="auto",
        description="API keys, or none; 'auto' is none on a loopback address and keys elsewhere.",
    )
    allowed_hosts: _Words = Field(
        default_factory=list[str],
        description="Further Host headers to answer, beside the names of this machine's loopback, "
        "the one in the public URL, and the address that was reached.",
    )
    operators: _Words = Field(
        default_factory=list[str],
        description="Owners whose keys are shown figures of all owners (/metrics, the web page).",
    )
    cors_origins: _Words = Field(
        default_factory=list[str], description="Origins of web pages that may call the API."
    )

    log_format: Literal["auto", "json", "text"] = Field(
        default="auto",
        description="One JSON object a line, or text; 'auto' is text on a terminal only.",
    )
    access_log: bool = Field(default=False, description="Whether the API logs every request.")

    scheduler: str | None = Field(
        default=None,
        description="Address of the Dask scheduler; the dispatcher computes by itself if out.",
    )
    tls_identity: Path | None = Field(
        default=None,
        description="File with the certificate and the key (PEM) by which the processes of the "
        "cluster know each other; 'tls/cluster.pem' in the data folder where left out.",
    )
    tls_trusted: Path | None = Field(
        default=None,
        description="File with the certificates to trust; the cluster's own where left out.",
    )
    workers: int | None = Field(
        default=None, ge=1, description="CPU workers that 'up' starts; half the cores where out."
    )
    gpus: int | None = Field(
        default=None, ge=0, description="GPU workers that 'up' starts; all that are seen where out."
    )
    concurrency: int = Field(
        default=2,
        ge=1,
        le=64,
        description="Jobs that one dispatcher runs at once; of one owner, all but one of them.",
    )

    worker_memory_bytes: int | None = Field(
        default=None,
        ge=_MEBIBYTE,
        description="Memory at which a worker is ended; a share of the machine's where left out.",
    )
    process_memory_bytes: int = Field(
        default=2 * _GIBIBYTE,
        ge=_MEBIBYTE,
        description="Memory at which 'up' ends the API or the scheduler.",
    )
    dispatcher_memory_bytes: int | None = Field(
        default=None,
        ge=_MEBIBYTE,
        description="Memory at which 'up' ends the dispatcher; a quarter of the machine's where "
        "left out, and 2 GiB at least.",
    )
    memory_bytes: int | None = Field(
        default=None,
        ge=1,
        description="Most memory that all jobs may take in a worker; what is free where left out.",
    )
    device_memory_bytes: int | None = Field(
        default=None,
        ge=1,
        description="Most memory that they may take on a GPU; nearly all of it where left out.",
    )
    attempt_memory_bytes: int | None = Field(
        default=None,
        ge=256 * _MEBIBYTE,
        description="Most memory of a process that plans a job, or computes it without a scheduler;"
        " a share of the machine's where left out.",
    )
    planning_seconds: float = Field(
        default=600.0, gt=0, description="How long a job may be planned before it computes."
    )
    program_size: int = Field(
        default=64_000,
        ge=1,
        description="Largest program that is compiled, in terms, of which a branch counts 40 and a"
        " loop 100; a thousand of them hold a worker for up to 2 s.",
    )
    stopping_seconds: float = Field(
        default=5.0, ge=0, description="How long a job may go on after it was dismissed."
    )

    lease_seconds: float = Field(default=30.0, gt=0)
    heartbeat_seconds: float = Field(default=10.0, gt=0)
    poll_seconds: float = Field(
        default=0.5, gt=0, description="How often a dispatcher looks for work and for cancelling."
    )
    retry_seconds: float = Field(
        default=2.0, ge=0, description="Wait before the first retry; twice as long each time."
    )
    max_attempts: int = Field(default=3, ge=1)
    queue_per_owner: int = Field(
        default=100, ge=1, description="Jobs of one owner that may wait or run at a time."
    )

    connections: int = Field(
        default=1000, ge=1, description="Most connections of one API process at a time."
    )
    connections_per_address: int = Field(
        default=250,
        ge=1,
        description="Most of one address; as many as in all behind a proxy, which is one address.",
    )
    patience_seconds: float = Field(
        default=20.0,
        gt=0,
        description="How long a connection may take for a header, or to send or read nothing.",
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
    """Return the variables that look like settings and are none, such as misspelt ones."""
    known = {*VARIABLES, *_OF_OTHERS}
    found = (name for name in environment if name.upper().startswith("HALOCLINE_"))
    return sorted(name for name in found if name.upper() not in known)
