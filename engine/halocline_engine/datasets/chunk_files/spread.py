"""Work that is spread over threads, of which nothing is under way any more when it is over."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, Executor, wait
from typing import TypeVar

__all__ = ["spread"]

_Item = TypeVar("_Item")
_Made = TypeVar("_Made")


def spread(
    work: Callable[[_Item], _Made], items: Iterable[_Item], threads: Executor | None
) -> list[_Made]:
    """Return what `work` makes of each item, in order; without threads this one does all.

    Where one raises, that is raised when all others have ended; what had not begun is not done.
    """
    if threads is None:
        return [work(item) for item in items]
    futures = [threads.submit(work, item) for item in items]
    try:
        done, rest = wait(futures, return_when=FIRST_EXCEPTION)
        if rest:
            for future in rest:
                future.cancel()
            wait(rest)
            raise next(error for one in done if (error := one.exception()) is not None)
        return [future.result() for future in futures]
    finally:
        futures.clear()
