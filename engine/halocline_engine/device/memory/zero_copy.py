"""Rows of bytes on the host that a device copies from or to, and the memory that takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["BUFFER", "RING", "PinnedRows", "ring_bytes"]

#: Bytes of a page-locked buffer, and how many a copy has: small enough for the caches, large enough
#: for the device.
BUFFER, RING = 2 << 20, 2


@dataclass(frozen=True, slots=True, eq=False)
class PinnedRows:
    """Rows of bytes on the host: `pitch` bytes apart, the first one at `start`.

    They lie in the file `path`, and `start` is an offset, or else in memory at an address; `keeps`
    is what the memory belongs to. A file that is written is made `size` bytes long.
    """

    rows: int
    width: int
    start: int
    pitch: int
    path: str | Path | None = None
    keeps: object = None
    size: int = 0


def ring_bytes(threads: int) -> int:
    """Return the bytes of the buffers of so many copies each way at once."""
    return 2 * threads * RING * BUFFER
