"""Sums are exact and rounded once: the order of values and their parts do not matter."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from halocline_engine.kernels.reduce import cpu, reference
from halocline_engine.kernels.reduce.states import COUNT, NANS, merged_sums

KINDS = ("ordinary", "cancelling", "wide", "denormal", "zeros", "huge", "tiny", "steps")
TYPES = ("bool", "int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32")


def drawn(seed: int) -> NDArray[np.float64]:
    """Return finite values of one of the kinds, as many as one draws."""
    draw = Random(seed)
    rng = np.random.default_rng(draw.getrandbits(64))
    size = draw.choice((0, 1, 2, 7, 100, 2047, 2048, 2049, 5000))
    match draw.choice(KINDS):
        case "ordinary":
            return rng.normal(280.0, 10.0, size)
        case "cancelling":
            half = rng.standard_normal(size) * 10.0 ** rng.integers(-30, 30, size)
            return rng.permutation(np.concatenate([half, -half, rng.standard_normal(3) * 1e-40]))
        case "wide":
            return np.ldexp(rng.uniform(-1.0, 1.0, size), rng.integers(-1070, 1000, size))
        case "denormal":
            return rng.integers(-5, 6, size) * np.float64(5e-324)
        case "zeros":
            return rng.choice([0.0, -0.0], size)
        case "huge":
            return rng.uniform(-1.0, 1.0, size) * np.finfo(np.float64).max
        case "tiny":
            return np.ldexp(rng.uniform(-1.0, 1.0, size), rng.integers(-1074, -1000, size))
        case _:
            return np.ldexp(rng.choice([-1.0, 1.0], size), draw.randrange(-40, 41) * 10)


def exact(values: NDArray[Any]) -> float:
    """Return the sum that fractions give, rounded once."""
    total = sum((Fraction(value) for value in values.tolist()), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def summed(values: NDArray[Any], threads: int = 1) -> float:
    return float(cpu.round_sums(cpu.add_up(values[np.newaxis], None, 1, threads=threads))[0])


@given(st.integers(0, 2**48))
@settings(deadline=None)
def test_a_sum_is_the_exact_one_rounded_once(seed: int) -> None:
    values = drawn(seed)
    assert summed(values) == exact(values)
    if math.isfinite(exact(values)) and abs(values).max(initial=0.0) < 1e300:
        assert summed(values) == math.fsum(values)


@given(st.integers(0, 2**48))
@settings(deadline=None)
def test_a_state_is_the_same_for_any_order_and_any_parts(seed: int) -> None:
    draw, values = Random(seed), drawn(seed)
    whole = cpu.add_up(values[np.newaxis], None, 1)
    moved = np.random.default_rng(seed).permutation(values)
    cuts = sorted(draw.randrange(values.size + 1) for _ in range(draw.randrange(6)))
    parts = [cpu.add_up(part[np.newaxis], None, 1) for part in np.split(moved, cuts)]
    np.testing.assert_array_equal(merged_sums(np.stack(parts)), whole)
    np.testing.assert_array_equal(reference.add_up(values[np.newaxis], None, 1), whole)
    assert reference.round_sums(whole)[0] == cpu.round_sums(whole)[0]


@given(st.integers(0, 2**48))
@settings(deadline=None)
def test_sums_by_label_are_those_of_the_members(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.resize(drawn(seed), (rng.integers(1, 4), rng.integers(1, 200)))
    codes = rng.integers(-1, 3, values.shape)
    states = cpu.add_up(values, codes, 3)
    np.testing.assert_array_equal(states, reference.add_up(values, codes, 3))
    sums = cpu.round_sums(states).reshape(-1, 3)
    for row, label in np.ndindex(sums.shape):
        assert sums[row, label] == exact(values[row][codes[row] == label])


@pytest.mark.parametrize("dtype", TYPES)
def test_values_of_all_types_are_summed_exactly(dtype: str) -> None:
    rng = np.random.default_rng(7)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        values = rng.standard_normal(3000).astype(kind)
    else:
        values = rng.integers(0, 255, (3000, kind.itemsize), np.uint8).view(kind)[:, 0]
        values = values if kind.kind != "b" else rng.random(3000) < 0.5
    expected = sum((Fraction(value) for value in values.tolist()), Fraction(0))
    codes = rng.integers(0, 2, (1, 3000))
    for states in (
        cpu.add_up(values[np.newaxis], None, 1),
        merged_sums(cpu.add_up(values[np.newaxis], codes, 2)[:, np.newaxis]),
    ):
        assert reference.total_of(states[0]) == expected * 2**1080
        assert states[0, COUNT] == 3000


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, math.inf], math.inf),
        ([1.0, -math.inf, -math.inf], -math.inf),
        ([math.inf, 1.0, -math.inf], math.nan),
        ([1.7e308, 1.7e308], math.inf),
        ([-1.7e308, -1.7e308], -math.inf),
        ([1.7e308, 1.7e308, -1.7e308], 1.7e308),
        ([1.0, 2.0**-53], 1.0),
        ([1.0, 2.0**-53, 2.0**-1074], 1.0 + 2.0**-52),
        ([1.0 + 2.0**-52, 2.0**-53], 1.0 + 2.0**-51),
        ([-1.0, -(2.0**-53), -(2.0**-1074)], -1.0 - 2.0**-52),
    ],
)
def test_infinities_and_halves_are_those_of_ieee_754(values: list[float], expected: float) -> None:
    states = cpu.add_up(np.array([values]), None, 1)
    for sums in (cpu.round_sums(states), reference.round_sums(states)):
        np.testing.assert_array_equal(sums, [expected])


def test_nans_are_counted_apart() -> None:
    values = np.array([[1.0, math.nan, -math.nan, 2.0, math.inf]])
    for states in (cpu.add_up(values, None, 1), reference.add_up(values, None, 1)):
        assert states[0, NANS] == 2
        assert states[0, COUNT] == 2
    land = np.random.default_rng(2).standard_normal((1, 9000))
    land[0, 1000:5000] = math.nan
    states = cpu.add_up(land, None, 1)
    assert states[0, NANS] == 4000
    assert cpu.round_sums(states)[0] == math.fsum(land[~np.isnan(land)])


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(threads: int) -> None:
    rng = np.random.default_rng(3)
    values = rng.standard_normal((2, 300_000)) * 10.0 ** rng.integers(-20, 20, (2, 300_000))
    one = cpu.add_up(values, None, 1)
    np.testing.assert_array_equal(cpu.add_up(values, None, 1, threads=threads), one)
    turned = np.ascontiguousarray(values.reshape(3, -1).T)
    np.testing.assert_array_equal(
        cpu.add_up(turned, None, 1, threads=threads), cpu.add_up(turned, None, 1)
    )


def test_many_equal_values_carry_in_time() -> None:
    values = np.full((1, 5_000_000), 2.0**40 - 2.0**-12)
    assert cpu.round_sums(cpu.add_up(values, None, 1))[0] == 5_000_000 * (2.0**40 - 2.0**-12)
    codes = np.zeros(values.shape, np.int64)
    np.testing.assert_array_equal(cpu.add_up(values, codes, 1), cpu.add_up(values, None, 1))
