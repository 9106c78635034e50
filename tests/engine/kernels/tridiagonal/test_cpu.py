"""The CPU form: what is found out about systems does not depend on how many lie side by side."""

from __future__ import annotations

import numpy as np
import pytest

from halocline_engine.kernels.tridiagonal import cpu


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_systems_side_by_side_have_the_status_of_each_alone(dtype: str, periodic: bool) -> None:
    """More than are looked at together, with faults in every row and also where no row reads."""
    random = np.random.default_rng(3)
    shape = (2, 5, 700)
    bands = [random.uniform(-1, 1, shape).astype(dtype) for _ in range(5)]
    bands[1] += 3
    for fault, band in [(0.0, 1), (0.5, 1), *((np.nan, n) for n in range(5)), (np.inf, 2)]:
        bands[band][random.random(shape) < 0.02] = fault
    together = cpu.diagnose(*bands, periodic=periodic)
    moved = [np.ascontiguousarray(np.moveaxis(band, 2, 1))[..., np.newaxis] for band in bands]
    alone = cpu.diagnose(*(band.reshape(-1, 5, 1) for band in moved), periodic=periodic)
    np.testing.assert_array_equal(together.reshape(-1), alone.reshape(-1))
    assert np.bitwise_or.reduce(together.reshape(-1)) == 15


@pytest.mark.parametrize("count", [1, 7, 9, 300])
def test_systems_have_the_same_bits_behind_and_beside_each_other(count: int) -> None:
    random = np.random.default_rng(count)
    bands = [random.uniform(-1, 1, (1, 6, count)) for _ in range(4)]
    bands[1] += 3
    beside = cpu.solve(*bands)
    behind = cpu.solve(*(np.ascontiguousarray(band.transpose(2, 1, 0)) for band in bands))
    np.testing.assert_array_equal(beside.solution, behind.solution.transpose(2, 1, 0))
    np.testing.assert_array_equal(beside.status.reshape(-1), behind.status.reshape(-1))
