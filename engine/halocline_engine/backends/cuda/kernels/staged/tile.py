"""Tiles of staged kernels, and the memory that their blocks have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from halocline_engine.backends.cuda.kernels.kind import BlockMemory
from halocline_engine.backends.cuda.kernels.staged.block_layout import BlockLayout
from halocline_engine.backends.cuda.model.layout import DEVICE_LAYOUT, StorageInfo, alignment_unit
from halocline_engine.backends.cuda.model.staged import Staged
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.schedule.nodes import Home
from halocline_engine.schedule.storage.staging import common_halo

__all__ = [
    "block_layout",
    "block_memory_of",
    "points",
    "shared_bytes",
    "shared_plane",
    "staged_fitted",
    "staged_tile",
]

#: Shared memory that a block of any device has; with more of it, fewer blocks run side by side.
_SHARED = 48 * 1024
#: Each has 64 x 16, 64 x 8 or fewer points for 256 threads or less.
_TILES = (
    Tile((32, 8), width=2, rows=2),
    Tile((32, 8), width=2),
    Tile((32, 8)),
    Tile((32, 4)),
)


def points(tile: Tile) -> tuple[int, int]:
    """Return the points of a block along I and J."""
    return tile.block[0] * tile.width, tile.block[1] * tile.rows


def staged_tile(staged: Staged, domain: Domain) -> Tile:
    """Return the largest block that fits shared memory and is not much larger than the domain."""
    tile = _TILES[-1]
    for tile in _TILES:
        along_i, along_j = points(tile)
        roomy = along_i < 2 * domain[0] and along_j < 2 * domain[1]
        if roomy and shared_bytes(staged, tile) <= _SHARED:
            break
    return staged_fitted(tile, staged, domain)


def staged_fitted(tile: Tile, staged: Staged, domain: Domain) -> Tile:
    """Return the tile cut down to what a block can have.

    A block computes all levels where a temporary is read at other levels.
    """
    for smaller in (tile, *_TILES):
        if shared_bytes(staged, smaller) <= _SHARED and smaller.threads <= 1024:
            tile = smaller
            break
    return replace(tile, depth=domain[2]) if staged.staging.deep else tile


def shared_plane(staged: Staged, tile: Tile) -> StorageInfo:
    """Return the storage of one level of a block in shared memory, the same for all."""
    (i_low, i_high), (j_low, j_high) = common_halo(staged.temporaries)
    along_i, along_j = points(tile)
    dims = (along_i + i_high - i_low, along_j + j_high - j_low, 1)
    return StorageInfo(dims, DEVICE_LAYOUT, 1, (-i_low, -j_low, 0))


def shared_bytes(staged: Staged, tile: Tile) -> int:
    """Return how many bytes of shared memory a block has; temporaries begin at 16 bytes each."""
    if staged.staging.home is not Home.SHARED:
        return 0
    length = shared_plane(staged, tile).length
    return sum(-(-length * b.dtype.itemsize // 16) * 16 for b in staged.temporaries)


def block_layout(staged: Staged, tile: Tile) -> BlockLayout:
    """Return the layout of all temporaries; the smallest elements need the most of them aligned."""
    smallest = min(b.dtype.itemsize for b in staged.temporaries)
    unit = alignment_unit(smallest, staged.staging.alignment)
    return BlockLayout(points(tile), common_halo(staged.temporaries), unit)


def block_memory_of(staged: Staged, tile: Tile, domain: Domain) -> Iterator[BlockMemory]:
    """Yield the memory of the blocks' own temporaries, where they live in memory."""
    length = block_layout(staged, tile).storage(domain).length if staged.pointers else 0
    for name, buffer in zip(staged.pointers, staged.temporaries, strict=False):
        yield BlockMemory(name, buffer.dtype.itemsize, length, staged.staging.alignment)
