"""Size of a decoded chunk: declared by its header, or counted while it is decoded.

A decoder believes what it is given: 60 kB of zeros become 2 GB before anyone can compare that with
the size of the chunk. So a frame's own word is read before, and formats without one are decoded
with a bound, or their blocks are counted.
"""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from halocline_engine.datasets.decoding.frames import Corrupt, decoded_size, zstd_most

__all__ = ["decoded"]

_GZIP = 31  # zlib's `wbits` for its header
_ZLIB = 15
#: Bytes of a length in a chunk of texts.
_WORD = 4
#: What a Zstandard frame without a size may seem to hold beyond what it does: blocks that were
#: flushed before they were full.
_SLACK = 2**20


class _Decoder(Protocol):
    """Decodes one stream, a part at a time."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def decoded(codec: str, packed: NDArray[np.uint8], most: int) -> bytes | None:
    """Decode what has no header with its size, to `most` bytes; None where a header has it.

    Raises `Corrupt` where it would be more.
    """
    match codec:
        case "gzip":
            return _streamed(packed, most, lambda: zlib.decompressobj(_GZIP))
        case "zlib":
            return _streamed(packed, most, lambda: zlib.decompressobj(_ZLIB))
        case "bz2":
            return _streamed(packed, most, bz2.BZ2Decompressor)
        case _:
            _check(codec, packed, most)
            return None


def _check(codec: str, packed: NDArray[np.uint8], most: int) -> None:
    if codec == "vlen-utf8":
        _check_texts(packed)
        return
    said = decoded_size(codec, packed)
    if codec == "zstd" and said is None:
        # The frame does not say, as streams do not; its blocks tell how much they can hold.
        held = zstd_most(packed)
        said = held if held > 2 * most + _SLACK else None
    if said is not None and said > most:
        raise _too_large(said, most)


def _check_texts(packed: NDArray[np.uint8]) -> None:
    """Compare the number of texts with the bytes that hold them: the length of each takes four."""
    count = int.from_bytes(packed[:_WORD].tobytes(), "little")
    most = max(0, packed.size - _WORD) // _WORD
    if count > most:
        raise Corrupt(f"it has {count} texts, where its bytes hold at most {most}")


def _streamed(packed: NDArray[np.uint8], most: int, made: Callable[[], _Decoder]) -> bytes:
    parts: list[bytes] = []
    left, rest = most, packed.tobytes()
    while rest:
        decoder = made()
        part = decoder.decompress(rest, left + 1)
        if len(part) > left:
            raise _too_large(most + 1, most)
        if not decoder.eof:
            raise Corrupt("its stream has no end")
        parts.append(part)
        left -= len(part)
        rest = decoder.unused_data
    return b"".join(parts)


def _too_large(size: int, most: int) -> Corrupt:
    return Corrupt(f"it becomes {size} bytes or more, where its chunk has {most}")
