"""Domains of more points than 32 bits count, on a real device."""

from __future__ import annotations

from typing import Any

import pytest

import halocline_engine as he

pytestmark = pytest.mark.gpu

SHIFTED = """
def shifted(a: Field[np.int8], b: Field[np.int8]):
    with computation(PARALLEL), interval(...):
        b = a[1, 0, 0] - a[-1, 0, 0] + a[0, 1, 0] + a
"""
UP = """
def up(a: Field[np.int8], b: Field[np.int8]):
    with computation(FORWARD):
        with interval(0, 1):
            b = a
        with interval(1, None):
            b = b[0, 0, -1] + a
"""


@pytest.mark.parametrize("order", ["F", "C"])
def test_points_beyond_32_bits_are_computed(cupy: Any, order: str) -> None:
    shape = (2**15 + 3, 2**14 + 1, 5)
    a, b = drawn(cupy, shape, order)
    he.stencil(SHIFTED, target="cuda")(
        a, b, origin=(1, 0, 0), domain=(shape[0] - 2, shape[1] - 1, 5)
    )
    for k in range(5):
        plane = a[:, :, k]
        right = plane[2:, :-1] - plane[:-2, :-1] + plane[1:-1, 1:] + plane[1:-1, :-1]
        assert (b[1:-1, :-1, k] == right).all()
    assert (b[0] == 77).all()
    assert (b[-1] == 77).all()
    assert (b[:, -1] == 77).all()


@pytest.mark.parametrize("order", ["F", "C"])
def test_columns_beyond_32_bits_are_computed(cupy: Any, order: str) -> None:
    a, b = drawn(cupy, (2**15 + 3, 2**14 + 1, 5), order)
    he.stencil(UP, target="cuda")(a, b)
    total = cupy.zeros_like(a[:, :, 0])
    for k in range(5):
        total += a[:, :, k]
        assert (b[:, :, k] == total).all()


def drawn(cupy: Any, shape: tuple[int, int, int], order: str) -> tuple[Any, Any]:
    """Return random integers, and an array of 77 to write."""
    assert shape[0] * shape[1] * shape[2] > 2**31
    a: Any = cupy.empty(shape, cupy.int8, order)
    for k in range(shape[2]):
        a[:, :, k] = cupy.random.randint(-20, 20, shape[:2], dtype=cupy.int32)
    return a, cupy.full(shape, 77, cupy.int8, order)
