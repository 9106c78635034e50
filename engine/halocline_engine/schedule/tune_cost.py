"""Cost model of a launch, which selects the candidates that are measured.

It knows four reasons why a kernel is slower than its bytes: too few loads under way to keep memory
busy, threads without points at the edges of an odd domain, a last wave of blocks that is not full,
and many loads of the same values through the first cache. The constants are those of an H200; only
the order of the results is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, hypot, inf

__all__ = ["Chip", "Work", "estimate"]

#: Bytes under way on a processor with which memory gives 0.7 of what it can, and bytes a second of
#: all memory. One point a thread has 8 or 16 kilobytes under way and reaches 0.55 or 0.8.
_BUSY = 12 * 1024
_MEMORY = 4.2e12
#: Bytes a second that the first caches give, in multiples of memory's.
_CACHE = 6.0
#: What a launch takes at least, in seconds.
_LAUNCH = 2e-6
#: Blocks that a processor has at most, whatever their size.
_BLOCKS = 32
_RESERVED = 1024


@dataclass(frozen=True, slots=True)
class Chip:
    """A device: processors, and what each has of registers, threads and bytes of shared memory."""

    processors: int = 132
    registers: int = 65536
    threads: int = 2048
    shared: int = 228 * 1024


@dataclass(frozen=True, slots=True)
class Work:
    """Demands of a kernel on a device.

    There are `blocks` of `threads`, each with so many `registers`, and a block has `shared` bytes
    of shared memory. A thread waits for `under_way` bytes of memory at once, and makes `loaded`
    bytes of loads in all, from memory or from what others loaded. `moved` are the bytes that the
    whole kernel must read and write, with those that threads without points would add.
    """

    blocks: int
    threads: int
    registers: int
    shared: int
    under_way: int
    loaded: int
    moved: float


def estimate(work: Work, chip: Chip) -> float:
    """Return the seconds that a kernel should take; infinite where no block fits the device.

    >>> lean = Work(10**5, 128, 64, 0, 96, 96, 1e9)
    >>> f"{estimate(lean, Chip()):.2e}"
    '2.55e-04'
    """
    resident = _resident(work, chip)
    if resident == 0:
        return inf
    filled = min(resident, ceil(work.blocks / chip.processors))
    slowed = hypot(1.0, _BUSY / max(1, filled * work.threads * work.under_way))
    waves = work.blocks / (chip.processors * resident)
    uneven = ceil(waves) / waves if waves > 1 else max(1.0, chip.processors / work.blocks)
    memory = work.moved / _MEMORY * slowed * uneven
    cache = work.blocks * work.threads * work.loaded / (_MEMORY * _CACHE)
    return _LAUNCH + max(memory, cache) + min(memory, cache) / 4


def _resident(work: Work, chip: Chip) -> int:
    """Return how many blocks a processor has at once."""
    if work.registers > 255:
        return 0
    return min(
        _BLOCKS,
        chip.threads // work.threads,
        chip.registers // (work.registers * work.threads),
        chip.shared // (work.shared + _RESERVED),
    )
