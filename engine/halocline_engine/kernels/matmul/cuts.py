"""How the fast kernel cuts a product into tiles and blocks, by its sizes and the device alone.

Tiles are done in waves of as many as blocks fit the device. Those of the last two waves, if the
last one is not full, are split among all blocks in equal shares of the inner dimension, as are all
tiles where there are fewer than places. See the head of the kernel's file for what is added up in
which order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from halocline_engine.kernels.machine import source_of

__all__ = ["VARIANTS", "VECTOR", "Shares", "Variant", "padded", "shares_of", "usual_variant"]

#: Elements of float32 in the largest piece that a thread moves at once.
VECTOR = 4
_FILE = Path(__file__).with_name("blocks.cu")
#: Stages that a share has at least where tiles are split because there are few.
_LEAST = 4
#: Microseconds that it takes to copy rows to where they are aligned, and those for a megabyte.
_PADDING, _PADDED = 2.3, 0.26


@dataclass(frozen=True, slots=True)
class Variant:
    """A cut of the fast kernel; see the head of its file.

    `resident` blocks are on a multiprocessor at a time. A product takes about `start` microseconds
    and `stage` for each stage of a block, measured on an H200. If it `splits`, tiles are shared out
    even where there are fewer than places. Where it is `direct`, rows of right
    that do not begin at multiples of 16 bytes are brought as they are, and not copied first.
    """

    rows: int
    columns: int
    depth: int
    thread_rows: int
    thread_columns: int
    lane_rows: int
    stages: int
    resident: int
    slices: int = 1
    splits: bool = True
    direct: bool = False
    start: float = 0.0
    stage: float = 1.0

    @property
    def name(self) -> str:
        """What tells it from others."""
        return (
            f"{self.rows}x{self.columns}x{self.depth}-{self.thread_rows}x{self.thread_columns}"
            f"-l{self.lane_rows}-s{self.stages}-b{self.resident}"
            f"{f'-{self.slices}slices' if self.slices > 1 else ''}"
            f"{'' if self.splits else '-whole'}{'-direct' if self.direct else ''}"
        )

    @property
    def threads(self) -> int:
        """Threads of a block."""
        tile = self.rows // self.thread_rows * (self.columns // self.thread_columns)
        return self.slices * tile

    def shared(self, *, vector: bool) -> int:
        """Return the bytes of shared memory of a block."""
        stages = self.stages * self.depth * (self.rows + 4 + self.columns)
        sums = self.slices * self.rows * self.columns if self.slices > 1 else 0
        across = 32 // self.lane_rows * self.thread_columns + 4
        turned = 0 if vector else self.threads // 32 * self.lane_rows * across
        return 4 * (max(stages, sums) + turned)

    def source(self, *, vector: bool, chained: bool) -> str:
        """Return the translation unit, for rows of out at multiples of 16 bytes if `vector`."""
        return source_of(
            _FILE,
            ROWS=self.rows,
            COLUMNS=self.columns,
            DEPTH=self.depth,
            THREAD_ROWS=self.thread_rows,
            THREAD_COLUMNS=self.thread_columns,
            LANE_ROWS=self.lane_rows,
            STAGES=self.stages,
            RESIDENT=self.resident,
            SLICES=self.slices,
            THREADS=self.threads,
            VECTOR=VECTOR if vector else 1,
            DIRECT=int(self.direct and not vector),
            CHAINED=int(chained),
        )


#: The cuts there are, that for large products first.
VARIANTS: Sequence[Variant] = (
    Variant(128, 256, 16, 8, 16, 8, 3, 1, start=10.0, stage=2.754, splits=False),
    Variant(128, 128, 16, 8, 8, 8, 3, 1, start=13.5, stage=1.447),
    Variant(64, 128, 16, 8, 8, 8, 4, 2, start=12.0, stage=1.493, direct=True),
    Variant(64, 128, 16, 4, 8, 8, 4, 1, start=3.0, stage=0.9, splits=False, direct=True),
    Variant(32, 64, 16, 8, 8, 4, 4, 2, slices=4, start=7.4, stage=0.51, direct=True),
)


@dataclass(frozen=True, slots=True)
class Shares:
    """What blocks do: `waves` tiles each, and together `split` more; in `stages` stages a tile.

    If they are `chained`, a block goes on with the sums of the one before, so that all are summed
    in ascending order; otherwise sums of some are added.
    """

    blocks: int
    waves: int
    split: int
    stages: int
    chained: bool

    @property
    def load(self) -> float:
        """How many stages a block has."""
        return self.stages * (self.waves + self.split / self.blocks)


def shares_of(
    variant: Variant, rows: int, columns: int, inner: int, multiprocessors: int
) -> Shares:
    """Return what blocks do for a product of these sizes.

    >>> large, small = VARIANTS[:2]
    >>> shares_of(large, 4096, 4096, 4096, 132)
    Shares(blocks=132, waves=2, split=248, stages=256, chained=True)
    >>> shares_of(small, 1000, 1000, 1000, 132)
    Shares(blocks=132, waves=0, split=64, stages=63, chained=False)
    """
    places = multiprocessors * variant.resident
    tiles = -(-rows // variant.rows) * -(-columns // variant.columns)
    stages = max(1, -(-inner // variant.depth))
    if tiles < places:
        blocks = min(places, tiles * stages // _LEAST) if variant.splits else 0
        if blocks <= tiles:
            return Shares(tiles, 1, 0, stages, variant.slices == 1)
        return Shares(blocks, 0, tiles, stages, chained=False)
    waves, rest = divmod(tiles, places)
    if rest:
        waves, rest = waves - 1, rest + places
    return Shares(places, waves, rest, stages, variant.slices == 1)


def usual_variant(rows: int, columns: int, inner: int, multiprocessors: int) -> Variant:
    """Return the cut that should be through first.

    >>> usual_variant(8192, 8192, 8192, 132).name, usual_variant(1024, 1024, 1024, 132).name
    ('128x256x16-8x16-l8-s3-b1-whole', '64x128x16-8x8-l8-s4-b2-direct')
    """

    def duration(variant: Variant) -> float:
        load = shares_of(variant, rows, columns, inner, multiprocessors).load
        time = variant.start + variant.stage * load
        if not variant.direct and padded(columns) != columns:
            time += _PADDING + _PADDED * 4e-6 * inner * padded(columns)
        return time

    return min(VARIANTS, key=duration)


def padded(columns: int) -> int:
    """Return how many elements rows begin apart where each begins at a multiple of 16 bytes.

    >>> padded(8), padded(9)
    (8, 12)
    """
    return -(-columns // VECTOR) * VECTOR
