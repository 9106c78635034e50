"""OGC descriptions of processes, from their models."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

from pydantic import BaseModel

from halocline_service.processes.base import Process

__all__ = ["input_descriptions", "output_descriptions", "resolved", "resolved_schema"]


def input_descriptions(process: Process) -> dict[str, dict[str, Any]]:
    """Describe each input by a JSON Schema that stands on its own."""
    whole = process.inputs.model_json_schema()
    required = set(whole.get("required", ()))
    return {
        name: {
            "title": schema.get("title", name),
            "description": schema.get("description", ""),
            "minOccurs": 1 if name in required else 0,
            "maxOccurs": 1,
            "schema": _without_null(resolved(schema, whole.get("$defs", {}))),
        }
        for name, schema in whole["properties"].items()
    }


def output_descriptions(process: Process) -> dict[str, dict[str, Any]]:
    """Describe each output."""
    return {
        name: {
            "title": output.title,
            "description": output.description,
            "schema": _without_null(resolved(output.schema, {})),
        }
        for name, output in process.outputs.items()
    }


@cache
def resolved_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a model, which needs no definitions."""
    whole = model.model_json_schema()
    return resolved(whole, whole.pop("$defs", {}))


def resolved(schema: Any, definitions: dict[str, Any]) -> Any:
    """Put definitions where they are referred to, so that a schema needs no other document."""
    match schema:
        case {"$ref": str(reference)}:
            return resolved(definitions[reference.rpartition("/")[2]], definitions)
        case dict():
            items = cast("dict[str, Any]", schema)
            return {key: resolved(value, definitions) for key, value in items.items()}
        case list():
            values = cast("list[Any]", schema)
            return [resolved(value, definitions) for value in values]
        case _:
            return schema


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Say that an input may be left out by `minOccurs`, not by a null in its schema."""
    left = {key: value for key, value in schema.items() if key not in ("default", "anyOf")}
    if "default" in schema and schema["default"] is not None:
        left["default"] = schema["default"]
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) == 1:
        return left | choices[0] | {key: left[key] for key in ("title",) if key in left}
    return left | {"anyOf": choices} if choices else left
