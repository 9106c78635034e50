"""Results that are read over HTTP: cut connections, large ones, and what is refused."""

from __future__ import annotations

import functools
import pickle
import subprocess
import sys
import threading
from collections.abc import Generator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import httpx2
import numpy as np
import pytest
import xarray as xr
import zarr
from tests.clients.test_cut_connections import Proxy
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from halocline import Client
from halocline.config import Settings
from halocline.connection import Connection
from halocline.errors import NotFoundError, ServiceError
from halocline.transfer.store import ResultStore, open_store

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

DOUBLE = """
def double(t: Field[float], twice: Field[float]):
    with computation(PARALLEL), interval(...):
        twice = 2.0 * t
"""
#: Of ten gigabytes and more.
SHAPE, CHUNK = (1300, 1000, 1000), (10, 500, 500)


@pytest.fixture(scope="module")
def proxy(service: str) -> Generator[Proxy]:
    made = Proxy(service)
    yield made
    made.close()


def test_connections_that_are_cut_are_made_again(proxy: Proxy) -> None:
    t = np.random.default_rng(1).normal(size=(60, 50))
    with Client(proxy.url) as client:
        job = client.stencil(
            DOUBLE, xr.Dataset({"t": (("y", "x"), t)}), chunks={"y": 20}, target="reference"
        )
        job.wait(timeout=60)
        cut = proxy.cut
        proxy.cut_next((None, 0), (None, 300), (10, None))
        result = job.result(progress=False)
        proxy.cut_next((None, 0), (None, 2000), (None, 500), (0, None))
        values = result["twice"].values
    assert np.array_equal(values, 2.0 * t)
    assert proxy.cut > cut


def test_a_result_outlives_its_client(proxy: Proxy) -> None:
    with Client(proxy.url) as client:
        job = client.stencil(DOUBLE, xr.Dataset({"t": (("y", "x"), np.ones((6, 5)))}))
        result = job.result(progress=False)
    assert float(result["twice"].sum()) == 60.0
    again = cast("xr.Dataset", pickle.loads(pickle.dumps(result)))
    assert float(again["twice"].sum()) == 60.0


class Counting(SimpleHTTPRequestHandler):
    """Serves a folder, and counts bytes."""

    sent = 0

    def copyfile(self, source: Any, outputfile: Any) -> None:
        content = source.read()
        Counting.sent += len(content)
        outputfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Keep quiet."""


@pytest.fixture
def large(tmp_path: Path) -> Generator[str]:
    """Give the address of a store of ten gigabytes of which two chunks are there."""
    made = cast("Any", zarr).open_group(str(tmp_path / "large.zarr"), mode="w")
    array = made.create_array(
        "t", shape=SHAPE, chunks=CHUNK, dtype="float64", dimension_names=("t", "y", "x")
    )
    array[0:10, 0:500, 0:500] = 1.0
    array[-1, -1, -1] = 7.0
    cast("Any", zarr).consolidate_metadata(str(tmp_path / "large.zarr"))
    Counting.sent = 0
    served = functools.partial(Counting, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), served) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_result_that_was_removed_is_an_error_and_no_fill_values(service: str) -> None:
    with Client(service) as client:
        data = xr.Dataset({"t": (("y", "x"), np.ones((3, 4)))})
        job = client.stencil(DOUBLE, data, target="reference")
        result = job.result(progress=False, timeout=60)
        plain = cast("Any", xr).open_zarr(job.result_url(), chunks=None)
        job.remove()
        with pytest.raises(NotFoundError, match=rf"^There is no job '{job.id}', and no result of"):
            cast("Any", result)["twice"].load()
        with pytest.raises(Exception, match="410"):
            plain["twice"].load()


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_ten_gigabytes_are_opened_and_a_part_is_read(large: str) -> None:
    result = open_store(Settings(large, None), f"{large}/large.zarr")
    assert result.nbytes > 10e9
    assert Counting.sent < 10_000
    assert float(result["t"][-1, -1, -1]) == 7.0
    assert float(result["t"][5, 3:6, 7].sum()) == 3.0
    assert float(result["t"][700, 400:405, 0].sum()) == 0.0
    assert Counting.sent < 1_000_000


def store(url: str) -> ResultStore:
    return ResultStore(Connection(Settings(url, None)), f"{url}/large.zarr")


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_a_store_is_read_and_nothing_else(large: str) -> None:
    made = store(large)
    assert made == pickle.loads(pickle.dumps(made))
    assert hash(made) == hash(store(large))
    assert str(made) == f"{large}/large.zarr"
    assert sync(made.exists("zarr.json"))
    assert not sync(made.exists("absent"))
    prototype = default_buffer_prototype()
    assert sync(made.get("absent", prototype)) is None
    with pytest.raises(ValueError, match=r"read-only|read only"):
        cast("Any", zarr).open_group(made, mode="w")
    for refused in (made.set("a", prototype.buffer.from_bytes(b"")), made.delete("a")):
        with pytest.raises(NotImplementedError, match="cannot be changed"):
            sync(refused)
    for listing in (made.list, lambda: made.list_dir(""), lambda: made.list_prefix("")):
        with pytest.raises(NotImplementedError):
            listing()


def test_parts_of_objects_are_asked_for(service: str) -> None:
    with Client(service) as client:
        job = client.stencil(DOUBLE, xr.Dataset({"t": (("y", "x"), np.ones((6, 5)))}))
        url = job.result_url()
        made = ResultStore(Connection(Settings(service, None)), url)
        prototype = default_buffer_prototype()
        whole = sync(made.get("zarr.json", prototype))
        assert whole is not None
        text = whole.to_bytes()
        asked = [RangeByteRequest(2, 9), OffsetByteRequest(5), SuffixByteRequest(4)]
        parts = sync(made.get_partial_values(prototype, [("zarr.json", one) for one in asked]))
        assert [part and part.to_bytes() for part in parts] == [text[2:9], text[5:], text[-4:]]
        made.close()
        assert sync(made.exists("zarr.json"))


def test_what_arrives_changed_is_refused(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(service) as client:
        job = client.stencil(DOUBLE, xr.Dataset({"t": (("y", "x"), np.ones((6, 5)))}))
        made = ResultStore(Connection(Settings(service, None)), job.result_url())
    send = Connection.send

    def changed(self: Connection, method: str, path: str, **others: Any) -> Any:
        answer = send(self, method, path, **others)
        content = answer.content[:-1] + b"?"
        return httpx2.Response(200, headers={"ETag": answer.headers["ETag"]}, content=content)

    monkeypatch.setattr(Connection, "send", changed)
    with pytest.raises(ServiceError) as caught:
        sync(made.get("zarr.json", default_buffer_prototype()))
    assert caught.value.message == (
        "The object 'zarr.json' of the result was corrupted in transit: its SHA-256 differs from "
        "that of the service."
    )


def test_importing_the_client_loads_no_zarr() -> None:
    code = "import sys, halocline; print('zarr' in sys.modules, 'xarray' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["False", "False"]
