"""What can be executed, as clients see it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from halocline_service.processes.table import PROCESSES

if TYPE_CHECKING:
    from tests.service.conftest import Running

OGC = "http://www.opengis.net/def/exceptions/ogcapi-processes-1/1.0"


def test_the_list_obeys_its_limit(idle: Running) -> None:
    everything = idle.client.get("/processes").json()
    assert [each["id"] for each in everything["processes"]] == [
        *("stencil", "column", "tridiagonal", "pentadiagonal", "factor", "solve", "tree"),
        *("gather", "scatter", "regrid", "neighbours", "matmul", "reduce", "sequence", "plan"),
        "echo",
    ]
    assert everything["links"][0]["rel"] == "self"
    assert len(idle.client.get("/processes?limit=1").json()["processes"]) == 1
    for limit in ("0", "10001", "x"):
        refused = idle.client.get(f"/processes?limit={limit}")
        assert refused.status_code == 400
        assert refused.json()["detail"].startswith("Parameter 'limit' must be ")


def test_stencil_is_async_only_and_echo_both(idle: Running) -> None:
    control = {
        each["id"]: each["jobControlOptions"]
        for each in idle.client.get("/processes").json()["processes"]
    }
    assert control == {
        "stencil": ["async-execute", "dismiss"],
        "column": ["async-execute", "dismiss"],
        "tridiagonal": ["async-execute", "dismiss"],
        "pentadiagonal": ["async-execute", "dismiss"],
        "factor": ["async-execute", "dismiss"],
        "solve": ["async-execute", "dismiss"],
        "tree": ["async-execute", "dismiss"],
        "gather": ["async-execute", "dismiss"],
        "scatter": ["async-execute", "dismiss"],
        "regrid": ["async-execute", "dismiss"],
        "plan": ["async-execute", "dismiss"],
        "neighbours": ["async-execute", "dismiss"],
        "matmul": ["async-execute", "dismiss"],
        "reduce": ["async-execute", "dismiss"],
        "sequence": ["async-execute", "dismiss"],
        "echo": ["sync-execute", "async-execute", "dismiss"],
    }


def test_a_description_has_schemas_that_stand_alone(idle: Running) -> None:
    described = idle.client.get("/processes/stencil").json()
    assert "$ref" not in json.dumps(described)
    inputs = described["inputs"]
    assert set(inputs) == {
        *("program", "dataset", "fields", "scalars", "externals", "dtypes", "stencil_name", "axes"),
        *("literal_precision", "arithmetic"),
        *(
            "grid",
            "positions",
            "boundary",
            "steps",
            "feedback",
            "until",
            "snapshot_every",
            "time",
            "diagnostics",
            "target",
            "mode",
            "chunks",
            "order",
        ),
    }
    assert {name for name, each in inputs.items() if each["minOccurs"] == 1} == {
        "program",
        "dataset",
    }
    assert inputs["steps"]["schema"] == {
        "title": "Steps",
        "description": "Number of steps.",
        "type": "integer",
        "minimum": 1,
        "maximum": 10_000_000,
        "default": 1,
    }
    assert inputs["target"]["schema"]["enum"] == ["auto", "cuda", "cpu", "reference"]
    assert set(described["outputs"]) == {"result"}
    assert described["outputTransmission"] == ["reference"]


def test_echo_has_what_conformance_tests_look_for(idle: Running) -> None:
    inputs = idle.client.get("/processes/echo").json()["inputs"]
    schemas = {name: each["schema"] for name, each in inputs.items()}
    assert schemas["string"]["type"] == "string"
    assert schemas["pause"]["type"] == "integer"
    assert schemas["array"]["type"] == "array"
    assert schemas["bbox"]["properties"]["bbox"]["type"] == "array"
    assert schemas["pair"]["type"] == "object"
    assert schemas["image"]["contentMediaType"] == "image/png"


def test_an_unknown_process_is_named_so(idle: Running) -> None:
    for answer in (
        idle.client.get("/processes/nothing"),
        idle.client.post("/processes/nothing/execution", json={"inputs": {}}),
    ):
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json() == {
            "type": f"{OGC}/no-such-process",
            "title": "There is no such process",
            "status": 404,
            "detail": "There is no process 'nothing'.",
            "code": "no-such-process",
            "hint": f"There are: {', '.join(PROCESSES)}.",
        }
