"""Validation of inputs in JSON against the model of a process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

from pydantic import ValidationError

from halocline_engine.errors import HaloclineError
from halocline_engine.interface.renames import with_new_names
from halocline_service.api.problems import ProblemError, inputs_problem, problem_of
from halocline_service.processes.base import Inputs, Process, ReadingInputs
from halocline_service.processes.describe import resolved_schema
from halocline_service.processes.plan import PlanInputs
from halocline_service.processes.table import PROCESSES

__all__ = ["JsonObject", "checked", "refusal_of"]

JsonObject: TypeAlias = dict[str, Any]

_QUALIFIERS = {"value", "mediaType", "encoding", "schema", "format", "type"}


def checked(process_id: str, given: Mapping[str, Any], *, facts: bool) -> JsonObject:
    """Check inputs without reading data, and return the outcome as JSON.

    Valid inputs are returned as `inputs` and `references` of datasets, otherwise a `problem`. With
    `facts`, `program` describes the fields and scalars of a valid program.
    """
    process = PROCESSES[process_id]
    try:
        inputs = _checked(process, given)
        outcome: JsonObject = {
            "inputs": inputs.model_dump(mode="json", exclude_unset=True),
            "references": inputs.references() if isinstance(inputs, ReadingInputs) else {},
        }
    except (ProblemError, HaloclineError) as error:
        outcome = refusal_of(error)
    if facts:
        outcome["program"] = _facts(process, given)
    return outcome


def _checked(process: Process, inputs: Mapping[str, Any]) -> Inputs:
    """Return the inputs of a process as its model, including those of a planned process."""
    given = with_new_names(process.id, _unqualified(process, inputs))
    try:
        model = process.inputs.model_validate(given)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        raise inputs_problem(faults, given, what="Input", model=process.inputs) from None
    process.check(model)
    if not isinstance(model, PlanInputs):
        return model
    planned = _checked(PROCESSES[model.process], model.inputs)
    plain = planned.model_dump(mode="json", exclude_unset=True)
    return model.model_copy(update={"inputs": plain})


def refusal_of(error: ProblemError | HaloclineError) -> JsonObject:
    """Return the outcome of a check with an error."""
    return {"problem": _plain(error if isinstance(error, ProblemError) else problem_of(error))}


def _facts(process: Process, given: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if process.tell is None:
        return None
    try:
        return process.tell(with_new_names(process.id, given))
    except (HaloclineError, ValidationError):
        return None


def _plain(problem: ProblemError) -> JsonObject:
    return {
        "code": problem.code,
        "detail": problem.detail,
        "hint": problem.hint,
        "status": problem.status,
        "fields": problem.fields,
    }


def _unqualified(process: Process, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Replace OGC's `{"value": ...}` and `{"href": ...}` with their values.

    For an input of type object, this applies only if the inner value is an object.
    """
    schemas = resolved_schema(process.inputs)["properties"]
    return {
        name: _value(value, takes_object='"object"' in json.dumps(schemas.get(name, {})))
        for name, value in inputs.items()
    }


def _value(value: Any, *, takes_object: bool) -> Any:
    if not isinstance(value, dict):
        return value
    members = cast("dict[str, Any]", value)
    if set(members) <= {"href", "type", "title", "rel"} and "href" in members:
        return members["href"]
    if "value" in members and set(members) <= _QUALIFIERS:
        inner = members["value"]
        is_value = isinstance(inner, dict) or not takes_object
        return cast("Any", inner) if is_value else members
    return members
