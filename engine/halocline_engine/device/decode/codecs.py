"""Decoding of many compressed streams at once on the current device, by nvCOMP where it is there.

nvCOMP is NVIDIA's library for that; it is found if its wheel is installed and asked for nothing
before. Its functions queue work on a stream and wait for nothing.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from ctypes import POINTER, Structure, byref, c_char, c_int, c_size_t, c_uint32, c_void_p
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Protocol

from halocline_engine.errors import DeviceError

__all__ = ["Codecs", "NvComp", "Table", "find_nvcomp"]

#: The library's major version, whose functions are called as they are declared there.
_MAJOR = 6
_FILE = f"nvidia/libnvcomp/lib64/libnvcomp.so.{_MAJOR}"
_WHEELS = ("nvidia-libnvcomp-cu13", "nvidia-libnvcomp-cu12")
#: How the functions of a codec begin.
_NAMES: Mapping[str, str] = {"zstd": "Zstd", "lz4": "LZ4"}


@dataclass(frozen=True, slots=True)
class Table:
    """Addresses on the device of arrays that have a number for each of `count` streams.

    `sources` and `places` are addresses, `sizes` and `rooms` bytes before and after, 64 bits each;
    `made` will be the bytes that were decoded, and `statuses`, of 32 bits, zero where all is well.
    """

    count: int
    sources: int
    sizes: int
    rooms: int
    made: int
    places: int
    statuses: int


class Codecs(Protocol):
    """Decoders of streams on a device."""

    def room(self, codec: str, count: int, largest: int, total: int) -> int:
        """Return how many bytes of the device decoding takes beside what it reads and makes.

        `count` streams have `total` bytes when they are decoded, the largest one `largest`.
        """
        ...

    def decode(self, codec: str, table: Table, room: tuple[int, int], stream: int) -> None:
        """Queue the decoding of streams; `room` is an address and the bytes there."""
        ...


class _Options(Structure):
    """Options in the library's sense: a backend, 0 for its own choice, and zeros."""

    _fields_ = (("backend", c_int), ("rest", c_char * 60))


class NvComp:
    """nvCOMP, loaded from a file; `Codecs`."""

    def __init__(self, library: Any) -> None:
        self._rooms: dict[str, Any] = {}
        self._decoders: dict[str, Any] = {}
        for codec, name in _NAMES.items():
            room = getattr(library, f"nvcompBatched{name}DecompressGetTempSize")
            room.argtypes = (
                *(c_size_t, c_size_t, _Options),
                *(POINTER(c_size_t), c_size_t, c_void_p),
            )
            decode = getattr(library, f"nvcompBatched{name}DecompressAsync")
            decode.argtypes = (
                *(c_void_p, c_void_p, c_void_p, c_void_p, c_size_t),
                *(c_void_p, c_size_t, c_void_p, _Options, c_void_p, c_void_p),
            )
            self._rooms[codec], self._decoders[codec] = room, decode

    def room(self, codec: str, count: int, largest: int, total: int) -> int:
        """Return the bytes of the device that decoding takes beside what it reads and makes."""
        found = c_size_t()
        done: int = self._rooms[codec](count, largest, _Options(), byref(found), total, None)
        if done:
            raise _refused(codec, count, done)
        return found.value

    def decode(self, codec: str, table: Table, room: tuple[int, int], stream: int) -> None:
        """Queue the decoding of streams; raises `DeviceError` where that is refused."""
        done: int = self._decoders[codec](
            *(table.sources, table.sizes, table.rooms, table.made, table.count),
            *(*room, table.places, _Options(), table.statuses, stream),
        )
        if done:
            raise _refused(codec, table.count, done)


def find_nvcomp() -> NvComp | None:
    """Return nvCOMP if it is installed in a version that is known here."""
    for file in _places():
        try:
            library: Any = ctypes.CDLL(str(file))
        except OSError:
            continue
        if _version(library) // 1000 == _MAJOR:
            return NvComp(library)
    return None


def _places() -> Iterator[Path]:
    """Yield where the wheel may have put the library; other wheels have a folder `nvidia` too."""
    for wheel in _WHEELS:
        with suppress(PackageNotFoundError):
            yield Path(str(distribution(wheel).locate_file(_FILE)))
    yield from (Path(entry, _FILE) for entry in sys.path)


def _version(library: Any) -> int:
    """Return the version, 6012 for 6.0.12, or 0."""
    found = (c_uint32 * 2)()
    library.nvcompGetProperties.argtypes = (c_void_p,)
    return 0 if library.nvcompGetProperties(found) else found[0]


def _refused(codec: str, count: int, status: int) -> DeviceError:
    return DeviceError(
        f"The library nvCOMP refused to decode {count} streams of '{codec}': {status}."
    )
