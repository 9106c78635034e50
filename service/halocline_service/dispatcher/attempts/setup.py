"""Setup of a process that makes attempts: places, limits, the scheduler; no secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from halocline_service.jobs.job import JsonObject
from halocline_service.logs import Form
from halocline_service.settings import Settings

__all__ = ["Setup", "setup_of"]

_LEAST = 2 * 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Paths, limits and the scheduler; `memory` are the bytes that the process may take."""

    root: str
    roots: Sequence[str]
    cluster: str | None
    largest_chunk: int
    limits: Mapping[str, float]
    log_format: Form
    memory: int

    def to_json(self) -> JsonObject:
        """Give it as JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Setup:
        """Read it."""
        return cls(**fields)


def setup_of(settings: Settings) -> Setup:
    """Say what attempts are told."""
    total = psutil.virtual_memory().total
    if settings.scheduler is None:
        memory = total * 9 // 10
    else:
        memory = max(_LEAST, total // 4 // settings.concurrency)
    return Setup(
        root=str(settings.data_dir.resolve()),
        roots=[str(Path(root)) for root in settings.data_roots],
        cluster=settings.scheduler,
        largest_chunk=settings.chunk_bytes,
        limits=settings.limits,
        log_format=settings.log_format,
        memory=settings.attempt_memory_bytes or memory,
    )
