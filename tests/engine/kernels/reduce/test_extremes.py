"""Extremes with their places: the lowest place wins, in any parts."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from halocline_engine.kernels.reduce import cpu, reference
from halocline_engine.kernels.reduce.states import (
    BITS,
    NAN_PLACE,
    PLACE,
    carrier,
    merged_extremes,
)

TYPES = ("bool", "int16", "int64", "uint64", "float32", "float64")


def drawn(seed: int) -> NDArray[Any]:
    """Return rows of few different values, so that many are equal; some NaN where there is one."""
    rng, dtype = np.random.default_rng(seed), Random(seed).choice(TYPES)
    shape = (rng.integers(1, 4), rng.integers(1, 60))
    values = rng.integers(0, 6, shape).astype(dtype)
    if values.dtype.kind == "f":
        values = np.where(rng.random(shape) < 0.2, np.nan, values - 3).astype(dtype)
        values[rng.random(shape) < 0.1] = -0.0
        values[rng.random(shape) < 0.1] = np.inf
    elif dtype == "uint64":
        values = values + np.uint64(2**64 - 9)
    return values


@given(st.integers(0, 2**48))
@settings(deadline=None)
def test_an_extreme_is_the_one_of_numpy(seed: int) -> None:
    values = drawn(seed)
    for largest in (True, False):
        states = cpu.find_extremes(values, None, 1, largest=largest)
        np.testing.assert_array_equal(
            states, reference.find_extremes(values, None, 1, largest=largest)
        )
        for row, state in zip(values, states, strict=True):
            nan = np.isnan(row) if row.dtype.kind == "f" else np.zeros(row.shape, np.bool_)
            assert state[NAN_PLACE] == (int(nan.argmax()) if nan.any() else -1)
            if nan.all():
                assert state[PLACE] == -1
                continue
            best = row[~nan].max() if largest else row[~nan].min()
            assert state[PLACE] == int((row == best).argmax())
            assert state[BITS : BITS + 1].view(carrier(row.dtype))[0] == best


@given(st.integers(0, 2**48))
@settings(deadline=None)
def test_parts_in_any_order_have_the_extreme_of_the_whole(seed: int) -> None:
    values, draw = drawn(seed), Random(seed)
    cuts = sorted(draw.randrange(values.shape[1] + 1) for _ in range(draw.randrange(4)))
    codes = np.random.default_rng(seed).integers(-1, 2, values.shape)
    for largest in (True, False):
        whole = cpu.find_extremes(values, codes, 2, largest=largest)
        np.testing.assert_array_equal(
            whole, reference.find_extremes(values, codes, 2, largest=largest)
        )
        parts: list[NDArray[np.int64]] = []
        for start, stop in zip([0, *cuts], [*cuts, values.shape[1]], strict=True):
            part = cpu.find_extremes(
                np.ascontiguousarray(values[:, start:stop]),
                np.ascontiguousarray(codes[:, start:stop]),
                2,
                largest=largest,
            )
            places = part[:, PLACE:]
            places[places >= 0] += start
            parts.append(part)
        draw.shuffle(parts)
        merged = merged_extremes(np.stack(parts), values.dtype, largest=largest)
        np.testing.assert_array_equal(merged, whole)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(threads: int) -> None:
    values = np.random.default_rng(5).integers(0, 100, (2, 200_000)).astype(np.float32)
    one = cpu.find_extremes(values, None, 1, largest=True)
    np.testing.assert_array_equal(
        cpu.find_extremes(values, None, 1, largest=True, threads=threads), one
    )
