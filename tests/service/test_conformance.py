"""What the OGC's own test suite looks at (ets-ogcapi-processes10), as assertions of ours.

The suite itself needs Java and the network; these are its traps, by their numbers there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.service.conftest import Running


def execute(service: Running, body: dict[str, Any], **headers: str) -> Any:
    return service.client.post("/processes/echo/execution", json=body, headers=headers)


def test_1_invalid_input_is_400_in_plain_json(service: Running) -> None:
    answer = execute(service, {"inputs": {"pause": "long"}}, Accept="application/json")
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/json"
    wrong = execute(service, {"inputs": {"image": "<not base64>"}})
    assert wrong.status_code == 400


def test_2_a_result_that_is_not_ready_is_404_within_seconds(service: Running) -> None:
    answer = execute(service, {"inputs": {"pause": 60}}, Prefer="respond-async")
    results = service.client.get(answer.headers["Location"] + "/results")
    assert results.status_code == 404
    job = service.client.get(answer.headers["Location"]).json()
    assert job["status"] in ("accepted", "running")  # so the answer did not wait for its end
    assert results.json()["type"].endswith("/1.0/result-not-ready")
    service.client.delete(answer.headers["Location"])


def test_2_echo_gives_back_teststring(service: Running) -> None:
    body: dict[str, Any] = {"inputs": {"string": "teststring"}, "outputs": {"string": {}}}
    raw = execute(service, body | {"response": "raw"})
    assert (raw.status_code, raw.text) == (200, "teststring")
    document = execute(service, body | {"response": "document"})
    assert document.json() == {"string": "teststring"}
    assert document.headers["content-type"] == "application/json"


def test_3_the_location_is_absolute_and_leads_to_the_results(service: Running) -> None:
    answer = execute(service, {"inputs": {"string": "s"}}, Prefer="respond-async")
    assert answer.status_code == 201
    location = answer.headers["Location"]
    assert location.startswith("http://")
    service.wait(answer.json()["jobID"])
    assert service.client.get(location + "/results").json() == {"string": "s"}


def test_5_a_limit_of_one_gives_one(service: Running) -> None:
    assert len(service.client.get("/processes?limit=1").json()["processes"]) == 1


def test_6_jobs_have_what_the_schema_wants(service: Running) -> None:
    answer = execute(service, {"inputs": {"string": "s"}}, Prefer="respond-async")
    service.wait(answer.json()["jobID"])
    (job,) = service.client.get("/jobs").json()["jobs"]
    assert {"jobID", "type", "status", "processID", "links"} <= set(job)
    one = service.client.get("/jobs?limit=1&status=successful&type=process&processID=echo")
    assert one.json()["jobs"] == [job]


def test_dismiss_then_gone(service: Running) -> None:
    answer = execute(service, {"inputs": {"pause": 30}}, Prefer="respond-async")
    url = answer.headers["Location"]
    dismissed = service.client.delete(url)
    assert (dismissed.status_code, dismissed.json()["status"]) == (200, "dismissed")
    assert service.client.get(url).json()["status"] == "dismissed"
    assert service.client.delete(url).json()["status"] == "dismissed"
    assert service.client.get(url).status_code == 404
