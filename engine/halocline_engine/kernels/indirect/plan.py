"""An array of indices, analysed once and used many times.

A plan says what the indices are like, holds them as narrow as they can be with everything checked,
and how elements are moved best:

* SLICES: long runs of successive indices, each moved as one slice.
* DIRECT: one element after the other.
* GROUPED: near elements together, in two passes. Where sources lie far apart, reading each brings
  a whole sector of memory for a few bytes of it. The first pass reads the elements by windows of
  the source that stay in the cache, and writes them one behind the other; the second reads them in
  runs and writes them by windows of the target. Every element ends where it was asked for.
* COMBINED: a scatter whose duplicates are summed, or the least or largest of them is taken.

A plan travels to workers by pickling. `PlanCache` keeps plans by the content of the indices.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.kernels.indirect.indices import (
    Groups,
    group,
    keep_last,
    narrowest,
    resolve,
)
from halocline_engine.kernels.indirect.problem import Direction, Duplicates, Index, Policy

__all__ = [
    "SECTOR",
    "WINDOW",
    "Grouped",
    "IndexFacts",
    "IndexPlan",
    "PlanCache",
    "Run",
    "Strategy",
    "facts_of",
    "grouped",
    "plan_key",
    "plan_transfer",
]

#: Bytes of a window: it stays in the cache of a device beside what is read and written once.
WINDOW = 16 * 2**20
#: Elements of fewer bytes leave most of what is read for them unused.
SECTOR = 64
#: Bytes of a mean run from which slices are worth a call each.
_LONG_RUN = 1 << 16
#: How often a plan must be used until grouping, which sorts the indices, has paid.
_WORTH_GROUPING = 4

#: Successive indices: first dense place, first index, how many.
Run = tuple[int, int, int]


class Strategy(Enum):
    """How the elements of a plan are moved; see the head of this module."""

    SLICES = "slices"
    DIRECT = "direct"
    GROUPED = "grouped"
    COMBINED = "combined"


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """What indices are like: `low` and `high` are the least and the largest (0 and -1: none).

    `left_out` elements are not moved. `runs` counts the longest ranges of successive indices,
    `distinct` the different ones; `near` is the mean distance between one and the next.
    """

    count: int
    size: int
    low: int
    high: int
    left_out: int
    ascending: bool
    runs: int
    distinct: int
    near: float

    @property
    def reuse(self) -> float:
        """How often an element is named, in the mean of those that are."""
        return (self.count - self.left_out) / max(1, self.distinct)


@dataclass(frozen=True, slots=True, eq=False)
class Grouped:
    """Two passes: between[n] = source[take[n]], then target[put[n]] = between[from_[n]]."""

    take: Index
    from_: Index
    put: Index


@dataclass(frozen=True, slots=True, eq=False)
class IndexPlan:
    """A gather or scatter with these indices; `size` counts the elements that they name."""

    direction: Direction
    size: int
    index: Index
    facts: IndexFacts
    strategy: Strategy
    runs: tuple[Run, ...] = ()
    grouped: Grouped | None = None
    groups: Groups | None = None
    duplicates: Duplicates = Duplicates.ERROR

    @property
    def masked(self) -> bool:
        """Whether some elements are not moved."""
        return self.facts.left_out > 0

    @property
    def nbytes(self) -> int:
        """How many bytes it holds."""
        arrays: list[NDArray[Any]] = [self.index]
        if self.grouped is not None:
            arrays += [self.grouped.take, self.grouped.from_, self.grouped.put]
        if self.groups is not None:
            arrays += [self.groups.places, self.groups.starts, self.groups.order]
        return sum(array.nbytes for array in arrays)


def facts_of(index: Index, size: int) -> IndexFacts:
    """Return what resolved indices are like."""
    kept = index[index >= 0] if index.size and index.min() < 0 else index
    steps = np.diff(kept.astype(np.int64, copy=False))
    seen = np.zeros(size, bool)
    seen[kept] = True
    return IndexFacts(
        count=index.size,
        size=size,
        low=int(kept.min()) if kept.size else 0,
        high=int(kept.max()) if kept.size else -1,
        left_out=index.size - kept.size,
        ascending=bool((steps >= 0).all()),
        runs=len(_run_starts(index)),
        distinct=int(np.count_nonzero(seen)),
        near=float(np.abs(steps).mean()) if steps.size else 0.0,
    )


def plan_transfer(
    direction: Direction,
    index: NDArray[Any],
    size: int,
    element_bytes: int,
    policy: Policy,
    *,
    uses: int = 1,
    window: int = WINDOW,
    name: str = "index",
) -> IndexPlan:
    """Check and analyse one-dimensional indices of `size` elements.

    `uses` is how often the plan will be used, as far as that is known. Raises `ArgumentError` for
    indices that the policy does not allow.
    """
    found = resolve(index, size, policy, name=name)
    if direction is Direction.SCATTER:
        if policy.duplicates in (Duplicates.SUM, Duplicates.MIN, Duplicates.MAX):
            return IndexPlan(
                direction=direction,
                size=size,
                index=found,
                facts=facts_of(found, size),
                strategy=Strategy.COMBINED,
                groups=group(found),
                duplicates=policy.duplicates,
            )
        found = keep_last(found, policy.duplicates, name=name)
    facts = facts_of(found, size)
    strategy = _strategy(facts, element_bytes, uses, window)
    return IndexPlan(
        direction=direction,
        size=size,
        index=found,
        facts=facts,
        strategy=strategy,
        runs=_runs(found) if strategy is Strategy.SLICES else (),
        grouped=(
            grouped(direction, found, max(1, window // element_bytes))
            if strategy is Strategy.GROUPED
            else None
        ),
    )


def grouped(direction: Direction, index: Index, window: int) -> Grouped:
    """Return the two passes of a grouped transfer, for windows of so many elements."""
    dense = np.flatnonzero(index >= 0)
    named = index[dense].astype(np.int64)
    take, put = (named, dense) if direction is Direction.GATHER else (dense, named)
    # First by windows of the target, then, keeping that order, by windows of the source: what goes
    # to one window of the target lies in one run for each window of the source.
    order = _by_window(put, window)
    order = order[_by_window(take[order], window)]
    take, put = take[order], put[order]
    second = _by_window(put, window)
    most = max(int(take.max(initial=0)), int(put.max(initial=0)), take.size) + 1
    return Grouped(narrowest(take, most), narrowest(second, most), narrowest(put[second], most))


def plan_key(
    direction: Direction,
    index: NDArray[Any],
    size: int,
    element_bytes: int,
    policy: Policy,
    uses: int = 1,
) -> str:
    """Return a name for the plan of these indices, the same wherever their content is."""
    digest = hashlib.blake2b(digest_size=20)
    rules = (policy.out_of_range.value, policy.negative.value, policy.duplicates.value)
    often = uses >= _WORTH_GROUPING
    digest.update(
        repr((direction.value, index.dtype.str, size, element_bytes, rules, often)).encode()
    )
    digest.update(np.ascontiguousarray(index).view(np.uint8).data)
    return digest.hexdigest()


class PlanCache:
    """Plans by `plan_key`; those used longest ago go first when all hold more than `most` bytes."""

    def __init__(self, most: int = 2**30) -> None:
        self._most = most
        self._plans: OrderedDict[str, IndexPlan] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str, make: Callable[[], IndexPlan]) -> IndexPlan:
        """Return a plan; it is made where it is missing."""
        with self._lock:
            found = self._plans.get(key)
            if found is not None:
                self._plans.move_to_end(key)
                return found
        made = make()
        with self._lock:
            self._plans[key] = made
            held = sum(plan.nbytes for plan in self._plans.values())
            while held > self._most:
                held -= self._plans.popitem(last=False)[1].nbytes
        return made


def _strategy(facts: IndexFacts, element_bytes: int, uses: int, window: int) -> Strategy:
    moved = facts.count - facts.left_out
    if moved and moved * element_bytes >= facts.runs * _LONG_RUN:
        return Strategy.SLICES
    far = facts.near * element_bytes > window // 64
    larger = (facts.high - facts.low + 1) * element_bytes > 2 * window
    often = uses >= _WORTH_GROUPING
    if far and larger and often and element_bytes < SECTOR and not facts.ascending:
        return Strategy.GROUPED
    return Strategy.DIRECT


def _run_starts(index: Index) -> NDArray[np.intp]:
    """Return the places where a run of successive indices begins; left out ones are in none."""
    here = index >= 0
    new = here.copy()
    new[1:] &= (index[1:] != index[:-1] + 1) | ~here[:-1]
    return np.flatnonzero(new)


def _runs(index: Index) -> tuple[Run, ...]:
    starts = _run_starts(index)
    kept = np.flatnonzero(index >= 0)
    past = np.append(np.searchsorted(kept, starts)[1:], kept.size)
    lengths = past - np.searchsorted(kept, starts)
    return tuple(
        zip(starts.tolist(), index[starts].tolist(), lengths.tolist(), strict=True),
    )


def _by_window(places: NDArray[np.int64], window: int) -> NDArray[np.intp]:
    """Return the order that brings places of one window together and keeps order within it."""
    windows = places // window
    narrow = windows.astype(np.uint16) if windows.max(initial=0) < 2**16 else windows
    return np.argsort(narrow, kind="stable")
