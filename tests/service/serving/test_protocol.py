"""Peers that send or read too slowly are cut off, and stop nobody else."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from deadlines import until

from halocline_service.serving import protocol
from halocline_service.serving.server import configure, room
from halocline_service.settings import Settings

PATIENCE = 0.5
ALIVE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Read the body, and answer by as many bytes as the path says."""
    while (await receive()).get("more_body", False):
        pass
    size = int(scope["path"].strip("/").replace("livez", "") or 0)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(size // 65_536):
        await send({"type": "http.response.body", "body": bytes(65_536), "more_body": True})
    await send({"type": "http.response.body", "body": b"end"})


@contextmanager
def serving(folder: Path, **given: Any) -> Generator[int]:
    settings = Settings.model_validate(
        {"data_dir": folder, "patience_seconds": PATIENCE, "port": 0} | given
    )
    config = configure(app, settings, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def port(tmp_path: Path) -> Generator[int]:
    with serving(tmp_path) as number:
        yield number


def connect(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port))
    made.settimeout(30)
    return made


def is_ended(peer: socket.socket) -> bool:
    """Read to the end; raises where it does not come."""
    with suppress(ConnectionResetError):
        is_read(peer)
    return True


def is_read(peer: socket.socket) -> bool:
    while peer.recv(65_536):
        pass
    return True


def answers(port: int) -> bool:
    with closing(connect(port)) as peer:
        peer.sendall(ALIVE)
        return peer.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: local", ALIVE + b"GET /"])
def test_half_a_header_is_not_waited_for(port: int, sent: bytes) -> None:
    with closing(connect(port)) as peer:
        peer.sendall(sent)
        assert is_ended(peer)


def trickles(port: int, start: bytes, piece: bytes) -> None:
    """Send a piece now and then until the connection ends."""
    end = time.monotonic() + 20
    with closing(connect(port)) as peer:
        peer.sendall(start)
        while time.monotonic() < end:
            time.sleep(PATIENCE / 10)
            try:
                peer.sendall(piece)
            except (BrokenPipeError, ConnectionResetError):
                return
    pytest.fail("the connection was left open")


def test_a_header_that_trickles_is_cut_off(port: int) -> None:
    trickles(port, b"GET / HTTP/1.1\r\n", b"x: y\r\n")


def test_a_body_that_trickles_is_cut_off(port: int) -> None:
    trickles(port, b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n", b"x")


def test_a_chunked_body_that_trickles_is_cut_off(port: int) -> None:
    chunked = b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    trickles(port, chunked, b"1\r\nx\r\n")


def test_a_body_in_its_time_is_taken(port: int) -> None:
    """Slow, longer than the patience, and above the rate."""
    with closing(connect(port)) as peer:
        peer.sendall(b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n")
        for _ in range(10):
            peer.sendall(bytes(10_000))
            time.sleep(2 * PATIENCE / 10)
        assert peer.recv(12) == b"HTTP/1.1 200"


def test_an_answer_that_is_not_read_is_cut_off(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "BYTES_PER_SECOND", 2**20)  # the buffer has its time, too
    with closing(connect(port)) as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.sendall(b"GET /100000000 HTTP/1.1\r\nHost: a\r\n\r\n")
        poll = select.poll()
        poll.register(peer, 0)  # tells of errors only
        assert poll.poll(20_000)
        with pytest.raises(ConnectionResetError):
            is_read(peer)


def test_an_answer_that_is_read_comes_whole(port: int) -> None:
    size = 65_536 * 200
    with closing(connect(port)) as peer:
        peer.sendall(b"GET /%d HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % size)
        got = 0
        while piece := peer.recv(65_536):
            got += len(piece)
            if got < 2**20:
                time.sleep(PATIENCE / 10)
        assert got > size


def test_many_that_send_nothing_stop_nobody(tmp_path: Path) -> None:
    few = {"connections_per_address": 50, "patience_seconds": 60}
    with ExitStack() as opened, serving(tmp_path, **few) as port:
        poll = select.poll()
        for _ in range(300):
            half = opened.enter_context(closing(connect(port)))
            with suppress(ConnectionError):
                half.sendall(b"GET /livez HTTP/1.1\r\nHost: loc")
            poll.register(half, 0)  # tells of errors only
        assert answers(port)  # before those have lost the server's patience
        assert len(poll.poll(0)) > 240


def test_there_are_files_for_connections() -> None:
    assert room(20) == 20
    assert room(10**9) < 10**9
