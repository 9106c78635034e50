"""The API reference: all operations and processes, from the OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from halocline_service.api.ui.html import Child, Html, element
from halocline_service.processes.base import Process
from halocline_service.processes.describe import input_descriptions

__all__ = ["reference_main"]

_METHODS = ("get", "post", "put", "delete", "head", "patch")
_LONGEST = 60  # characters of a displayed default
_Json = Mapping[str, Any]


def reference_main(document: _Json, processes: Sequence[Process]) -> Html:
    """Write the page from the OpenAPI document and the processes."""
    groups = _by_tag(document)
    return element(
        "main",
        element("h1", "API reference"),
        element(
            "p",
            "All requests of the service, and the inputs of its processes. As a document: ",
            element("a", "OpenAPI 3.1", href="api"),
            ", ",
            element("a", "OpenAPI 3.0", href="api/3.0"),
            ".",
            class_="lead",
        ),
        element(
            "div",
            _contents(groups, processes),
            element(
                "div",
                *(_group(tag, operations) for tag, operations in groups.items()),
                element("h2", "Inputs of the processes", id="processes"),
                *(_process(process) for process in processes),
            ),
            class_="reference",
        ),
        id="main",
        tabindex="-1",
    )


def _by_tag(document: _Json) -> dict[str, list[tuple[str, str, _Json]]]:
    groups: dict[str, list[tuple[str, str, _Json]]] = {}
    for path, methods in document["paths"].items():
        for method in (each for each in _METHODS if each in methods):
            operation = methods[method]
            tag = str((operation.get("tags") or ["Other"])[0])
            groups.setdefault(tag, []).append((method.upper(), path, operation))
    return groups


def _contents(groups: Mapping[str, Sequence[Any]], processes: Sequence[Process]) -> Html:
    tags = (element("li", element("a", tag, href=f"#tag-{_anchor(tag)}")) for tag in groups)
    inputs = (
        element("li", element("a", each.title, href=f"#process-{each.id}")) for each in processes
    )
    return element(
        "nav",
        element("strong", "Requests"),
        element("ul", *tags),
        element("strong", "Processes"),
        element("ul", *inputs),
        class_="contents card",
        aria_label="Contents",
    )


def _anchor(text: str) -> str:
    return text.lower().replace(" ", "-")


def _group(tag: str, operations: Sequence[tuple[str, str, _Json]]) -> Html:
    return element(
        "section",
        element("h2", tag, id=f"tag-{_anchor(tag)}"),
        *(_operation(*each) for each in operations),
    )


def _operation(method: str, path: str, operation: _Json) -> Html:
    return element(
        "details",
        element(
            "summary",
            element("span", method, class_=f"method {method.lower()}"),
            element("code", path),
            element("span", str(operation.get("summary", "")), class_="note"),
        ),
        element("p", str(operation.get("description", ""))),
        _parameters(operation.get("parameters", ())),
        _body(operation.get("requestBody", {})),
        _responses(operation.get("responses", {})),
        class_="operation card",
    )


def _parameters(parameters: Sequence[_Json]) -> Html | None:
    rows = [
        (
            element("code", str(each["name"])),
            str(each["in"]),
            _type_of(each.get("schema", {})),
            str(each.get("description", "")),
        )
        for each in parameters
    ]
    return _table(("Parameter", "In", "Type", "Meaning"), rows) if rows else None


def _body(body: _Json) -> Html | None:
    content: Mapping[str, _Json] = body.get("content", {})
    if not content:
        return None
    kinds = (
        f"{kind}: {_type_of(cast('_Json', each.get('schema', {})))}"
        for kind, each in content.items()
    )
    return element("p", element("strong", "Body: "), "; ".join(kinds))


def _responses(responses: _Json) -> Html:
    rows = [
        (status, str(each.get("description", "")), ", ".join(each.get("content", {})))
        for status, each in responses.items()
    ]
    return _table(("Status", "Meaning", "Media types"), rows)


def _process(process: Process) -> Html:
    rows = [
        (
            element("code", name),
            _type_of(described["schema"]),
            "required" if described["minOccurs"] else _default(described["schema"]),
            str(described["description"]),
        )
        for name, described in input_descriptions(process).items()
    ]
    return element(
        "section",
        element("h3", process.title, " ", element("code", process.id), id=f"process-{process.id}"),
        element("p", process.description),
        _table(("Input", "Type", "Default", "Meaning"), rows),
        class_="card",
    )


def _default(schema: _Json) -> str:
    if "default" not in schema:
        return "—"
    text = json.dumps(schema["default"])
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _type_of(schema: _Json) -> str:
    """Return the type of a schema in words.

    >>> _type_of({"type": "array", "items": {"type": "string"}})
    'list of text'
    """
    if "enum" in schema:
        return " | ".join(json.dumps(each) for each in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_type_of, schema["anyOf"])))
    match schema.get("type"):
        case "array":
            return f"list of {_type_of(schema.get('items', {}))}"
        case "object":
            return " ".join(_object(schema))
        case kind:
            return _WORDS.get(str(kind), str(kind or "any value"))


_WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "null",
}


def _object(schema: _Json) -> Iterator[str]:
    yield "object"
    if "properties" in schema:
        yield f"with {', '.join(schema['properties'])}"
    elif isinstance(schema.get("additionalProperties"), dict):
        yield f"of {_type_of(schema['additionalProperties'])} by name"


def _table(heads: Sequence[str], rows: Sequence[Sequence[Child]]) -> Html:
    head = element("tr", *(element("th", word, scope="col") for word in heads))
    body = (element("tr", *(element("td", value) for value in row)) for row in rows)
    return element(
        "div",
        element("table", element("thead", head), element("tbody", *body)),
        class_="scroll",
    )
