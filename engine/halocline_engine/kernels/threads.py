"""Independent pieces of work in the threads of this process."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache
from itertools import pairwise

__all__ = ["spread"]


def spread(pieces: int, threads: int, work: Callable[[int, int], None]) -> None:
    """Call `work(first, past)` for ranges that cover `pieces`, each in a thread.

    What a range does must not depend on the other ranges; `work` should release the interpreter.

    >>> done = []
    >>> spread(5, 1, lambda first, past: done.append((first, past)))
    >>> done
    [(0, 5)]
    """
    count = max(1, min(threads, pieces))
    if count == 1:
        work(0, pieces)
        return
    cuts = [pieces * part // count for part in range(count + 1)]
    left = deque(pairwise(cuts))

    def some() -> None:
        while True:
            try:
                first, past = left.popleft()
            except IndexError:
                return
            work(first, past)

    # This thread works too, so that calls within a range end where no other thread is free.
    others = [_pool(os.getpid()).submit(some) for _ in range(count - 1)]
    try:
        some()
    finally:
        wait([other for other in others if not other.cancel()])
    for other in others:
        if not other.cancelled():
            other.result()


@lru_cache(1)
def _pool(_process: int) -> ThreadPoolExecutor:
    """Return the threads of a process; one that was forked has none of those before."""
    return ThreadPoolExecutor(thread_name_prefix="halocline-kernels")
