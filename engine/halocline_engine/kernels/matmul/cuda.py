"""Matrix products by hand-written kernels on a CUDA device, to compare with cuBLAS.

`Multipliers` has the orders of the seed, in which a thread computes one element and the caches are
left to themselves, and the fast kernel for float32, whose blocks follow each other down columns.
Every kernel adds up in ascending order with one rounding a term, so all give the same bits.
Matrices are dense, row by row, and are given by addresses, that of right a multiple of 16 bytes.
Where rows of right are not, most cuts of the fast kernel copy them first to where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from halocline_engine.errors import InternalError
from halocline_engine.kernels.machine import Kernels, Library, source_of

__all__ = ["ORDERS", "VARIANTS", "Ends", "Multipliers", "Variant", "padded_bytes", "usual_variant"]

#: What the seed compares: elements by rows, by tiles, and down columns.
ORDERS = ("rows", "tiles", "columns")
_ORDERS_FILE = Path(__file__).with_name("orders.cu")
_BLOCKS_FILE = Path(__file__).with_name("blocks.cu")
_THREADS = 256
#: Elements of float32 in the largest piece that a thread moves at once.
_VECTOR = 4
#: The most blocks along the second axis of a launch.
_MOST_ROWS = 65_535
#: Rows of a tile of elements.
_HEIGHT = 32


@dataclass(frozen=True, slots=True)
class Ends:
    """Addresses of left [rows, inner], right [inner, columns] and out [rows, columns].

    `room` is that of `padded_bytes` for the fast kernel, if there are any.
    """

    left: int
    right: int
    out: int
    rows: int
    columns: int
    inner: int
    room: int = 0


@dataclass(frozen=True, slots=True)
class Variant:
    """How the fast kernel is cut; see the head of its file.

    `resident` blocks are on a multiprocessor at a time. `rate` is how fast it is on a large
    product, measured on an H200 as a share of cuBLAS's rate, and `alone` how fast a block is that
    has a multiprocessor to itself, in the same unit. Where it is `direct`, rows of right that do
    not begin at multiples of 16 bytes are brought as they are, and not copied first.
    """

    rows: int
    columns: int
    depth: int
    thread_rows: int
    thread_columns: int
    lane_rows: int
    stages: int
    resident: int
    rate: float = 1.0
    alone: float = 1.0
    direct: bool = False

    @property
    def name(self) -> str:
        """What tells it from others."""
        return (
            f"{self.rows}x{self.columns}x{self.depth}-{self.thread_rows}x{self.thread_columns}"
            f"-l{self.lane_rows}-s{self.stages}-b{self.resident}{'-direct' if self.direct else ''}"
        )

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.rows // self.thread_rows * (self.columns // self.thread_columns)

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block."""
        return 4 * self.stages * self.depth * (self.rows + 4 + self.columns)

    def source(self, *, vector: bool) -> str:
        """Return the translation unit, for rows of out at multiples of 16 bytes if `vector`."""
        return source_of(
            _BLOCKS_FILE,
            ROWS=self.rows,
            COLUMNS=self.columns,
            DEPTH=self.depth,
            THREAD_ROWS=self.thread_rows,
            THREAD_COLUMNS=self.thread_columns,
            LANE_ROWS=self.lane_rows,
            STAGES=self.stages,
            RESIDENT=self.resident,
            THREADS=self.threads,
            VECTOR=_VECTOR if vector else 1,
            DIRECT=int(self.direct and not vector),
        )


#: The cuts there are, those for large products first.
VARIANTS: Sequence[Variant] = (
    Variant(128, 256, 16, 8, 16, 8, 3, 1, rate=0.92),
    Variant(64, 256, 16, 8, 16, 8, 3, 2, rate=0.90, alone=0.44),
    Variant(128, 128, 16, 8, 16, 8, 3, 2, rate=0.88, alone=0.44),
    Variant(64, 128, 16, 8, 8, 8, 4, 2, rate=0.885, alone=0.68),
    Variant(64, 128, 16, 4, 8, 8, 4, 2, rate=0.80, alone=0.71, direct=True),
)


def usual_variant(rows: int, columns: int, multiprocessors: int) -> Variant:
    """Return the cut whose blocks should be through first, if all take turns.

    >>> usual_variant(8192, 8192, 132).name, usual_variant(1024, 1024, 132).name
    ('128x256x16-8x16-l8-s3-b1', '64x128x16-4x8-l8-s4-b2-direct')
    """

    def duration(variant: Variant) -> float:
        blocks = -(-rows // variant.rows) * -(-columns // variant.columns)
        turns, rest = divmod(blocks, multiprocessors * variant.resident)
        last = -(-rest // multiprocessors)
        together = last > 1 or variant.resident == 1
        time = turns * variant.resident / variant.rate
        time += last / (variant.rate if together else variant.alone)
        return time * variant.rows * variant.columns

    return min(VARIANTS, key=duration)


def padded_bytes(columns: int, inner: int) -> int:
    """Return the bytes that the fast kernel needs for right with rows at multiples of 16 bytes.

    >>> padded_bytes(8, 3), padded_bytes(9, 3)
    (0, 144)
    """
    return 0 if columns % _VECTOR == 0 else 4 * inner * _pitch(columns)


class Multipliers:
    """The kernels of a machine."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def in_order(self, order: str, ends: Ends, dtype: str, width: int) -> None:
        """Queue a product whose elements are computed in an order, in columns of a width."""
        kernels = self._library.file(_ORDERS_FILE, {})
        grid = -(-ends.rows * ends.columns // _THREADS)
        sizes = (ends.rows, ends.columns, ends.inner, width, _HEIGHT)
        arguments = (*_addresses(ends), *(np.int32(size) for size in sizes))
        kernels.launch(f"{order}_{dtype}", (grid, 1, 1), (_THREADS, 1, 1), arguments)

    def multiply(self, ends: Ends, variant: Variant, width: int) -> None:
        """Queue a product in float32 by the fast kernel, in columns of `width` elements."""
        down, across = -(-ends.rows // variant.rows), -(-ends.columns // variant.columns)
        blocks = min(across, max(1, width // variant.columns))
        vector = ends.columns % _VECTOR == 0
        pitch = ends.columns if variant.direct else _pitch(ends.columns)
        kernels = self._kernels(variant, vector=vector)
        if pitch != ends.columns and ends.inner:
            ends = self._padded(kernels, ends, pitch)
        sizes = (ends.rows, ends.columns, pitch, ends.inner, down, across, blocks)
        arguments = (*_addresses(ends), *(np.int32(size) for size in sizes))
        kernels.launch(
            "multiply", (down * across, 1, 1), (variant.threads, 1, 1), arguments, variant.shared
        )

    def _padded(self, kernels: Kernels, ends: Ends, pitch: int) -> Ends:
        """Queue the copy of right to where its rows begin at multiples of 16 bytes."""
        if not ends.room:
            raise InternalError(
                f"Rows of {ends.columns} elements need room for rows of {pitch}, but there is none."
            )
        grid = (-(-pitch // (_VECTOR * _THREADS)), min(ends.inner, _MOST_ROWS), 1)
        sizes = (np.int32(size) for size in (ends.inner, ends.columns, pitch))
        arguments = (np.uint64(ends.right), np.uint64(ends.room), *sizes)
        kernels.launch("pad", grid, (_THREADS, 1, 1), arguments)
        return replace(ends, right=ends.room)

    def _kernels(self, variant: Variant, *, vector: bool) -> Kernels:
        return self._library.kernels(variant.source(vector=vector))


def _pitch(columns: int) -> int:
    """Return how many elements rows begin apart where each begins at a multiple of 16 bytes."""
    return -(-columns // _VECTOR) * _VECTOR


def _addresses(ends: Ends) -> tuple[np.uint64, np.uint64, np.uint64]:
    return np.uint64(ends.left), np.uint64(ends.right), np.uint64(ends.out)
