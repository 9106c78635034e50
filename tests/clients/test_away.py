"""The command where the service is away, or something else answers: its words and exit status."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import httpx2
import pytest
import xarray as xr

from halocline.command.cli import main
from halocline.config import Settings
from halocline.connection import Connection
from halocline.errors import ForbiddenError
from halocline.transfer.uploads import upload

Serve = Callable[[bytes], str]


@pytest.fixture
def serve() -> Generator[Serve]:
    """Give a function that starts a server which answers every request with some bytes."""
    made: list[socket.socket] = []

    def start(answer: bytes) -> str:
        listening = socket.create_server(("127.0.0.1", 0))
        made.append(listening)

        def run() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    if answer:
                        connection.recv(65536)
                        connection.sendall(answer)

        threading.Thread(target=run, daemon=True).start()
        return f"http://127.0.0.1:{listening.getsockname()[1]}"

    yield start
    for listening in made:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "_delay", Mock(return_value=0.0))


def answer(status: str, body: bytes, kind: str) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert isinstance(ended.value.code, int)
    out, told = capsys.readouterr()
    return ended.value.code, out, told


COMMANDS = (["ls"], ["show", "x" * 36], ["cancel", "x" * 36], ["logs", "x" * 36])


@pytest.mark.parametrize("words", COMMANDS)
def test_nobody_answers(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    code, out, told = run(capsys, *words, "--url", f"http://127.0.0.1:{port}")
    assert (code, out) == (5, "")
    assert told.startswith(f"error: No service answers at 'http://127.0.0.1:{port}' (ConnectError")
    assert told.splitlines()[1].startswith("hint: Start one with 'halocline-server up'")


@pytest.mark.parametrize("bytes_", [b"", b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 200 OK\r\n"])
def test_something_closes_the_connection(
    capsys: pytest.CaptureFixture[str], serve: Serve, bytes_: bytes
) -> None:
    code, out, told = run(capsys, "ls", "--url", serve(bytes_))
    assert (code, out) == (5, "")
    assert told.startswith("error: The service at 'http://127.0.0.1:")
    assert len(told.splitlines()) == 2


def test_the_database_is_away(capsys: pytest.CaptureFixture[str], serve: Serve) -> None:
    problem = {"code": "unavailable", "detail": "The database does not answer.", "hint": "Wait."}
    body = json.dumps(problem).encode()
    url = serve(answer("503 Service Unavailable", body, "application/problem+json"))
    code, out, told = run(capsys, "ls", "--url", url)
    assert (code, out, told) == (5, "", "error: The database does not answer.\nhint: Wait.\n")
    code, out, told = run(capsys, "ls", "--url", url, "--json")
    assert (code, out, json.loads(told)) == (5, "", problem | {"message": problem["detail"]})


@pytest.mark.parametrize("words", COMMANDS)
def test_something_else_answers(
    capsys: pytest.CaptureFixture[str], serve: Serve, words: list[str]
) -> None:
    for reply in (
        answer("200 OK", b"<h1>Welcome</h1>", "text/html"),
        answer("200 OK", b'{"hello": 1}', "application/json"),
        answer("200 OK", b"[]", "application/json"),
        answer("404 Not Found", b"<h1>Not here</h1>", "text/html"),
    ):
        code, out, told = run(capsys, *words, "--url", serve(reply))
        assert (code, out) == (1, "")
        assert told.splitlines()[1] == "hint: Check that a Halocline service is at this address."


def test_an_upload_that_fails_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what was not sent yet is not sent any more."""
    asked: list[str] = []
    given_up = threading.Event()

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            given_up.set()
            super().shutdown(wait)

    monkeypatch.setattr("halocline.transfer.sending.ThreadPoolExecutor", Pool)
    monkeypatch.setattr("halocline.transfer.sending._WORKERS", 1)

    def reply(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.method)
        if request.method == "POST":
            given_up.clear()  # the objects were read, and none is sent yet
            made = {"id": "u", "href": "http://a/uploads/u.zarr", "reference": "upload:u"}
            return httpx2.Response(201, json=made)
        if asked.count("PUT") > 1:
            assert given_up.wait(20)
        if request.method == "HEAD":
            return httpx2.Response(404)
        return httpx2.Response(403 if request.method == "PUT" else 204)

    connection = Connection(Settings("http://a", None), httpx2.MockTransport(reply))
    dataset = xr.Dataset({f"v{number}": ("x", [1.0]) for number in range(200)})
    with pytest.raises(ForbiddenError):
        upload(connection, dataset, ())
    assert asked[0] == "POST"
    assert asked[-1] == "DELETE"
    assert asked.count("PUT") < 200
