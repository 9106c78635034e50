"""Layout of the memory of temporaries that blocks of points keep for themselves.

Every block has room for its points and the halo that the widest temporary needs, and stands where
its first point that is no halo is aligned. All temporaries have this one layout.

Source: GridTools 0.x and 1.x, the "updated" algorithm of pull request 700 (base at the first point
that is no halo, signed thread offsets), and the "base pointer change" before it (base at the first
halo point, moved by the halo that a temporary does not use). Both give the same addresses.
"""

from __future__ import annotations

from dataclasses import dataclass

from halocline_engine.backends.cuda.model.layout import DEVICE_LAYOUT, StorageInfo
from halocline_engine.ir.extent import Horizontal

__all__ = ["BlockLayout"]


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """Positions of the points of each block; all numbers are in elements.

    `block` is the points of a block along I and J, `halo` the extent that holds those of all
    temporaries, `alignment` what the place of a block's first point is a multiple of.
    """

    block: tuple[int, int]
    halo: Horizontal
    alignment: int = 1

    @property
    def pitch(self) -> int:
        """From block to block along I: the points, the halo and padding behind them."""
        (low, high), _ = self.halo
        width = self.block[0] + high - low
        return StorageInfo((width, 2), (1, 0), self.alignment).padded[0]

    @property
    def lead(self) -> int:
        """Elements left free before the first block, so that its first point is aligned."""
        return self.halo[0][0] % self.alignment

    @property
    def depth(self) -> int:
        """From block to block along J, in rows."""
        _, (low, high) = self.halo
        return self.block[1] + high - low

    def blocks(self, domain: tuple[int, int, int]) -> tuple[int, int]:
        """Return how many blocks along I and J cover a domain."""
        return -(-domain[0] // self.block[0]), -(-domain[1] // self.block[1])

    def storage(self, domain: tuple[int, int, int]) -> StorageInfo:
        """Return the storage of all blocks: rows, planes, levels."""
        along_i, along_j = self.blocks(domain)
        dims = (along_i * self.pitch + self.lead, along_j * self.depth, domain[2])
        return StorageInfo(dims, DEVICE_LAYOUT, self.alignment)

    def base(self, block: tuple[int, int], domain: tuple[int, int, int]) -> int:
        """Return where the first point of a block stands that is no halo.

        >>> BlockLayout((64, 8), ((-2, 2), (-1, 1)), 16).base((1, 0), (100, 8, 1)) % 16
        0
        """
        row = self.storage(domain).strides[1]
        (i_low, _), (j_low, _) = self.halo
        return self.lead + block[0] * self.pitch - i_low + (block[1] * self.depth - j_low) * row
