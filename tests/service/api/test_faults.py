"""Wrong inputs are told in sentences: where, what was expected and got, never by which library."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

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


_BOUNDARY = "What lies beyond the edges of each dimension, at both ends or at each one."
SENTENCES: list[tuple[dict[str, Any], str, str]] = [
    ({"boundary": 5}, "Input 'boundary' must be an object, got 5.", _BOUNDARY),
    (
        {"boundary": {"x": 5}},
        "Input 'boundary.x' must be 'periodic', 'edge', 'reflect', 'symmetric', 'antisymmetric',"
        " 'extrapolate' or 'none', or an"
        " object, got 5.",
        'Write "boundary": {"x": {"constant": 5}}.',
    ),
    (
        {"boundary": {"x": {"constant": "a"}}},
        "Input 'boundary.x.constant' must be true or false, or a number, got 'a'.",
        _BOUNDARY,
    ),
    (
        {"boundary": {"x": {"low": {"constant": None}}}},
        "Input 'boundary.x.low.constant' must be true or false, or a number, got null.",
        _BOUNDARY,
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
        "The dimensions that are I, J and K, or null for none; by default found by CF attributes "
        "and by names.",
    ),
    (
        {"fields": {"t": ""}},
        "Input 'fields.t' must not be empty, got ''.",
        "The variable that each field of the program is; by default the one of the same name.",
    ),
    ({"steps": 5.5}, "Input 'steps' must be a whole number, got 5.5.", "How many steps are made."),
    (
        {"steps": True},
        "Input 'steps' must be a whole number, got true.",
        "How many steps are made.",
    ),
    ({"steps": "5"}, "Input 'steps' must be a whole number, got '5'.", "How many steps are made."),
    (
        {"chunks": {"x": True}},
        "Input 'chunks.x' must be a whole number, got true.",
        "Sizes of the blocks, by dimension.",
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
    assert problem["hint"] == "The variable that is multiplied."
    assert [each["location"] for each in problem["errors"]] == [["left"], ["right"], ["dim"]]


BODIES: list[tuple[object, str, str]] = [
    ([], "The body of the request must be an object, got [].", ""),
    ({"inputs": 5}, "Member 'inputs' must be an object, got 5.", "Values by input"),
    ({"input": {}}, "Member 'input' is unknown.", "Did you mean 'inputs'?"),
    ({"response": "text"}, "Member 'response' must be 'document' or 'raw', got 'text'.", ""),
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


def test_of_what_is_no_json(idle: Running) -> None:
    for content, detail in (
        (b'{"inputs": x}', "The body of the request must be JSON, got at character 11: Expecting"),
        (b"", "The body of the request is missing."),
    ):
        answer = idle.client.post(
            "/processes/echo/execution",
            content=content,
            headers={"Content-Type": "application/json"},
        )
        assert answer.status_code == 400
        assert answer.json()["detail"].startswith(detail)


def test_of_parameters(idle: Running) -> None:
    for limit, told in (("abc", "be a whole number, got 'abc'"), ("0", "be at least 1, got '0'")):
        answer = idle.client.get(f"/jobs?limit={limit}")
        assert answer.json()["detail"] == f"Parameter 'limit' must {told}."
