"""Few requests that change something are at work at a time; the others wait, and hold no thread.

While the database is locked, each of them waits for it in a thread. Those who read then still have
threads, and whoever sends many requests waits for his own.
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

#: What ends the turn of a request before its answer, in its state.
END_TURN = "end_turn"

_AT_ONCE = 16
_OF_ONE = 4
_SECONDS = 5.0
# PUT has threads for moments only, and its body may take its time.
_OTHERS = frozenset({"GET", "HEAD", "OPTIONS", "PUT"})


class Writers:
    """Lets requests with bodies of up to `largest` bytes take turns, once their bodies are there.

    Who asks is told by the credentials as they are; they are checked later.
    """

    def __init__(self, app: ASGIApp, largest: int, public_url: str | None) -> None:
        self.app = app
        self.largest = largest
        self.public_url = public_url
        self._turns = _WriteLocks()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on when it is its turn."""
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
        """Take the body, or so much of it as the framework refuses."""
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
        """Wait for a turn and have it."""
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
        hint="Send the request again later; nothing of it has happened.",
        headers={"Retry-After": "2"},
    )


def _replay(messages: list[Message], receive: Receive) -> Receive:
    rest = iter(messages)

    async def replayed() -> Message:
        return next(rest, None) or await receive()

    return replayed
