"""Lists in pages: nothing twice, nothing left out, whatever comes and goes meanwhile."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from tests.service.conftest import PROGRAM

from halocline_service.api.requests import paging
from halocline_service.jobs.job import JobRequest, UploadRequest

if TYPE_CHECKING:
    from tests.service.conftest import ClientOf, Running


def links(page: dict[str, Any]) -> dict[str, str]:
    return {link["rel"]: link["href"] for link in page["links"]}


def ids(page: dict[str, Any]) -> list[str]:
    return [each["id"] for each in page["jobs" if "jobs" in page else "uploads"]]


def make(idle: Running, path: str, count: int) -> list[str]:
    """Make jobs or uploads; give their identifiers, newest first."""
    if path == "/jobs":
        return [idle.submit() for _ in range(count)][::-1]
    return [idle.client.post("/uploads").json()["id"] for _ in range(count)][::-1]


@pytest.mark.parametrize("path", ["/jobs", "/uploads"])
def test_pages_follow_each_other_there_and_back(idle: Running, path: str) -> None:
    made = make(idle, path, 5)
    pages = [idle.client.get(f"{path}?limit=2").json()]
    assert set(links(pages[0])) == {"self", "next"}
    while "next" in links(pages[-1]):
        pages.append(idle.client.get(links(pages[-1])["next"]).json())
    assert [ids(page) for page in pages] == [made[:2], made[2:4], made[4:]]
    assert set(links(pages[1])) == {"self", "next", "prev"}
    assert set(links(pages[2])) == {"self", "prev"}
    back = idle.client.get(links(pages[2])["prev"]).json()
    assert ids(back) == made[2:4]
    assert set(links(back)) == {"self", "next", "prev"}
    assert ids(idle.client.get(links(back)["next"]).json()) == made[4:]
    first = idle.client.get(links(back)["prev"]).json()
    assert ids(first) == made[:2]
    assert set(links(first)) == {"self", "next"}
    assert links(first)["self"] == links(back)["prev"]


@pytest.mark.parametrize("path", ["/jobs", "/uploads"])
def test_what_comes_meanwhile_is_listed_once_and_nothing_is_left_out(
    idle: Running, path: str
) -> None:
    made = make(idle, path, 4)
    page = idle.client.get(f"{path}?limit=2").json()
    newer = make(idle, path, 3)
    rest = idle.client.get(links(page)["next"]).json()
    assert ids(page) + ids(rest) == made
    assert ids(idle.client.get(links(rest)["prev"]).json()) == made[:2]
    for gone in made[:2]:
        idle.client.delete(f"{path}/{gone}")
        idle.client.delete(f"{path}/{gone}")
    again = idle.client.get(links(page)["next"]).json()
    assert ids(again) == made[2:]
    assert ids(idle.client.get(links(again)["prev"]).json()) == newer[1:]


def test_filters_stay_in_the_links(idle: Running) -> None:
    made = make(idle, "/jobs", 4)
    page = idle.client.get("/jobs?limit=1&offset=1&status=accepted&type=process").json()
    assert ids(page) == made[1:2]
    assert links(page) == {
        "self": "http://testserver/jobs?limit=1&offset=1&status=accepted&type=process",
        "next": f"http://testserver/jobs?limit=1&status=accepted&type=process&before={made[1]}",
        "prev": f"http://testserver/jobs?limit=1&status=accepted&type=process&after={made[1]}",
    }


def test_an_empty_page_leads_nowhere(idle: Running) -> None:
    for path in ("/jobs?limit=3", "/jobs?offset=5", "/uploads"):
        assert links(idle.client.get(path).json()) == {"self": f"http://testserver{path}"}


def test_lists_that_do_not_change_are_counted(idle: Running) -> None:
    whole = [each["id"] for each in idle.client.get("/processes").json()["processes"]]
    assert len(whole) > 8
    seen: list[str] = []
    url = "/processes?limit=4"
    last = ""
    while url:
        page = idle.client.get(url).json()
        seen += [each["id"] for each in page["processes"]]
        last, url = url, links(page).get("next", "")
    assert seen == whole
    assert links(idle.client.get("/processes").json()) == {"self": "http://testserver/processes"}
    odd = links(idle.client.get("/processes?limit=4&offset=3").json())
    assert odd["prev"] == "http://testserver/processes?offset=0&limit=3"
    assert "prev" in links(idle.client.get(last).json())


def test_datasets_are_paged(idle: Running, client_of: ClientOf, tmp_path: Any) -> None:
    for name in "abc":
        (tmp_path / f"{name}.nc").write_bytes(b"")
    client = client_of(idle.settings.model_copy(update={"data_roots": [tmp_path]}))
    page = client.get("/datasets?limit=2").json()
    assert (page["datasets"], page["truncated"]) == (["a.nc", "b.nc"], True)
    rest = client.get(links(page)["next"]).json()
    assert (rest["datasets"], rest["truncated"]) == (["c.nc"], False)
    assert set(links(rest)) == {"self", "prev"}


@pytest.mark.parametrize("path", ["/jobs", "/uploads", "/processes", "/datasets"])
@pytest.mark.parametrize(
    "query", ["limit=0", "limit=10001", "limit=x", "limit=", "limit=1.5", "offset=-1", "offset=x"]
)
def test_wrong_pages_are_problems(idle: Running, path: str, query: str) -> None:
    answer = idle.client.get(f"{path}?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "argument")
    name = query.partition("=")[0]
    assert answer.json()["detail"].startswith(f"Parameter '{name}' must be ")


@pytest.mark.parametrize("name", ["before", "after"])
@pytest.mark.parametrize("value", ["", "x", "%00", "1234", "' OR 1=1"])
def test_wrong_places_are_problems(idle: Running, name: str, value: str) -> None:
    for path in ("/jobs", "/uploads"):
        answer = idle.client.get(f"{path}?{name}={value}")
        assert (answer.status_code, answer.json()["code"]) == (400, "argument")


def test_uploads_are_listed_to_their_owner_only(idle: Running) -> None:
    idle.store.uploads.add(UploadRequest(owner="somebody else"), limit=9)
    mine = make(idle, "/uploads", 1)
    assert ids(idle.client.get("/uploads").json()) == mine


def test_a_page_has_at_most_a_thousand_items(
    idle: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "_MOST_SHOWN", 3)
    made = make(idle, "/jobs", 4)
    page = idle.client.get("/jobs?limit=10000").json()
    assert ids(page) == made[:3]
    assert ids(idle.client.get(links(page)["next"]).json()) == made[3:]


def test_a_page_of_jobs_does_not_read_what_was_asked_for(idle: Running) -> None:
    text = PROGRAM + "#" * 60_000
    for number in range(100):
        add(idle, text, number)
    tracemalloc.start()
    page = idle.client.get("/jobs?limit=10000").json()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(page["jobs"]) == 100
    assert peak < 3 * 2**20  # 6 MB of programs, at least twice while they are read


def add(idle: Running, text: str, number: int) -> None:
    request = {"inputs": {"program": text, "dataset": "sst.zarr"}, "outputs": ["result"]}
    asked = JobRequest(owner="local", process="stencil", request=request, fingerprint=str(number))
    idle.store.jobs.add(asked, queue_limit=1000)
