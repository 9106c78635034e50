"""A job's inputs, name and labels come back; a result is named by its address; a plan is a job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, get_args

import pytest
from tests.service.conftest import PROGRAM

from halocline_service.datasets.digests import digest_of
from halocline_service.jobs.job import JobRequest
from halocline_service.processes.plan import PlanInputs
from halocline_service.processes.table import PROCESSES

if TYPE_CHECKING:
    from tests.service.conftest import Running

ECHO = "/processes/echo/execution"
STENCIL = "/processes/stencil/execution"
PLAN = "/processes/plan/execution"
LATER = {"Prefer": "respond-async"}


def submitted(running: Running, path: str, **body: Any) -> dict[str, Any]:
    answer = running.client.post(path, json=body, headers=LATER)
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_inputs_come_back_as_they_were_checked(idle: Running) -> None:
    inputs: dict[str, Any] = {"program": PROGRAM, "dataset": "sst.zarr", "steps": 3.0}
    inputs["scalars"] = {"blocks": 7}
    job = submitted(idle, STENCIL, inputs=inputs, job_name="night", labels=["a", "b", "a"])
    asked = idle.client.get(f"/jobs/{job['jobID']}/inputs").json()
    assert asked == {
        "processID": "stencil",
        "inputs": {**inputs, "steps": 3},
        "outputs": ["result"],
        "job_name": "night",
        "labels": ["a", "b"],
    }
    again = submitted(idle, STENCIL, inputs=asked["inputs"])
    assert idle.client.get(f"/jobs/{again['jobID']}/inputs").json()["inputs"] == asked["inputs"]
    (link,) = [each for each in job["links"] if each["rel"] == "inputs"]
    assert idle.client.get(link["href"]).json() == asked


def test_inputs_of_others_and_of_nothing_are_not_told(idle: Running) -> None:
    asked = JobRequest(owner="bob", process="echo", request={"inputs": {}}, fingerprint="f")
    other = idle.store.jobs.add(asked, queue_limit=9).id
    for job in (other, "nothing"):
        answer = idle.client.get(f"/jobs/{job}/inputs")
        assert (answer.status_code, answer.json()["code"]) == (404, "no-such-job")


def test_jobs_are_listed_by_name_and_label(idle: Running) -> None:
    day = submitted(idle, ECHO, inputs={}, job_name="Day 1", labels=["sst", "5 %"])["jobID"]
    night = submitted(idle, ECHO, inputs={}, job_name="night", labels=["sst"])["jobID"]
    submitted(idle, ECHO, inputs={})

    def ids(query: str) -> list[str]:
        return [job["jobID"] for job in idle.client.get(f"/jobs?{query}").json()["jobs"]]

    assert len(ids("limit=9")) == 3
    assert ids("job_name=Day") == ids("name=Day") == [day]
    assert ids("label=sst") == [night, day]
    assert ids("label=sst&label=5%20%25") == ids("label=sst,5%20%25") == [day]
    assert ids("label=SST") == ids("job_name=day") == []
    shown = [job for job in idle.client.get("/jobs").json()["jobs"] if "job_name" in job]
    assert [(job["job_name"], job["labels"]) for job in shown] == [
        ("night", ["sst"]),
        ("Day 1", ["sst", "5 %"]),
    ]


def test_pages_keep_the_filter(idle: Running) -> None:
    for number in range(3):
        submitted(idle, ECHO, inputs={"number": number}, labels=["a"])
    links = idle.client.get("/jobs?label=a&limit=2").json()["links"]
    (href,) = [link["href"] for link in links if link["rel"] == "next"]
    assert "label=a" in href
    assert len(idle.client.get(href).json()["jobs"]) == 1


def test_one_key_with_two_names_is_a_conflict(idle: Running) -> None:
    headers = {**LATER, "Idempotency-Key": "k"}
    first = idle.client.post(ECHO, json={"inputs": {}, "job_name": "a"}, headers=headers)
    again = idle.client.post(ECHO, json={"inputs": {}, "job_name": "a"}, headers=headers)
    assert first.json()["jobID"] == again.json()["jobID"]
    other = idle.client.post(ECHO, json={"inputs": {}, "job_name": "b"}, headers=headers)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency")


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"job_name": ""}, "Member 'job_name' must not be empty, got ''."),
        ({"job_name": "a\nb"}, None),
        ({"job_name": "a" * 201}, None),
        ({"labels": ["a,b"]}, None),
        ({"labels": ["a"] * 21}, None),
        ({"labels": "a"}, None),
    ],
)
def test_names_and_labels_are_checked(
    idle: Running, body: dict[str, Any], detail: str | None
) -> None:
    answer = idle.client.post(ECHO, json={"inputs": {}, **body}, headers=LATER)
    assert (answer.status_code, answer.json()["code"]) == (400, "argument")
    assert next(iter(body)) in answer.json()["detail"]
    assert detail is None or answer.json()["detail"] == detail


def test_a_result_is_named_by_its_address(service: Running) -> None:
    first = service.submit()
    service.wait(first, "successful")
    base = "http://testserver"
    href = service.client.get(f"/jobs/{first}/results").json()["result"]["href"]
    for address in (href, f"{href}/", f"{base}/jobs/{first}", f"{base}/jobs/{first}/results"):
        job = service.submit(dataset=address)
        told = service.client.get(f"/jobs/{job}/inputs").json()
        assert told["inputs"]["dataset"] == f"job:{first}"
        service.wait(job, "successful")
    answer = service.client.delete(f"/jobs/{first}")
    assert answer.status_code == 200


def test_an_address_elsewhere_is_refused(idle: Running) -> None:
    job = "00000000-0000-7000-8000-000000000001"
    for address in (
        f"http://other.example/jobs/{job}/results/result.zarr",
        "http://testserver/processes/echo",
        f"http://testserver/jobs/{job}/log",
    ):
        body = {"inputs": {"program": PROGRAM, "dataset": address}}
        answer = idle.client.post(STENCIL, json=body)
        assert (answer.status_code, answer.json()["code"]) == (400, "dataset")
        told = "the service reads no 'http:' addresses, and no object stores yet"
        assert answer.json()["detail"] == f"Dataset '{address}' cannot be read: {told}."


def test_a_plan_is_made_without_computing(service: Running) -> None:
    inputs = {"program": PROGRAM, "dataset": "sst.zarr", "scalars": {"blocks": 7}}
    job = submitted(service, PLAN, inputs={"process": "stencil", "inputs": inputs})["jobID"]
    service.wait(job, "successful")
    plan = service.client.get(f"/jobs/{job}/results").json()["plan"]
    assert (plan["blocks"], plan["target"], plan["projected_bytes"]) == (7, "reference", 1000)
    assert (plan["halo"], plan["block"]) == ({}, {})
    assert {"kind", "progress"}.isdisjoint(plan)
    told = service.client.get(f"/jobs/{job}/plan").json()
    assert {name: told[name] for name in plan} == plan
    assert service.engine.blocks == 0
    assert service.client.get(f"/jobs/{job}/results/result.zarr/zarr.json").status_code == 400


def test_a_plan_waits_for_no_job(service: Running) -> None:
    held = [service.submit(scalars={"held": 1}) for _ in range(4)]
    service.wait(held[0], "running")
    inputs = {"process": "stencil", "inputs": {"program": PROGRAM, "dataset": "sst.zarr"}}
    job = submitted(service, PLAN, inputs=inputs)["jobID"]
    service.wait(job, "successful")
    for each in held:
        assert service.client.get(f"/jobs/{each}").json()["status"] in ("running", "accepted")
        service.client.delete(f"/jobs/{each}")


def test_inputs_of_a_plan_are_those_of_its_process(idle: Running) -> None:
    def refused(**inputs: Any) -> str:
        answer = idle.client.post(PLAN, json={"inputs": inputs})
        assert answer.status_code in (400, 404), answer.text
        return str(answer.json()["detail"])

    stencil = {"program": PROGRAM, "dataset": "sst.zarr"}
    direct = idle.client.post(STENCIL, json={"inputs": {**stencil, "steps": 0}}).json()["detail"]
    assert refused(process="stencil", inputs={**stencil, "steps": 0}) == direct
    assert refused(process="stencil", inputs={**stencil, "dataset": "none.zarr"}).startswith(
        "There is no dataset 'none.zarr'"
    )
    broken = {**stencil, "program": "def f("}
    direct = idle.client.post(STENCIL, json={"inputs": broken}).json()["detail"]
    assert refused(process="stencil", inputs=broken) == direct
    assert "'process'" in refused(process="echo", inputs={})
    assert "'inputs'" in refused(process="stencil")


def test_what_a_plan_reads_is_kept(idle: Running) -> None:
    upload = idle.client.post("/uploads", json={"keep": False}).json()
    key = f"/uploads/{upload['id']}.zarr/zarr.json"
    group: dict[str, Any] = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    assert idle.client.put(key, json=group).status_code == 204
    assert idle.client.post(f"/uploads/{upload['id']}/complete").status_code == 200
    stencil = {"program": PROGRAM, "dataset": upload["reference"]}
    job = submitted(idle, PLAN, inputs={"process": "stencil", "inputs": stencil})["jobID"]
    answer = idle.client.delete(f"/uploads/{upload['id']}")
    assert (answer.status_code, answer.json()["code"]) == (409, "in-use")
    for _ in range(2):
        idle.client.delete(f"/jobs/{job}")
    assert idle.client.get(f"/uploads/{upload['id']}").status_code == 404


def test_every_process_that_computes_can_be_planned() -> None:
    known = set(get_args(PlanInputs.model_fields["process"].annotation))
    assert known == set(PROCESSES) - {"echo", "plan"}


def test_a_result_tells_what_made_it(service: Running) -> None:
    inputs: dict[str, Any] = {"steps": 1, "scalars": {"alpha": 0.5}, "boundary": {"x": "periodic"}}
    first = service.submit(**inputs)
    service.wait(first, "successful")
    path = f"/jobs/{first}/results/result.zarr/zarr.json"
    made = service.client.get(path).json()["attributes"]
    assert made["halocline_job"] == first
    assert made["halocline_process"] == "stencil"
    assert made["halocline_target"] == "reference"
    read = {"reference": "sst.zarr", "sha256": digest_of(service.data / "sst.zarr")}
    assert json.loads(made["halocline_datasets"]) == {"dataset": read}
    assert '"scalars": {"alpha": 0.5}' in made["halocline_inputs"]
    assert '"boundary": {"x": "periodic"}' in made["halocline_inputs"]
    assert len(made["halocline_program_sha256"]) == 64
    assert '"numpy"' in made["halocline_libraries"]
    assert f"job {first}" in made["history"]
    second = service.submit(dataset=f"job:{first}")
    service.wait(second, "successful")
    again = service.client.get(f"/jobs/{second}/results/result.zarr/zarr.json").json()
    (result,) = (service.settings.data_dir / "jobs" / first).rglob("result.zarr")
    assert json.loads(again["attributes"]["halocline_datasets"]) == {
        "dataset": {"reference": f"job:{first}", "sha256": digest_of(result)}
    }
    made = service.client.get(path.replace(first, second)).json()["attributes"]
    assert made["halocline_job"] == second


def test_requests_by_old_names_are_stored_by_the_new_ones(idle: Running) -> None:
    body = {"program": PROGRAM, "dataset": "sst.zarr", "steps": 4, "every": 2}
    job = submitted(idle, STENCIL, inputs={**body, "name": "double"}, name="night")
    asked = idle.client.get(f"/jobs/{job['jobID']}/inputs").json()
    new = {"program": PROGRAM, "dataset": "sst.zarr", "steps": 4, "snapshot_every": 2}
    assert (asked["inputs"], asked["job_name"]) == ({**new, "stencil_name": "double"}, "night")
    planned = {"process": "stencil", "inputs": body}
    job = submitted(idle, PLAN, inputs=planned)
    asked = idle.client.get(f"/jobs/{job['jobID']}/inputs").json()
    assert asked["inputs"]["inputs"] == new
    both = idle.client.post(STENCIL, json={"inputs": {**body, "snapshot_every": 2}})
    assert both.json()["detail"] == "Input 'every' is unknown."


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("output", "Leave it out, and fetch the result: GET /jobs/{id}/results."),
        ("on_event", "Leave it out, and follow the job: GET /jobs/{id}/events."),
        ("job_name", "Write it beside 'inputs'."),
        ("memory_limit", "Leave it out: the operator of the service sets the limits of a job."),
    ],
)
def test_inputs_of_other_interfaces_are_answered(idle: Running, name: str, hint: str) -> None:
    inputs = {"program": PROGRAM, "dataset": "sst.zarr", name: "x"}
    told = idle.client.post(STENCIL, json={"inputs": inputs}).json()
    assert (told["detail"], told["hint"]) == (f"Input '{name}' is unknown.", hint)
