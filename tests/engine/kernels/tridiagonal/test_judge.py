"""What is said of solutions: the bits of the reference, wherever it is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from halocline_engine.device.probe import device_count
from halocline_engine.kernels.tridiagonal import cpu, cuda, reference


@pytest.mark.parametrize("target", ["cpu", "emulated", *("cuda",) * (device_count() > 0)])
@pytest.mark.parametrize("shape", [(2, 7, 300), (5, 4, 1), (1, 9, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("coupled", [False, True])
def test_large_batches_are_judged_as_the_reference_does(
    monkeypatch: pytest.MonkeyPatch,
    solvers: Callable[[str], Any],
    target: str,
    shape: tuple[int, int, int],
    dtype: str,
    *,
    shared: bool,
    coupled: bool,
) -> None:
    """With the same bits, also where values are not finite; bands may be repeated."""
    random = np.random.default_rng(4)
    solved = [random.uniform(-1, 1, shape).astype(dtype) for _ in range(5)]
    for fault, array in [(0.0, 1), (np.nan, 4), (np.inf, 3), (-np.inf, 0)]:
        solved[array][random.random(shape) < 0.01] = fault
    solved[0][:, 0], solved[2][:, -1] = np.nan if not coupled else 0.5, 3.0
    if shared:
        solved[:3] = [np.broadcast_to(band[:1, :, :1], shape) for band in solved[:3]]
    beside = [random.uniform(-1, 1, (shape[0], 1, shape[2])).astype(dtype) for _ in range(2)]
    monkeypatch.setattr(cpu, "_SMALL", 0)
    monkeypatch.setattr(cuda, "_LITTLE", 0)
    for residual in (False, True):
        named: dict[str, Any] = {"beside": beside if coupled else None, "residual": residual}
        found = solvers(target).judge(*solved, **named)
        judge = reference.judge(*solved, **named)
        for one, other in zip(found, judge, strict=True):
            np.testing.assert_array_equal(one, other)
            assert isinstance(one, np.ndarray)
    assert coupled or np.isfinite(judge[1]).any()
