"""Inputs of a process in a JSON file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from halocline.errors import ArgumentError

__all__ = ["read_inputs"]

_EXAMPLE = 'Write for example {"dataset": "sea.nc", "expression": "GradientC2F()(t)"}.'


def read_inputs(path: Path, dataset: str | None = None) -> dict[str, Any]:
    """Return the inputs in a file, with the dataset of the command line if there is one.

    Raises ArgumentError if the file cannot be read, is no JSON object, or names a dataset as well.
    """
    try:
        document = json.loads(path.read_text("utf-8"))
    except OSError as error:
        reason = error.strerror or str(error)
        raise ArgumentError(
            f"The inputs '{path}' cannot be read: {reason}.", hint="Name a file that is here."
        ) from error
    except ValueError as error:
        raise ArgumentError(f"The inputs '{path}' are not JSON: {error}.", hint=_EXAMPLE) from error
    if not isinstance(document, dict):
        raise ArgumentError(
            f"The inputs '{path}' must be an object with names, got '{type(document).__name__}'.",
            hint=_EXAMPLE,
        )
    inputs = cast("dict[str, Any]", document)
    if dataset is None:
        return inputs
    if "dataset" in inputs:
        raise ArgumentError(
            f"The dataset is given twice: as '{dataset}', and as '{inputs['dataset']}' in"
            f" '{path}'.",
            hint="Give it once only.",
        )
    return {**inputs, "dataset": dataset}
