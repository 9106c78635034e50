"""A `DecodingDevice` of `transports.device_decode` on the host, where numcodecs decodes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import numcodecs  # pyright: ignore[reportMissingTypeStubs] - it has none
import numpy as np
from numpy.typing import NDArray

from halocline_engine.device.decode.codecs import Table

__all__ = ["HostDesk"]

CODECS = cast(Any, numcodecs)


@dataclass
class HostDesk:
    """Work is done when it is queued; `refused` streams are said to have failed."""

    refused: int = 0
    decoded: int = 0
    sent: int = 0
    waited: int = 0
    made: list[int] = field(default_factory=list[int])

    def room(self, codec: str, count: int, largest: int, total: int) -> int:
        assert count * largest >= total >= largest
        return 8

    def take(self, size: int) -> Any:
        self.made.append(size)
        memory = np.full(size, 0xA5, np.uint8)
        return SimpleNamespace(ptr=self.address(memory), memory=memory)

    def locked(self, name: str, size: int) -> NDArray[np.uint8]:
        assert name
        return np.full(size, 0xA5, np.uint8)

    def address(self, array: Any) -> int:
        return int(array.__array_interface__["data"][0])

    def send(self, host: NDArray[np.uint8], into: int) -> None:
        self.sent += host.size
        ctypes.memmove(into, self.address(host), host.size)

    def fetch(self, source: int, into: NDArray[np.uint8]) -> None:
        ctypes.memmove(self.address(into), source, into.size)

    def decode(self, codec: str, table: Table, room: tuple[int, int]) -> None:
        assert room[1] == 8
        numbers = (table.sources, table.sizes, table.rooms, table.places)
        queues = zip(*(_at(one, table.count, np.uint64) for one in numbers), strict=True)
        made, status = (
            _at(table.made, table.count, np.uint64),
            _at(table.statuses, table.count, "i4"),
        )
        for at, (source, size, wide, place) in enumerate(queues):
            data = ctypes.string_at(int(source), int(size))
            try:
                if codec == "lz4":
                    data = int(wide).to_bytes(4, "little") + data
                plain = (CODECS.LZ4() if codec == "lz4" else CODECS.Zstd()).decode(data)
            except Exception:
                made[at], status[at] = 0, 12
                continue
            ctypes.memmove(int(place), bytes(plain), min(len(plain), int(wide)))
            made[at], status[at] = len(plain), 0
            self.decoded += 1
            if self.refused:
                self.refused -= 1
                status[at] = 11

    def queue(self, work: Callable[[], None]) -> None:
        work()

    def mark(self) -> Any:
        return SimpleNamespace(synchronize=self.wait)

    def wait(self) -> None:
        self.waited += 1


def _at(address: int, count: int, dtype: Any) -> NDArray[Any]:
    size = count * np.dtype(dtype).itemsize
    memory: Any = (ctypes.c_char * size).from_address(address)
    return np.frombuffer(memory, dtype)
