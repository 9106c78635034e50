"""Wrong inputs are told in sentences: where, what was expected and got, never by which library."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from halocline_engine.interface.words import Interface, in_words_of
from halocline_service.api.problems import inputs_problem
from halocline_service.processes.describe import resolved_schema
from halocline_service.processes.table import PROCESSES

if TYPE_CHECKING:
    from tests.service.conftest import Running

_INTERNALS = re.compile(
    r"function-|constrained|union|literal\[|dict\[|list\[|pydantic|[Ii]nput should|valid (dict|int"
    r"|str|bool|num|list)|instance of|Boundary|BoundingBox|Pair\b|validat|of another kind"
)
_WORDS = st.sampled_from(
    ["", "x", "edge", "low", "high", "constant", "name", "value", "bbox", "centre", "I", "lo", "5"]
)
_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2**70),
    st.floats(),
    _WORDS,
    st.just("y" * 70_000),
    st.just("\ud800"),
)
_VALUES: Any = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=3),
    max_leaves=6,
)


def _valid(process: str) -> dict[str, Any]:
    given = dict.fromkeys(PROCESSES[process].inputs.model_json_schema().get("required", ()), "a")
    others: dict[str, Any] = {"operation": "sum", "size": 3, "process": "stencil", "inputs": {}}
    others["diagnostics"] = {"heat": {"sum": "a"}}
    others["stages"] = [{"column": {"expression": "a"}}]
    return given | {name: value for name, value in others.items() if name in given}


def _refused(process: str, inputs: dict[str, Any]) -> Any:
    model = PROCESSES[process].inputs
    try:
        model.model_validate(inputs)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        return inputs_problem(faults, inputs, what="Input", model=model)
    return None


@pytest.mark.parametrize("process", PROCESSES)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_no_message_tells_of_the_library(process: str, data: st.DataObject) -> None:
    names = [*resolved_schema(PROCESSES[process].inputs)["properties"], "unknown"]
    wrong = data.draw(st.dictionaries(st.sampled_from(names), _VALUES, min_size=1, max_size=2))
    inputs = _valid(process) | wrong
    problem = _refused(process, inputs)
    if problem is None:
        return
    for told in problem.fields["errors"]:
        place, message = told["location"], told["message"]
        assert not _INTERNALS.search(message), message
        assert re.fullmatch(r"[A-Z].*\.", message, re.DOTALL), message
        assert place[0] in wrong
        assert f"'{place[0]}" in message
        value = _any(inputs)
        for part in place[:-1]:  # what is missing, or the wrong name itself, is last
            value = _inner(value, part)
    json.dumps(problem.fields, ensure_ascii=False).encode()
    assert problem.detail == problem.fields["errors"][0]["message"]
    assert not _INTERNALS.search(problem.hint)


def _any(value: object) -> Any:
    return value


def _inner(value: Any, part: str) -> Any:
    return value[int(part) if isinstance(value, list) else part]


SENTENCES: list[tuple[dict[str, Any], str, str]] = [
    (
        {"boundary": 5},
        "Input 'boundary' must be an object, got 5.",
        'Write for example "boundary": {"lat": "periodic"}.',
    ),
    (
        {"boundary": {"x": 5}},
        "Input 'boundary.x' must be 'periodic', 'edge', 'reflect', 'symmetric', 'antisymmetric',"
        " 'extrapolate' or 'none', or an"
        " object, got 5.",
        'Write "boundary": {"x": {"constant": 5}}.',
    ),
    (
        {"boundary": {"x": "cyclic"}},
        "Input 'boundary.x' must be 'periodic', 'edge', 'reflect', 'symmetric', 'antisymmetric',"
        " 'extrapolate' or 'none', or an object, got 'cyclic'.",
        'Write "boundary": {"x": "periodic"}.',
    ),
    (
        {"boundary": {"x": {"low": "Nearest"}}},
        "Input 'boundary.x.low' must be 'periodic', 'edge', 'reflect', 'symmetric',"
        " 'antisymmetric', 'extrapolate' or 'none', or an object, got 'Nearest'.",
        'Write "boundary": {"x": {"low": "edge"}}.',
    ),
    (
        {"boundary": {"x": "fill"}},
        "Input 'boundary.x' must be 'periodic', 'edge', 'reflect', 'symmetric', 'antisymmetric',"
        " 'extrapolate' or 'none', or an object, got 'fill'.",
        'Write "boundary": {"x": {"constant": 0.0}}.',
    ),
    (
        {"boundary": "x=edge"},
        "Input 'boundary' must be an object, got 'x=edge'.",
        'Write "boundary": {"x": "edge"}.',
    ),
    (
        {"boundary": {"x": {"constant": "a"}}},
        "Input 'boundary.x.constant' must be true or false, or a number, got 'a'.",
        'Write for example "boundary": {"x": {"constant": true}}.',
    ),
    (
        {"boundary": {"x": {"low": {"constant": None}}}},
        "Input 'boundary.x.low.constant' must be true or false, or a number, got null.",
        'Write for example "boundary": {"x": {"low": {"constant": true}}}.',
    ),
    (
        {"boundary": {"x": {"lo": "edge"}}},
        "Input 'boundary.x.lo' is unknown.",
        "Did you mean 'low'?",
    ),
    (
        {"boundary": {"x": {"ConstantBoundary": 5}}},
        "Input 'boundary.x.ConstantBoundary' is unknown.",
        "There are constant, low, high, fields.",
    ),
    (
        {"boundary": {"x": {"constant": 1, "low": "edge"}}},
        "Input 'boundary.x' takes 'constant', or 'low', 'high' and 'fields', but got 'constant' and"
        " 'low'.",
        "Leave one out.",
    ),
    (
        {"axes": {"L": "x"}},
        "The name 'L' in input 'axes' must be 'I', 'J' or 'K'.",
        "Dimensions of I, J and K, or null for an axis that the dataset lacks; by default they "
        "follow from CF attributes and names.",
    ),
    (
        {"fields": {"t": ""}},
        "Input 'fields.t' must not be empty, got ''.",
        "Variables by field of the program; by default of the same name.",
    ),
    (
        {"steps": 5.5},
        "Input 'steps' must be a whole number, got 5.5.",
        'Write for example "steps": 1.',
    ),
    (
        {"steps": True},
        "Input 'steps' must be a whole number, got true.",
        'Write for example "steps": 1.',
    ),
    ({"steps": "200"}, "Input 'steps' must be a whole number, got '200'.", 'Write "steps": 200.'),
    (
        {"chunks": {"x": True}},
        "Input 'chunks.x' must be a whole number, got true.",
        'Write for example "chunks": {"x": 10}.',
    ),
    (
        {"chunks": 64},
        "Input 'chunks' must be an object, got 64.",
        'Write for example "chunks": {"lat": 10}.',
    ),
    (
        {"scalars": {"k": "0.1"}},
        "Input 'scalars.k' must be true or false, a number, or an object, got '0.1'.",
        'Write "scalars": {"k": 0.1}.',
    ),
    (
        {"fields": {"t": ["tos"]}},
        "Input 'fields.t' must be text, got [\"tos\"].",
        'Write "fields": {"t": "tos"}.',
    ),
    (
        {"feedback": [["s", "t"]]},
        'Input \'feedback\' must be an object, got [["s", "t"]].',
        'Write for example "feedback": {"s": "t"}.',
    ),
    (
        {"literal_precision": "32"},
        "Input 'literal_precision' must be 32 or 64, or an object, got '32'.",
        'Write "literal_precision": 32.',
    ),
    (
        {"arithmetic": "fma"},
        "Input 'arithmetic' must be 'separate' or 'fused', got 'fma'.",
        'Write "arithmetic": "fused".',
    ),
    (
        {"target": ["cpu"]},
        "Input 'target' must be 'auto', 'cuda', 'cpu' or 'reference', got [\"cpu\"].",
        'Write for example "target": "auto".',
    ),
    (
        {"until": {"field": "s", "below": "1e-3"}},
        "Input 'until.below' must be a number, got '1e-3'.",
        'Write "until": {"below": 0.001}.',
    ),
]


@pytest.mark.parametrize(("wrong", "detail", "hint"), SENTENCES)
def test_of_stencils(idle: Running, wrong: dict[str, Any], detail: str, hint: str) -> None:
    body = {"inputs": {"program": "x", "dataset": "sst.zarr"} | wrong}
    answer = idle.client.post("/processes/stencil/execution", json=body)
    assert answer.status_code == 400
    assert (answer.json()["detail"], answer.json()["hint"]) == (detail, hint)


def test_whole_numbers_may_be_written_as_floats() -> None:
    assert _refused("echo", {"array": [1.0], "pause": 0.0}) is None


def test_what_is_missing(idle: Running) -> None:
    answer = idle.client.post("/processes/echo/execution", json={"inputs": {"pair": {"name": "n"}}})
    assert answer.json()["detail"] == "Input 'pair.value' is missing."
    answer = idle.client.post("/processes/matmul/execution", json={"inputs": {"dataset": "a"}})
    problem = answer.json()
    assert problem["detail"] == "Input 'left' is missing."
    assert problem["hint"] == "Variable of the left operand."
    assert [each["location"] for each in problem["errors"]] == [["left"], ["right"], ["dim"]]


BODIES: list[tuple[object, str, str]] = [
    ([], "The body of the request must be an object, got [].", ""),
    ({"inputs": 5}, "Member 'inputs' must be an object, got 5.", "Values by input"),
    (
        {"array": [1.0]},
        "Member 'array' is unknown.",
        'Write it below "inputs": {"inputs": {"array": ...}}.',
    ),
    (
        {"inputs": {}, "labels": "sst"},
        "Member 'labels' must be a list, got 'sst'.",
        'Write "labels": ["sst"].',
    ),
    ({"labels": [5]}, "Member 'labels.0' must be text, got 5.", 'Write "5".'),
    ({"input": {}}, "Member 'input' is unknown.", "Did you mean 'inputs'?"),
    (
        {"response": "text"},
        "Member 'response' must be 'document' or 'raw', got 'text'.",
        'Write for example "response": "document".',
    ),
    (
        {"outputs": {"a": {"x": 1}}},
        "Member 'outputs.a.x' is unknown.",
        "There are transmissionMode",
    ),
]


@pytest.mark.parametrize(("body", "detail", "hint"), BODIES)
def test_of_bodies(idle: Running, body: object, detail: str, hint: str) -> None:
    answer = idle.client.post("/processes/echo/execution", json=body)
    assert answer.status_code == 400
    assert answer.json()["detail"] == detail
    assert answer.json()["hint"].startswith(hint)


NO_JSON: list[tuple[bytes, str, str]] = [
    (b'{"inputs": x}', "line 1, column 12", 'Look at: {"inputs": x}'),
    (b'{\n  "inputs": {},\n}', "line ", "Leave out the comma in front of '}'."),
    (b'{"labels": ["a",\n]}', "line ", "Leave out the comma in front of ']'."),
    (b"{'inputs': {}}", "line 1, column 2", 'Write names and text in double quotes: "name".'),
    (b'{"inputs": {}', "line 1, column 14", "Something is not closed: a bracket, a brace"),
]


@pytest.mark.parametrize(("content", "place", "hint"), NO_JSON)
def test_of_what_is_no_json(idle: Running, content: bytes, place: str, hint: str) -> None:
    headers = {"Content-Type": "application/json"}
    answer = idle.client.post("/processes/echo/execution", content=content, headers=headers)
    problem = answer.json()
    assert answer.status_code == 400
    assert problem["detail"].startswith("The body of the request must be JSON, got ")
    assert f" at {place}" in problem["detail"]
    assert problem["hint"].startswith(hint)


def test_of_a_body_that_is_missing(idle: Running) -> None:
    headers = {"Content-Type": "application/json"}
    answer = idle.client.post("/processes/echo/execution", content=b"", headers=headers)
    assert answer.json()["detail"] == "The body of the request is missing."
    assert answer.json()["hint"] == "Send it as JSON, with 'Content-Type: application/json'."


@pytest.mark.parametrize(
    ("query", "detail", "hint"),
    [
        ("limit=abc", "'limit' must be a whole number, got 'abc'.", "Write for example limit=10."),
        ("limit=5.5", "'limit' must be a whole number, got '5.5'.", "Write for example limit=10."),
        ("limit=0", "'limit' must be at least 1, got '0'.", "Write for example limit=1."),
    ],
)
def test_of_parameters(idle: Running, query: str, detail: str, hint: str) -> None:
    answer = idle.client.get(f"/jobs?{query}").json()
    assert (answer["detail"], answer["hint"]) == (f"Parameter {detail}", hint)


@pytest.mark.parametrize(
    ("method", "path", "status", "allow", "hint"),
    [
        ("POST", "/jobs", 405, "GET, HEAD", "POST /processes/{process}/execution makes a job."),
        ("POST", "/processes/echo", 405, "GET, HEAD", "POST /processes/{process}/execution makes"),
        ("GET", "/processes/echo/execution", 405, "POST", "POST /processes/{process}/execution"),
        ("PUT", "/uploads", 405, "GET, HEAD, POST", "POST /uploads opens an upload; then PUT"),
        ("PUT", "/uploads/1/sst.nc", 404, None, "POST /uploads opens an upload; then PUT"),
        ("POST", "/jobs/1/cancel", 404, None, "DELETE /jobs/{id} dismisses a job."),
        ("GET", "/jobs/1/status", 404, None, "GET /jobs/{id} is its status."),
        ("DELETE", "/datasets", 405, "GET, HEAD", "Send GET or HEAD. GET /api describes every"),
        ("GET", "/job", 404, None, "Did you mean GET /jobs? GET /api describes every path;"),
        ("GET", "/jobs/", 404, None, "Did you mean GET /jobs? GET /api describes every path;"),
        ("GET", "/api/v1/jobs", 404, None, "GET /api describes every path; start at /."),
        ("GET", "/v1/jobs", 404, None, "Did you mean GET /jobs? "),
        ("GET", "/jobs/1/result", 404, None, "Did you mean GET /jobs/{job_id}/results? "),
        ("POST", "/process/echo/execute", 404, None, "Did you mean POST /processes/{process_id}/"),
        ("GET", "/nothing", 404, None, "GET /api describes every path; start at /."),
    ],
)
def test_of_routes(
    idle: Running, method: str, path: str, status: int, allow: str | None, hint: str
) -> None:
    answer = idle.client.request(method, path)
    assert (answer.status_code, answer.headers.get("Allow")) == (status, allow)
    assert answer.json()["hint"].startswith(hint)


def test_a_file_that_is_sent_to_the_list_of_uploads(idle: Running) -> None:
    headers = {"Content-Type": "application/x-netcdf"}
    answer = idle.client.post("/uploads", content=b"CDF\1", headers=headers)
    assert answer.json()["hint"].startswith("POST /uploads opens an upload; then PUT")


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_hint_that_is_followed_works(data: st.DataObject) -> None:
    """What is written in place of a wrong value is accepted, wherever it is drawn."""
    rule = st.sampled_from(["cyclic", "Edge", "mirror", "zero", "extrapolat", 5, 2.5, ["edge"]])
    wrong: dict[str, Any] = data.draw(
        st.one_of(
            st.fixed_dictionaries({"steps": st.integers(1, 10_000_000).map(str)}),
            st.fixed_dictionaries({"boundary": st.dictionaries(_WORDS, rule, min_size=1)}),
            st.fixed_dictionaries({"boundary": st.fixed_dictionaries({"x": rule | st.just("5")})}),
            st.fixed_dictionaries(
                {"scalars": st.fixed_dictionaries({"k": st.floats(-9, 9).map(str)})}
            ),
            st.fixed_dictionaries(
                {"chunks": st.integers() | st.fixed_dictionaries({"x": _LEAVES})}
            ),
            st.fixed_dictionaries({"arithmetic": _LEAVES}),
            st.fixed_dictionaries({"axes": _LEAVES}),
        )
    )
    given = {"program": "x", "dataset": "a"} | wrong
    problem = _refused("stencil", given)
    if problem is None or not problem.hint.startswith("Write "):
        return
    hint = in_words_of(Interface.JSON, problem.hint)
    right = json.loads("{" + hint.removeprefix("Write ").removeprefix("for example ")[:-1] + "}")
    assert _refused("stencil", {"program": "x", "dataset": "a"} | right) is None, hint
