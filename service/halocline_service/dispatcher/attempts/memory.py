"""Memory of a process, and a limit that the kernel enforces."""

from __future__ import annotations

import resource

import psutil

__all__ = ["lower_ceiling", "resident"]

#: What stacks of threads and other mappings have reserved and never touch.
_RESERVED = 128 * 2**20


def resident(pid: int) -> int:
    """Give the bytes that a process takes; 0 where it has ended."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def lower_ceiling(size: int) -> None:
    """Let this process have no more than `size` bytes: beyond, it gets `MemoryError`s.

    What is mapped already and was never touched does not count.
    """
    taken = psutil.Process().memory_info()
    ceiling = int(taken.data) + max(0, size - int(taken.rss)) + _RESERVED
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        ceiling = min(ceiling, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (ceiling, hard))
