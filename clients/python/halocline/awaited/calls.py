"""Methods that are awaited, made of those of the same name that are not.

Each call is described once, by the method of `Client` or `Job`, and runs in a thread.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Concatenate, ParamSpec, TypeVar

__all__ = ["Awaiting", "awaited"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Awaiting:
    """Calls methods of `_wrapped` in threads."""

    _wrapped: Any
    _threads: ThreadPoolExecutor

    async def _run(self, function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        call = functools.partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


def awaited(
    method: Callable[Concatenate[Any, _P], _R],
) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, _R]]:
    """Return a method that awaits one of what it wraps."""

    @functools.wraps(method)
    async def call(self: Awaiting, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await self._run(method, self._wrapped, *args, **kwargs)  # pyright: ignore[reportPrivateUsage] - its own

    return call
