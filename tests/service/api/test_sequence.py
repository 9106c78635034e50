"""A sequence of stages is checked stage by stage when it is submitted."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from halocline_engine.interface.words import Interface, in_words_of
from halocline_service.processes.plan import PlanInputs
from halocline_service.processes.sequence import SequenceInputs

if TYPE_CHECKING:
    from tests.service.conftest import Running

in_json = partial(in_words_of, Interface.JSON)


PROGRAM = """
def halve(t: Field[float]):
    with computation(PARALLEL), interval(...):
        t = 0.5 * t
"""
TREE = dict.fromkeys(("diagonal", "upper", "rhs", "parent", "row_size"), "d")
KINDS = (
    "stencil, column, tridiagonal, pentadiagonal, solve, tree, gather, scatter, neighbours, regrid"
)
WRONG: list[tuple[list[Any], str, str]] = [
    (
        [],
        "Input 'stages' must not be empty, got [].",
        "Stages of a step, each as an object with one process by its identifier and its inputs"
        " except the dataset, or with 'repeat' and 'stages'. A stage reads the results of earlier"
        " stages.",
    ),
    (
        [{}],
        f"Input 'stages.0' is wrong: a stage must be one kind with its arguments, of {KINDS},"
        " or have 'repeat' and 'stages'.",
        "",
    ),
    (
        [{"tree": TREE, "stencil": {"program": PROGRAM}}],
        f"Input 'stages.0' is wrong: a stage must be one kind with its arguments, of {KINDS},"
        " or have 'repeat' and 'stages'.",
        "",
    ),
    ([{"tre": TREE}], "Input 'stages.0.tre' is unknown.", "Did you mean 'tree'?"),
    (
        [{"stencil": {"program": PROGRAM, "step": 3}}],
        "Input 'stages.0.stencil.step' is unknown.",
        "There are program, fields, scalars, externals, dtypes, literal_precision, arithmetic,"
        " stencil_name, axes, grid, positions, boundary, feedback, chunks.",
    ),
    (
        [{"tree": TREE}, {"stencil": {"program": PROGRAM, "feedback": {"x": "t"}}}],
        "Stage 2, 'stencil': Argument 'feedback' must map fields of the program, got 'x'.",
        "There are 't'.",
    ),
    (
        [{"repeat": 2, "stages": [{"stencil": {"program": PROGRAM, "feedback": {"x": "t"}}}]}],
        "Stage 1.1, 'stencil': Argument 'feedback' must map fields of the program, got 'x'.",
        "There are 't'.",
    ),
    (
        [{"repeat": 200, "stages": [{"repeat": 100, "stages": [{"tree": TREE}]}]}],
        "A step runs 20000 stages, expected at most 10000.",
        "Repeat less, with more 'steps'.",
    ),
    (
        [{"repeat": 2}],
        f"Input 'stages.0' is wrong: a stage must be one kind with its arguments, of {KINDS},"
        " or have 'repeat' and 'stages'.",
        "",
    ),
    (
        [{"tree": {**TREE, "name": "a/b"}}],
        "Stage 1, 'tree': The result cannot be named 'a/b' because that is not a valid array name.",
        "Give a 'name' of letters, digits and underscores.",
    ),
]


@pytest.mark.parametrize(("stages", "message", "hint"), WRONG)
def test_what_is_wrong_is_told(idle: Running, stages: list[Any], message: str, hint: str) -> None:
    inputs = {"dataset": "sst.zarr", "stages": stages}
    answer = idle.client.post("/processes/sequence/execution", json={"inputs": inputs})
    assert answer.status_code == 400
    told = answer.json()
    assert (told["detail"], told.get("hint", "")) == (in_json(message), in_json(hint))


def test_a_program_of_a_stage_is_wrong_at_a_place(idle: Running) -> None:
    stages = [{"stencil": {"program": PROGRAM.replace("0.5 *", "half *")}}]
    inputs = {"dataset": "sst.zarr", "stages": stages}
    answer = idle.client.post("/processes/sequence/execution", json={"inputs": inputs})
    assert answer.status_code == 400
    assert answer.json()["line"] == 4
    assert answer.json()["detail"] == "Stage 1, 'stencil': The name 'half' is unknown."


def test_datasets_of_stages_are_resolved(idle: Running) -> None:
    missing = "job:00000000-0000-7000-8000-000000000001"
    stages = [{"solve": {"factors": missing, "rhs": "d"}}]
    inputs = {"dataset": "sst.zarr", "stages": stages}
    answer = idle.client.post("/processes/sequence/execution", json={"inputs": inputs})
    assert answer.status_code == 404
    assert missing[4:] in answer.json()["detail"]


def test_references_stand_where_they_are_in_the_inputs() -> None:
    given: dict[str, Any] = {
        "dataset": "a.nc",
        "stages": [{"tree": TREE}, {"solve": {"factors": "job:1", "rhs": "d"}}],
    }
    named = {"dataset": "a.nc", "stages.1.solve.factors": "job:1"}
    inputs = SequenceInputs.model_validate(given)
    assert inputs.references() == named
    assert PlanInputs.references_in({"process": "sequence", "inputs": given}) == named
    places = {"dataset": "/a.nc", "stages.1.solve.factors": "/f.zarr"}
    keywords = inputs.keywords(places)
    assert keywords["stages"][1] == {"solve": {"factors": "/f.zarr", "rhs": "d"}}
    assert keywords["dataset"] == "/a.nc"


def test_a_program_is_never_taken_for_a_path() -> None:
    given = {"dataset": "a.nc", "stages": [{"stencil": {"program": "/etc/passwd.py"}}]}
    keywords = SequenceInputs.model_validate(given).keywords({"dataset": "/a.nc"})
    assert keywords["stages"][0]["stencil"]["program"] == "/etc/passwd.py\n"


def test_a_description_stands_alone(idle: Running) -> None:
    described = idle.client.get("/processes/sequence").json()
    assert "$ref" not in json.dumps(described)
    assert set(described["inputs"]) == {
        *(
            "dataset",
            "stages",
            "steps",
            "feedback",
            "snapshot_every",
            "results",
            "target",
            "mode",
            "chunks",
        )
    }
