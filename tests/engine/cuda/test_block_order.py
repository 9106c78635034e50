"""The order of blocks of fused steps along K: each place once, those beside sides first."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from emulation.machine import EmulatedMachine

from halocline_engine.backends.cuda.kernels.temporal.order import (
    INVERSES,
    SIDES_FIRST,
    inverses_of,
)
from halocline_engine.backends.cuda.model.launch import Dim3
from halocline_engine.backends.cuda.text.prelude import prelude

PLACES = f"""
extern "C" __global__ void places(int *out, {", ".join(f"const int {n}" for n in INVERSES)}) {{
  {" ".join(SIDES_FIRST)}
  out[3 * number] = strip;
  out[3 * number + 1] = line;
  out[3 * number + 2] = chunk;
}}
"""
QUOTIENTS = """
extern "C" __global__ void quotients(const int n, const int *a, const int *b, const int *c,
                                     int *out) {
  const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = divided(a[i], b[i], c[i]);
}
"""


@pytest.mark.parametrize(
    "grid", [(1, 1, 1), (1, 4, 2), (5, 1, 3), (2, 2, 2), (3, 2, 1), (2, 5, 1), (14, 9, 6)]
)
def test_blocks_beside_sides_come_first(machine: EmulatedMachine, grid: Dim3) -> None:
    strips, lines, chunks = grid
    count = strips * lines * chunks
    found = np.full((count, 3), -1, np.int32)
    loaded = machine.load(machine.compile(prelude(PLACES) + PLACES))
    values = (np.uint64(machine.address(found)), *map(np.int32, inverses_of(grid)))
    loaded.launch("places", grid, (1, 1, 1), values)
    places = [tuple(place) for place in found.tolist()]
    assert sorted(places) == sorted(product(range(strips), range(lines), range(chunks)))
    beside = [s in (0, strips - 1) or y in (0, lines - 1) for s, y, _ in places]
    assert beside == sorted(beside, reverse=True)
    # The others go from strip to strip, so that neighbours are computed together.
    others = [place[::-1] for place, near in zip(places, beside, strict=True) if not near]
    assert others == sorted(others)


def test_quotients_by_products_are_whole_ones(machine: EmulatedMachine) -> None:
    random = np.random.default_rng()
    by = np.concatenate([np.arange(1, 400), random.integers(1, 2**20, 600)]).astype(np.int32)
    times = random.integers(0, 2**30 // by)
    edges = [times * by, np.maximum(times * by - 1, 0), np.full(by.size, 2**30 - 1)]
    number = np.concatenate([*edges, random.integers(0, 2**30, by.size)]).astype(np.int32)
    divisors = np.tile(by, 4)
    inverses = ((2**31 - 1) // divisors.astype(np.int64)).astype(np.int32)
    found = np.full(number.size, -1, np.int32)
    loaded = machine.load(machine.compile(prelude(QUOTIENTS) + QUOTIENTS))
    arrays = [np.uint64(machine.address(one)) for one in (number, divisors, inverses, found)]
    size = np.int32(number.size)
    loaded.launch("quotients", (number.size, 1, 1), (1, 1, 1), (size, *arrays))
    np.testing.assert_array_equal(found, number // divisors)
