"""From a request to a result, and what a job tells on the way."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from deadlines import until
from tests.service.conftest import HELD

if TYPE_CHECKING:
    from tests.service.conftest import Running

OGC = "http://www.opengis.net/def/exceptions/ogcapi-processes-1/1.0"


def test_a_job_from_request_to_result(service: Running) -> None:
    job = service.submit()
    done = service.wait(job)
    assert (done["status"], done["progress"], done["attempt"]) == ("successful", 100, 1)
    assert done["jobID"] == done["id"] == job
    assert (done["type"], done["processID"]) == ("process", "stencil")
    assert done["created"] <= done["started"] <= done["finished"]
    rels = {link["rel"] for link in done["links"]}
    assert rels >= {"self", "monitor", "http://www.opengis.net/def/rel/ogc/1.0/results", "log"}
    assert "cancel" not in rels
    results = service.client.get(f"/jobs/{job}/results").json()
    assert results["result"]["href"] == f"http://testserver/jobs/{job}/results/result.zarr"
    assert service.client.get(f"/jobs/{job}/results?outputs=result").json() == results
    assert service.client.get(f"/jobs/{job}/results?outputs=nothing").status_code == 400


def test_progress_is_told(service: Running) -> None:
    job = service.submit(scalars=HELD | {"blocks": 5})
    for done in range(1, 5):
        service.engine.turns.release()
        until(lambda done=done: service.client.get(f"/jobs/{job}").json()["progress"] == 20 * done)
        assert service.client.get(f"/jobs/{job}").json()["status"] == "running"
    service.engine.turns.release()
    assert service.wait(job)["progress"] == 100


def test_the_workspace_is_gone_when_the_result_is_there(service: Running) -> None:
    job = service.submit()
    service.wait(job)
    folder = service.settings.data_dir / "jobs" / job
    until(lambda: sorted(path.name for path in folder.iterdir()) == ["attempt-1"])


def test_the_log_and_the_plan(service: Running) -> None:
    job = service.submit()
    service.wait(job)
    log = service.client.get(f"/jobs/{job}/log")
    assert log.headers["content-type"] == "text/plain; charset=utf-8"
    lines = log.text.splitlines()
    assert lines[0].endswith("Z status accepted: Waiting for a dispatcher.")
    assert lines[2].endswith("; streamed: It is small")
    assert "Z planned 4 blocks" in lines[2]
    assert ", reference on 1 worker, " in lines[2]
    assert lines[-1].endswith("Z status successful: The result is there.")
    assert not re.search(r"\w=|_", log.text), "names of members"
    plan = service.client.get(f"/jobs/{job}/plan").json()
    assert (plan["mode"], plan["blocks"], plan["target"]) == ("streamed", 4, "reference")


def test_the_plan_is_drawn(service: Running) -> None:
    job = service.submit()
    service.wait(job)
    svg = service.client.get(f"/jobs/{job}/plan.svg")
    assert (svg.status_code, svg.headers["content-type"]) == (200, "image/svg+xml")
    assert svg.text.startswith("<svg ")
    text = service.client.get(f"/jobs/{job}/plan.txt")
    assert text.headers["content-type"] == "text/plain; charset=utf-8"
    assert text.text.startswith("row order, 1 row of 4\n")


def test_a_job_that_has_not_started_has_no_plan(idle: Running) -> None:
    job = idle.submit()
    answer = idle.client.get(f"/jobs/{job}/plan")
    assert answer.status_code == 404
    assert answer.json()["detail"] == f"Job '{job}' has no plan: it is accepted."
    for form in ("svg", "txt"):
        assert idle.client.get(f"/jobs/{job}/plan.{form}").status_code == 404


@pytest.mark.parametrize(
    ("how", "status", "expected"),
    [
        (1, 400, {"code": "field", "detail": "Field 'inp' has no variable."}),
        (3, 413, {"code": "capacity", "needed": 10, "available": 5}),
        (5, 507, {"code": "output", "detail": "The result cannot be written: the disk is full."}),
        (4, 500, {"code": "internal"}),
    ],
)
def test_a_failed_job_answers_why(
    service: Running, how: int, status: int, expected: dict[str, Any]
) -> None:
    job = service.submit(scalars={"fail": how})
    info = service.wait(job)
    assert (info["status"], info["attempt"]) == ("failed", 1)
    answer = service.client.get(f"/jobs/{job}/results")
    problem = answer.json()
    assert answer.status_code == problem["status"] == status
    assert {name: problem[name] for name in expected} == expected
    assert info["exception"] == problem
    assert info["message"] == problem["detail"]
    whole = answer.text + service.client.get(f"/jobs/{job}/log").text
    assert "secret" not in whole
    assert "ZeroDivisionError" not in whole
    assert service.client.get(f"/jobs/{job}/results/result.zarr/zarr.json").status_code == 410


def test_a_lost_device_is_tried_again(service: Running) -> None:
    job = service.submit(scalars={"fail": 2})
    info = service.wait(job)
    assert (info["status"], info["attempt"]) == ("successful", 3)
    assert [call["workspace"].attempt for call in service.engine.calls] == [1, 2, 3]
    assert service.engine.resumed == [False, True, True]
    assert service.client.get(f"/jobs/{job}/results/result.zarr/zarr.json").status_code == 200
    log = service.client.get(f"/jobs/{job}/log").text
    assert log.count("The device failed. Waiting for another attempt.") == 2


def test_dismissing_a_running_job_stops_it(service: Running) -> None:
    job = service.submit(scalars=HELD)
    service.wait(job, "running")
    info = service.client.delete(f"/jobs/{job}").json()
    assert (info["status"], info["message"]) == ("dismissed", "Dismissed on request.")
    folder = service.settings.data_dir / "jobs" / job
    until(lambda: not list(folder.iterdir()))  # the worker has stopped, and its files are gone
    assert service.client.get(f"/jobs/{job}").json()["status"] == "dismissed"
    results = service.client.get(f"/jobs/{job}/results")
    assert (results.status_code, results.json()["code"]) == (410, "cancelled")
    assert service.client.delete(f"/jobs/{job}").json()["status"] == "dismissed"
    assert service.client.get(f"/jobs/{job}").status_code == 404


def test_stopping_a_job_that_has_just_ended_keeps_its_result(service: Running) -> None:
    job = service.submit()
    service.wait(job)
    for _ in range(2):  # a request whose answer is lost is sent again
        info = service.client.delete(f"/jobs/{job}", params={"ended": "keep"}).json()
        assert info["status"] == "successful"
    assert service.client.get(f"/jobs/{job}/results/result.zarr/zarr.json").status_code == 200
    assert service.client.delete(f"/jobs/{job}", params={"ended": "?"}).status_code == 400
    waiting = service.submit(scalars=HELD)
    for _ in range(2):
        info = service.client.delete(f"/jobs/{waiting}", params={"ended": "keep"}).json()
        assert info["status"] == "dismissed"
    assert service.client.get(f"/jobs/{waiting}").status_code == 200


def test_dismissing_a_waiting_job_keeps_it_from_starting(idle: Running) -> None:
    job = idle.submit()
    assert idle.client.delete(f"/jobs/{job}").json()["status"] == "dismissed"
    assert idle.store.jobs.claim("w") is None


def test_dismissing_a_finished_job_removes_it(service: Running) -> None:
    job = service.submit()
    service.wait(job)
    folder = service.settings.data_dir / "jobs" / job
    assert folder.exists()
    info = service.client.delete(f"/jobs/{job}").json()
    assert info["status"] == "dismissed"
    assert not folder.exists()
    gone = service.client.get(f"/jobs/{job}")
    assert (gone.status_code, gone.json()["type"]) == (404, f"{OGC}/no-such-job")
    assert service.client.delete(f"/jobs/{job}").status_code == 404


def test_a_job_can_be_the_dataset_of_another(service: Running) -> None:
    first = service.submit()
    service.wait(first)
    second = service.submit(dataset=f"job:{first}")
    assert service.wait(second)["status"] == "successful"
    assert service.engine.calls[1]["dataset"].endswith(f"{first}/attempt-1/result.zarr")


def test_an_unfinished_job_is_no_dataset(idle: Running) -> None:
    first = idle.submit()
    answer = idle.client.post(
        "/processes/stencil/execution",
        json={"inputs": {"program": "def f(): pass", "dataset": f"job:{first}"}},
    )
    assert answer.status_code == 400


def test_the_list_is_paged(idle: Running) -> None:
    made = [idle.submit() for _ in range(5)][::-1]
    seen: list[str] = []
    url: str | None = "/jobs?limit=2&type=process"
    back: list[str] = []
    while url:
        page = idle.client.get(url).json()
        seen += [each["jobID"] for each in page["jobs"]]
        links = {link["rel"]: link["href"] for link in page["links"]}
        back.append(links["self"])
        if "prev" in links:
            before = idle.client.get(links["prev"]).json()
            assert before["jobs"] == idle.client.get(back[-2]).json()["jobs"]
        url = links.get("next")
    assert seen == made
    assert len(back) == 3


def test_the_list_is_filtered(idle: Running) -> None:
    first, second = idle.submit(), idle.submit("echo", string="s")
    idle.client.delete(f"/jobs/{first}")
    third = idle.submit()
    created = idle.client.get(f"/jobs/{second}").json()["created"]

    def ids(query: str) -> list[str]:
        answer = idle.client.get(f"/jobs?{query}")
        assert answer.status_code == 200, answer.text
        return [each["jobID"] for each in answer.json()["jobs"]]

    assert ids("") == [third, second, first]
    assert ids("status=dismissed") == [first]
    assert ids("status=dismissed&status=accepted") == ids("status=dismissed,accepted")
    assert ids("processID=echo") == [second]
    assert ids("processID=echo,stencil&limit=1") == [third]
    assert ids("type=other") == []
    assert second in ids(f"datetime={created}")
    assert first in ids(f"datetime=../{created}")
    assert third in ids(f"datetime={created}/..")
    assert ids("datetime=../2000-01-01T00:00:00Z") == []
    assert ids("minDuration=0") == []  # none has started


@pytest.mark.parametrize(
    "query",
    ["status=done", "datetime=yesterday", "datetime=a/b", "limit=0", "minDuration=-1", "offset=x"],
)
def test_wrong_filters_are_refused(idle: Running, query: str) -> None:
    answer = idle.client.get(f"/jobs?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "argument")


def test_an_unknown_job_is_named_so(idle: Running) -> None:
    for method, path in (
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/results"),
        ("GET", "/results/result"),
        ("GET", "/events"),
        ("GET", "/log"),
        ("GET", "/plan"),
    ):
        answer = idle.client.request(method, f"/jobs/nothing{path}")
        assert (answer.status_code, answer.json()["type"]) == (404, f"{OGC}/no-such-job")
