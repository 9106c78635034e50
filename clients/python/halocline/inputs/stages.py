"""Inputs by name, including those of the stages of a sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from halocline.inputs.program import program_and_externals

__all__ = ["each_input", "with_texts"]


def each_input(inputs: Mapping[str, Any], change: Callable[[str, Any], Any]) -> dict[str, Any]:
    """Return inputs with a function applied to each, including the inputs of stages.

    >>> inputs = {"steps": 3, "stages": [{"solve": {"rhs": "b", "factors": "f.zarr"}}]}
    >>> each_input(inputs, lambda name, value: "job:1" if name == "factors" else value)["stages"]
    [{'solve': {'rhs': 'b', 'factors': 'job:1'}}]
    """
    return {
        name: [_stage(stage, change) for stage in cast("Iterable[Any]", value)]
        if name == "stages" and isinstance(value, list | tuple)
        else change(name, value)
        for name, value in inputs.items()
    }


def _stage(stage: Any, change: Callable[[str, Any], Any]) -> Any:
    if not isinstance(stage, Mapping):
        return stage
    if "repeat" in stage:
        return each_input(cast("Mapping[str, Any]", stage), lambda _, value: value) | {
            "stages": [_stage(one, change) for one in cast("Iterable[Any]", stage["stages"])]
        }
    return {
        kind: each_input(cast("Mapping[str, Any]", own), change)
        if isinstance(own, Mapping)
        else own
        for kind, own in cast("Mapping[str, Any]", stage).items()
    }


def with_texts(stages: Any) -> Any:
    """Return stages whose programs, given as paths or functions, are text."""
    if not isinstance(stages, list | tuple):
        return stages
    return [_with_text(stage) for stage in cast("Iterable[Any]", stages)]


def _with_text(stage: Any) -> Any:
    match stage:
        case {"stencil": {"program": program, **others}, **rest}:
            name = others.get("stencil_name")
            source, used = program_and_externals(program, others.get("externals"), name)
            named = name or source.name
            called: dict[str, Any] = {"stencil_name": named} if named else {}
            if "externals" in others:
                called["externals"] = used
            return {"stencil": {**others, **called, "program": source.text}, **rest}
        case {"stages": [*stages], **rest}:
            return {**rest, "stages": with_texts(stages)}
        case _:
            return stage
