"""Content of a cache that evicts the least recently used: one rule for any level.

The cache of decoded chunks keeps to it, the plan counts fetches by it, and pictures show it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["LRU", "Use"]

_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Use(Generic[_Key]):
    """Outcome of a use: whether the key was held, and the keys that are forgotten for it."""

    hit: bool
    forgotten: tuple[_Key, ...] = ()


class LRU(Generic[_Key]):
    """Keys held, of sizes that add up to at most `limit`, which may change between uses.

    What is larger than the limit is never held.

    >>> recent = LRU[str](3)
    >>> [recent.use(key, size).hit for key, size in (("a", 2), ("b", 1), ("a", 2), ("d", 4))]
    [False, False, True, False]
    >>> recent.use("c", 1).forgotten, "d" in recent, recent.size
    (('b',), False, 3)
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self._sizes: OrderedDict[_Key, int] = OrderedDict()

    def __contains__(self, key: _Key) -> bool:
        """Whether a key is held."""
        return key in self._sizes

    def use(self, key: _Key, size: int = 1) -> Use[_Key]:
        """Use a key, which is held from then on if it is not too large."""
        if key in self._sizes:
            self._sizes.move_to_end(key)
            return Use(hit=True)
        if size > self.limit:
            return Use(hit=False)
        self._sizes[key] = size
        self.size += size
        forgotten: list[_Key] = []
        while self.size > self.limit:
            old, freed = self._sizes.popitem(last=False)
            self.size -= freed
            forgotten.append(old)
        return Use(hit=False, forgotten=tuple(forgotten))

    def drop(self, key: _Key) -> None:
        """Forget a key, if it is held."""
        self.size -= self._sizes.pop(key, 0)

    def clear(self) -> None:
        """Forget all."""
        self._sizes.clear()
        self.size = 0
