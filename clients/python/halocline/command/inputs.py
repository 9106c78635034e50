"""The inputs of a process in a file of JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from halocline.errors import ArgumentError

__all__ = ["read_inputs"]

_EXAMPLE = 'Write for example {"dataset": "sea.nc", "expression": "GradientC2F()(t)"}.'


def read_inputs(path: Path, dataset: str | None = None) -> dict[str, Any]:
    """Return the inputs in a file, with a dataset that is named beside it.

    Raises `ArgumentError` where the file cannot be read, holds no object, or names the dataset too.
    """
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        reason = error.strerror or str(error)
        raise ArgumentError(
            f"The inputs '{path}' cannot be read: {reason}.", hint="Name a file that is here."
        ) from error
    except ValueError as error:
        raise ArgumentError(f"The inputs '{path}' are not JSON: {error}.", hint=_EXAMPLE) from error
    if not isinstance(found, dict):
        raise ArgumentError(
            f"The inputs '{path}' must be an object with names, got '{type(found).__name__}'.",
            hint=_EXAMPLE,
        )
    inputs = cast("dict[str, Any]", found)
    if dataset is None:
        return inputs
    if "dataset" in inputs:
        raise ArgumentError(
            f"The dataset is named twice: '{dataset}', and '{inputs['dataset']}' in '{path}'.",
            hint="Leave one out.",
        )
    return {**inputs, "dataset": dataset}
