"""Documents as files: what clients share with the service instead of a package."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from halocline_service.api.schemas import Execute
from halocline_service.app import create_app
from halocline_service.processes.describe import resolved_schema
from halocline_service.processes.table import PROCESSES
from halocline_service.settings import Settings
from halocline_service.store.memory.store import memory_store

__all__ = ["job_file_schema", "openapi_text"]

_DATASETS = frozenset({"dataset", "factors", "mesh", "weights"})
_PLAIN = ("echo", "plan")  # which nobody writes into a file


def openapi_text() -> str:
    """Make the text of `deploy/openapi.json`; it does not depend on any setting."""
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(Settings(data_dir=Path(folder), auth="keys"), store=memory_store())
        return json.dumps(app.openapi(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def job_file_schema() -> str:
    """Make the text of `docs/job-file.schema.json`: what files for `halocline run` may have."""
    known = [name for name in PROCESSES if name not in _PLAIN]
    called = resolved_schema(Execute)["properties"]
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Halocline job file",
        "description": "A job for 'halocline run', 'submit' and 'plan', in TOML, YAML or JSON. "
        "Paths start at the folder of the file.",
        "type": "object",
        "required": ["inputs"],
        "additionalProperties": False,
        "properties": {
            "$schema": {"type": "string"},
            "process": {"enum": known, "default": "stencil"},
            "inputs": {"type": "object", "description": "The inputs of the process."},
            "job_name": called["job_name"]["anyOf"][0],
            "labels": called["labels"],
            "output": {
                "type": "string",
                "description": "The new Zarr store, or '.nc' file, for the result.",
            },
        },
        "allOf": [_inputs_of(name) for name in known],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _inputs_of(process: str) -> dict[str, Any]:
    """Return what the inputs of a process are; without a process they are a stencil's."""
    asked: dict[str, Any] = {"properties": {"process": {"const": process}}}
    if process != "stencil":
        asked["required"] = ["process"]
    known = resolved_schema(PROCESSES[process].inputs)  # kept for others, so it stays as it is
    properties = {
        name: _with_lists(each) if name in _DATASETS else each
        for name, each in known["properties"].items()
    }
    inputs = {**known, "properties": properties}
    return {"if": asked, "then": {"properties": {"inputs": inputs}}}


def _with_lists(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return a dataset that may be several files, which the command joins."""
    one = {name: value for name, value in described.items() if name not in ("title", "description")}
    about = described["description"].rstrip(".")
    return {
        "title": described["title"],
        "description": f"{about}. Or local files, which are uploaded: a list of paths, or a pattern"
        " such as 'data_*.nc', joined along one dimension.",
        "anyOf": [one, {"type": "array", "items": {"type": "string"}, "minItems": 1}],
    }
