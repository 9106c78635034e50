"""The API's document is committed, and is what the service answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from halocline_service.api.responses.openapi import downgrade
from halocline_service.document import openapi_text

COMMITTED = Path(__file__).parents[2] / "deploy" / "openapi.json"


def test_the_committed_document_has_not_drifted() -> None:
    written = COMMITTED.read_text()
    assert written == openapi_text(), "Run: halocline-server openapi > deploy/openapi.json"


def test_every_operation_says_that_errors_are_problems() -> None:
    document = json.loads(openapi_text())
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            responses = operation["responses"]
            assert "422" not in responses, (path, method)
            schema = responses["4XX"]["content"]["application/problem+json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/Problem"}
    assert "detail" in document["components"]["schemas"]["Problem"]["properties"]


def test_the_older_document_uses_no_newer_word() -> None:
    older = downgrade(json.loads(openapi_text()))
    assert older["openapi"] == "3.0.3"
    for schema in _objects(older):
        assert not isinstance(schema.get("type"), list), schema
        assert schema.get("type") != "null", schema
        assert not isinstance(schema.get("const"), str), schema
        assert isinstance(schema.get("exclusiveMinimum", True), bool), schema
        assert "contentMediaType" not in schema, schema


def test_lowering_by_example() -> None:
    def lowered(schema: dict[str, Any]) -> Any:
        document = {"openapi": "3.1.0", "components": {"schemas": {"A": schema}}}
        return downgrade(document)["components"]["schemas"]["A"]

    assert lowered({"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]}) == {
        "type": "string",
        "maxLength": 3,
        "nullable": True,
    }
    assert lowered({"type": ["integer", "null"]}) == {"type": "integer", "nullable": True}
    assert lowered({"const": "a", "type": "string"}) == {"enum": ["a"], "type": "string"}
    assert lowered({"exclusiveMinimum": 0}) == {"minimum": 0, "exclusiveMinimum": True}
    assert lowered({"properties": {"const": {"type": "string"}}}) == {
        "properties": {"const": {"type": "string"}}
    }


def _objects(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, list):
        return [each for part in cast("list[Any]", value) for each in _objects(part)]
    if not isinstance(value, dict):
        return []
    members = cast("dict[str, Any]", value)
    return [members, *(each for part in members.values() for each in _objects(part))]
