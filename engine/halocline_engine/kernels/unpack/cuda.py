"""Cells of chunks on a CUDA device. Nothing here waits; all is queued on the current stream."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from halocline_engine.kernels.machine import Library
from halocline_engine.kernels.unpack.problem import WORDS, Piece

__all__ = ["Checking", "Placing"]

_FILE = Path(__file__).with_name("place.cu")
_LZ4_FILE = Path(__file__).with_name("lz4.cu")
#: Streams that a block walks through; few, so that all processors have some.
_STREAMS = 32
_THREADS = 256
#: Cells that a thread brings, where there are so many.
_EACH = 8
#: Blocks along each axis of a launch at most.
_MOST_X = 1024
_MOST_Y = 65_535


class Placing:
    """The kernel of a machine."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def place(self, pieces: Sequence[Piece], table: int, width: int) -> None:
        """Queue what brings pieces of elements of `width` bytes, 1, 2, 4 or 8, to their places.

        `table` is the address on the device of what `packed_pieces` made of them.
        """
        kernels = self._library.file(_FILE, {"WIDTH": width})
        for begin in range(0, len(pieces), _MOST_Y):
            part = pieces[begin : begin + _MOST_Y]
            most = max(piece.cells for piece in part)
            blocks = min(_MOST_X, max(1, -(-most // (_THREADS * _EACH))))
            first = np.uint64(table + begin * WORDS * 8)
            kernels.launch("place", (blocks, len(part), 1), (_THREADS, 1, 1), (first,))


class Checking:
    """Check of compressed streams before they are decoded."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def check_lz4(self, count: int, sources: int, sizes: int, rooms: int, nothing: int) -> None:
        """Queue the check of streams of LZ4; those that are not whole become empty ones.

        Addresses are those of tables on the device of 64-bit numbers: where streams begin, their
        sizes, and the bytes that each has to make. `nothing` is the address of a byte of 0.
        """
        kernels = self._library.file(_LZ4_FILE, {})
        places = tuple(np.int64(one) for one in (sources, sizes, rooms, nothing))
        grid = (-(-count // _STREAMS), 1, 1)
        kernels.launch("check_lz4", grid, (_STREAMS, 1, 1), (*places, np.int32(count)))
