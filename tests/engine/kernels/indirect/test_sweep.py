"""Random transfers on every target, bit for bit, with guard bands around all that is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from transfers import Draw, Placed, arrays, draws, ends_of, expected, variant_of

from halocline_engine.kernels.indirect import cpu, reference
from halocline_engine.kernels.indirect.cuda import Ends, Movers
from halocline_engine.kernels.indirect.emit import Variant
from halocline_engine.kernels.indirect.problem import Direction

SEEDS = range(4)


def cases() -> Iterator[Draw]:
    for seed in SEEDS:
        yield from draws(seed)


def test_host_targets() -> None:
    for number, draw in enumerate(cases()):
        wanted = expected(draw)
        source, target = arrays(draw)
        reference.move(draw.transfer, source.array, target.array, draw.index)
        np.testing.assert_array_equal(target.room, wanted, err_msg=repr(draw))
        source, target = arrays(draw)
        cpu.move(draw.transfer, source.array, target.array, draw.index, threads=1 + number % 3)
        np.testing.assert_array_equal(target.room, wanted, err_msg=repr(draw))


@pytest.mark.parametrize("seed", SEEDS)
def test_emulated_cuda(seed: int, machines: Callable[[int], Movers]) -> None:
    movers = machines(seed % 3)
    planned: list[tuple[Draw, Placed, Placed, Ends, Variant]] = []
    for draw in draws(seed):
        source, target = arrays(draw)
        ends = ends_of(draw, source, target)
        planned.append((draw, source, target, ends, variant_of(draw, ends)))
    movers.prepare([variant for *_, variant in planned])
    for draw, source, target, ends, variant in planned:
        before = source.room.copy()
        movers.move(draw.transfer, ends, variant)
        np.testing.assert_array_equal(target.room, expected(draw), err_msg=repr((draw, variant)))
        np.testing.assert_array_equal(source.room, before)


def test_every_kind_is_drawn() -> None:
    """The sweep covers what the issue names."""
    found = list(cases())
    assert {draw.transfer.alignment for draw in found} == {4, 8, 16}
    assert {draw.transfer.direction for draw in found} == set(Direction)
    assert {draw.flight for draw in found} == {1, 2, 4, 8}
    assert {draw.index.itemsize for draw in found} == {4, 8}
    assert {draw.offset for draw in found} == {0, 1, 2, 3}
    assert {draw.masked for draw in found} == {draw.wide for draw in found} == {False, True}
    sizes = [draw.transfer.element_bytes for draw in found]
    assert min(sizes) <= 8
    assert max(sizes) >= 3000
    assert {draw.threads for draw in found} == {32 * warps for warps in range(1, 9)}
