"""Boxes of cells that ranks store into each other's memory, with flags that say when.

A link leads from one rank to another. The receiver has a buffer of two halves for it, which
exchanges use in turn, and a counter `arrived`; the sender has a counter `consumed`::

    sender      waits until consumed >= n - 2, stores its cells into half n % 2, sets arrived = n
    receiver    waits until arrived >= n, takes the cells out of half n % 2, sets consumed = n

So the n-th exchange overwrites nothing that is still needed, whatever other links do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["BOX_WORDS", "LINK_WORDS", "STATE_WORDS", "Box", "Link", "packed_boxes", "packed_links"]

#: Numbers of 64 bits that say what a box is, what a link is, and how far a rank has got.
BOX_WORDS, LINK_WORDS, STATE_WORDS = 12, 6, 4


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
    """One direction between this rank and another one; all are addresses but `half` and `boxes`.

    `awaited` is the counter that the other rank sets, `set` the one there that this rank sets, and
    `done` counts the blocks of threads that are done. A half of the buffer has `half` bytes.
    """

    awaited: int
    set: int
    done: int
    half: int
    boxes: int


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
        row[:5] = link.awaited, link.set, link.done, link.half, link.boxes
    return found
