"""The `cpu` target against what copying costs here: `make bench`.

Each result carries the compulsory bytes (each input read once, each output written once), the
GB/s that they make, and their share of what NumPy's copy reaches with arrays of the same size.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from halocline_engine.functions.stencil import stencil

SHAPE = (260, 260, 80)
COPY = """
def copy(a: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = a
"""
LAPLACIAN = """
def laplacian(a: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = -4.0 * a + (a[-1, 0, 0] + a[1, 0, 0] + a[0, -1, 0] + a[0, 1, 0])
"""
DIFFUSION = """
def diffusion(a: Field[float], coeff: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        lap = 4.0 * a - (a[-1, 0, 0] + a[1, 0, 0] + a[0, -1, 0] + a[0, 1, 0])
        fx = lap[1, 0, 0] - lap
        fx = 0.0 if fx * (a[1, 0, 0] - a) > 0.0 else fx
        fy = lap[0, 1, 0] - lap
        fy = 0.0 if fy * (a[0, 1, 0] - a) > 0.0 else fy
        out = a - coeff * (fx - fx[-1, 0, 0] + fy - fy[0, -1, 0])
"""
COLUMN_SUM = """
def column_sum(a: Field[float], out: Field[float]):
    with computation(FORWARD):
        with interval(0, 1):
            out = a
        with interval(1, None):
            out = out[0, 0, -1] + a
"""


@pytest.fixture(scope="module")
def copy_rate() -> float:
    """Bytes per second of NumPy's copy, read and written bytes counted; the best of ten."""
    a = np.random.default_rng(0).random(SHAPE)
    out = np.full(SHAPE, np.nan)
    best = np.inf
    for _ in range(10):
        start = time.perf_counter()
        np.copyto(out, a)
        best = min(best, time.perf_counter() - start)
    return 2 * a.nbytes / best


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        pytest.param(COPY, ("a", "out"), id="copy"),
        pytest.param(LAPLACIAN, ("a", "out"), id="laplacian"),
        pytest.param(DIFFUSION, ("a", "coeff", "out"), id="diffusion"),
        pytest.param(COLUMN_SUM, ("a", "out"), id="column-sum"),
    ],
)
def test_stencil(
    text: str, fields: tuple[str, ...], copy_rate: float, benchmark: Callable[..., Any]
) -> None:
    rng = np.random.default_rng(1)
    arrays = {name: rng.random(SHAPE) for name in fields}
    arrays["out"] = np.full(SHAPE, np.nan)
    run = stencil(text, target="cpu")
    origin, domain = (2, 2, 0), (SHAPE[0] - 4, SHAPE[1] - 4, SHAPE[2])
    run(**arrays, origin=origin, domain=domain)
    benchmark(run, **arrays, origin=origin, domain=domain)
    assert not np.isnan(arrays["out"][2:-2, 2:-2]).any()
    stats = getattr(benchmark, "stats", None)
    if stats is not None:
        moved = len(fields) * int(np.prod(domain)) * 8
        rate = moved / stats["median"]
        facts: dict[str, Any] = vars(benchmark)["extra_info"]
        facts.update(bytes=moved, gigabytes_per_second=rate / 1e9, share_of_copy=rate / copy_rate)
