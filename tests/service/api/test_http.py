"""HTTP as it is written: HEAD, ranges, conditions, hosts, and errors that all have one shape."""

from __future__ import annotations

import os
import time
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from tests.service.conftest import HELD

if TYPE_CHECKING:
    from tests.service.conftest import ClientOf, Running

CHUNK = "sst/c/0/0/0"
PROBLEM = {"type", "title", "status", "detail", "code", "hint"}


@pytest.fixture
def result(service: Running) -> str:
    job = service.submit()
    service.wait(job)
    return f"/jobs/{job}/results/result.zarr"


def test_head_is_answered_wherever_get_is(service: Running, result: str) -> None:
    job = result.split("/")[2]
    document = service.client.get("/api").json()
    paths = [path for path, methods in document["paths"].items() if "get" in methods]
    assert len(paths) > 15
    upload = service.client.post("/uploads").json()["id"]
    service.client.put(f"/uploads/{upload}.zarr/zarr.json", content=b"{}")
    file = service.client.post("/uploads").json()["id"]
    service.client.put(f"/uploads/{file}.nc", content=b"CDF")
    filled = {"job_id": job, "process_id": "echo", "upload_id": upload, "output": "result"}
    for path in paths:
        place = path.replace("{upload_id}.nc", f"{file}.nc").replace("{key}", "zarr.json")
        place += "?dataset=sst.zarr" if path == "/datasets/description" else ""
        place = place.format(**filled, code="range", key="zarr.json")
        if place.endswith(("preview.png",)):
            continue
        got, head = service.client.get(place), service.client.head(place)
        assert got.status_code == head.status_code == 200, place
        assert head.content == b""
        for name in ("content-type", "content-length", "etag", "last-modified"):
            if place not in ("/readyz", "/metrics"):
                assert head.headers.get(name) == got.headers.get(name), (place, name)
    missing = service.client.head("/nothing")
    assert (missing.status_code, missing.content) == (404, b"")


def test_head_of_a_running_jobs_events_does_not_wait_for_its_end(
    live: str, service: Running
) -> None:
    job = service.submit(scalars=HELD)
    service.wait(job, "running")
    answer = httpx2.head(f"{live}/jobs/{job}/events", timeout=30)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert service.client.get(f"/jobs/{job}").json()["status"] == "running"
    service.client.delete(f"/jobs/{job}")


def test_head_takes_no_range(service: Running, result: str) -> None:
    whole = service.client.get(f"{result}/{CHUNK}")
    head = service.client.head(f"{result}/{CHUNK}", headers={"Range": "bytes=0-1"})
    assert head.status_code == 200
    assert head.headers["content-length"] == str(len(whole.content))


def test_ranges_that_have_nothing_are_problems(service: Running, result: str) -> None:
    size = len(service.client.get(f"{result}/{CHUNK}").content)
    many = ",".join(["0-0"] * 101)
    for wanted in (f"{size}-", "9-2", "a-b", "", "-", "-0", "1", "0-1,x", f"{'9' * 30}-", many):
        answer = service.client.get(f"{result}/{CHUNK}", headers={"Range": f"bytes={wanted}"})
        assert answer.status_code == 416, wanted
        assert answer.headers["content-range"] == f"bytes */{size}"
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert set(problem) == PROBLEM
        told = f"bytes={wanted}"[:100]
        assert problem["detail"] == (
            f"The range '{told}' is not satisfiable: the object has {size} bytes."
        )
        assert problem["hint"] == "Write 'bytes=<first>-<last>', at most 100 of them."


def test_ranges_that_have_something(service: Running, result: str) -> None:
    whole = service.client.get(f"{result}/{CHUNK}").content
    size = len(whole)
    for wanted, expected in (
        ("bytes=0-0", whole[:1]),
        ("Bytes = 2-3", whole[2:4]),
        (f"bytes=-{size * 9}", whole),
        (f"bytes=3-{size * 9}", whole[3:]),
        ("bytes=1-2,-0", whole[1:3]),
        (f"bytes={size + 5}-,1-2", whole[1:3]),
    ):
        answer = service.client.get(f"{result}/{CHUNK}", headers={"Range": wanted})
        assert (answer.status_code, answer.content) == (206, expected), wanted
        assert answer.headers["content-length"] == str(len(expected))
    other = service.client.get(f"{result}/{CHUNK}", headers={"Range": "lines=0-1"})
    assert (other.status_code, other.content) == (200, whole)
    several = service.client.get(f"{result}/{CHUNK}", headers={"Range": "bytes=0-1,4-5"})
    assert several.status_code == 206
    assert several.headers["content-length"] == str(len(several.content))


def test_a_range_of_what_has_changed_is_the_whole(service: Running, result: str) -> None:
    whole = service.client.get(f"{result}/{CHUNK}")
    for tag, status in ((whole.headers["etag"], 206), ('"other"', 200)):
        headers = {"Range": "bytes=0-1", "If-Range": tag}
        assert service.client.get(f"{result}/{CHUNK}", headers=headers).status_code == status


def test_what_was_not_modified_is_not_sent(service: Running, result: str) -> None:
    whole = service.client.get(f"{result}/{CHUNK}")
    modified = whole.headers["last-modified"]

    def status(**conditions: str) -> int:
        headers = {name.replace("_", "-"): value for name, value in conditions.items()}
        answer = service.client.get(f"{result}/{CHUNK}", headers=headers)
        assert answer.headers["last-modified"] == modified
        assert answer.headers["etag"] == whole.headers["etag"]
        assert answer.content == (b"" if answer.status_code == 304 else whole.content)
        return answer.status_code

    assert status(If_Modified_Since=modified) == 304
    assert status(If_Modified_Since=formatdate(time.time() + 1000, usegmt=True)) == 304
    assert status(If_Modified_Since="Mon, 01 Jan 2001 00:00:00 GMT") == 200
    assert status(If_Modified_Since="yesterday") == 200
    # The tag decides where both are given.
    assert status(If_Modified_Since=modified, If_None_Match='"other"') == 200
    assert status(If_None_Match="*") == 304


def test_links_inside_a_store_are_not_followed(service: Running, result: str) -> None:
    """Wherever they lead: nothing that Halocline writes is one."""
    job = result.split("/")[2]
    root = service.settings.data_dir / "jobs" / job / "attempt-1" / "result.zarr"
    os.symlink(root / "sst", root / "other")
    os.symlink("zarr.json", root / "sst" / "c" / "9")
    for key in ("other/zarr.json", "other/c/0/0/0", "sst/c/9"):
        assert service.client.get(f"{result}/{key}").status_code == 404, key


def test_every_error_has_one_shape(idle: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    execute = "/processes/echo/execution"
    waiting = f"/jobs/{idle.submit()}/results/result.zarr/zarr.json"
    full = idle.settings.model_copy(update={"queue_per_owner": 1})
    object.__setattr__(idle.app.state.context, "settings", full)
    shapes: list[tuple[int, str, str, dict[str, Any]]] = [
        (400, "POST", execute, {"json": {"inputs": {"none": 1}}}),
        (400, "POST", execute, {"content": b"{", "headers": {"Content-Type": "application/json"}}),
        (400, "POST", execute, {"content": b"\xff", "headers": {"Content-Type": "text/csv"}}),
        (400, "GET", "/jobs?limit=x", {}),
        (400, "GET", "/jobs", {"headers": {"Host": "evil.example"}}),
        (404, "GET", "/jobs/nothing", {}),
        (404, "GET", "/jobs/", {}),
        (404, "GET", "/nothing", {}),
        (405, "PATCH", "/jobs", {}),
        (413, "POST", execute, {"content": b"x" * 300_000}),
        (425, "GET", waiting, {}),
        (429, "POST", execute, {"json": {"inputs": {}}, "headers": {"Prefer": "respond-async"}}),
        (500, "GET", "/jobs", {}),
    ]
    for status, method, path, given in shapes:
        if status == 500:
            monkeypatch.setattr(idle.store.jobs, "list", fail)
        answer = idle.client.request(method, path, **given)
        assert answer.status_code == status, (path, answer.text)
        assert answer.headers["content-type"] == "application/problem+json", path
        problem = answer.json()
        assert set(problem) >= PROBLEM, path
        assert (problem["status"], bool(problem["title"])) == (status, True)
        assert problem["detail"].endswith("."), path
        for name in ("x-content-type-options", "content-security-policy", "referrer-policy"):
            assert answer.headers[name], (path, name)
        given["headers"] = {**given.get("headers", {}), "Accept": "application/json"}
        again = idle.client.request(method, path, **given)
        assert (again.status_code, again.headers["content-type"]) == (status, "application/json")


def test_faults_are_counted(idle: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(idle.store.jobs, "list", fail)
    idle.client.get("/jobs")
    text = idle.client.get("/metrics").text
    counted = 'halocline_http_requests_total{method="GET",route="/jobs",status="500"} 1.0'
    assert counted in text


def test_all_methods_of_a_path_are_named(idle: Running) -> None:
    assert idle.client.put("/jobs/x").headers["allow"] == "DELETE, GET, HEAD"
    assert idle.client.post("/uploads/x.zarr/a").headers["allow"] == "GET, HEAD, PUT"
    assert idle.client.get("/processes/echo/execution").headers["allow"] == "POST"


@pytest.mark.parametrize(
    "host", ["a b", "a/b", "a@b", "a?b", "[::1", "a:port", "evil.example:80:80"]
)
def test_a_host_that_is_no_name_is_refused(idle: Running, client_of: ClientOf, host: str) -> None:
    keys = idle.settings.model_copy(update={"auth": "keys"})
    answer = client_of(keys).get("/livez", headers={"Host": host})
    assert (answer.status_code, answer.json()["code"]) == (400, "request")
    assert answer.json()["detail"] == f"This service is not known as '{host}'."


def test_hosts_with_keys(idle: Running, client_of: ClientOf) -> None:
    """Those that an operator names, since links are made of them."""
    keys = idle.settings.model_copy(update={"auth": "keys"})
    answer = client_of(keys).get("/", headers={"Host": "any.example:8000"})
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        "This service is not known as 'any.example:8000'.",
    )
    assert "//any.example" not in answer.text
    only = keys.model_copy(
        update={"allowed_hosts": ["a.example"], "public_url": "https://B.example/x"}
    )
    client = client_of(only)
    for host, status in (
        ("a.example", 200),
        ("A.EXAMPLE:8000", 200),
        ("b.example", 200),
        ("localhost", 200),
        ("c.example", 400),
        ("a.example.evil", 400),
    ):
        assert client.get("/livez", headers={"Host": host}).status_code == status, host


def test_links_behind_a_proxy(service: Running, client_of: ClientOf) -> None:
    """All links start with the public URL, its path included."""
    public = "https://halo.example/ocean"
    client = client_of(service.settings.model_copy(update={"public_url": f"{public}/"}))
    for path in ("/", "/processes", "/processes/echo", "/jobs", "/jobs?limit=1", "/problems/range"):
        assert "http://" not in client.get(path).text.replace("http://www.opengis.net", ""), path
    made = client.post(
        "/processes/echo/execution", json={"inputs": {}}, headers={"Prefer": "respond-async"}
    )
    assert made.headers["location"] == f"{public}/jobs/{made.json()['jobID']}"
    assert all(link["href"].startswith(f"{public}/") for link in made.json()["links"])
    upload = client.post("/uploads")
    assert upload.headers["location"].startswith(f"{public}/uploads/")
    assert upload.json()["href"].startswith(f"{public}/uploads/")
