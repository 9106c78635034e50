"""The dimensions and variables of a dataset, from its metadata and its coordinates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from halocline_engine.errors import HaloclineError
from halocline_service.api.checking.inputs import JsonObject
from halocline_service.api.problems import problem_of
from halocline_service.datasets.tree import check_tree

__all__ = ["describe_dataset"]

_MOST_VARIABLES = 1000
_SHOWN = ("units", "long_name", "standard_name")
_LONGEST = 200  # characters of an attribute


def describe_dataset(path: str, largest_chunk: int) -> JsonObject:
    """Return sizes, variables and axes of a dataset as JSON, or the `problem` of opening it.

    Values are not read, except for the coordinates of dimensions.
    """
    from halocline_engine.datasets.grids.axes import suggest_axes
    from halocline_engine.datasets.inputs.opening import open_source

    place = Path(path)
    try:
        if place.is_dir():
            check_tree(place, largest_chunk=largest_chunk)
        dataset: Any = open_source(path).dataset
        axes = suggest_axes(dataset)
    except HaloclineError as error:
        problem = problem_of(error)
        fields = {"code": problem.code, "detail": problem.detail, "hint": problem.hint}
        return {"problem": {**fields, "status": problem.status}}
    variables = [
        _variable(str(name), variable, is_coordinate=name in dataset.coords)
        for name, variable in list(dataset.variables.items())[:_MOST_VARIABLES]
    ]
    return {
        "sizes": {str(dim): int(length) for dim, length in dataset.sizes.items()},
        "axes": axes,
        "bytes": sum(each["bytes"] for each in variables),
        "variables": variables,
    }


def _variable(name: str, variable: Any, *, is_coordinate: bool) -> JsonObject:
    chunks = variable.encoding.get("chunks") or variable.encoding.get("chunksizes")
    return {
        "name": name,
        "dims": [str(dim) for dim in variable.dims],
        "shape": [int(length) for length in variable.shape],
        "chunks": [int(length) for length in chunks] if chunks else None,
        "dtype": str(variable.dtype),
        "bytes": math.prod(variable.shape) * variable.dtype.itemsize,
        "coordinate": is_coordinate,
        **_attributes({**variable.encoding, **variable.attrs}),
    }


def _attributes(attributes: Mapping[str, Any]) -> dict[str, str]:
    return {
        key: attributes[key][:_LONGEST] for key in _SHOWN if isinstance(attributes.get(key), str)
    }
