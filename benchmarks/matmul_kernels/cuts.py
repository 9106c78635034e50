"""How the fast kernel cuts a product into tiles and blocks, by its sizes and the device alone.

Tiles are done in waves of as many as blocks fit the device. Those of the last two waves, if the
last one is not full, are split among all blocks in equal shares of the inner dimension, as are all
tiles where there are fewer than places. Or each tile has a block of its own, or some. Which cut is
through first, a model of its time says. See the head of the kernel's file for what is added up in
which order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from halocline_engine.kernels.machine import source_of

__all__ = [
    "VARIANTS",
    "VECTOR",
    "Costs",
    "Shares",
    "Variant",
    "duration",
    "padded",
    "shares_of",
    "usual_variant",
]

#: Elements of float32 in the largest piece that a thread moves at once.
VECTOR = 4
_FILE = Path(__file__).with_name("blocks.cu")
#: Stages that a share has at least where tiles are split because there are few.
_LEAST = 4
#: Microseconds that it takes to copy rows to where they are aligned, and those for a megabyte.
_PADDING, _PADDED = 2.3, 0.26
_PARTS = {0: "", 1: "-whole"}


@dataclass(frozen=True, slots=True)
class Costs:
    """What a product takes with a cut, in microseconds, measured on an H200.

    It takes `start` each time that blocks start one after the other, `stage` for each stage of a
    block where a multiprocessor is full of blocks and `alone` where it has one, `left` where sums
    go from one block to another, and `more` each time that they do so again for a tile. Stages
    take `odd` times as long where rows of right are brought element by element.
    """

    start: float = 0.0
    stage: float = 1.0
    alone: float = 1.0
    left: float = 0.0
    more: float = 0.0
    odd: float = 1.0


@dataclass(frozen=True, slots=True)
class Variant:
    """A cut of the fast kernel; see the head of its file.

    `resident` blocks are on a multiprocessor at a time. Each tile is done by so many `parts`, which
    are blocks of their own; if 0, as many as there are places share tiles out evenly. Where it is
    `direct`, rows of right that do not begin at multiples of 16 bytes are brought as they are, and
    not copied first.
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
    parts: int = 0
    direct: bool = False
    costs: Costs = Costs()

    @property
    def name(self) -> str:
        """What tells it from others."""
        return (
            f"{self.rows}x{self.columns}x{self.depth}-{self.thread_rows}x{self.thread_columns}"
            f"-l{self.lane_rows}-s{self.stages}-b{self.resident}"
            f"{f'-{self.slices}slices' if self.slices > 1 else ''}"
            f"{'-direct' if self.direct else ''}{_PARTS.get(self.parts, f'-{self.parts}parts')}"
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


def _cut(*sizes: int, costs: Costs, slices: int = 1, direct: bool = True) -> Sequence[Variant]:
    """Return a cut with tiles shared out evenly, and done by one block or two each."""
    cut = Variant(*sizes, slices=slices, direct=direct, costs=costs)
    return [replace(cut, parts=parts) for parts in (0, 1, 2)]


#: The cuts there are, that for large products first.
VARIANTS: Sequence[Variant] = (
    *_cut(128, 256, 16, 8, 16, 8, 3, 1, costs=Costs(3.31, 2.763, 2.763, 5.95, 0.86), direct=False),
    *_cut(64, 128, 16, 8, 8, 8, 4, 2, costs=Costs(1.86, 1.468, 0.85, 5.43, 0.71, 1.086)),
    *_cut(64, 128, 16, 8, 8, 8, 4, 2, costs=Costs(4.13, 1.531, 0.861, 1.10, 0.84), direct=False),
    *_cut(128, 64, 16, 8, 8, 8, 4, 2, costs=Costs(5.60, 1.541, 0.851, 1.05, 0.81, 1.064)),
    *_cut(64, 64, 16, 8, 8, 8, 4, 4, costs=Costs(5.53, 1.500, 0.739, 1.03, 0.79, 1.135)),
    *_cut(32, 128, 16, 8, 8, 4, 4, 2, slices=2, costs=Costs(2.95, 0.796, 0.469, 3.06, 0.76, 1.136)),
    *_cut(64, 64, 32, 8, 8, 8, 3, 1, slices=4, costs=Costs(2.85, 0.859, 0.859, 3.24, 0.39, 1.080)),
    *_cut(32, 64, 32, 8, 8, 4, 3, 2, slices=4, costs=Costs(2.82, 0.869, 0.516, 2.79, 0.42, 1.144)),
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

    @property
    def handed(self) -> int:
        """How often at most sums are left or taken, one after the other, for a tile."""
        if not self.split:
            return 0
        if self.chained:
            return 1
        parts, torn = divmod(self.blocks, self.split)
        # A block in two tiles leaves the sums of one before it goes on with the other.
        return parts + 2 if torn else parts - 1


def shares_of(
    variant: Variant, rows: int, columns: int, inner: int, multiprocessors: int
) -> Shares:
    """Return what blocks do for a product of these sizes.

    >>> large, small = VARIANTS[0], VARIANTS[3]
    >>> shares_of(large, 4096, 4096, 4096, 132)
    Shares(blocks=132, waves=2, split=248, stages=256, chained=True)
    >>> shares_of(small, 1000, 1000, 1000, 132)
    Shares(blocks=264, waves=0, split=128, stages=63, chained=False)
    >>> shares_of(replace(small, parts=2), 1000, 1000, 1000, 132).blocks
    256
    """
    places = multiprocessors * variant.resident
    tiles = -(-rows // variant.rows) * -(-columns // variant.columns)
    stages = max(1, -(-inner // variant.depth))
    if variant.parts == 1:
        return Shares(tiles, 1, 0, stages, variant.slices == 1)
    if tiles < places:
        blocks = min(places, tiles * stages // _LEAST, tiles * variant.parts or places)
        if blocks <= tiles:
            return Shares(tiles, 1, 0, stages, variant.slices == 1)
        return Shares(blocks, 0, tiles, stages, chained=False)
    waves, rest = divmod(tiles, places)
    if rest:
        waves, rest = waves - 1, rest + places
    return Shares(places, waves, rest, stages, variant.slices == 1)


def usual_variant(rows: int, columns: int, inner: int, multiprocessors: int) -> Variant:
    """Return the cut that should be through first.

    >>> usual_variant(8192, 8192, 8192, 132).name, usual_variant(512, 512, 512, 132).name
    ('128x256x16-8x16-l8-s3-b1', '32x64x32-8x8-l4-s3-b2-4slices-direct-whole')
    """
    return min(VARIANTS, key=lambda one: duration(one, rows, columns, inner, multiprocessors))


def duration(variant: Variant, rows: int, columns: int, inner: int, multiprocessors: int) -> float:
    """Return about how many microseconds a product takes with a cut.

    >>> round(duration(VARIANTS[0], 4096, 4096, 4096, 132), -2)
    2800.0
    """
    shares, costs = shares_of(variant, rows, columns, inner, multiprocessors), variant.costs
    blocks = -(-shares.blocks // multiprocessors)
    stages = shares.load * _stage(variant, blocks)
    time = costs.start * -(-blocks // variant.resident)
    if shares.handed:
        time += costs.left + costs.more * (shares.handed - 1)
    if padded(columns) == columns:
        return time + stages
    if variant.direct:
        return time + stages * costs.odd
    return time + stages + _PADDING + _PADDED * 4e-6 * inner * padded(columns)


def _stage(variant: Variant, blocks: int) -> float:
    """Return microseconds for a stage of each of so many blocks of a multiprocessor."""
    costs, others = variant.costs, max(1, variant.resident - 1)

    def at_once(count: int) -> float:
        return costs.alone + (costs.stage - costs.alone) * (count - 1) / others

    full, rest = divmod(blocks, variant.resident)
    return full * at_once(variant.resident) + (at_once(rest) if rest else 0.0)


def padded(columns: int) -> int:
    """Return how many elements rows begin apart where each begins at a multiple of 16 bytes.

    >>> padded(8), padded(9)
    (8, 12)
    """
    return -(-columns // VECTOR) * VECTOR
