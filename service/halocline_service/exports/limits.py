"""Limits of a process for its own memory."""

from __future__ import annotations

import resource

import psutil

__all__ = ["limit_growth"]

_RESERVED = 64 * 2**20  # what stacks and other mappings have reserved and never touch


def limit_growth(size: int) -> None:
    """Let this process take no more than so many bytes beside what is loaded."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    taken = int(psutil.Process().memory_info().data)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = taken + _RESERVED + size
    resource.setrlimit(
        resource.RLIMIT_DATA,
        (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard),
    )
