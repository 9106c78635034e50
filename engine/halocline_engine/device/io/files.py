"""Interface of copies between files and memory of a device: see `threaded_files`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

__all__ = ["Files", "Span"]


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """Bytes of a file from `offset` on, and the bytes [n] of the device that belong there."""

    path: str | Path
    offset: int
    values: Any


class Files(Protocol):
    """Copies between files and memory that a device computes in; any thread may use it."""

    def read(self, spans: Sequence[Span]) -> bool:
        """Fill bytes of the device; False where a file is not there, or ends before.

        Nothing that is queued may use them. When this returns, nothing is under way any more.
        """
        ...

    def write(self, spans: Sequence[Span], size: int) -> None:
        """Store bytes of the device in files that have `size` bytes, zeros where none were.

        All that makes them is complete. Raises `OSError`; folders above the files are there. When
        this returns, or raises, nothing is under way any more.
        """
        ...

    def close(self) -> None:
        """End the use of these files, of which none is open any more."""
        ...
