"""Job files: a process, its inputs, and name and labels of the job, in TOML, YAML or JSON."""

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
    """A job described by a file; `source` is its program, if it is in a separate file."""

    process: str
    inputs: dict[str, Any]
    job_name: str | None
    labels: tuple[str, ...]
    output: Path | None
    source: Source | None


def is_job_file(path: str, process: str | None) -> bool:
    """Return whether a path is that of a job file; with --process a file has inputs only."""
    return process is None and Path(path).suffix.lower() in _KINDS


def read_job_file(path: Path, dataset: str | None = None) -> JobFile:
    """Read a job file; `dataset` replaces the dataset of the file.

    Raises ArgumentError if the file cannot be read, or is not a job file.
    """
    document = with_new_names("job", _document(path))
    for name in document:
        if name not in _MEMBERS:
            raise ArgumentError(
                f"The job file '{path}' has the unknown member '{name}'.",
                hint=f"There are: {', '.join(_MEMBERS)}. Inputs belong below 'inputs'.",
            )
    process = _member(path, document, "process", str, "stencil")
    inputs = with_new_names(process, _member(path, document, "inputs", dict, {}))
    labels = _member(path, document, "labels", list, [])
    folder = path.parent
    source = _program(folder, inputs.get("program"))
    made = each_input(inputs, partial(_resolve_input, folder))
    named = _member(path, document, "output", str, None)
    output = None if named is None else folder / output_path(named, OutputError)
    return JobFile(
        process=process,
        inputs=made if dataset is None else {**made, "dataset": dataset},
        job_name=_member(path, document, "job_name", str, None),
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
    document = _yaml(path, text) if kind in (".yaml", ".yml") else _plain(path, text, kind)
    if not isinstance(document, dict):
        raise ArgumentError(
            f"The job file '{path}' must have members, got '{type(document).__name__}'.",
            hint=_example(path),
        )
    return cast("dict[str, Any]", document)


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


def _member(path: Path, document: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    member = document.get(name, default)
    if member is not default and not isinstance(member, kind):
        words = {dict: "an object with names", list: "a list", str: "text"}
        raise ArgumentError(
            f"Member '{name}' of the job file '{path}' must be {words[kind]}, got "
            f"'{type(member).__name__}'.",
            hint=_example(path),
        )
    return member


def _program(folder: Path, given: Any) -> Source | None:
    """Return the program if it is in a separate file, otherwise None."""
    if isinstance(given, str) and given.endswith(".py") and "\n" not in given:
        return program_source(folder / given)
    return None


def _resolve_input(folder: Path, name: str, value: Any) -> Any:
    """Return an input whose paths, if they exist, start at the folder of the job file.

    The path of a program is replaced with its text.
    """
    if name == "program":
        source = _program(folder, value)
        return value if source is None else source.text
    if name not in DATASETS:
        return value
    if isinstance(value, list):
        return [_resolve_input(folder, name, one) for one in cast("list[Any]", value)]
    here = folder / value if isinstance(value, str) else None
    if here is not None and (os.path.exists(here) or glob.has_magic(value)):
        return str(here)
    return value
