"""Connections that are cut after chosen bytes, and objects that arrive changed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock
from urllib.parse import urlsplit

import httpx2
import numpy as np
import pytest
import xarray as xr

import halocline as hc
from halocline import Client
from halocline.config import Settings
from halocline.connection import Connection
from halocline.transfer.uploads import upload

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

DOUBLE = """
def double(t: Field[np.float64], s: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        s = t + t
"""


class Proxy:
    """Passes bytes on, and cuts the next connections after so many of a direction."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname, parts.port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._lock = threading.Lock()
        self._cuts: list[tuple[int | None, int | None]] = []
        self.made = 0
        self.cut = 0
        self.sent = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_next(self, *cuts: tuple[int | None, int | None]) -> None:
        """Cut the next connections after bytes of what is sent, or of what is answered."""
        with self._lock:
            self._cuts = list(cuts)

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                with self._lock:
                    self.made += 1
                    up, down = self._cuts.pop(0) if self._cuts else (None, None)
                try:
                    server = socket.create_connection(self._target)
                except OSError:
                    client.close()
                    continue
                for source, sink, most in ((client, server, up), (server, client, down)):
                    pass_on = threading.Thread(
                        target=self._pass_on, args=(source, sink, most), daemon=True
                    )
                    pass_on.start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, most: int | None) -> None:
        passed = 0
        with suppress(OSError):
            while piece := source.recv(4096):
                if most is not None and passed + len(piece) > most:
                    with suppress(OSError):
                        sink.sendall(piece[: most - passed])
                    with self._lock:
                        self.cut += 1
                    break
                sink.sendall(piece)
                passed += len(piece)
                with self._lock:
                    self.sent += len(piece)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@pytest.fixture
def proxy(service: str) -> Generator[Proxy]:
    made = Proxy(service)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "_delay", Mock(return_value=0.01))


def sea(seed: int) -> xr.Dataset:
    """Make a dataset of several objects, some of many kilobytes."""
    random = np.random.default_rng(seed)
    return xr.Dataset({"t": (("y", "x"), random.normal(size=(60, 400)))}, {"y": np.arange(60.0)})


CUTS = [0, 1, 50, 300, 700, 3000, 20_000]


@pytest.mark.parametrize("at", CUTS)
def test_a_lost_upload_goes_on(proxy: Proxy, service: str, at: int) -> None:
    proxy.cut_next(*[(at, None)] * 2, *[(None, at)] * 2)
    with Client(proxy.url) as client, Client(service) as direct:
        dataset = sea(at)
        reference = client.upload(dataset)
        job = direct.stencil(DOUBLE, reference, target="reference")
        s = job.result(progress=False)["s"].transpose("y", "x").to_numpy()
    np.testing.assert_array_equal(s, 2 * dataset["t"].to_numpy())
    assert proxy.made > 1


@pytest.mark.parametrize("at", CUTS)
def test_a_lost_wait_and_download_go_on(
    proxy: Proxy, service: str, tmp_path: Path, at: int
) -> None:
    dataset = sea(1)
    with Client(service) as direct, Client(proxy.url) as client:
        made = direct.stencil(DOUBLE, dataset, target="reference")
        proxy.cut_next(*[(None, at)] * 3)
        job = client.job(made.id)
        assert job.wait(timeout=60) == "successful"
        proxy.cut_next(*[(None, at)] * 3)
        job.download(tmp_path / "result.zarr", progress=False)
        with cast("Any", xr).open_zarr(tmp_path / "result.zarr", chunks=None) as result:
            s = result["s"].transpose("y", "x").to_numpy()
    np.testing.assert_array_equal(s, 2 * dataset["t"].to_numpy())
    assert proxy.made > 1


@contextmanager
def _stopped_after(puts: int) -> Generator[Callable[[httpx2.Request], httpx2.Response]]:
    """Give a transport's answer that passes requests on and fails all PUTs after some of them."""
    left = [puts]
    with httpx2.Client() as through:

        def answer(request: httpx2.Request) -> httpx2.Response:
            if request.method == "PUT":
                left[0] -= 1
                if left[0] < 0:
                    raise httpx2.ConnectError("gone")
            content = request.read()
            reply = through.request(
                request.method, str(request.url), headers=dict(request.headers), content=content
            )
            kept = {k: v for k, v in reply.headers.items() if k.lower() in ("etag", "content-type")}
            return httpx2.Response(reply.status_code, headers=kept, content=reply.content)

        yield answer


def test_an_upload_is_gone_on_with_by_another_process(service: str) -> None:
    dataset = xr.Dataset({f"v{number}": ("x", np.arange(9.0) + number) for number in range(12)})
    settings = Settings(service)
    with _stopped_after(9) as stopped:
        connection = Connection(settings, httpx2.MockTransport(stopped), sleep=lambda _: None)
        with pytest.raises(hc.ConnectionFailed):
            upload(connection, dataset, ())
    sent: list[str] = []

    def counted(request: httpx2.Request) -> httpx2.Response:
        sent.append(request.method)
        return answer(request)

    with _stopped_after(10**6) as answer:
        connection = Connection(settings, httpx2.MockTransport(counted), sleep=lambda _: None)
        reference = upload(connection, dataset, ())
    objects = 1 + 2 * 12  # metadata of the group; metadata and a chunk of each variable
    assert sent.count("PUT") == objects - 9
    with Client(service) as client:
        (told,) = [each for each in client.uploads.list() if each["reference"] == reference]
        assert told["status"] == "complete"
        client.uploads.remove(reference)


@contextmanager
def _changing(method: str) -> Generator[httpx2.MockTransport]:
    """Give a transport that changes the first byte of chunks that are sent or fetched."""
    with httpx2.Client() as through:

        def answer(request: httpx2.Request) -> httpx2.Response:
            content = request.read()
            is_chunk = "/c/" in request.url.path
            if request.method == method == "PUT" and is_chunk:
                content = b"!" + content[1:]
            reply = through.request(
                request.method, str(request.url), headers=dict(request.headers), content=content
            )
            body = reply.content
            if request.method == method == "GET" and is_chunk:
                body = b"!" + body[1:]
            kept = {k: v for k, v in reply.headers.items() if k.lower() in ("etag", "content-type")}
            return httpx2.Response(reply.status_code, headers=kept, content=body)

        yield httpx2.MockTransport(answer)


def test_corrupted_content_is_an_error(service: str, tmp_path: Path) -> None:
    with (
        _changing("PUT") as transport,
        Client(service, transport=transport) as client,
        pytest.raises(hc.ServiceError, match="was corrupted in transit: it has the SHA-256"),
    ):
        client.upload(sea(77))
    with Client(service) as direct:
        job = direct.stencil(DOUBLE, sea(3), target="reference")
        job.wait()
        assert [each for each in direct.uploads.list() if each["status"] == "open"] == []
    with (
        _changing("GET") as transport,
        Client(service, transport=transport) as client,
        pytest.raises(hc.ServiceError, match="was corrupted in transit: its SHA-256 differs"),
    ):
        client.job(job.id).download(tmp_path / "result.zarr", progress=False)
    assert not (tmp_path / "result.zarr").exists()
