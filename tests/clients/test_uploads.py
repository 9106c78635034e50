"""Datasets that are sent once, listed, and deleted."""

from __future__ import annotations

import json
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import httpx2
import numpy as np
import pytest
import xarray as xr
from tests.clients.conftest import serving, settings_for

from halocline import Client, ConflictError, DatasetError, NotFoundError
from halocline.command.cli import main
from halocline.config import Settings
from halocline.connection import Connection
from halocline.transfer.submission import execute
from halocline.transfer.uploads import Reference, upload
from halocline_service.store.base import Store

PROGRAM = """
def double(sst: Field[np.float64], out: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        out = sst + sst
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[str, Store]]:
    settings = settings_for(tmp_path_factory.mktemp("service"), "none")
    settings = settings.model_copy(update={"uploads_per_owner": 5})
    with serving(settings) as store:
        yield f"http://127.0.0.1:{settings.port}", store


@pytest.fixture
def client(service: tuple[str, Store]) -> Generator[Client]:
    with Client(service[0]) as made:
        yield made
        for job in made.jobs():
            job.remove()
        for each in made.uploads.list():
            made.uploads.remove(str(each["id"]))


def sea(seed: int = 1) -> xr.Dataset:
    values = np.random.default_rng(seed).normal(size=(6, 8))
    return xr.Dataset({"sst": (("y", "x"), values)}, {"y": np.arange(6.0), "x": np.arange(8.0)})


def submitted(client: Client, dataset: Any) -> Any:
    return client.stencil(PROGRAM, dataset, target="reference")


def ids(client: Client) -> list[str]:
    return [str(each["id"]) for each in client.uploads.list()]


def test_a_dataset_is_sent_once_for_all_its_jobs(client: Client, tmp_path: Path) -> None:
    """More of them than uploads are allowed; from memory, from a file, and in other chunks."""
    cast("Any", sea()).to_netcdf(tmp_path / "sea.nc")
    datasets = [sea(), sea(), str(tmp_path / "sea.nc"), *(sea() for _ in range(5))]
    jobs = [submitted(client, each) for each in datasets]
    assert len(ids(client)) == 1
    assert all(job.wait(progress=False) == "successful" for job in jobs)
    for job in jobs[:-1]:
        job.remove()
    assert len(ids(client)) == 1
    jobs[-1].remove()
    assert ids(client) == []


def test_arrays_of_dask_are_sent_whatever_their_chunks(client: Client) -> None:
    chunked = cast("Any", sea()).chunk({"x": (1, 2, 5)})
    job = submitted(client, chunked)
    found = job.result(progress=False, timeout=60)
    np.testing.assert_array_equal(found["out"], 2.0 * sea()["sst"])


def test_more_submissions_than_uploads_are_allowed(client: Client) -> None:
    """Of different datasets: what was sent goes with its job."""
    for seed in range(8):
        job = submitted(client, sea(seed))
        job.wait(progress=False)
        job.remove()
    assert ids(client) == []


def test_an_upload_stays_until_it_is_removed(client: Client) -> None:
    job = submitted(client, sea())
    reference = client.upload(sea())
    assert [f"upload:{each}" for each in ids(client)] == [reference]
    job.remove()
    assert [f"upload:{each}" for each in ids(client)] == [reference]
    (told,) = client.uploads.list()
    assert (told["status"], told["kept"]) == ("complete", True)
    client.uploads.remove(reference)
    assert client.uploads.list() == []
    with pytest.raises(NotFoundError, match="There is no upload"):
        client.uploads.remove(reference)


def test_an_upload_that_is_read_is_not_removed(client: Client, service: tuple[str, Store]) -> None:
    reference = client.upload(sea())
    inputs = {"program": PROGRAM, "dataset": reference, "target": "reference", "steps": 100_000}
    inputs |= {"feedback": {"out": "sst"}}
    job = client.submit("stencil", inputs)
    with pytest.raises(ConflictError, match=f"'{reference}' cannot be deleted"):
        client.uploads.remove(reference)
    job.remove()


def test_submissions_at_once_all_work(client: Client) -> None:
    """While others of the same dataset are removed, with all that only they read."""
    with ThreadPoolExecutor(4) as pool:

        def turn(_: int) -> str:
            job = submitted(client, sea())
            status = job.wait(progress=False)
            job.remove()
            return status

        assert set(pool.map(turn, range(12))) == {"successful"}
    assert ids(client) == []


def test_what_went_just_before_a_job_came_is_sent_again(
    client: Client, service: tuple[str, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, left = service[1], [2]
    add = store.jobs.add

    def late(*given: Any, **more: Any) -> Any:
        if left[0]:
            left[0] -= 1
            for each in ids(client):
                assert store.uploads.remove(each, owner="local")
        return add(*given, **more)

    monkeypatch.setattr(store.jobs, "add", late)
    assert submitted(client, sea()).wait(progress=False) == "successful"
    assert left == [0]
    assert len(ids(client)) == 1


class _Sent(Reference):
    """A dataset that is sent, and is gone when the job comes."""

    def __call__(self) -> str:
        return "upload:u"

    def outline(self) -> None:
        return None


def test_it_is_not_sent_again_for_ever() -> None:
    asked: list[str] = []

    def reply(_: httpx2.Request) -> httpx2.Response:
        asked.append("POST")
        problem = {"code": "dataset", "detail": "There is no upload 'u'.", "missing": "upload:u"}
        return httpx2.Response(404, json=problem)

    connection = Connection(Settings("http://a", None), httpx2.MockTransport(reply))
    with pytest.raises(DatasetError, match="There is no upload 'u'"):
        execute(connection, "stencil", {"dataset": _Sent(connection, "u")})
    assert len(asked) == 5
    with pytest.raises(DatasetError):  # one that the caller named is the caller's matter
        execute(connection, "stencil", {"dataset": "upload:u"})
    assert len(asked) == 6


def test_a_large_upload_is_waited_for() -> None:
    """A request that was repeated finds the first one at work."""
    posts: list[str] = []

    def reply(request: httpx2.Request) -> httpx2.Response:
        if request.method == "PUT":
            return httpx2.Response(204)
        if request.method == "HEAD":
            return httpx2.Response(404)
        posts.append(request.url.path)
        if request.url.path == "/uploads":
            made = {"id": "u", "href": "http://a/uploads/u.zarr", "reference": "upload:u"}
            return httpx2.Response(201, json=made)
        if len(posts) < 4:
            problem = {"code": "upload", "detail": "It is being completed.", "busy": True}
            return httpx2.Response(409, json=problem)
        return httpx2.Response(200, json={})

    settings = Settings("http://a", None)
    connection = Connection(settings, httpx2.MockTransport(reply), sleep=lambda _: None)
    assert upload(connection, sea(), ()) == "upload:u"
    assert posts == ["/uploads", *["/uploads/u/complete"] * 3]


def test_an_older_service_is_sent_everything() -> None:
    """One that does not know digests takes no notice of them."""
    sent: list[str] = []

    def reply(request: httpx2.Request) -> httpx2.Response:
        sent.append(request.method)
        made = {"id": "u", "href": "http://a/uploads/u.zarr", "reference": "upload:u"}
        return httpx2.Response(201, json=made)

    connection = Connection(Settings("http://a", None), httpx2.MockTransport(reply))
    assert upload(connection, sea(), ()) == "upload:u"
    assert "PUT" in sent


def command(url: str, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[Any, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main([*words, "--url", url])
    out, err = capsys.readouterr()
    return end.value.code, out, err


def test_the_command_lists_and_deletes(
    client: Client, service: tuple[str, Store], capsys: pytest.CaptureFixture[str]
) -> None:
    url = service[0]
    assert command(url, capsys, "uploads", "ls") == (0, "There are no uploads.\n", "")
    first = client.upload(sea()).removeprefix("upload:")
    job = submitted(client, sea(2))
    job.wait(progress=False)
    second = next(each for each in ids(client) if each != first)
    code, out, _ = command(url, capsys, "uploads", "ls")
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["id", "status", "kept", "objects", "bytes", "created"]
    assert rows[1][:4] == [second, "complete", "by", "jobs"]
    assert rows[2][:3] == [first, "complete", "yes"]
    code, out, _ = command(url, capsys, "uploads", "ls", "--limit", "1", "--json")
    assert [each["id"] for each in json.loads(out)] == [second]
    assert command(url, capsys, "uploads", "rm", first[-8:], f"upload:{second}") == (
        0,
        f"{first}\n{second}\n",
        "",
    )
    assert ids(client) == []
    code, _, err = command(url, capsys, "uploads", "rm", first)
    hint = "hint: 'halocline uploads ls' lists yours.\n"
    assert (code, err) == (1, f"error: There is no upload '{first}'.\n{hint}")
