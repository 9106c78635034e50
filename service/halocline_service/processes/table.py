"""All processes, by identifier."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from halocline_service.processes.base import Process
from halocline_service.processes.echo import ECHO
from halocline_service.processes.stencil import STENCIL

__all__ = ["PROCESSES"]

PROCESSES: Mapping[str, Process] = MappingProxyType(
    {process.id: process for process in (STENCIL, ECHO)}
)
