"""Sums of products are those of the rounded products, for any layout in memory and any threads."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from halocline_engine.kernels.reduce import cpu, reference
from halocline_engine.kernels.threads import spread

TYPES = ("float64", "float32", "int64", "bool")


def padded(draw: Random, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return values [row, line, cell] within an array that has more lines and cells."""
    rng = np.random.default_rng(draw.getrandbits(64))
    rows, lines, cells = shape
    more = rng.normal(scale=3.0, size=(rows, lines + 1, cells + draw.randrange(3)))
    more[rng.uniform(size=more.shape) < 0.01] = draw.choice([np.nan, np.inf, 0.0])
    kind = draw.choice(TYPES)
    with np.errstate(invalid="ignore"):
        return more.astype(kind)[:, :lines, :cells]


@given(st.integers(0, 2**48))
@settings(deadline=None, max_examples=60)
def test_products_in_tiles_have_the_states_of_rounded_products(seed: int) -> None:
    draw = Random(seed)
    shape = (draw.randrange(3), draw.randrange(4), draw.choice((0, 1, 5, 700, 2049)))
    values, weights = padded(draw, shape), padded(draw, shape)
    if draw.random() < 0.3:
        weights = np.broadcast_to(weights[:, :, :1], shape)
    with np.errstate(invalid="ignore"):
        products = np.multiply(values, weights, dtype=np.float64)
        of_reference = reference.add_up(values, None, 1, weights)
    wanted = reference.add_up(products.reshape(shape[0], shape[1] * shape[2]), None, 1)
    np.testing.assert_array_equal(of_reference, wanted)
    np.testing.assert_array_equal(cpu.add_up(values, None, 1, weights), wanted)
    np.testing.assert_array_equal(cpu.add_up(values, None, 1), reference.add_up(values, None, 1))


@pytest.mark.parametrize("shape", [(1, 300, 1000), (1, 1, 300_000), (3, 100, 1000)])
def test_threads_do_not_change_states(shape: tuple[int, ...]) -> None:
    values, weights = padded(Random(1), shape).astype(float), padded(Random(2), shape)
    wanted = cpu.add_up(values, None, 1, weights)
    for threads in (2, 3, 4):
        made = cpu.add_up(values, None, 1, weights, threads=threads)
        np.testing.assert_array_equal(made, wanted)


def test_calls_within_calls_end_and_cover_all_pieces() -> None:
    done: list[tuple[int, int]] = []

    def inner(first: int, past: int) -> None:
        done.append((first, past))

    def outer(first: int, past: int) -> None:
        for _ in range(first, past):
            spread(40, 40, inner)

    spread(40, 40, outer)
    assert sorted(done) == [(at, at + 1) for at in range(40) for _ in range(40)]


def test_an_error_in_a_thread_is_raised() -> None:
    def fail(first: int, past: int) -> None:
        raise IndexError(f"{first} {past}")

    with pytest.raises(IndexError):
        spread(4, 4, fail)
