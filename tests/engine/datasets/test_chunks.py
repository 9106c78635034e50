"""The cache of decoded chunks: what it keeps, what it counts, and threads that share it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lru import misses
from numpy.typing import NDArray

from halocline_engine.datasets.stores.chunks import (
    CachedSource,
    ChunkCache,
    Stored,
    Tally,
    chunks_in,
    clear_cache,
    counted,
)
from halocline_engine.datasets.stores.source import Region

VALUES = np.random.default_rng(1).normal(size=(11, 7, 5))
STORED = Stored("t", VALUES.shape, (4, 3, 5), 8)
CHUNK = 4 * 3 * 5 * 8


class Counting:
    """A source that says how often each region was read, and waits or fails where told."""

    def __init__(self, wait: threading.Barrier | None = None) -> None:
        self.reads: list[Region] = []
        self.broken = False
        self._wait = wait

    def read(self, name: str, region: Region) -> NDArray[Any]:
        assert name == "t"
        self.reads.append(region)
        if self._wait is not None:
            self._wait.wait(10)
        if self.broken:
            raise OSError("The disk is gone.")
        return VALUES[region]


def cached(source: Counting, limit: int, run: str) -> CachedSource:
    return CachedSource(source, "here", (STORED,), limit, run)


BOX = st.tuples(*(st.tuples(st.integers(0, n), st.integers(0, n)) for n in VALUES.shape))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(BOX, min_size=1, max_size=8), st.integers(0, 9))
def test_boxes_are_those_of_the_source_and_fetches_those_of_the_simulator(
    boxes: list[Any], room: int
) -> None:
    source = Counting()
    through, tally = cached(source, room * CHUNK, "boxes"), Tally()
    clear_cache("boxes", room * CHUNK)
    touched: list[int] = []
    for box in boxes:
        region = tuple(slice(min(a, b), max(a, b)) for a, b in box)
        np.testing.assert_array_equal(through.fetch("t", region, tally), VALUES[region])
        if all(side.stop > side.start for side in region):
            touched += [hash(chunk.index) for chunk in chunks_in(STORED, region)]
    # Chunks at the ends are smaller, so the cache may hold more of them than the simulator's.
    whole = misses(touched, room) if room else len(touched)
    assert tally.fetches <= whole
    if room >= 9 or not room:
        assert tally.fetches == whole


def test_bytes_stay_below_the_limit_and_large_chunks_are_not_kept() -> None:
    cache, tally = ChunkCache(3 * CHUNK), Tally()
    chunks = list(chunks_in(STORED, tuple(slice(0, n) for n in VALUES.shape)))
    for chunk in chunks:
        cache.take("here", [chunk], lambda one: VALUES[one.region], tally)
        assert cache.nbytes <= 3 * CHUNK
    assert tally.fetches == len(chunks)
    small = ChunkCache(CHUNK - 1)
    for _ in range(2):
        small.take("here", [chunks[0]], lambda one: VALUES[one.region], tally)
    assert (small.nbytes, tally.fetches) == (0, len(chunks) + 2)
    cache.clear()
    assert cache.nbytes == 0


def test_threads_that_want_one_chunk_fetch_it_once() -> None:
    entered, go = threading.Event(), threading.Event()
    fetched: list[int] = []
    cache, tallies = ChunkCache(10 * CHUNK), [Tally() for _ in range(4)]
    chunk = next(chunks_in(STORED, (slice(0, 1),) * 3))

    def fetch(one: Any) -> NDArray[Any]:
        fetched.append(1)
        entered.set()
        assert go.wait(10)
        return VALUES[one.region]

    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(cache.take, "here", [chunk], fetch, tallies[0])
        assert entered.wait(10)
        others = [threads.submit(cache.take, "here", [chunk], fetch, t) for t in tallies[1:]]
        go.set()
        for done in (first, *others):
            np.testing.assert_array_equal(done.result(10)[0], VALUES[chunk.region])
    assert len(fetched) == sum(tally.fetches for tally in tallies) == 1
    assert sum(tally.hits for tally in tallies) == 3


def test_chunks_of_one_read_are_fetched_at_once() -> None:
    source = Counting(threading.Barrier(2))
    everything = (slice(0, 8), slice(0, 3), slice(0, 5))
    got = cached(source, 10 * CHUNK, "at once").read("t", everything)
    np.testing.assert_array_equal(got, VALUES[everything])
    clear_cache("at once", 10 * CHUNK)


def test_a_chunk_that_cannot_be_fetched_is_tried_again() -> None:
    source = Counting()
    through = cached(source, 10 * CHUNK, "broken")
    everything = tuple(slice(0, n) for n in VALUES.shape)
    source.broken = True
    with pytest.raises(OSError, match="The disk is gone"):
        through.read("t", everything)
    source.broken = False
    np.testing.assert_array_equal(through.read("t", everything), VALUES)
    clear_cache("broken", 10 * CHUNK)


def test_what_is_not_known_to_be_stored_is_read_as_it_is() -> None:
    source, tally = Counting(), Tally()
    bare = CachedSource(source, "here", (), 10 * CHUNK, "bare")
    assert counted(source, tally) is source
    region = (slice(1, 3), slice(2, 7), slice(0, 5))
    np.testing.assert_array_equal(counted(bare, tally).read("t", region), VALUES[region])
    assert (source.reads, tally) == ([region], Tally())
