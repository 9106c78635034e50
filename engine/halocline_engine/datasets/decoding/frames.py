"""Declared size of a compressed chunk, read before anything decodes it.

Formats: Zstandard (RFC 8878), LZ4 blocks behind four bytes of their size as numcodecs writes them,
and Blosc 1 (its README_CHUNK_FORMAT).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Corrupt", "decoded_size", "zstd_most"]

_ZSTD = 0xFD2FB528
_BLOSC_HEADER = 16
_ZSTD_BLOCK = 128 * 1024
_ZSTD_SKIPPED = 0x184D2A5


class Corrupt(Exception):
    """A file is not what its codec writes; the text says in which way."""


def decoded_size(codec: str, packed: NDArray[np.uint8]) -> int | None:
    """Return how many bytes a file says that it has; None where it does not say.

    Raises `Corrupt` where the file is shorter or longer than it says: a decoder may read beyond.
    """
    match codec:
        case "blosc":
            if packed.size < _BLOSC_HEADER:
                raise Corrupt(f"it has {packed.size} bytes, fewer than a header")
            size, _, whole = (int(n) for n in packed[4:16].view("<u4"))
            if whole != packed.size:
                raise Corrupt(f"its file has {packed.size} bytes, and not {whole}")
            return size
        case "lz4":
            if packed.size < 4:
                raise Corrupt(f"it has {packed.size} bytes, fewer than a header")
            return int(packed[:4].view("<u4")[0])
        case "zstd":
            return _zstd_size(packed)
        case _:
            return None


def _zstd_size(packed: NDArray[np.uint8]) -> int | None:
    """Return the size of what a frame holds; None where there is no such header, or no size."""
    if packed.size < 6 or int(packed[:4].view("<u4")[0]) != _ZSTD:
        return None
    flags = int(packed[4])
    single, wide = bool(flags & 0x20), flags >> 6
    first = 5 + (0 if single else 1) + (0, 1, 2, 4)[flags & 3]
    sized = (1 if single else 0, 2, 4, 8)[wide]
    if not sized or packed.size < first + sized:
        return None
    content = int.from_bytes(packed[first : first + sized].tobytes(), "little")
    return content + (256 if sized == 2 else 0)


def zstd_most(packed: NDArray[np.uint8]) -> int:
    """Return the bytes that the blocks of all frames can hold at most, from their headers.

    A compressed block is taken for a full one, as it does not say. What is cut off counts as it is.
    """
    data, at, most = packed.data, 0, 0
    while at + 8 <= len(data):
        magic = int.from_bytes(data[at : at + 4], "little")
        if magic >> 4 == _ZSTD_SKIPPED:
            at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
        elif magic == _ZSTD:
            at, held = _zstd_frame(data, at + 4)
            most += held
        else:
            break
    return most


def _zstd_frame(data: memoryview, at: int) -> tuple[int, int]:
    """Return where a frame ends, and what its blocks can hold; `at` is behind its magic number."""
    flags = data[at]
    single, wide = bool(flags & 0x20), flags >> 6
    at += 1 + (0 if single else 1) + (0, 1, 2, 4)[flags & 3] + (1 if single else 0, 2, 4, 8)[wide]
    held, last = 0, False
    while not last and at + 3 <= len(data):
        header = int.from_bytes(data[at : at + 3], "little")
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        held += _ZSTD_BLOCK if kind == 2 else size
        at += 3 + (1 if kind == 1 else size)
    return at + (4 if flags & 4 else 0), held
