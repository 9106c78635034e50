"""Indices made sure and analysed: policies, duplicates, plans, and what they do to bytes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from emulation.machine import EmulatedMachine
from numpy.typing import NDArray

from halocline_engine.errors import ArgumentError, InternalError
from halocline_engine.kernels.indirect.apply import Device, Host, Target
from halocline_engine.kernels.indirect.grouping import grouped
from halocline_engine.kernels.indirect.indices import group, keep_last, resolve
from halocline_engine.kernels.indirect.plan import (
    IndexPlan,
    PlanCache,
    Strategy,
    facts_of,
    plan_key,
    plan_transfer,
)
from halocline_engine.kernels.indirect.problem import (
    Direction,
    Duplicates,
    Negative,
    OutOfRange,
    Policy,
    Transfer,
    alignment_of,
    choice,
)

GATHER, SCATTER = Direction.GATHER, Direction.SCATTER
MASK = Policy(OutOfRange.MASK, duplicates=Duplicates.LAST)
RULES = (Duplicates.LAST, Duplicates.SUM, Duplicates.MIN, Duplicates.MAX)


@pytest.fixture(params=["reference", "cpu", "cuda-emulated"])
def target(request: pytest.FixtureRequest) -> Target:
    if request.param != "cuda-emulated":
        return Host(2 if request.param == "cpu" else 0)
    folder = request.getfixturevalue("emulation_folder")
    return Device(EmulatedMachine(folder / "loaded", shuffled=3), kept(folder), member_bytes=5000)


def kept(folder: Any) -> Callable[[tuple[str, str], Callable[[], bytes]], bytes]:
    from halocline_engine.cache import Cache, key_of

    cache = Cache(folder / "compiled")
    return lambda name, make: cache.get(key_of(*name), make)


def some(shape: tuple[int, ...], dtype: str, seed: int = 1) -> NDArray[Any]:
    numbers = np.random.default_rng(seed).normal(0, 50, shape)
    return numbers.astype(dtype)


def test_policies_of_indices_out_of_range() -> None:
    index = np.array([3, -1, 0, 12, -11, 4])

    def resolved(rule: OutOfRange, negative: Negative = Negative.OUT_OF_RANGE) -> list[int]:
        return resolve(index, 10, Policy(rule, negative)).tolist()

    assert resolved(OutOfRange.CLIP) == [3, 0, 0, 9, 0, 4]
    assert resolved(OutOfRange.WRAP) == [3, 9, 0, 2, 9, 4]
    assert resolved(OutOfRange.MASK) == [3, -1, 0, -1, -1, 4]
    assert resolved(OutOfRange.MASK, Negative.FROM_END) == [3, 9, 0, -1, -1, 4]
    assert resolved(OutOfRange.CLIP, Negative.FROM_END) == [3, 9, 0, 9, 0, 4]
    assert resolve(np.array([-1, -10]), 10, Policy(negative=Negative.FROM_END)).tolist() == [9, 0]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "int64", "uint64"])
def test_indices_of_every_width(dtype: str) -> None:
    index = np.array([0, 7, 100], dtype)
    found = resolve(index, 101, Policy())
    assert found.dtype == np.int32
    assert found.tolist() == [0, 7, 100]
    assert resolve(index, 2**31, Policy()).dtype == np.int64
    assert resolve(np.array([2**64 - 1], np.uint64), 5, MASK).tolist() == [-1]
    assert resolve(np.array([], dtype), 0, Policy()).size == 0


def test_the_first_offender_is_named() -> None:
    index = np.array([3, 4, 10, -1, 11])
    with pytest.raises(ArgumentError) as caught:
        resolve(index, 10, Policy(), name="cells")
    assert str(caught.value) == (
        "Index 10 at place 2 of 'cells' is out of range: expected numbers from 0 to 9. 2 more are"
        " out of range. Use out_of_range='clip', 'wrap' or 'mask' if that is meant."
    )
    with pytest.raises(ArgumentError) as caught:
        resolve(np.array([1.0]), 10, Policy(), name="cells")
    assert str(caught.value) == (
        "The indices 'cells' must be whole numbers, got 'float64'."
        " Convert them with astype('int64')."
    )
    with pytest.raises(ArgumentError) as caught:
        resolve(np.array([1]), 0, Policy(OutOfRange.CLIP))
    assert str(caught.value) == (
        "The indices 'index' point into nothing: there are no elements to take instead."
        " Use out_of_range='mask'."
    )


def test_the_first_duplicate_is_named() -> None:
    index = np.array([5, 2, -1, 7, 2, -1, 5], np.int32)
    with pytest.raises(ArgumentError) as caught:
        keep_last(index, Duplicates.ERROR)
    assert str(caught.value) == (
        "Index 2 at place 4 of 'index' was at place 1 before: two elements would go to one place."
        " Use duplicates='last', 'sum', 'min' or 'max' if that is meant."
    )
    assert keep_last(index, Duplicates.LAST).tolist() == [-1, -1, -1, 7, 2, -1, 5]
    unique = np.array([5, 2, -1, -1], np.int32)
    assert keep_last(unique, Duplicates.ERROR) is unique


def test_groups_keep_the_order_of_the_indices() -> None:
    groups = group(np.array([4, 1, -1, 4, 0, 1, 4], np.int32))
    assert groups.places.tolist() == [0, 1, 4]
    assert groups.starts.tolist() == [0, 1, 3, 6]
    assert groups.order.tolist() == [4, 1, 5, 0, 3, 6]


def test_words_of_users_are_checked() -> None:
    assert choice(OutOfRange, "out_of_range", "wrap") is OutOfRange.WRAP
    with pytest.raises(ArgumentError) as caught:
        choice(OutOfRange, "out_of_range", "raise")
    assert str(caught.value) == (
        "Argument 'out_of_range' must be one of 'error', 'clip', 'wrap', 'mask', got 'raise'."
        " Leave it out."
    )


def test_transfers_whose_sizes_do_not_fit_are_refused() -> None:
    for wrong in ((3, 12, 1), (8, 12, 1), (4, 0, 1), (4, 4, -1)):
        with pytest.raises(InternalError):
            Transfer(GATHER, *wrong)
    assert alignment_of(64, 24) == 8
    assert alignment_of(6) == 2


def test_facts() -> None:
    facts = facts_of(np.array([4, 5, 6, -1, 2, 2, 3], np.int32), 10)
    assert (facts.count, facts.low, facts.high, facts.left_out) == (7, 2, 6, 1)
    assert (facts.runs, facts.ascending) == (3, False)
    assert facts_of(np.array([], np.int32), 3).high == -1


def expected(
    plan: IndexPlan, source: NDArray[Any], target: NDArray[Any], rule: Duplicates
) -> NDArray[Any]:
    """Return what a plan does, element by element."""
    out = target.copy()
    seen: set[int] = set()
    for place, other in enumerate(plan.index.tolist()):
        if other < 0:
            continue
        if plan.direction is GATHER:
            out[:, place] = source[:, other]
            continue
        if other in seen and rule is not Duplicates.LAST:
            work: dict[Duplicates, Any] = {
                Duplicates.SUM: np.add,
                Duplicates.MIN: np.minimum,
                Duplicates.MAX: np.maximum,
            }
            out[:, other] = work[rule](out[:, other], source[:, place])
        else:
            out[:, other] = source[:, place]
        seen.add(other)
    return out


def plans() -> Iterator[tuple[str, IndexPlan]]:
    """Plans of every strategy, whose elements are three values of 4 bytes."""
    numbers = np.random.default_rng(3)
    far = numbers.permutation(900)
    yield "direct", plan_transfer(GATHER, far[:400], 900, 12, MASK)
    yield "masked", plan_transfer(GATHER, numbers.integers(-300, 1200, 400), 900, 12, MASK)
    yield "scattered", plan_transfer(SCATTER, far[:400], 900, 12, MASK)
    for direction in Direction:
        where = np.where(numbers.random(400) < 0.2, -1, numbers.permutation(500)[:400])
        yield f"sparse-{direction.value}", plan_transfer(direction, where, 900, 12, MASK, cache=960)
        once = plan_transfer(direction, where, 500, 12, MASK, cache=960)
        yield f"once-{direction.value}", once
        near = plan_transfer(direction, where, 500, 12, MASK, uses=9, cache=960)
        yield f"grouped-{direction.value}", near
        taken, size = (where, 500) if near.inverse is None else (near.inverse, 400)
        small = grouped(taken, size, 12, window=1000, tile=600)
        yield f"windows-{direction.value}", replace(near, grouped=small)
        runs = np.concatenate([np.arange(300, 500), np.full(30, -1), np.arange(0, 170)])
        yield f"slices-{direction.value}", plan_transfer(direction, runs, 900, 2**20, MASK)


PLANS = dict(plans())


@pytest.mark.parametrize("name", PLANS)
def test_every_strategy_moves_the_same(name: str, target: Target) -> None:
    plan = PLANS[name]
    gather = plan.direction is GATHER
    counts = (plan.size, 400) if gather else (400, plan.size)
    source, out = some((3, counts[0], 3), "float32"), some((3, counts[1], 3), "float32", 2)
    wanted = expected(plan, source, out, Duplicates.LAST)
    target.apply(plan, source, out)
    np.testing.assert_array_equal(out, wanted)


def test_the_plans_are_of_every_strategy() -> None:
    assert {name: PLANS[name].strategy for name in PLANS} == {
        "direct": Strategy.DIRECT,
        "masked": Strategy.DIRECT,
        "scattered": Strategy.DIRECT,
        "sparse-gather": Strategy.DIRECT,
        "once-gather": Strategy.DIRECT,
        "grouped-gather": Strategy.GROUPED,
        "windows-gather": Strategy.GROUPED,
        "slices-gather": Strategy.SLICES,
        "sparse-scatter": Strategy.DIRECT,
        "once-scatter": Strategy.INVERTED,
        "grouped-scatter": Strategy.GROUPED,
        "windows-scatter": Strategy.GROUPED,
        "slices-scatter": Strategy.SLICES,
    }
    assert PLANS["slices-gather"].runs == ((0, 300, 200), (230, 0, 170))
    near = np.arange(10**4) ^ 3
    for_ever = plan_transfer(GATHER, near, 10**4, 4, MASK, uses=99, cache=4096)
    assert for_ever.strategy is Strategy.DIRECT


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_duplicates_are_combined_in_order(rule: Duplicates, dtype: str, target: Target) -> None:
    index = np.random.default_rng(5).integers(-3, 40, 300)
    source, out = some((4, 300, 3), dtype), some((4, 40, 3), dtype, 2)
    if dtype.startswith("f"):
        source[0, 7, 1] = np.nan
    plan = plan_transfer(SCATTER, index, 40, 12, Policy(OutOfRange.MASK, duplicates=rule))
    wanted = expected(plan, source, out, rule)
    target.apply(plan, source, out)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "datetime64[ns]", "complex128"])
def test_values_of_any_type_are_moved(dtype: str, target: Target) -> None:
    index = np.random.default_rng(5).permutation(50)
    source = np.arange(100).reshape(2, 50, 1).astype(dtype)
    out = np.zeros_like(source)
    target.apply(plan_transfer(GATHER, index, 50, source.itemsize, Policy()), source, out)
    np.testing.assert_array_equal(out, source[:, index])


def test_types_that_cannot_be_combined_are_refused(target: Target) -> None:
    plan = plan_transfer(SCATTER, np.array([1, 1]), 4, 2, Policy(duplicates=Duplicates.SUM))
    source, out = np.ones((1, 2, 1), "int16"), np.zeros((1, 4, 1), "int16")
    with pytest.raises(ArgumentError) as caught:
        target.apply(plan, source, out)
    assert str(caught.value) == (
        "Duplicates can be combined for values of the types 'float32', 'float64', 'int32',"
        " 'int64', got 'int16'. Convert the values, or use duplicates='last'."
    )
    assert not out.any()
    with pytest.raises(ArgumentError, match="'int16' values do not become 'int32'"):
        target.apply(PLANS["direct"], source, out.astype("int32"))


def test_plans_travel() -> None:
    for plan in PLANS.values():
        copy = pickle.loads(pickle.dumps(plan))
        assert (copy.facts, copy.strategy, copy.runs) == (plan.facts, plan.strategy, plan.runs)
        np.testing.assert_array_equal(copy.index, plan.index)


def test_plans_are_kept_by_content() -> None:
    made: list[IndexPlan] = []
    cache = PlanCache(most=100_000)

    def plan_of(index: NDArray[Any], uses: int = 1) -> IndexPlan:
        def make() -> IndexPlan:
            made.append(plan_transfer(GATHER, index, 10**6, 4, Policy(), uses=uses))
            return made[-1]

        return cache.get(plan_key(GATHER, index, 10**6, 4, Policy(), uses), make)

    index = np.arange(0, 90_000, 6)
    assert plan_of(index) is plan_of(index.copy())
    assert len(made) == 1
    assert plan_of(index[::-1]) is not plan_of(index)
    assert plan_of(index, uses=9) is not plan_of(index)
    assert len(made) == 5, "60000 bytes a plan: the cache holds one"
