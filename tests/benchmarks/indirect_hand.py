"""A gather that was written by hand for one device, in its author's twelve configurations.

What the engine makes is not to be behind it. A thread moves `per` pieces that lie a block apart; an
element is 2 to the power of `log` pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from halocline_engine.kernels.machine import Kernels

__all__ = ["Hand", "emit_hands", "hands"]

_PIECES = {4: "int", 8: "int2", 16: "int4"}

_TEXT = r"""
template <typename V, int LOGP, int PER>
__device__ __forceinline__ void gather(const V *__restrict__ src, const int *__restrict__ idx,
                                       V *__restrict__ dst, long pieces) {
  long base = (long)blockIdx.x * blockDim.x * PER + threadIdx.x;
  V v[PER];
  int id[PER];
#pragma unroll
  for (int q = 0; q < PER; q++) {
    long p = base + (long)q * blockDim.x;
    id[q] = p < pieces ? __ldg(idx + (p >> LOGP)) : 0;
  }
#pragma unroll
  for (int q = 0; q < PER; q++) {
    long p = base + (long)q * blockDim.x;
    if (p < pieces) v[q] = __ldg(src + (((long)id[q]) << LOGP) + (p & ((1 << LOGP) - 1)));
  }
#pragma unroll
  for (int q = 0; q < PER; q++) {
    long p = base + (long)q * blockDim.x;
    if (p < pieces) __stcs(dst + p, v[q]);
  }
}
"""


@dataclass(frozen=True)
class Hand:
    """One configuration for elements of `size` bytes, a power of two from 4."""

    size: int
    per: int
    threads: int

    @property
    def piece(self) -> int:
        """Bytes of a piece."""
        return min(self.size, 16)

    @property
    def log(self) -> int:
        """How often two an element has pieces."""
        return (self.size // self.piece).bit_length() - 1

    @property
    def name(self) -> str:
        """The name of its kernel."""
        return f"hand_{self.piece}_{self.log}_{self.per}"

    def launch(self, kernels: Kernels, addresses: tuple[int, int, int], count: int) -> None:
        """Gather `count` elements; the addresses are those of source, indices and target."""
        pieces = count * self.size // self.piece
        kernels.launch(
            self.name,
            (-(-pieces // (self.threads * self.per)), 1, 1),
            (self.threads, 1, 1),
            (*map(np.uint64, addresses), np.int64(pieces)),
        )


def hands(size: int) -> Iterator[Hand]:
    """Yield the configurations that the author tried for a size, to take the fastest."""
    for per in (1, 2, 4, 8):
        for threads in (128, 256, 512):
            yield Hand(size, per, threads)


def emit_hands(several: list[Hand]) -> str:
    """Return a translation unit with the kernels of several configurations."""
    parts = [_TEXT]
    for one in {hand.name: hand for hand in several}.values():
        piece = _PIECES[one.piece]
        parts.append(
            f'extern "C" __global__ void {one.name}(const {piece} *src, const int *idx,'
            f" {piece} *dst, long pieces) {{\n"
            f"  gather<{piece}, {one.log}, {one.per}>(src, idx, dst, pieces);\n}}\n"
        )
    return "\n".join(parts)
