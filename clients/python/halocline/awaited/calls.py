"""Coroutines that run the synchronous methods of `Client` and `Job` in threads."""

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
    """Base of classes that call methods of `_wrapped` in threads."""

    _wrapped: Any
    _threads: ThreadPoolExecutor

    async def _run(self, function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        call = functools.partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


def awaited(
    method: Callable[Concatenate[Any, _P], _R],
) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, _R]]:
    """Return a coroutine method that calls a method of the wrapped object in a thread."""

    @functools.wraps(method)
    async def call(self: Awaiting, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await self._run(method, self._wrapped, *args, **kwargs)  # pyright: ignore[reportPrivateUsage] - its own

    return call
