"""Executing: modes, checks of inputs, idempotency, and the bounds of a queue."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from deadlines import until

if TYPE_CHECKING:
    from tests.service.conftest import ClientOf, Pauses, Running

    from halocline_service.settings import Settings

PROGRAM = """
def double(
    inp: Field[np.float64],
    out: Field[np.float64],
    *,
    blocks: int = 4,
    flag: bool = False,
    alpha: float = 0.0,
    value: float = 0.0,
):
    with computation(PARALLEL), interval(...):
        out = inp + inp
"""


def post(service: Running, process: str, inputs: dict[str, Any], **rest: Any) -> Any:
    headers = rest.pop("headers", {})
    return service.client.post(
        f"/processes/{process}/execution", json={"inputs": inputs, **rest}, headers=headers
    )


def stencil(service: Running, **inputs: Any) -> Any:
    return post(service, "stencil", {"program": PROGRAM, "dataset": "sst.zarr"} | inputs)


def test_echo_answers_at_once(idle: Running) -> None:
    given = {"string": "teststring", "array": [1, 2], "pair": {"name": "n", "value": 1.5}}
    answer = post(idle, "echo", given)
    assert (answer.status_code, answer.json()) == (200, given)


def test_echo_understands_qualified_values(idle: Running) -> None:
    answer = post(
        idle,
        "echo",
        {
            "string": {"value": "teststring", "mediaType": "text/plain"},
            "pair": {"value": {"name": "n", "value": 2}},
            "bbox": {"bbox": [0, 1, 2, 3]},
        },
    )
    assert answer.json() == {
        "string": "teststring",
        "pair": {"name": "n", "value": 2.0},
        "bbox": {"bbox": [0, 1, 2, 3], "crs": "http://www.opengis.net/def/crs/OGC/1.3/CRS84"},
    }


def test_echo_gives_the_outputs_that_are_wanted(idle: Running) -> None:
    given = {"string": "s", "number": 2.5}
    assert post(idle, "echo", given, outputs={"number": {}}).json() == {"number": 2.5}
    raw = post(idle, "echo", given, outputs={"string": {}}, response="raw")
    assert (raw.text, raw.headers["content-type"]) == ("s", "text/plain; charset=utf-8")
    assert post(idle, "echo", given, outputs={}).status_code == 204
    several = post(idle, "echo", given, response="raw")
    assert several.status_code == 400
    assert several.json()["detail"] == "A raw response must have one output, got 2."
    unknown = post(idle, "echo", given, outputs={"nothing": {}})
    assert (unknown.status_code, unknown.json()["code"]) == (400, "no-such-output")


def test_echo_as_a_job(service: Running) -> None:
    answer = post(service, "echo", {"string": "s"}, headers={"Prefer": "wait=1, respond-async"})
    assert answer.status_code == 201
    assert answer.headers["Preference-Applied"] == "respond-async"
    job = answer.json()["jobID"]
    assert service.wait(job)["status"] == "successful"
    assert service.client.get(f"{answer.headers['Location']}/results").json() == {"string": "s"}
    assert service.client.get(f"/jobs/{job}/results/string").json() == "s"


def test_a_stencil_is_a_job_whatever_is_preferred(idle: Running) -> None:
    body = {"inputs": {"program": PROGRAM, "dataset": "sst.zarr"}}
    for prefer in ("respond-async", "respond-sync", ""):
        answer = idle.client.post(
            "/processes/stencil/execution", json=body, headers={"Prefer": prefer}
        )
        assert answer.status_code == 201
        assert idle.client.get(answer.headers["Location"]).json()["status"] == "accepted"


def test_the_job_is_stored_before_the_answer(idle: Running) -> None:
    job = stencil(idle, steps=7).json()["jobID"]
    kept = idle.store.jobs.get(job, owner="local")
    assert kept is not None
    assert kept.request == {
        "inputs": {"program": PROGRAM, "dataset": "sst.zarr", "steps": 7},
        "outputs": ["result"],
    }


def test_the_engine_is_given_what_was_asked(service: Running) -> None:
    inputs = {
        "scalars": {"blocks": 1, "flag": True, "alpha": 0.25},
        "boundary": {"x": "periodic", "y": {"low": "edge", "high": {"constant": 1}}},
        "axes": {"I": "x", "K": None},
        "steps": 3,
        "target": "reference",
    }
    job = stencil(service, **inputs).json()["jobID"]
    service.wait(job)
    (call,) = service.engine.calls
    assert {name: call[name] for name in inputs} == inputs
    assert "feedback" not in call
    assert call["dataset"] == str((service.data / "sst.zarr").resolve())
    assert call["output"].endswith(f"jobs/{job}/attempt-1/result.zarr")
    assert call["workspace"].path.endswith(f"jobs/{job}/work")
    assert (call["workspace"].attempt, call["cluster"]) == (1, None)
    assert isinstance(call["scalars"]["flag"], bool)
    assert isinstance(call["scalars"]["blocks"], int)


@pytest.mark.parametrize(
    ("inputs", "detail"),
    [
        ({"steps": 0}, "Input 'steps' must be at least 1, got 0."),
        ({"steps": 10**9}, "Input 'steps' must be at most 10000000, got 1000000000."),
        ({"stpes": 3}, "Input 'stpes' is unknown."),
        (
            {"target": "tpu"},
            "Input 'target' must be 'auto', 'cuda', 'cpu' or 'reference', got 'tpu'.",
        ),
        ({"boundary": {"x": "perodic"}}, "Input 'boundary.x' must be 'periodic', 'edge', "),
        ({"chunks": {"x": 0}}, "Input 'chunks.x' must be at least 1, got 0."),
        (
            {"scalars": {"a": "1"}},
            "Input 'scalars.a' must be true or false, a number, or an object, got '1'.",
        ),
        ({"program": 3}, "Input 'program' must be text, got 3."),
        ({"dataset": ""}, "Input 'dataset' must not be empty, got ''."),
        ({"axes": {"Z": "x"}}, "The name 'Z' in input 'axes' must be 'I', 'J' or 'K'."),
    ],
)
def test_bad_inputs_are_refused_and_nothing_is_stored(
    idle: Running, inputs: dict[str, Any], detail: str
) -> None:
    answer = stencil(idle, **inputs)
    assert answer.status_code == 400
    problem = answer.json()
    assert problem["code"] == "argument"
    assert problem["detail"].startswith(detail), problem["detail"]
    assert problem["errors"]
    assert idle.client.get("/jobs").json()["jobs"] == []


def test_a_long_program_is_refused(settings: Settings, client_of: ClientOf) -> None:
    client = client_of(settings.model_copy(update={"body_bytes": 2**20}))
    inputs = {"program": "x" * 524_289, "dataset": "sst.zarr"}
    answer = client.post("/processes/stencil/execution", json={"inputs": inputs})
    detail = "Input 'program' must be text of 524288 characters or fewer, got 524289."
    assert (answer.status_code, answer.json()["detail"]) == (400, detail)


@pytest.mark.parametrize(
    ("name", "hint"), [("stpes", "Did you mean 'steps'?"), ("qqqq", "There are dataset, ")]
)
def test_an_input_that_is_unknown_is_told_from_those_there_are(
    idle: Running, name: str, hint: str
) -> None:
    problem = stencil(idle, **{name: 1}).json()
    assert problem["detail"] == f"Input '{name}' is unknown."
    assert problem["hint"].startswith(hint)


def test_a_body_that_is_not_right_is_refused(idle: Running) -> None:
    url = "/processes/stencil/execution"
    for body in ("", "{", "[]", "null", '"text"', '{"inputs": 3}', '{"imputs": {}}'):
        answer = idle.client.post(url, content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["code"]) == (400, "argument"), body


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("def f(:\n", "program-syntax"),
        (PROGRAM.replace("inp + inp", "imp + inp"), "program-name"),
        (PROGRAM.replace("inp + inp", "'text'"), "program-syntax"),
        (PROGRAM.replace("inp + inp", "(" * 150 + "inp" + ")" * 150), "program-limit"),
        ("count += 1\n" + PROGRAM, "program-syntax"),
        (PROGRAM.replace("inp + inp", "__import__('os').system('true')"), "program-"),
    ],
)
def test_bad_programs_are_refused_with_their_place(idle: Running, program: str, code: str) -> None:
    answer = stencil(idle, program=program)
    assert answer.status_code == 400
    problem = answer.json()
    assert problem["code"].startswith(code), problem
    assert problem["detail"].endswith(".")
    assert problem["line"] >= 1
    assert problem["excerpt"]
    assert idle.client.get("/jobs").json()["jobs"] == []


@pytest.mark.parametrize(
    ("dataset", "status", "detail"),
    [
        ("nothing.zarr", 404, "There is no dataset 'nothing.zarr' under the folders"),
        ("/etc/passwd", 403, "Dataset '/etc/passwd' is not under a folder that may be read."),
        ("../state/halocline.sqlite3", 403, "Dataset '../state/halocline.sqlite3' is not under"),
        ("file:///etc/passwd", 403, "Dataset '/etc/passwd' is not under a folder that may be"),
        ("http://169.254.169.254/", 400, "Dataset 'http://169.254.169.254/' cannot be read: the"),
        ("s3://bucket/key", 400, "Dataset 's3://bucket/key' cannot be read: the service reads no"),
        ("reference://x.json", 400, "Dataset 'reference://x.json' cannot be read: the service"),
        ("zip::sst.zarr", 400, "A dataset reference must not chain file systems with '::'."),
        ("upload:x", 400, "'x' is not an identifier of an upload or a job."),
        ("job:00000000-0000-7000-8000-000000000000", 404, "There is no job '00000000-"),
        ("upload:00000000-0000-7000-8000-000000000000", 404, "There is no upload '00000000-"),
        ("sst\n.zarr", 400, "A dataset reference must be 1 to 4096 printable characters."),
    ],
)
def test_datasets_that_may_not_be_named(
    idle: Running, dataset: str, status: int, detail: str
) -> None:
    answer = stencil(idle, dataset=dataset)
    assert (answer.status_code, answer.json()["code"]) == (status, "dataset")
    assert answer.json()["detail"].startswith(detail)
    assert idle.client.get("/jobs").json()["jobs"] == []


def test_a_dataset_may_be_a_link(idle: Running) -> None:
    answer = stencil(idle, dataset={"href": f"file://{idle.data}/sst.zarr", "type": "x"})
    assert answer.status_code == 201


def test_an_object_input_keeps_a_member_called_value(idle: Running) -> None:
    job = stencil(idle, scalars={"value": 3.0}, fields={"value": {"inp": "sst"}}).json()["jobID"]
    kept = idle.store.jobs.get(job, owner=None)
    assert kept is not None
    assert kept.request["inputs"]["scalars"] == {"value": 3.0}
    assert kept.request["inputs"]["fields"] == {"inp": "sst"}


def test_the_same_key_gives_the_same_job(idle: Running) -> None:
    body = {"inputs": {"program": PROGRAM, "dataset": "sst.zarr"}}
    url = "/processes/stencil/execution"
    key = {"Idempotency-Key": "k-1"}
    first = idle.client.post(url, json=body, headers=key)
    again = idle.client.post(url, json=body, headers=key)
    assert first.headers["Location"] == again.headers["Location"]
    assert len(idle.client.get("/jobs").json()["jobs"]) == 1
    body["inputs"]["name"] = "double"
    other = idle.client.post(url, json=body, headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency")
    assert other.json()["detail"] == ("Idempotency key 'k-1' was used before for another request.")


def test_the_queue_of_an_owner_is_bounded(idle: Running, client_of: ClientOf) -> None:
    client = client_of(idle.settings.model_copy(update={"queue_per_owner": 2}))
    body = {"inputs": {"program": PROGRAM, "dataset": "sst.zarr"}}
    answers = [client.post("/processes/stencil/execution", json=body) for _ in range(3)]
    assert [each.status_code for each in answers] == [201, 201, 429]
    assert answers[2].headers["Retry-After"] == "30"
    assert answers[2].json()["detail"] == (
        "2 jobs are waiting or running already, and no more are allowed."
    )


def test_a_full_queue_is_asked_again_as_soon_as_jobs_have_ended_lately(
    idle: Running, client_of: ClientOf
) -> None:
    client = client_of(idle.settings.model_copy(update={"queue_per_owner": 2}))
    body = {"inputs": {"program": PROGRAM, "dataset": "sst.zarr"}}
    for _ in range(3):
        made = client.post("/processes/stencil/execution", json=body)
        client.delete(f"/jobs/{made.json()['jobID']}")
    answers = [client.post("/processes/stencil/execution", json=body) for _ in range(3)]
    assert [each.status_code for each in answers] == [201, 201, 429]
    assert answers[2].headers["Retry-After"] == "1"


def test_waiting_answers_do_not_hold_up_others(idle: Running, pauses: Pauses) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(post, idle, "echo", {"string": "s", "pause": 1})
        until(lambda: pauses.asked == [1.0])
        assert post(idle, "echo", {"string": "s"}).status_code == 200
        assert not waiting.done()
        pauses.end()
        assert waiting.result().status_code == 200
    refused = post(idle, "echo", {"pause": 61})
    assert refused.status_code == 400
