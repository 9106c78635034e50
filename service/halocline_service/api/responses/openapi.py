"""Conversion of the OpenAPI 3.1 document to 3.0.

Many OGC tools read 3.0 only. Keywords that 3.0 lacks are removed, which widens a schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

__all__ = ["OPENAPI_30", "OPENAPI_31", "downgrade"]

OPENAPI_30 = "application/vnd.oai.openapi+json;version=3.0"
OPENAPI_31 = "application/vnd.oai.openapi+json;version=3.1"

_ONLY_31 = {
    "propertyNames", "patternProperties", "contentMediaType", "contentEncoding", "contentSchema",
    "prefixItems", "unevaluatedProperties", "$defs", "$schema", "$id", "itemSchema",
}  # fmt: skip
_NULL = {"type": "null"}
_BY_NAME = {"properties", "schemas", "parameters", "responses", "headers", "paths"}


def downgrade(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return an OpenAPI 3.1 document as 3.0.3."""
    lowered = {key: _lower(value, key) for key, value in document.items()}
    lowered.pop("webhooks", None)
    lowered.pop("jsonSchemaDialect", None)
    lowered.get("info", {}).get("license", {}).pop("identifier", None)
    return lowered | {"openapi": "3.0.3"}


def _lower(value: Any, name: str = "") -> Any:
    match value:
        case list():
            return [_lower(each) for each in cast("list[Any]", value)]
        case dict():
            members = cast("dict[str, Any]", value)
            if name in _BY_NAME:  # keys are names here, not words of JSON Schema
                return {key: _lower(each) for key, each in members.items()}
            return _lower_schema(
                {key: _lower(each, key) for key, each in members.items() if key not in _ONLY_31}
            )
        case _:
            return value


def _lower_schema(schema: dict[str, Any]) -> dict[str, Any]:
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]
    examples = schema.get("examples")
    if isinstance(examples, list):
        schema["example"] = cast("list[Any]", schema.pop("examples"))[0]
    for side, word in (("Minimum", "minimum"), ("Maximum", "maximum")):
        bound = schema.get(f"exclusive{side}")
        if isinstance(bound, (int, float)) and not isinstance(bound, bool):
            schema[word] = bound
            schema[f"exclusive{side}"] = True
    return _lower_null(schema)


def _lower_null(schema: dict[str, Any]) -> dict[str, Any]:
    kinds = schema.get("type")
    if isinstance(kinds, list):
        rest = [kind for kind in cast("list[str]", kinds) if kind != "null"]
        schema["type"] = rest[0]
        schema["nullable"] = True
    for word in ("anyOf", "oneOf"):
        choices = schema.get(word)
        if isinstance(choices, list) and _NULL in choices:
            rest = [choice for choice in cast("list[dict[str, Any]]", choices) if choice != _NULL]
            if len(rest) == 1 and "$ref" not in rest[0]:
                schema.pop(word)
                schema = rest[0] | schema
            else:
                schema[word] = rest
            schema["nullable"] = True
    return schema
