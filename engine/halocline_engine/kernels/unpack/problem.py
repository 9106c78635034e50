"""Cells of chunks to be moved, whose bytes may be shuffled as Blosc does.

A chunk is dense, its last dimension fastest, and is cut into blocks of elements. Byte `b` of
element `e` of a block is at `table[block, b] + e * spread`: shuffled bytes of successive elements
stand side by side, in a plane for each byte that may lie anywhere; others are an element apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["DIMENSIONS", "WORDS", "Piece", "packed_pieces"]

#: Dimensions of a chunk at most.
DIMENSIONS = 4
#: Numbers of 64 bits that say what a piece is.
WORDS = 4 + 4 * DIMENSIONS


@dataclass(frozen=True, slots=True)
class Piece:
    """A box of cells of a chunk of `chunk` cells along each dimension.

    `table` is the address of the addresses of the chunk's planes, for blocks of `block` elements.
    The box begins at `first` and has `size` cells; it goes to `into`, with `steps` bytes between
    neighbours along each dimension.
    """

    table: int
    block: int
    spread: int
    chunk: tuple[int, ...]
    first: tuple[int, ...]
    size: tuple[int, ...]
    into: int
    steps: tuple[int, ...]

    @property
    def cells(self) -> int:
        """Number of cells."""
        return int(np.prod(self.size, dtype=np.int64))


def packed_pieces(pieces: Sequence[Piece]) -> NDArray[np.int64]:
    """Return pieces as kernels read them, [piece, word]; chunks have four dimensions then."""
    found = np.zeros((len(pieces), WORDS), np.int64)
    for row, piece in zip(found, pieces, strict=True):
        row[:4] = piece.table, piece.block, piece.spread, piece.into
        lack = DIMENSIONS - len(piece.chunk)
        sides = (piece.chunk, piece.first, piece.size, piece.steps)
        for at, (numbers, other) in enumerate(zip(sides, (1, 0, 1, 0), strict=True)):
            begin = 4 + at * DIMENSIONS
            row[begin : begin + DIMENSIONS] = (*(other,) * lack, *numbers)
    return found
