"""A proxy in front of a service whose connections can be cut."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress


class Proxy:
    """Forwards connections to a port of this machine, until `drop` cuts all that are open."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.dropped = 0

    def run(self) -> None:
        """Accept connections until `close`."""
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                with self._lock:
                    self._open |= {client, server}
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(65536):
                sink.sendall(piece)
        self._end(source, sink)

    def _end(self, *sockets: socket.socket) -> None:
        for each in sockets:
            with self._lock:
                is_mine = each in self._open
                self._open.discard(each)
            if is_mine:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()

    def drop(self) -> None:
        """Cut all connections."""
        with self._lock:
            cut = tuple(self._open)
        self.dropped += len(cut)
        self._end(*cut)

    def close(self) -> None:
        """Accept no more, and cut what is open."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()


@contextmanager
def dropping(target: int) -> Generator[Proxy]:
    """Put a proxy in front of a port."""
    proxy = Proxy(target)
    thread = threading.Thread(target=proxy.run, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join(10)
