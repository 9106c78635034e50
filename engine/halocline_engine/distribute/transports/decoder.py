"""Decoder of a pipeline on its device, and the fields that it serves."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from halocline_engine.backends.targets import TARGETS
from halocline_engine.datasets.chunk_files.packed import PackedSource
from halocline_engine.datasets.grids.match import FieldUse, Grid
from halocline_engine.datasets.stores.chunks import CachedSource
from halocline_engine.datasets.stores.source import Source
from halocline_engine.distribute.grid.partition import Box
from halocline_engine.distribute.transports.base import box_bytes
from halocline_engine.distribute.transports.stored import is_whole
from halocline_engine.kernels.machine import Library

if TYPE_CHECKING:
    # What decodes brings a compiler for loops of the host with it, which only few runs need.
    from halocline_engine.distribute.transports.device_decode import DecodingDevice, DeviceDecoding

__all__ = ["Decoder", "open_decoder"]


@dataclass(frozen=True, slots=True, eq=False)
class Decoder:
    """A device that decodes streams of some codecs, and the kernels that it needs for that."""

    device: DecodingDevice
    library: Library
    codecs: tuple[str, ...]

    def reader_of(
        self, source: Source, use: FieldUse, grid: Grid, threads: Executor, boxes: Sequence[Box]
    ) -> DeviceDecoding | None:
        """Return what reads any one of some boxes of a field; None where the host decodes it."""
        cached = source if isinstance(source, CachedSource) else None
        inner = cached.source if cached is not None else source
        if not isinstance(inner, PackedSource) or not inner.array.decodes(self.codecs):
            return None
        if not use.dims or not is_whole(use, grid):
            return None
        from halocline_engine.distribute.transports.device_decode import DeviceDecoding

        return DeviceDecoding(
            inner.array,
            use,
            grid,
            self.device,
            self.library,
            threads,
            inner.store,
            cached.limit if cached is not None else 0,
            codecs=self.codecs,
            buffer_bytes=max(box_bytes(use, box) for box in boxes),
        )


def open_decoder(target: str, codecs: tuple[str, ...]) -> Decoder | None:
    """Return what decodes chunks on the device of a target; None where nothing does."""
    if not TARGETS[target].on_device:
        return None
    from halocline_engine.device.decode.device_decoder import open_nvcomp
    from halocline_engine.distribute.tasks.kernels import device_library

    device = open_nvcomp()
    return None if device is None else Decoder(device, device_library(), codecs)
