"""Transfers on a real device: the sweep of the other targets, plans, and sparse products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from transfers import arrays, draws, ends_of, expected, variant_of

from halocline_engine.device.machine import CudaMachine
from halocline_engine.kernels.indirect.apply import Device, Host
from halocline_engine.kernels.indirect.cuda import Movers
from halocline_engine.kernels.indirect.plan import Strategy, plan_transfer
from halocline_engine.kernels.indirect.problem import Direction, Duplicates, OutOfRange, Policy
from halocline_engine.kernels.indirect.sparse import Form, Missing, sparse
from halocline_engine.kernels.machine import Library, most_shared

pytestmark = pytest.mark.gpu

MASK = Policy(OutOfRange.MASK, duplicates=Duplicates.LAST)


def test_random_transfers_leave_other_bytes_alone(machine: CudaMachine, cupy: Any) -> None:
    movers = Movers(Library(machine))
    planned: list[Any] = []
    for draw in (one for seed in range(100, 104) for one in draws(seed)):
        source, target = arrays(draw)
        # Device memory begins at multiples of 256; rooms are as far from one of 16 as on the host.
        lead = [one.room.ctypes.data % 16 for one in (source, target)]
        rooms = [
            cupy.asarray(np.concatenate([np.zeros(n, np.uint8), one.room]))
            for n, one in zip(lead, (source, target), strict=True)
        ]
        index = cupy.asarray(draw.index)
        at = (rooms[0].data.ptr + lead[0], rooms[1].data.ptr + lead[1], index.data.ptr)
        ends = ends_of(draw, source, target, at)
        planned.append((draw, rooms, lead, index, ends, variant_of(draw, ends)))
    movers.prepare([variant for *_, variant in planned])
    for draw, rooms, lead, _, ends, variant in planned:
        before = cupy.asnumpy(rooms[0])
        movers.move(draw.transfer, ends, variant)
        found = cupy.asnumpy(rooms[1])[lead[1] :]
        np.testing.assert_array_equal(found, expected(draw), err_msg=repr((draw, variant)))
        np.testing.assert_array_equal(cupy.asnumpy(rooms[0]), before)


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("uses", [1, 9])
def test_plans(machine: CudaMachine, direction: Direction, uses: int) -> None:
    rng = np.random.default_rng(4)
    for dtype, values in (("f4", 1), ("f8", 1), ("f4", 3), ("f8", 2), ("f4", 40)):
        index = np.where(rng.random(90_000) < 0.1, -1, rng.permutation(100_000)[:90_000])
        size = values * np.dtype(dtype).itemsize
        plan = plan_transfer(direction, index, 100_000, size, MASK, uses=uses, cache=2**16)
        if uses == 9 and size <= 16:
            assert plan.strategy is Strategy.GROUPED
        counts = (100_000, 90_000) if direction is Direction.GATHER else (90_000, 100_000)
        source = rng.normal(size=(3, counts[0], values)).astype(dtype)
        wanted = rng.normal(size=(3, counts[1], values)).astype(dtype)
        found = wanted.copy()
        Host(0).apply(plan, source, wanted)
        Device(machine, shared=most_shared(machine.facts.capability)).apply(plan, source, found)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("missing", list(Missing))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("block", [1, 2, 4])
def test_products(machine: CudaMachine, dtype: str, block: int, missing: Missing) -> None:
    rng = np.random.default_rng(block)
    row = np.repeat(np.sort(rng.integers(0, 900, 4000)), block)
    column = (block * rng.integers(0, 4000 // block, 4000)[:, None] + np.arange(block)).reshape(-1)
    matrix = sparse(row, column, rng.normal(size=row.size), 1000, 4000)
    field = rng.normal(size=(19, 4000)).astype(dtype)
    field[3, ::7] = np.nan
    wanted = Host(0).product(matrix, field, Form.PLAIN, missing, 0.3)
    found = Device(machine).product(matrix, field, Form.PLAIN, missing, 0.3)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("block", [1, 2, 4])
def test_rows_without_a_share(machine: CudaMachine, dtype: str, block: int) -> None:
    """Weights of many rows add up to 0 or less, and so does what is left of them."""
    rng = np.random.default_rng(block)
    row = np.repeat(np.arange(500), 4)
    first = block * rng.integers(0, 800 // block, 2000 // block)
    column = (first[:, None] + np.arange(block)).reshape(-1)
    matrix = sparse(row, column, rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0], row.size), 500, 800)
    field = rng.normal(size=(19, 800)).astype(dtype)
    field[rng.random(field.shape) < 0.4] = np.nan
    field[5] = np.nan
    wanted = Host(0).product(matrix, field, Form.PLAIN, Missing.RENORMALISE, 0.3)
    found = Device(machine).product(matrix, field, Form.PLAIN, Missing.RENORMALISE, 0.3)
    assert np.isnan(wanted[5]).all()
    np.testing.assert_array_equal(found, wanted)
