"""Decoded chunks of stores, kept while there is room, so that neighbouring blocks share them.

A `CachedSource` reads boxes chunk by chunk through the cache of its process. What is forgotten
first is what was used longest ago; which chunks are kept depends on the order of the reads alone,
not on how long they take, so that fetches can be predicted and are counted.
"""

from __future__ import annotations

import functools
import itertools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.control.interruption import raise_if_interrupted
from halocline_engine.datasets.stores.source import Region, Source
from halocline_engine.processors import usable_processors
from halocline_engine.schedule.traversal.lru import LRU

__all__ = [
    "CachedSource",
    "Chunk",
    "ChunkCache",
    "Stored",
    "Tally",
    "chunks_in",
    "clear_cache",
    "common_cells",
    "counted",
]

#: As many chunks of a read are decoded at once, as Zarr does.
_AT_ONCE = 10
# A cache of a run that did not clear it is dropped when so many other runs have theirs.
_RUNS = 4


@dataclass(frozen=True, slots=True)
class Stored:
    """Storage of a variable: sizes of its dimensions and chunks, bytes of an element."""

    name: str
    sizes: tuple[int, ...]
    chunks: tuple[int, ...]
    itemsize: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk of a variable, by its place in the grid of chunks."""

    stored: Stored
    index: tuple[int, ...]

    @property
    def region(self) -> Region:
        """Its cells."""
        sides = zip(self.index, self.stored.chunks, self.stored.sizes, strict=True)
        return tuple(slice(at * step, min(size, (at + 1) * step)) for at, step, size in sides)

    @property
    def nbytes(self) -> int:
        """Its bytes when it is decoded, cut off where the data end."""
        return math.prod(part.stop - part.start for part in self.region) * self.stored.itemsize


def chunks_in(stored: Stored, region: Region) -> Iterator[Chunk]:
    """Yield the chunks that a region touches, the last dimension fastest.

    What interrupts the thread is raised between two of them.

    >>> stored = Stored("t", (10, 10), (4, 5), 8)
    >>> [chunk.index for chunk in chunks_in(stored, (slice(3, 5), slice(0, 5)))]
    [(0, 0), (1, 0)]
    """
    for index in itertools.product(*_ranges(stored, region)):
        raise_if_interrupted()
        yield Chunk(stored, index)


def _ranges(stored: Stored, region: Region) -> list[range]:
    """Return the places of the chunks that a region touches, along each dimension."""
    return [
        range(part.start // step, -(-part.stop // step) if part.stop > part.start else 0)
        for part, step in zip(region, stored.chunks, strict=True)
    ]


@dataclass(slots=True)
class Tally:
    """Numbers of chunks fetched from the store, and found in the cache."""

    fetches: int = 0
    hits: int = 0


#: Where a chunk is from, its variable, and its place there.
_Key = tuple[str, str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """A chunk that is here or on its way; it is fetched by whoever asked for it first."""

    key: _Key
    values: Future[NDArray[Any]] = field(default_factory=Future[NDArray[Any]])


class ChunkCache:
    """At most `limit` bytes of decoded chunks; several threads may use it.

    A chunk that is larger than the limit is not kept. `readers` chunks are fetched at once.
    """

    def __init__(self, limit: int, readers: int | None = None) -> None:
        self._readers = readers or min(_AT_ONCE, max(2, usable_processors()))
        self._recent = LRU[_Key](limit)
        self._entries: dict[_Key, _Entry] = {}
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None

    @property
    def nbytes(self) -> int:
        """The bytes of all chunks that are kept or on their way."""
        with self._lock:
            return self._recent.size

    def take(
        self,
        place: str,
        chunks: Sequence[Chunk],
        fetch: Callable[[Chunk], NDArray[Any]],
        tally: Tally,
    ) -> list[NDArray[Any]]:
        """Return the values of some chunks; those that are not here are fetched, and kept.

        What fetching a chunk raises is raised here and for whoever waits for it.
        """
        found: list[_Entry] = []
        missing: list[tuple[Chunk, _Entry]] = []
        with self._lock:
            for chunk in chunks:
                entry, new = self._enter((place, chunk.stored.name, chunk.index), chunk)
                found.append(entry)
                if new:
                    missing.append((chunk, entry))
            executor = self._threads() if len(missing) > 1 else None
        tally.fetches += len(missing)
        tally.hits += len(found) - len(missing)

        def one(item: tuple[Chunk, _Entry]) -> None:
            self._fetch(*item, fetch)

        for _ in executor.map(one, missing) if executor is not None else map(one, missing):
            pass
        return [entry.values.result() for entry in found]

    def clear(self) -> None:
        """Forget all chunks, and end the threads that fetched them."""
        with self._lock:
            self._entries.clear()
            self._recent.clear()
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown()

    def _enter(self, key: _Key, chunk: Chunk) -> tuple[_Entry, bool]:
        """Return the entry of a chunk, now the one that was used last, and whether it is new."""
        used = self._recent.use(key, chunk.nbytes)
        if used.hit:
            return self._entries[key], False
        entry = _Entry(key)
        if key in self._recent:
            self._entries[key] = entry
        for old in used.forgotten:
            del self._entries[old]
        return entry, True

    def _fetch(self, chunk: Chunk, entry: _Entry, fetch: Callable[[Chunk], NDArray[Any]]) -> None:
        """Fetch a chunk for all who wait for it; one that cannot be fetched is forgotten.

        What is raised reaches everyone with the values, so that no thread waits for ever.
        """
        try:
            entry.values.set_result(np.ascontiguousarray(fetch(chunk)))
        except BaseException as error:
            with self._lock:
                if self._entries.get(entry.key) is entry:
                    del self._entries[entry.key]
                    self._recent.drop(entry.key)
            entry.values.set_exception(error)

    def _threads(self) -> ThreadPoolExecutor:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._readers, thread_name_prefix="chunks")
        return self._executor


@dataclass(frozen=True, slots=True)
class CachedSource:
    """A source that is read chunk by chunk through a cache of `limit` bytes in each process.

    `place` tells sources apart, `run` caches. With a limit of 0, regions are read as they are, and
    the chunks that they touch are counted.
    """

    source: Source
    place: str
    variables: tuple[Stored, ...]
    limit: int
    run: str

    def read(self, name: str, region: Region) -> NDArray[Any]:
        """Return the decoded values of a region."""
        return self.fetch(name, region, Tally())

    def fetch(self, name: str, region: Region, tally: Tally) -> NDArray[Any]:
        """Return the decoded values of a region, and count what that took."""
        stored = next((one for one in self.variables if one.name == name), None)
        if stored is None:
            return self.source.read(name, region)
        if not self.limit:
            tally.fetches += math.prod(map(len, _ranges(stored, region)))
            return self.source.read(name, region)
        values: NDArray[Any] | None = None
        for chunk, held in self._held(stored, region, tally):
            if values is None:
                values = np.empty([side.stop - side.start for side in region], held.dtype)
            there, here = common_cells(chunk.region, region)
            values[there] = held[here]
        return values if values is not None else self.source.read(name, region)

    def fill(
        self, name: str, region: Region, into: NDArray[Any], tally: Tally, threads: Executor
    ) -> bool:
        """Fill an array with a region, some chunks at a time; False where nothing is kept."""
        stored = next((one for one in self.variables if one.name == name), None)
        if stored is None or not self.limit:
            return False

        def copy(item: tuple[Chunk, NDArray[Any]]) -> None:
            there, here = common_cells(item[0].region, region)
            into[there] = item[1][here]

        for _ in threads.map(copy, self._held(stored, region, tally)):
            pass
        return True

    def _held(
        self, stored: Stored, region: Region, tally: Tally
    ) -> Iterator[tuple[Chunk, NDArray[Any]]]:
        """Yield the chunks of a region with their values, in order."""
        cache, chunks = _cache_of(self.run, self.limit), chunks_in(stored, region)
        while part := list(itertools.islice(chunks, _AT_ONCE)):
            yield from zip(part, cache.take(self.place, part, self._values, tally), strict=True)

    def _values(self, chunk: Chunk) -> NDArray[Any]:
        return self.source.read(chunk.stored.name, chunk.region)


@dataclass(frozen=True, slots=True)
class _Counted:
    source: CachedSource
    tally: Tally

    def read(self, name: str, region: Region) -> NDArray[Any]:
        """Return the decoded values of a region."""
        return self.source.fetch(name, region, self.tally)


def counted(source: Source, tally: Tally) -> Source:
    """Return the source, whose fetches are counted where it reads through a cache."""
    return _Counted(source, tally) if isinstance(source, CachedSource) else source


def clear_cache(run: str, limit: int) -> None:
    """Forget in this process what a run has read."""
    _cache_of(run, limit).clear()


@functools.lru_cache(maxsize=_RUNS)
def _cache_of(run: str, limit: int) -> ChunkCache:  # noqa: ARG001 - part of the cache's key
    """Return the cache that all tasks of a run share in this process."""
    return ChunkCache(limit)


def common_cells(chunk: Region, region: Region) -> tuple[Region, Region]:
    """Return where the cells of both are, first in the region and then in the chunk."""
    starts = [max(a.start, b.start) for a, b in zip(chunk, region, strict=True)]
    stops = [min(a.stop, b.stop) for a, b in zip(chunk, region, strict=True)]
    ends = list(zip(starts, stops, strict=True))
    there = tuple(slice(a - r.start, b - r.start) for (a, b), r in zip(ends, region, strict=True))
    here = tuple(slice(a - c.start, b - c.start) for (a, b), c in zip(ends, chunk, strict=True))
    return there, here
