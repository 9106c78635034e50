"""Inputs of a job that is submitted again with changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from halocline.inputs.arguments import plain
from halocline.inputs.program import program_source
from halocline.inputs.stages import with_texts

__all__ = ["DATASETS", "changed"]

#: Inputs of any process that name datasets.
DATASETS = frozenset({"dataset", "factors", "mesh", "weights"})


def changed(inputs: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs as JSON with changes; datasets stay as they are.

    Mappings are merged by name, and None removes an input. Raises ArgumentError if an input has the
    wrong type.

    >>> changed({"scalars": {"a": 1, "b": 2}, "steps": 3}, {"scalars": {"b": 4}, "steps": None})
    {'scalars': {'a': 1, 'b': 4}}
    """
    others = {name: value for name, value in changes.items() if name not in DATASETS}
    if "stages" in others:
        others["stages"] = with_texts(others["stages"])
    if others.get("program") is not None:
        others["program"] = program_source(others["program"]).text
    made = {name: value for name, value in inputs.items() if name not in others}
    for name, value in plain(others).items():
        made[name] = _merged(inputs.get(name), value)
    return made


def _merged(old: Any, new: Any) -> Any:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return {**cast("Mapping[str, Any]", old), **cast("Mapping[str, Any]", new)}
    return new
