"""Gathers in two passes through shared memory: what a plan says, and what the kernels do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from halocline_engine.errors import InternalError
from halocline_engine.kernels.indirect.cuda import Movers, passes_for
from halocline_engine.kernels.indirect.emit import Passes
from halocline_engine.kernels.indirect.grouping import Grouped, grouped


def some_indices(size: int, count: int) -> NDArray[np.int32]:
    numbers = np.random.default_rng(8)
    index = np.where(numbers.random(count) < 0.1, -1, numbers.integers(0, size, count))
    return index.astype(np.int32)


def passed(passes: Grouped, source: NDArray[Any], target: NDArray[Any]) -> None:
    """Do both passes, element by element, as the head of `Grouped` says."""
    between = np.full(passes.room, -1)
    for window, (start, count) in enumerate(zip(passes.starts, passes.counts, strict=True)):
        for n in range(start, start + count):
            between[n] = source[window * passes.window + passes.take[n]]
    for tile, (first, last) in enumerate(zip(passes.lists, passes.lists[1:], strict=False)):
        assert (np.diff(passes.origin[first:last]) > 0).all()
        for n in range(first, last):
            target[tile * passes.tile + passes.place[n]] = between[passes.origin[n]]


@pytest.mark.parametrize(("size", "count"), [(2000, 3000), (5000, 900), (40, 3000), (9, 0)])
def test_grouped_passes_go_by_windows_and_tiles(size: int, count: int) -> None:
    index = some_indices(size, count)
    passes = grouped(index, size, 8, window=2000, tile=1000)
    assert (passes.window, passes.tile) == (240, 112)
    assert (passes.starts % 16 == 0).all()
    source, target = np.arange(size) + 7, np.full(count, -5)
    passed(passes, source, target)
    np.testing.assert_array_equal(target, np.where(index < 0, -5, index + 7))


#: Elements of one word and of several, through registers and past them, by 32 and by 64 bits.
KERNELS = (
    Passes(1, 1, threads=64, flight=2),
    Passes(2, 3, threads=64, flight=2),
    Passes(4, 1, threads=64, past=True),
    Passes(4, 3, threads=64),
    Passes(8, 1, wide=True, threads=64, past=True),
    Passes(8, 1, threads=64),
    Passes(16, 1, threads=64, past=True),
    Passes(16, 1, wide=True, threads=64),
)


@pytest.mark.parametrize("kernels", KERNELS, ids=str)
@pytest.mark.parametrize("shuffled", [0, 5])
def test_kernels_leave_other_bytes_alone(
    kernels: Passes, shuffled: int, machines: Callable[[int], Movers]
) -> None:
    size, elements, count = kernels.word * kernels.pieces, 1500, 1100
    index = some_indices(elements, count)
    index[400:800] = np.abs(index[400:800])
    passes = grouped(index, elements, size, window=4096, tile=2048)
    where = passes.origin.astype(np.int64 if kernels.wide else np.int32)
    # Neither side begins at a multiple of 16 bytes, unless a word has as many.
    lead = 16 + kernels.word % 16
    source, target = (room(n * size, lead) for n in (elements, count))
    between = room(passes.room * size, 16)
    wanted = target.copy()
    rows = wanted[lead : lead + count * size].reshape(count, size)
    taken = source[lead : lead + elements * size].reshape(elements, size)[index]
    rows[index >= 0] = taken[index >= 0]
    arrays = [where if array is passes.origin else array for array in passes.arrays]
    sides = [address(one) + at for one, at in ((source, lead), (between, 16), (target, lead))]
    machines(shuffled).passes(
        kernels,
        passes,
        (sides[0], sides[1], sides[2]),
        [address(array) for array in arrays],
        (elements, count),
    )
    np.testing.assert_array_equal(target, wanted)
    assert (between[:16] == between[-16:]).all(), "nothing beside it is written"


def room(size: int, lead: int) -> NDArray[np.uint8]:
    """Return random bytes with some before and behind; it begins at a multiple of 64."""
    whole = np.random.default_rng(size).integers(0, 256, lead + size + 16 + 64, np.uint8)
    start = -address(whole) % 64
    found = whole[start : start + lead + size + 16]
    found[:16] = found[-16:]
    return found


def address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def test_kernels_count_with_64_bits_where_they_must() -> None:
    assert not passes_for(12, 4, 10**9).wide
    assert passes_for(12, 4, 2**31).wide
    assert passes_for(12, 4, 2**31).pieces == 3
    with pytest.raises(InternalError) as caught:
        Passes(4, 3, past=True)
    assert str(caught.value) == "Asynchronous copies move 4, 8 or 16 bytes."
