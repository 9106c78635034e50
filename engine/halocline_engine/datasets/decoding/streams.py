"""The streams that the file of a compressed chunk is made of, each of which is decoded by itself.

Formats: Zstandard (RFC 8878), LZ4 blocks behind four bytes of their size as numcodecs writes them,
and Blosc 1 (its README_CHUNK_FORMAT), which cuts a chunk into blocks and, where bytes are shuffled,
these often into a stream for each byte of an element.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from halocline_engine.datasets.decoding.frames import decoded_size
from halocline_engine.kernels.unpack.cpu import blosc_streams, is_plain_zstd

__all__ = ["Streams", "streams_of"]

_BLOSC_HEADER = 16
_BLOSC_CODECS = {1: "lz4", 4: "zstd"}
_SHUFFLED, _COPIED, _BITS, _WHOLE = 0x01, 0x02, 0x04, 0x10


@dataclass(frozen=True, slots=True, eq=False)
class Streams:
    """The streams of a chunk: where each begins in the file and in the chunk, and its two sizes.

    They are of one `codec`, "zstd" or "lz4"; a stream of two equal sizes is there as it is. In
    `blocks` of so many bytes of the chunk, the first bytes of all elements of `width` bytes come
    first, then the second ones; with a width of 1 bytes are where they belong.
    """

    codec: str
    start: NDArray[np.int64]
    size: NDArray[np.int64]
    at: NDArray[np.int64]
    room: NDArray[np.int64]
    block: int
    width: int


def streams_of(codec: str, packed: NDArray[np.uint8], room: int) -> Streams | None:
    """Return the streams of a chunk of `room` bytes; None where something else has to decode it.

    What is returned lies within the file and fills the chunk once, whatever the file's bytes are.
    """
    match codec:
        # One whose sizes happen to be equal would be taken for one that is there as it is.
        case "zstd" if packed.size != room and is_plain_zstd(packed, room):
            return _single("zstd", 0, packed.size, room)
        case "lz4" if packed.size > 4 and decoded_size(codec, packed) == room != packed.size - 4:
            return _single("lz4", 4, packed.size - 4, room)
        case "blosc":
            return _blosc(packed, room)
        case _:
            return None


def _single(codec: str, start: int, size: int, room: int) -> Streams:
    start_, size_, at, room_ = (np.array([n], np.int64) for n in (start, size, 0, room))
    return Streams(codec, start_, size_, at, room_, room, 1)


def _blosc(packed: NDArray[np.uint8], room: int) -> Streams | None:
    if packed.size <= _BLOSC_HEADER or int(packed[0]) != 2:
        return None
    flags, width = int(packed[2]), int(packed[3])
    size, block, stated = (int(n) for n in packed[4:16].view("<u4"))
    codec = _BLOSC_CODECS.get(flags >> 5)
    if (size, stated) != (room, packed.size) or flags & _BITS or not width or not block:
        return None
    width = width if flags & _SHUFFLED else 1
    if flags & _COPIED:
        # Nothing was shuffled where nothing was compressed.
        whole = packed.size == _BLOSC_HEADER + room
        return _single("lz4", _BLOSC_HEADER, room, room) if whole else None
    if codec is None or block % int(packed[3]) or room % int(packed[3]):
        return None
    parts = 1 if flags & _WHOLE else int(packed[3])
    first = _BLOSC_HEADER + 4 * -(-room // block)
    if packed.size < first:
        return None
    found: NDArray[np.int64] = blosc_streams(packed, room, block, parts, first)
    if not found.size:
        return None
    start, length, at, rooms = found
    # What is not shuffled is as well in blocks of a stream each.
    return Streams(codec, start, length, at, rooms, block if width > 1 else block // parts, width)
