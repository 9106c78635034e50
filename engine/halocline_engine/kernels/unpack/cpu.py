"""Files into memory, and the streams that they are made of, in loops that need no interpreter.

Threads that read many small files in Python wait for each other longer than for the files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

__all__ = ["blosc_streams", "is_plain_zstd", "read_files"]

_types = cast("Any", types)
_ZSTD = 0xFD2FB528
_ZSTD_LARGEST_BLOCK = 128 << 10


def _njit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function; what is compiled is kept for the next process, where there is a place."""
    decorate = cast("Any", numba).njit
    try:
        return decorate(nogil=True, cache=True)(function)
    except RuntimeError:
        return decorate(nogil=True)(function)


_open = _types.ExternalFunction("open", _types.int32(_types.uintp, _types.int32, _types.int32))
_pread = _types.ExternalFunction(
    "pread", _types.int64(_types.int32, _types.uintp, _types.int64, _types.int64)
)
_close = _types.ExternalFunction("close", _types.int32(_types.int32))


def read_files(
    paths: Sequence[str], sizes: Sequence[int], starts: Sequence[int], into: NDArray[np.uint8]
) -> NDArray[np.bool_]:
    """Read files of some sizes to where each begins in `into`; return which are there, and whole.

    A file of which nothing is wanted counts as not there.
    """
    names = b"\0".join(path.encode() for path in paths) + b"\0"
    ends = np.cumsum([len(path.encode()) + 1 for path in paths])
    whole = np.zeros(len(paths), np.bool_)
    given = np.frombuffer(names, np.uint8)
    _read(given, np.append(0, ends[:-1]), np.array(sizes), np.array(starts), into, whole)
    return whole


@_njit
def _read(names: Any, first: Any, sizes: Any, starts: Any, into: Any, whole: Any) -> None:
    base, place = into.ctypes.data, names.ctypes.data
    for at in range(len(sizes)):
        size = sizes[at]
        if size == 0:
            continue
        file = _open(place + first[at], 0, 0)
        if file < 0:
            continue
        done = 0
        while done < size:
            count = _pread(file, base + starts[at] + done, size - done, done)
            if count <= 0:
                break
            done += count
        whole[at] = done == size
        _close(file)


@_njit
def is_plain_zstd(packed: Any, room: Any) -> Any:
    """Whether a file is one frame of a size, without a checksum or a dictionary, to its last byte.

    Blocks are followed by their headers, so that what was cut off is found here.
    """
    size = len(packed)
    if size < 6 or _number(packed, 0, 4) != _ZSTD or packed[4] & 0x0F:
        return False
    single = packed[4] & 0x20 != 0
    wide = packed[4] >> 6
    sized = 1 << wide
    if wide == 0 and not single:
        return False
    at = 5 if single else 6
    if size < at + sized:
        return False
    content = _number(packed, at, sized)
    if content + (256 if sized == 2 else 0) != room:
        return False
    at += sized
    while at + 3 <= size:
        head = _number(packed, at, 3)
        kind, length = head >> 1 & 3, head >> 3
        if kind == 3 or length > _ZSTD_LARGEST_BLOCK:
            return False
        at += 3 + (1 if kind == 1 else length)
        if head & 1:
            return at == size
    return False


@_njit
def _number(packed: Any, at: Any, size: Any) -> Any:
    """Return a number of some bytes, the lowest one first."""
    found = np.int64(0)
    for byte in range(size):
        found |= np.int64(packed[at + byte]) << (8 * byte)
    return found


@_njit
def blosc_streams(packed: Any, room: Any, block: Any, parts: Any, first: Any) -> Any:
    """Return where streams begin in a file and in its chunk, and both sizes, [4, stream].

    The file has a table of blocks of so many bytes, each of `parts` streams, in its last 4 bytes
    each before `first`; a shorter block at the end has one. Nothing where it is damaged.
    """
    size = len(packed)
    count = (room + block - 1) // block
    last = 1 if room % block else parts
    found = np.empty((4, (count - 1) * parts + last), np.int64)
    stream = 0
    for number in range(count):
        at = _number(packed, first + 4 * (number - count), 4)
        begin = number * block
        cut = last if number == count - 1 else parts
        wide = min(block, room - begin) // cut
        for part in range(cut):
            if at < first or at + 4 > size:
                return found[:, :0]
            length = _number(packed, at, 4)
            if length <= 0 or length > wide or at + 4 + length > size:
                return found[:, :0]
            found[0, stream] = at + 4
            found[1, stream] = length
            found[2, stream] = begin + part * wide
            found[3, stream] = wide
            stream += 1
            at += 4 + length
    return found
