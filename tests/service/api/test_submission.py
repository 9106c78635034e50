"""What can be told of a request without its dataset is told when it is submitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.service.conftest import Running

PROGRAM = """
def scale(t: Field[np.float64], out: Field[np.float64], strength: float, twice: float = 2.0):
    with computation(PARALLEL), interval(...):
        out = t * strength * twice
"""
STENCIL: list[tuple[dict[str, Any], str, str]] = [
    ({}, "Scalar 'strength' needs a value, got none.", "Give it: scalars={'strength': ...}."),
    (
        {"scalars": {"strenght": 0.2}},
        "Argument 'scalars' must name scalars of the program, got 'strenght'.",
        "Did you mean 'strength'?",
    ),
    (
        {"fields": {"sst": "sst"}},
        "Argument 'fields' must map fields of the program, got 'sst'.",
        "There are 'out', 't'.",
    ),
    (
        {"feedback": {"smoothed": "t"}},
        "Argument 'feedback' must map fields of the program, got 'smoothed'.",
        "There are 'out', 't'.",
    ),
    (
        {"feedback": {"t": "out"}},
        "Feedback must come from a field that is written, got 't'.",
        "Write feedback={output: input}.",
    ),
]


@pytest.mark.parametrize(("given", "detail", "hint"), STENCIL)
def test_of_stencils(idle: Running, given: dict[str, Any], detail: str, hint: str) -> None:
    others = {} if detail.startswith("Scalar") else {"scalars": {"strength": 0.2}}
    inputs = {"program": PROGRAM, "dataset": "sst.zarr"} | others | given
    answer = idle.client.post("/processes/stencil/execution", json={"inputs": inputs})
    assert answer.status_code == 400
    assert (answer.json()["detail"], answer.json()["hint"]) == (detail, hint)


COLUMN: list[tuple[dict[str, Any], str, str]] = [
    ({"expression": "GradientC2G()(t)"}, "'GradientC2G' is not an operator.", "Did you mean"),
    ({"expression": "Nothing()(t)"}, "'Nothing' is not an operator.", "Operators are such as"),
    (
        {"expression": "GradientC2F(botom=SetValue(0.0))(t)"},
        "'GradientC2F' has no option 'botom'.",
        "Did you mean 'bottom'?",
    ),
    (
        {"expression": "GradientC2F()(t)", "fields": {"s": "sst"}},
        "Argument 'fields' must map names of the program, got 's'.",
        "There are 't'.",
    ),
]


@pytest.mark.parametrize(("given", "detail", "hint"), COLUMN)
def test_of_columns(idle: Running, given: dict[str, Any], detail: str, hint: str) -> None:
    inputs = {"dataset": "sst.zarr"} | given
    answer = idle.client.post("/processes/column/execution", json={"inputs": inputs})
    assert answer.status_code == 400
    assert answer.json()["detail"] == detail
    assert answer.json()["hint"].startswith(hint)
