"""Arrays of the host that a device copies from and to where they lie, as their pages are locked.

Copying at a device's full rate needs page-locked memory. Locking the pages of an array that is
there already costs a core less than copying what is in them to a buffer, and takes nothing of the
memory's bandwidth. Unlocking waits until the device has done all that is queued, so pages stay
locked until the end.
"""

from __future__ import annotations

import mmap
import threading
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.lib.array_utils import byte_bounds
from numpy.typing import NDArray

from halocline_engine.device.cupy_types import cupy

__all__ = ["DeviceLocking", "HostLocking", "LockError", "Locking", "Pages"]

_PAGE = mmap.PAGESIZE
#: `cudaHostRegisterReadOnly`, and the attribute of a device that says whether it knows that.
_READ_ONLY = 8
_KNOWS_READ_ONLY = 113


class LockError(Exception):
    """Pages could not be locked: the system or the device does not allow it."""


class Locking(Protocol):
    """Locks pages of memory."""

    def lock(self, address: int, size: int, *, writes: bool) -> None:
        """Lock pages, none of which is locked; raises `LockError`.

        `writes` says that a device will write there.
        """
        ...

    def unlock(self, address: int) -> None:
        """Give back what was locked at an address; nothing uses it any more."""
        ...


class DeviceLocking:
    """Pages are locked for the device that is current where this is made."""

    def __init__(self) -> None:
        runtime = cupy().cuda.runtime
        self._device = runtime.getDevice()
        known = runtime.deviceGetAttribute(_KNOWS_READ_ONLY, self._device)
        self._read_only = _READ_ONLY if known else 0

    def lock(self, address: int, size: int, *, writes: bool) -> None:
        """Lock pages; see `Locking`."""
        runtime = cupy().cuda.runtime
        runtime.setDevice(self._device)
        try:
            runtime.hostRegister(address, size, 0 if writes else self._read_only)
        except runtime.CUDARuntimeError as error:
            raise LockError(str(error)) from error

    def unlock(self, address: int) -> None:
        """Give pages back, when the device has done all that is queued."""
        runtime = cupy().cuda.runtime
        runtime.setDevice(self._device)
        runtime.hostUnregister(address)


class HostLocking:
    """Locks nothing, for a device that is threads of this process."""

    def lock(self, address: int, size: int, *, writes: bool) -> None:
        """Do nothing."""

    def unlock(self, address: int) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class _Range:
    """Pages that were locked at once: the first byte, and the one behind the last."""

    start: int
    stop: int
    writes: bool


@dataclass(slots=True, eq=False)
class Pages:
    """Pages that stay locked until the end; any thread may use it.

    `refused` says why something was not, and then nothing else is tried.
    """

    locking: Locking
    refused: str | None = None
    _ranges: list[_Range] = field(default_factory=list[_Range])
    _alive: dict[int, NDArray[Any]] = field(default_factory=dict[int, "NDArray[Any]"])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def lock(self, values: NDArray[Any], *, writes: bool = False) -> tuple[int, ...] | None:
        """Lock what is not yet, between the first and the last byte of an array.

        Returns the addresses at which something else was locked, in order: no copy may go beyond
        one. None where pages cannot be locked, or some are for reading only and `writes` says that
        the device will write there.
        """
        if self.refused is not None or values.size == 0:
            return None
        low, high = byte_bounds(values)
        start, stop = low // _PAGE * _PAGE, -(-high // _PAGE) * _PAGE
        with self._lock:
            there = sorted(self._over(start, stop), key=lambda one: one.start)
            if writes and not all(one.writes for one in there):
                return None
            try:
                for first, last in _between(there, start, stop):
                    self.locking.lock(first, last - first, writes=writes)
                    self._ranges.append(_Range(first, last, writes))
                    self._alive[first] = values
            except LockError as error:
                self.refused = str(error)
                return None
            return tuple(sorted(one.start for one in self._over(start, stop) if one.start > low))

    def holds(self, values: NDArray[Any]) -> bool:
        """Whether all between the first and the last byte of an array is locked."""
        low, high = byte_bounds(values)
        with self._lock:
            there = sorted(self._over(low, high), key=lambda one: one.start)
        return not _between(there, low, high)

    @property
    def locked(self) -> int:
        """The bytes that are locked."""
        return sum(one.stop - one.start for one in self._ranges)

    def close(self) -> None:
        """Unlock everything; nothing uses it any more.

        What cannot be unlocked keeps nothing else locked; why it could not is raised at the end.
        """
        failed: list[Exception] = []
        with self._lock:
            while self._ranges:
                one = self._ranges.pop()
                try:
                    self.locking.unlock(one.start)
                except Exception as error:  # a device raises whatever its library does
                    failed.append(error)
            self._alive.clear()
        if failed:
            raise failed[0]

    def _over(self, start: int, stop: int) -> list[_Range]:
        return [one for one in self._ranges if one.start < stop and start < one.stop]


def _between(there: list[_Range], start: int, stop: int) -> list[tuple[int, int]]:
    """Return what some ranges, in order, leave of the bytes from `start` to `stop`."""
    edges = [start, *(edge for one in there for edge in (one.start, one.stop)), stop]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return [(first, last) for first, last in pairs if first < last]
