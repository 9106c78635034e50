"""Faults of requests are told in words of the request, whatever is wrong and wherever."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from halocline_service.api.problems import inputs_problem
from halocline_service.processes.table import PROCESSES

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["x", "low", "constant", "centre", ""]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
# What pydantic says of itself, and of Python.
_INTERNAL = re.compile(
    r"function-|literal\[|\[key\]|dict\[|pydantic|nput should|valid (string|int|dict|list)"
    r"|something else|Inputs|Boundary\b|None|True|False|NoneType"
)


@pytest.mark.parametrize("name", sorted(PROCESSES))
@given(data=st.data())
def test_no_fault_is_told_in_words_of_the_code(name: str, data: st.DataObject) -> None:
    model = PROCESSES[name].inputs
    field = data.draw(st.sampled_from(sorted(model.model_fields)))
    inputs: dict[str, Any] = {field: data.draw(_VALUES)}
    try:
        model.model_validate(inputs)
    except ValidationError as error:
        problem = inputs_problem(error, given=inputs, what="Input", known=())
    else:
        return
    for text in (problem.detail, *(each["message"] for each in problem.fields["errors"])):
        said = re.sub(r"got .*", "", text)
        assert not _INTERNAL.search(said), text
        assert re.match(r"(Input|Each name in input) '", text), text
        assert text.endswith("."), text


@pytest.mark.parametrize(
    ("process", "inputs", "detail"),
    [
        ("tridiagonal", {"dataset": "a"}, "Input 'diagonal' of the request is missing."),
        ("stencil", {"fields": {"a": 1}}, "Input 'fields.a' must be text, got 1."),
        ("stencil", {"scalars": {"a": float("inf")}}, "Input 'scalars.a' must be a finite number"),
        ("regrid", {"variables": "sst"}, "Input 'variables' must be a list, got \"sst\"."),
        ("gather", {"out_of_range": 3}, "Input 'out_of_range' must be 'error', "),
    ],
)
def test_faults_are_sentences(process: str, inputs: dict[str, Any], detail: str) -> None:
    given_inputs = {"dataset": "a", "program": "p", "weights": "w"} | inputs
    model = PROCESSES[process].inputs
    given_inputs = {k: v for k, v in given_inputs.items() if k in model.model_fields}
    with pytest.raises(ValidationError) as caught:
        model.model_validate(given_inputs)
    found = [
        each["message"]
        for each in inputs_problem(caught.value, given=given_inputs, what="Input").fields["errors"]
    ]
    assert any(text.startswith(detail) for text in found), found
