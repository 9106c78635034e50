"""Limit of concurrent requests that write; further ones wait without a thread.

While the database is locked, each writer waits in a thread. The limit leaves threads to readers,
and a limit for each client leaves turns to other clients.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
from anyio import Semaphore
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from halocline_service.api.problems import ProblemError
from halocline_service.api.requests.middleware import origin, send_problem
from halocline_service.datasets.json_text import check_json

__all__ = ["END_TURN", "Writers"]

#: Member of a request's state: a function that ends its turn before the response.
END_TURN = "end_turn"

_AT_ONCE = 16
_OF_ONE = 4
_SECONDS = 5.0
# PUT needs threads only briefly, and its body may take long to arrive.
_OTHERS = frozenset({"GET", "HEAD", "OPTIONS", "PUT"})


class Writers:
    """Middleware in which writing requests take turns, after their bodies are received.

    Bodies have up to `largest` bytes. Clients are distinguished by their unchecked credentials.
    """

    def __init__(self, app: ASGIApp, largest: int, public_url: str | None) -> None:
        self.app = app
        self.largest = largest
        self.public_url = public_url
        self._turns = _WriteLocks()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request when it has its turn."""
        if scope["type"] != "http" or scope["method"] in _OTHERS:
            await self.app(scope, receive, send)
            return
        messages = await self._received(receive)
        try:
            check_json(b"".join(message.get("body", b"") for message in messages))
        except ValueError as error:
            await send_problem(scope, send, self.public_url or origin(scope), _unread(error))
            return
        asker = Headers(scope=scope).get("authorization", "")
        async with AsyncExitStack() as turn:
            try:
                with anyio.fail_after(_SECONDS):
                    await turn.enter_async_context(self._turns.take(asker))
            except TimeoutError:
                await send_problem(scope, send, self.public_url or origin(scope), _busy())
                return
            scope.setdefault("state", {})[END_TURN] = turn.aclose
            await self.app(scope, _replay(messages, receive), send)

    async def _received(self, receive: Receive) -> list[Message]:
        """Receive the body, up to the size that the framework refuses."""
        messages = [await receive()]
        size = len(messages[-1].get("body", b""))
        while messages[-1].get("more_body", False) and size <= self.largest:
            messages.append(await receive())
            size += len(messages[-1].get("body", b""))
        return messages


class _WriteLocks:
    def __init__(self) -> None:
        self._all = Semaphore(_AT_ONCE)
        self._mine: dict[str, Semaphore] = {}
        self._askers: Counter[str] = Counter()

    @asynccontextmanager
    async def take(self, asker: str) -> AsyncGenerator[None]:
        """Wait for a turn, and hold it while the context lasts."""
        self._askers[asker] += 1
        try:
            async with self._mine.setdefault(asker, Semaphore(_OF_ONE)), self._all:
                yield
        finally:
            self._askers[asker] -= 1
            if not self._askers[asker]:
                del self._askers[asker], self._mine[asker]


def _unread(error: ValueError) -> ProblemError:
    return ProblemError(
        "argument",
        f"The body of the request cannot be read: {error}.",
        hint="Write it as the description of the process shows.",
    )


def _busy() -> ProblemError:
    return ProblemError(
        "unavailable",
        "Too many requests are being worked on.",
        hint="Send the request again later; it had no effect.",
        headers={"Retry-After": "2"},
    )


def _replay(messages: list[Message], receive: Receive) -> Receive:
    rest = iter(messages)

    async def replayed() -> Message:
        return next(rest, None) or await receive()

    return replayed
