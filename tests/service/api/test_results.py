"""Results over HTTP: what Zarr clients rely on."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from halocline_service.api.problems import STATUS_BY_CODE
from halocline_service.jobs.job import Ending
from halocline_service.jobs.states import Event

if TYPE_CHECKING:
    from tests.service.conftest import Running


@pytest.fixture
def result(service: Running) -> str:
    job = service.submit()
    service.wait(job)
    return f"/jobs/{job}/results/result.zarr"


def test_metadata_is_json_and_chunks_are_bytes(service: Running, result: str) -> None:
    root = service.client.get(f"{result}/zarr.json")
    assert root.headers["content-type"] == "application/json"
    assert set(root.json()["consolidated_metadata"]["metadata"]) == {"sst", "time", "x", "y"}
    chunk = service.client.get(f"{result}/sst/c/0/0/0")
    assert chunk.headers["content-type"] == "application/octet-stream"
    assert chunk.headers["cache-control"] == "private, max-age=31536000, immutable"
    assert chunk.headers["x-content-type-options"] == "nosniff"


def test_the_address_of_a_store_opens_in_a_browser(service: Running, result: str) -> None:
    answer = service.client.get(result, follow_redirects=False)
    assert answer.status_code == 307
    assert answer.headers["location"].endswith("/results/result.zarr/")
    shown = service.client.get(result, headers={"Accept": "text/html"})
    assert shown.status_code == 200
    assert "zarr.json" in shown.text


def test_tags_are_the_content(service: Running, result: str) -> None:
    chunk = service.client.get(f"{result}/sst/c/0/0/0")
    tag = chunk.headers["etag"]
    assert tag == f'"{hashlib.sha256(chunk.content).hexdigest()}"'
    again = service.client.get(f"{result}/sst/c/0/0/0", headers={"If-None-Match": f"W/{tag}, x"})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    other = service.client.get(f"{result}/sst/c/0/0/0", headers={"If-None-Match": '"x"'})
    assert other.status_code == 200


def test_head_tells_the_length(service: Running, result: str) -> None:
    chunk = service.client.get(f"{result}/sst/c/0/0/0")
    head = service.client.head(f"{result}/sst/c/0/0/0")
    assert (head.status_code, head.content) == (200, b"")
    for name in ("content-length", "etag", "accept-ranges", "content-type"):
        assert head.headers[name] == chunk.headers[name]
    assert head.headers["accept-ranges"] == "bytes"


def test_ranges(service: Running, result: str) -> None:
    whole = service.client.get(f"{result}/sst/c/0/0/0").content

    def part(wanted: str) -> tuple[int, bytes, str | None]:
        answer = service.client.get(f"{result}/sst/c/0/0/0", headers={"Range": wanted})
        return answer.status_code, answer.content, answer.headers.get("content-range")

    size = len(whole)
    assert part("bytes=2-5") == (206, whole[2:6], f"bytes 2-5/{size}")
    assert part("bytes=-7") == (206, whole[-7:], f"bytes {size - 7}-{size - 1}/{size}")
    assert part(f"bytes={size - 1}-") == (206, whole[-1:], f"bytes {size - 1}-{size - 1}/{size}")
    status, _, where = part(f"bytes={size}-")
    assert (status, where) == (416, f"bytes */{size}")


def test_what_is_not_there(service: Running, result: str) -> None:
    for key in (".zgroup", ".zattrs", ".zmetadata", "sst/c/9/9/9", "nothing/zarr.json", "sst/c"):
        answer = service.client.get(f"{result}/{key}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not-found"), key
    asked = {"Prefer": "absent=empty"}
    empty = service.client.get(f"{result}/sst/c/9/9/9", headers=asked)
    assert (empty.status_code, empty.content) == (204, b"")
    assert empty.headers["Preference-Applied"] == "absent=empty"
    there = service.client.get(f"{result}/zarr.json", headers=asked)
    assert there.json() == service.client.get(f"{result}/zarr.json").json()
    wrong = service.client.get(result.replace("result.zarr", "other.zarr") + "/zarr.json")
    assert (wrong.status_code, wrong.json()["code"]) == (400, "no-such-output")


@pytest.mark.parametrize(
    "key",
    [
        "../../../halocline.sqlite3",
        "..%2F..%2F..%2Fhalocline.sqlite3",
        "%2e%2e/%2e%2e/%2e%2e/halocline.sqlite3",
        "sst/../../../../halocline.sqlite3",
        "/etc/passwd",
        "%2Fetc%2Fpasswd",
        "..%5C..%5Chalocline.sqlite3",
        "sst%00",
        ".hidden",
        "sst//zarr.json",
        "link",
        "x" * 2000,
    ],
)
def test_no_key_leads_out(service: Running, result: str, key: str) -> None:
    job = result.split("/")[2]
    root = service.settings.data_dir / "jobs" / job / "attempt-1" / "result.zarr"
    (root / "link").symlink_to("/etc/passwd")
    answer = service.client.get(f"{result}/{key}")
    assert answer.status_code == 404
    assert b"root:" not in answer.content
    assert b"SQLite" not in answer.content


def test_a_result_that_was_removed_is_no_fill_value(service: Running, result: str) -> None:
    service.client.delete(result.partition("/results")[0])
    for key in ("zarr.json", "sst/c/0/0/0"):
        gone = service.client.get(f"{result}/{key}", headers={"Prefer": "absent=empty"})
        assert (gone.status_code, gone.json()["code"]) == (410, "gone")


def test_a_result_that_is_not_there_yet_is_no_fill_value(idle: Running) -> None:
    job = idle.submit()
    answer = idle.client.get(f"/jobs/{job}/results/result.zarr/sst/c/0/0/0")
    assert (answer.status_code, answer.json()["code"]) == (425, "not-yet")
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["cache-control"] == "no-store"
    document = idle.client.get(f"/jobs/{job}/results")
    assert (document.status_code, document.json()["code"]) == (404, "result-not-ready")
    assert document.json()["detail"] == (f"The result of job '{job}' is not ready: it is accepted.")
    idle.client.delete(f"/jobs/{job}")
    gone = idle.client.get(f"/jobs/{job}/results/result.zarr/sst/c/0/0/0")
    assert (gone.status_code, gone.json()["code"]) == (410, "gone")


@pytest.mark.parametrize("code", sorted(STATUS_BY_CODE))
def test_the_results_of_a_job_that_failed_are_a_final_answer(idle: Running, code: str) -> None:
    """No client or proxy sends the request again, as it would for a service that is away."""
    job = idle.submit()
    held = idle.store.jobs.claim("w")
    assert held is not None
    error = {"code": code, "message": "It failed.", "hint": "Try another."}
    idle.store.jobs.settle(held.lease, Ending(Event.FAIL, "It failed.", error=error))
    for path in ("results", "results/result"):
        answer = idle.client.get(f"/jobs/{job}/{path}")
        assert answer.status_code not in {408, 425, 429, 502, 503, 504}
        assert "Retry-After" not in answer.headers
        told = answer.json()
        assert (told["code"], told["detail"], told["hint"]) == (code, "It failed.", "Try another.")
        assert told["status"] == answer.status_code
    told = idle.client.get(f"/jobs/{job}").json()["exception"]
    assert (told["code"], told["status"]) == (code, answer.status_code)
