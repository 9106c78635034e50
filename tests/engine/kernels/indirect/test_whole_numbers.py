"""Indices at the limits of every integer type, judged by Python's whole numbers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.errors import ArgumentError, FieldError
from halocline_engine.kernels.indirect.indices import resolve
from halocline_engine.kernels.indirect.problem import Negative, OutOfRange, Policy
from halocline_engine.kernels.tree.storage import flat
from halocline_engine.kernels.tree.topology import arrange
from halocline_engine.kernels.whole import first_fraction, whole_numbers

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
SIZES = (1, 2, 3, 7, 100, 127, 128, 300, 2**31 - 1, 2**31, 2**31 + 1, 2**40 + 7)


def edges(dtype: str) -> list[int]:
    """Return whole numbers at the limits of a type, and at those of narrower ones that it holds."""
    limits = [bound for name in INTEGERS for bound in (np.iinfo(name).min, np.iinfo(name).max)]
    near = {limit + by for limit in limits for by in (-2, -1, 0, 1, 2)}
    own = np.iinfo(dtype)
    return sorted(number for number in near if own.min <= number <= own.max)


def meant(number: int, size: int, policy: Policy) -> int:
    """Return the element that an index means, -1 for none."""
    if policy.negative is Negative.FROM_END and -size <= number < 0:
        number += size
    if 0 <= number < size:
        return number
    rules = {OutOfRange.CLIP: min(max(number, 0), size - 1), OutOfRange.WRAP: number % size}
    return rules.get(policy.out_of_range, -1)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_every_rule_at_the_limits(dtype: str) -> None:
    numbers = edges(dtype)
    for size, rule, negative in itertools.product(SIZES, OutOfRange, Negative):
        policy = Policy(rule, negative)
        wanted = [meant(number, size, policy) for number in numbers]
        index = np.array(numbers, dtype)
        if rule is OutOfRange.ERROR and -1 in wanted:
            first = numbers[wanted.index(-1)]
            with pytest.raises(ArgumentError, match=f"Index {first} at place"):
                resolve(index, size, policy)
        else:
            assert resolve(index, size, policy).tolist() == wanted


@pytest.mark.parametrize("target", ["reference", "cpu"])
@pytest.mark.parametrize("chunks", [None, {"x": 4, "p": 3}])
def test_large_indices_wrap_around(target: str, chunks: dict[str, int] | None) -> None:
    numbers = [2**63, 2**63 + 1, 2**64 - 1, 2**63 - 1, 0, 11]
    dataset = xr.Dataset(
        {"v": ("x", np.arange(10.0)), "i": ("p", np.array(numbers, np.uint64))},
    )
    found = he.gather(
        dataset, source="v", index="i", dim="x", out_of_range="wrap", chunks=chunks, target=target
    )
    assert found["gathered"].values.tolist() == [float(number % 10) for number in numbers]
    put = he.scatter(
        xr.Dataset({"v": ("p", np.arange(6.0)), "i": dataset["i"]}),
        source="v",
        index="i",
        dim="x",
        size=10,
        out_of_range="wrap",
        duplicates="sum",
        chunks=None if chunks is None else {"p": 3},
        target=target,
    )
    wanted = np.bincount([number % 10 for number in numbers], np.arange(6.0), 10)
    named = np.isin(np.arange(10), [number % 10 for number in numbers])
    np.testing.assert_array_equal(put["scattered"], np.where(named, wanted, np.nan))


@pytest.mark.parametrize("dtype", [*INTEGERS, "float32", "float64"])
def test_as_64_bits(dtype: str) -> None:
    whole = [0, 1, 100]
    assert whole_numbers(np.array(whole, dtype)).tolist() == whole
    if dtype in INTEGERS:
        limits = np.iinfo(dtype)
        given = np.array([limits.min, limits.max], dtype)
        assert whole_numbers(given).tolist() == [limits.min, min(limits.max, 2**63 - 1)]
    else:
        given = np.array([2.0**63, -(2.0**63), 2.0**62, 1e30, -1e30], dtype)
        least, most = -(2**63), 2**63 - 1
        assert whole_numbers(given).tolist() == [most, least, 2**62, most, least]


def test_what_is_no_whole_number() -> None:
    assert first_fraction(np.array([1.0, 1e300, 2.5])) == 2
    assert first_fraction(np.array([[1.0, np.nan], [np.inf, 1.0]])) == 1
    assert first_fraction(np.array([1, 2])) is None
    assert first_fraction(np.array(["1"])) == 0
    assert first_fraction(np.array([True])) == 0


def test_parents_of_unsigned_types() -> None:
    """2**64 - 1 is no root, though a cast makes -1 of it."""
    layout = flat([2])
    with pytest.raises(FieldError) as caught:
        arrange(layout, np.array([2**64 - 1, 0], np.uint64))
    assert str(caught.value) == (
        "Cell 0 has 2 nodes, but the parent of its node 0 is 18446744073709551615. Parents count"
        " from 0 in each cell; the root's is -1."
    )
    assert arrange(layout, np.array([0, 0], np.uint64)).parents.tolist() == [0, 0]
