"""Job files: a process, its inputs and how the job is called, in TOML, YAML or JSON."""

from __future__ import annotations

import glob
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from halocline.errors import ArgumentError, OutputError
from halocline.inputs.changes import DATASETS
from halocline.inputs.program import program_source
from halocline.inputs.stages import each_input
from halocline_engine.arguments import output_path
from halocline_engine.interface.renames import with_new_names
from halocline_engine.language.python.sources import Source

__all__ = ["JobFile", "is_job_file", "read_job_file"]

_KINDS = (".toml", ".yaml", ".yml", ".json")
_MEMBERS = ("process", "inputs", "job_name", "labels", "output", "$schema")
_EXAMPLES: Mapping[str, str] = {
    ".toml": "Write for example: process = 'stencil', and [inputs] with program = 'smooth.py' and "
    "dataset = 'sea.nc'.",
    ".json": 'Write for example {"process": "stencil", "inputs": {"program": "smooth.py", '
    '"dataset": "sea.nc"}}.',
    ".yaml": "Write for example 'process: stencil' and 'inputs: {program: smooth.py, dataset: "
    "sea.nc}', each on a line.",
}


@dataclass(frozen=True)
class JobFile:
    """A job as a file describes it; `source` is its program where that is a file of its own."""

    process: str
    inputs: dict[str, Any]
    job_name: str | None
    labels: tuple[str, ...]
    output: Path | None
    source: Source | None


def is_job_file(path: str, process: str | None) -> bool:
    """Say whether a file is a job file, by its name; with --process it has inputs only."""
    return process is None and Path(path).suffix.lower() in _KINDS


def read_job_file(path: Path, dataset: str | None = None) -> JobFile:
    """Read a job file; `dataset` stands for what the file has.

    Raises ArgumentError where it cannot be read, or is none.
    """
    document = with_new_names("job", _document(path))
    for name in document:
        if name not in _MEMBERS:
            raise ArgumentError(
                f"The job file '{path}' has the unknown member '{name}'.",
                hint=f"There are: {', '.join(_MEMBERS)}. Inputs belong below 'inputs'.",
            )
    process = _of(path, document, "process", str, "stencil")
    inputs = with_new_names(process, _of(path, document, "inputs", dict, {}))
    labels = _of(path, document, "labels", list, [])
    folder = path.parent
    source = _program(folder, inputs.get("program"))
    made = each_input(inputs, partial(_from, folder))
    named = _of(path, document, "output", str, None)
    output = None if named is None else folder / output_path(named, OutputError)
    return JobFile(
        process=process,
        inputs=made if dataset is None else {**made, "dataset": dataset},
        job_name=_of(path, document, "job_name", str, None),
        labels=tuple(str(label) for label in labels),
        output=output,
        source=source,
    )


def _document(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise ArgumentError(
            f"The job file '{path}' cannot be read: {reason}.", hint="Name a file that is here."
        ) from error
    except UnicodeDecodeError as error:
        raise ArgumentError(
            f"The job file '{path}' is not text in UTF-8.", hint="Save it as UTF-8."
        ) from error
    kind = path.suffix.lower()
    found = _yaml(path, text) if kind in (".yaml", ".yml") else _plain(path, text, kind)
    if not isinstance(found, dict):
        raise ArgumentError(
            f"The job file '{path}' must have members, got '{type(found).__name__}'.",
            hint=_example(path),
        )
    return cast("dict[str, Any]", found)


def _example(path: Path) -> str:
    return _EXAMPLES.get(path.suffix.lower(), _EXAMPLES[".yaml"])


def _plain(path: Path, text: str, kind: str) -> object:
    language = "TOML" if kind == ".toml" else "JSON"
    try:
        return tomllib.loads(text) if kind == ".toml" else json.loads(text)
    except ValueError as error:
        raise ArgumentError(
            f"The job file '{path}' is not {language}: {error}.", hint=_example(path)
        ) from error


def _yaml(path: Path, text: str) -> object:
    try:
        import yaml
    except ImportError as error:
        raise ArgumentError(
            f"Reading '{path}' needs PyYAML, which is not installed.",
            hint="Install it: pip install pyyaml; or write the file in TOML.",
        ) from error
    loader = cast("Any", yaml)
    try:
        return cast("object", loader.safe_load(text))
    except loader.YAMLError as error:
        told = " ".join(str(error).split())
        raise ArgumentError(
            f"The job file '{path}' is not YAML: {told}.", hint=_example(path)
        ) from error


def _of(path: Path, document: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    found = document.get(name, default)
    if found is not default and not isinstance(found, kind):
        words = {dict: "an object with names", list: "a list", str: "text"}
        raise ArgumentError(
            f"Member '{name}' of the job file '{path}' must be {words[kind]}, got "
            f"'{type(found).__name__}'.",
            hint=_example(path),
        )
    return found


def _program(folder: Path, given: Any) -> Source | None:
    """Return the program where a file of its own has it."""
    if isinstance(given, str) and given.endswith(".py") and "\n" not in given:
        return program_source(folder / given)
    return None


def _from(folder: Path, name: str, value: Any) -> Any:
    """Return an input, with a path from the folder of the file where there is such a file.

    A program in a file of its own becomes its text.
    """
    if name == "program":
        source = _program(folder, value)
        return value if source is None else source.text
    if name not in DATASETS:
        return value
    if isinstance(value, list):
        return [_from(folder, name, one) for one in cast("list[Any]", value)]
    here = folder / value if isinstance(value, str) else None
    if here is not None and (os.path.exists(here) or glob.has_magic(value)):
        return str(here)
    return value
