"""Boxes of cells that ranks store into each other's memory, with flags that say when.

A link leads from one rank to another. The receiver has a buffer of two halves for it, which
exchanges use in turn, and a counter `arrived`; the sender has a counter `consumed`::

    sender      waits until consumed >= n - 2, stores its cells into half n % 2, sets arrived = n
    receiver    waits until arrived >= n, takes the cells out of half n % 2, sets consumed = n

So the n-th exchange overwrites nothing that is still needed, whatever other links do.

Counters cost some round trips. Short messages do without where two ranks send each other one:
every four bytes go together with n, in a word of eight, for which the receiver waits. Who has the
message n - 1 of the other rank knows that this one has taken what came before, so half n % 2 is
free. Such a half has twice the bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BOX_WORDS",
    "LINK_WORDS",
    "STATE_WORDS",
    "Box",
    "Link",
    "packed_boxes",
    "packed_links",
    "widened",
]

#: Numbers of 64 bits that say what a box is, what a link is, and how far a rank has got.
BOX_WORDS, LINK_WORDS, STATE_WORDS = 12, 6, 4
#: Bytes of cells that a thread moves in one word, at most, and where the words are numbered.
_WIDEST, _WIDEST_NUMBERED = 16, 8


@dataclass(frozen=True, slots=True)
class Box:
    """Cells of one field, of `width` bytes each, in an array and in a buffer.

    `array` is the address of the first cell in the array, with `steps` bytes between neighbours
    along I, J and K; in the buffer cells are dense, I fastest, from `buffer` on in each half.
    """

    link: int
    width: int
    array: int
    buffer: int
    size: tuple[int, int, int]
    steps: tuple[int, int, int]

    @property
    def cells(self) -> int:
        """Number of cells."""
        i, j, k = self.size
        return i * j * k


@dataclass(frozen=True, slots=True)
class Link:
    """One direction between this rank and another one: addresses, but for the last three.

    `awaited` is the counter that the other rank sets, `set` the one there that this rank sets, and
    `done` counts the blocks of threads that are done. A half of the buffer has `half` bytes. Where
    words are `numbered`, there are no counters.
    """

    awaited: int
    set: int
    done: int
    half: int
    boxes: int
    numbered: bool = False


def widened(box: Box, *, numbered: bool = False) -> Box:
    """Return the box with as many cells along I in one word as alignment allows.

    A number doubles the bytes of a word in a message, and a thread stores 16 bytes there at most,
    so that neighbouring threads store without gaps.

    >>> widened(Box(0, 4, 4096, 8192, (6, 3, 1), (4, 64, 192)))
    Box(link=0, width=8, array=4096, buffer=8192, size=(3, 3, 1), steps=(8, 64, 192))
    >>> widened(Box(0, 4, 4096, 8192, (8, 3, 1), (4, 64, 192)), numbered=True).width
    8
    """
    i, j, k = box.size
    di, dj, dk = box.steps
    if di != box.width:
        return box
    places = [box.array, box.buffer, i * di, *([dj] if j > 1 else []), *([dk] if k > 1 else [])]
    width = math.gcd(_WIDEST_NUMBERED if numbered else _WIDEST, *places)
    cells = width // box.width
    return replace(box, width=width, size=(i // cells, j, k), steps=(width, dj, dk))


def packed_boxes(boxes: Sequence[Box]) -> NDArray[np.int64]:
    """Return boxes as kernels read them, [box, word]."""
    found = np.zeros((len(boxes), BOX_WORDS), np.int64)
    for row, box in zip(found, boxes, strict=True):
        row[:4] = box.link, box.width, box.array, box.buffer
        row[4:7], row[7:10] = box.size, box.steps
    return found


def packed_links(links: Sequence[Link]) -> NDArray[np.int64]:
    """Return links as kernels read them, [link, word]."""
    found = np.zeros((len(links), LINK_WORDS), np.int64)
    for row, link in zip(found, links, strict=True):
        row[:] = link.awaited, link.set, link.done, link.half, link.boxes, link.numbered
    return found
