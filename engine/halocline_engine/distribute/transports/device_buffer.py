"""Fields that go between files and buffers of the device, without one of the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Protocol, TypeAlias

from halocline_engine.backends.base import Array
from halocline_engine.datasets.grids.match import FieldUse
from halocline_engine.datasets.stores.chunks import Tally
from halocline_engine.distribute.grid.partition import Block, Box
from halocline_engine.distribute.transports.base import Loading, Part, TransferredBytes, box_bytes
from halocline_engine.distribute.transports.direct_file import DirectFiles

__all__ = ["DeviceLoading", "DeviceReader", "DeviceStoring", "Memory"]

#: Returns the buffer of a slot: bytes of the device.
Memory: TypeAlias = Callable[[int], Array]


class DeviceReader(Protocol):
    """Fills buffers of the device."""

    several: ClassVar[bool]  # boxes may be read at the same time

    @property
    def buffer_bytes(self) -> int:
        """The bytes that a box needs, at most."""
        ...

    def read(self, block: Block, box: Box, buffer: Array, tally: Tally) -> bool:
        """Fill a buffer; False where chunks are not there, or not whole."""
        ...

    def send(self, block: Block, box: Box, buffer: Array, into: Array) -> None:
        """Queue the copies from a buffer that was filled to the array of a box."""
        ...


class DeviceLoading:
    """Reads into a buffer of the device; what is not there as files goes `otherwise`."""

    def __init__(
        self, use: FieldUse, reader: DeviceReader, memory: Memory, otherwise: Loading
    ) -> None:
        self._use, self._reader, self._memory, self._otherwise = use, reader, memory, otherwise
        self._elsewhere: set[int] = set()

    @property
    def several(self) -> bool:
        """Whether several items may be read at the same time."""
        return self._reader.several

    def read(self, part: Part, tally: Tally) -> TransferredBytes:
        """Fill the buffer."""
        if not self._reader.read(part.block, part.box, self._memory(part.slot), tally):
            self._elsewhere.add(part.item)
            return self._otherwise.read(part, tally)
        size = box_bytes(self._use, part.box)
        return TransferredBytes(size, direct_io=size)

    def send(self, part: Part, into: Array) -> None:
        """Queue the copies from the buffer."""
        if part.item in self._elsewhere:
            self._elsewhere.discard(part.item)
            self._otherwise.send(part, into)
        else:
            self._reader.send(part.block, part.box, self._memory(part.slot), into)


class DeviceStoring:
    """Writes files from a buffer of the device."""

    def __init__(self, files: DirectFiles, memory: Memory) -> None:
        self._files, self._memory = files, memory

    def prepare(self, part: Part) -> None:
        """Do nothing: the buffer is there."""

    def fetch(self, part: Part, made: Array) -> None:
        """Queue the copies to the buffer."""
        self._files.fetch(part.block, part.box, made, self._memory(part.slot))

    def write(self, part: Part) -> TransferredBytes:
        """Write the buffer."""
        size = self._files.write(part.block, part.box, self._memory(part.slot))
        return TransferredBytes(size, direct_io=size)
