"""HTTP/1.1 of uvicorn, with an end to every wait for a peer.

uvicorn closes connections that are idle after a request, and waits without end for a header, for
the rest of a body, and for a peer to read.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any, cast

from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from halocline_service.serving.connections import Connections, Stage, Wait

__all__ = ["BYTES_PER_SECOND", "BoundedProtocol"]

#: The least rate, on average, at which bodies come and answers are read.
BYTES_PER_SECOND = 10 * 1024
_LOOKS_PER_PATIENCE = 10
_REASONS = {
    Stage.HEADER: "the header took too long",
    Stage.BODY: "the body took too long",
    Stage.READING: "the answer was not read",
}


class BoundedProtocol(H11Protocol):
    """A connection whose peer may keep the server waiting for some seconds only.

    `patience` is how long, in seconds, a peer may take for a header; for a body or an answer it
    may take so long and the time for its bytes at `BYTES_PER_SECOND`.
    """

    def __init__(
        self,
        connections: Connections,
        patience: float,
        *,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._register = connections
        self._patience = patience
        self._began = self.loop.time()  # of the wait for a header, or of the request
        self._received = 0  # bytes since
        self._unread: tuple[float, int] | None = None  # since when, and how many bytes then
        self._timer: asyncio.TimerHandle | None = None

    @property
    def peer(self) -> str:
        """Give the address of the other side."""
        return self.client[0] if self.client else ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, and look at it from now on."""
        super().connection_made(transport)
        self._register.admit(self)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count the connection no more."""
        super().connection_lost(exc)
        self._register.release(self)
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request."""
        before = self.cycle
        self._received += len(data)
        super().data_received(data)
        if self.cycle is not before:
            self._restart()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._restart()
        super().on_response_complete()

    def resume_writing(self) -> None:
        """Go on with an answer that is being read."""
        self._unread = None
        super().resume_writing()

    def _restart(self) -> None:
        self._began, self._received = self.loop.time(), 0

    def wait(self) -> Wait | None:
        """Tell what the connection waits for; None while the server is at work for it."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if self._unread is not None:
            return Wait(Stage.READING, self._left(*self._unread))
        if cycle is None or cycle.response_complete:
            return Wait(Stage.HEADER, self._left(self._began, 0))
        if cycle.more_body and not (self.flow.read_paused or cycle.waiting_for_100_continue):
            return Wait(Stage.BODY, self._left(self._began, self._received))
        return None

    def _left(self, began: float, size: int) -> float:
        """Give how many seconds a peer has left that has taken or must take so many bytes."""
        return began + self._patience + size / BYTES_PER_SECOND - self.loop.time()

    def end(self, reason: str) -> None:
        """End the connection at once; the system keeps nothing that was not read either."""
        self.logger.info("%s - connection ended: %s", self.peer, reason)
        peer: socket.socket = self.transport.get_extra_info("socket")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _look(self) -> None:
        self._timer = self.loop.call_later(self._patience / _LOOKS_PER_PATIENCE, self._look)
        unread = self.transport.get_write_buffer_size()
        if not unread:
            self._unread = None
        elif self._unread is None:
            self._unread = (self.loop.time(), unread)
        wait = self.wait()
        if wait is not None and wait.left < 0:
            self.end(_REASONS[wait.stage])
