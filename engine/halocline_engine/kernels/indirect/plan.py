"""An array of indices, analysed once and used many times.

A plan says what the indices are like, holds them as narrow as they can be with everything checked,
and how elements are moved best:

* SLICES: long runs of successive indices, each moved as one slice.
* DIRECT: one element after the other.
* GROUPED: elements that lie far apart, in two passes through shared memory, see `grouping`.
* INVERTED: a scatter to nearly all places, done as a gather. Reading elements that lie far apart
  costs half of what writing them does.
* COMBINED: a scatter whose duplicates are summed, or the least or largest of them is taken.

A plan travels to workers by pickling. `PlanCache` keeps plans by the content of the indices, and
what else is made from arrays and used again: matrices of weights and of meshes.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from halocline_engine.arguments import whole
from halocline_engine.errors import ArgumentError
from halocline_engine.kernels.indirect.grouping import Grouped, grouped
from halocline_engine.kernels.indirect.indices import (
    LEFT_OUT,
    Groups,
    group,
    keep_last,
    narrowest,
    resolve,
)
from halocline_engine.kernels.indirect.problem import Direction, Duplicates, Index, Policy
from halocline_engine.signatures import with_answers

__all__ = [
    "IndexFacts",
    "IndexPlan",
    "Kept",
    "PlanCache",
    "Run",
    "Strategy",
    "content_key",
    "facts_of",
    "inverted",
    "plan_key",
    "plan_transfer",
    "plans_of",
]

#: Bytes from which indices that lie far apart miss a device's cache.
_CACHE = 2**25
#: Elements of more bytes are moved in one pass: two of them read and write everything twice.
_GROUPED_BYTES = 16
#: Mean distance of successive indices up to which they are near.
_NEAR = 4096.0
#: Bytes of a mean run from which slices are worth a call each.
_LONG_RUN = 1 << 16
#: How often a plan must be used until grouping, which sorts the indices, has paid.
_WORTH_GROUPING = 4

#: Successive indices: first dense place, first index, how many.
Run = tuple[int, int, int]


class Strategy(Enum):
    """Method by which the elements of a plan are moved; see the head of this module."""

    SLICES = "slices"
    DIRECT = "direct"
    GROUPED = "grouped"
    INVERTED = "inverted"
    COMBINED = "combined"


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """Properties of indices: `low` and `high` are the least and the largest (0 and -1: none).

    `left_out` elements are not moved. `runs` counts the longest ranges of successive indices;
    `near` is the mean distance between one and the next.
    """

    count: int
    size: int
    low: int
    high: int
    left_out: int
    ascending: bool
    runs: int
    near: float


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
    inverse: Index | None = None
    groups: Groups | None = None
    duplicates: Duplicates = Duplicates.ERROR

    @property
    def near(self) -> bool:
        """Whether successive indices lie so near each other that a cache serves them."""
        return self.facts.near <= _NEAR

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        arrays: list[NDArray[Any]] = [self.index]
        if self.grouped is not None:
            arrays += self.grouped.arrays
        if self.inverse is not None:
            arrays.append(self.inverse)
        if self.groups is not None:
            arrays += [self.groups.places, self.groups.starts, self.groups.order]
        return sum(array.nbytes for array in arrays)


def facts_of(index: Index, size: int) -> IndexFacts:
    """Return what resolved indices are like."""
    kept = index[index >= 0] if index.size and index.min() < 0 else index
    steps = np.diff(kept.astype(np.int64, copy=False))
    return IndexFacts(
        count=index.size,
        size=size,
        low=int(kept.min()) if kept.size else 0,
        high=int(kept.max()) if kept.size else -1,
        left_out=index.size - kept.size,
        ascending=bool((steps >= 0).all()),
        runs=len(_run_starts(index)),
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
    cache: int = _CACHE,
    name: str = "index",
) -> IndexPlan:
    """Check and analyse one-dimensional indices of `size` elements.

    `uses` is how often the plan will be used, as far as that is known; `cache` are the bytes that
    stay in a device's cache. Raises `ArgumentError` for indices that the policy does not allow.
    """
    found = resolve(index, size, policy, name=name)
    scatters = direction is Direction.SCATTER
    reductions = (Duplicates.SUM, Duplicates.MIN, Duplicates.MAX)
    combined = scatters and policy.duplicates in reductions
    if scatters and not combined:
        found = keep_last(found, policy.duplicates, name=name)
    facts = facts_of(found, size)
    plan = IndexPlan(direction, size, found, facts, Strategy.COMBINED)
    if combined:
        return replace(plan, groups=group(found), duplicates=policy.duplicates)
    strategy = _strategy(facts, element_bytes, uses, cache, direction)
    inverse = passes = None
    if scatters and strategy in (Strategy.GROUPED, Strategy.INVERTED):
        inverse = inverted(found, size)
    if strategy is Strategy.GROUPED:
        taken = found if inverse is None else inverse
        passes = grouped(taken, found.size if scatters else size, element_bytes)
    runs = _runs(found) if strategy is Strategy.SLICES else ()
    return replace(plan, strategy=strategy, runs=runs, grouped=passes, inverse=inverse)


def inverted(index: Index, size: int) -> Index:
    """Return for each of `size` places which element a scatter puts there, -1 for none."""
    back = np.full(size, LEFT_OUT, np.int64)
    kept = np.flatnonzero(index >= 0)
    back[index[kept]] = kept
    return narrowest(back, index.size + 1)


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


def content_key(what: str, *parts: NDArray[Any] | str | float) -> str:
    """Return a name for what is made from arrays, texts and numbers, the same everywhere.

    >>> content_key("sum", np.arange(3)) == content_key("sum", np.arange(3), 0)
    False
    """
    digest = hashlib.blake2b(what.encode(), digest_size=20)
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(repr((part.dtype.str, part.shape)).encode())
            digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        else:
            digest.update(repr(part).encode())
    return f"{what}-{digest.hexdigest()}"


class Kept(Protocol):
    """Entry of a cache: it never changes, and knows its size."""

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        ...


_Kept = TypeVar("_Kept", bound=Kept)


def plans_of(given: object) -> PlanCache:
    """Return the argument `plans`, or one that is forgotten; raises `ArgumentError` for others."""
    if given is None:
        return PlanCache()
    if not isinstance(given, PlanCache):
        raise ArgumentError(
            f"Argument 'plans' must be a PlanCache, got the {type(given).__name__}.",
            hint="Leave it out, or keep one for several calls: plans=PlanCache().",
        )
    return given


@with_answers
class PlanCache:
    """A cache of analysed indices, weights and meshes, for calls that share them.

    Parameters
    ----------
    most : int, default: 2**30
        Bytes that it holds at most; what was used longest ago goes first.

    Raises
    ------
    ArgumentError
        `most` is not a whole number.

    Examples
    --------
    >>> import xarray as xr
    >>> import halocline_engine as he
    >>> plans = he.PlanCache()
    >>> dataset = xr.Dataset({"t": ("cell", [1.0, 2.0]), "at": ("point", [1])})
    >>> for _ in range(2):
    ...     result = he.gather(dataset, source="t", index="at", dim="cell", plans=plans)
    >>> result["gathered"].values.tolist()
    [2.0]

    """

    def __init__(self, most: int = 2**30) -> None:
        self._most = whole("most", most, 0)
        self._plans: OrderedDict[str, Kept] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str, make: Callable[[], _Kept]) -> _Kept:
        """Return a plan, or what else has that name; it is made where it is missing."""
        with self._lock:
            found = self._plans.get(key)
            if found is not None:
                self._plans.move_to_end(key)
                return cast("_Kept", found)
        made = make()
        with self._lock:
            self._plans[key] = made
            held = sum(plan.nbytes for plan in self._plans.values())
            while held > self._most:
                held -= self._plans.popitem(last=False)[1].nbytes
        return made


def _strategy(
    facts: IndexFacts, element_bytes: int, uses: int, cache: int, direction: Direction
) -> Strategy:
    moved = facts.count - facts.left_out
    if moved and moved * element_bytes >= facts.runs * _LONG_RUN:
        return Strategy.SLICES
    gathers = direction is Direction.GATHER
    far = facts.near * element_bytes > cache // 128 and not facts.ascending
    larger = (facts.high - facts.low + 1) * element_bytes > cache
    # A pass over all that may be read, or written, is worth it where much of it is named.
    dense = 2 * moved >= facts.size
    if not (far and larger and dense):
        return Strategy.DIRECT
    if uses >= _WORTH_GROUPING and element_bytes <= _GROUPED_BYTES:
        return Strategy.GROUPED
    return Strategy.DIRECT if gathers else Strategy.INVERTED


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
