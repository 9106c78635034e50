"""Whether the service lives and can work, and its figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.service.conftest import ClientOf, Running


def test_alive_without_anything(idle: Running) -> None:
    assert idle.client.get("/livez").json() == {"status": "alive"}


def test_not_ready_without_a_dispatcher(idle: Running) -> None:
    answer = idle.client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {
        "status": "not ready",
        "checks": {
            "database": "ok",
            "files": "ok",
            "disk": "ok",
            "dispatcher": "none was heard of",
            "workers": "not known",
        },
    }
    idle.store.presence.beat("d", {})
    assert idle.client.get("/readyz").status_code == 200


def test_not_ready_without_workers(idle: Running) -> None:
    for lacks in ("the scheduler does not answer", "none is connected", "not looked at yet"):
        idle.store.presence.beat("d", {"lacks": lacks})
        answer = idle.client.get("/readyz")
        assert (answer.status_code, answer.json()["checks"]["workers"]) == (503, lacks)
        assert answer.json()["checks"]["dispatcher"] == "ok"
    idle.store.presence.beat("e", {"lacks": ""})
    assert idle.client.get("/readyz").json()["checks"]["workers"] == "ok"


def test_not_ready_on_a_full_disk(idle: Running, client_of: ClientOf) -> None:
    idle.store.presence.beat("d", {})
    client = client_of(idle.settings.model_copy(update={"disk_headroom_bytes": 2**60}))
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["checks"]["disk"].startswith("only ")


def test_figures(idle: Running) -> None:
    job = idle.submit()
    idle.client.get(f"/jobs/{job}")
    idle.client.get("/jobs/nothing")
    text = idle.client.get("/metrics").text
    assert 'halocline_jobs{state="queued"} 1.0' in text
    assert 'halocline_jobs{state="running"} 0.0' in text
    requests = "halocline_http_requests_total"
    assert f'{requests}{{method="GET",route="/jobs/{{job_id}}",status="200"}} 1.0' in text
    assert f'{requests}{{method="GET",route="/jobs/{{job_id}}",status="404"}} 1.0' in text
    assert "halocline_queue_oldest_seconds" in text


def test_datasets_are_listed_by_name(idle: Running) -> None:
    answer = idle.client.get("/datasets").json()
    link = {"rel": "self", "href": "http://testserver/datasets", "type": "application/json"}
    assert answer == {"datasets": ["sst.zarr"], "truncated": False, "links": [link]}
