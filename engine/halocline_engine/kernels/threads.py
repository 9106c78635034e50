"""Independent pieces of work in the threads of this process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

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
    with ThreadPoolExecutor(count, thread_name_prefix="halocline-solve") as executor:
        for done in executor.map(work, cuts[:-1], cuts[1:]):
            assert done is None
