"""Arguments that one interface has and another does not, each with the way out."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from enum import StrEnum
from os import PathLike, fspath
from typing import Any, cast

__all__ = ["OF_OPTIONS", "Door", "shown", "way_out"]


class Door(StrEnum):
    """Calls and requests that take arguments, each with names of its own."""

    LIBRARY = "library"
    SERVICE = "service"
    REQUEST = "request"
    COMMAND = "command"


#: Names of the options of a job.
OF_OPTIONS = (
    *("memory_limit", "memory_fraction", "device_memory_limit", "chunk_cache", "order", "threads"),
    *("steps_per_pass", "pipeline_depth", "compressed", "direct_io", "device_decoding"),
    *("program_size", "checkpoint_steps", "checkpoint_seconds"),
)
_OPERATOR = "Leave it out: the operator of the service sets the limits of a job."
_SERVICE: Mapping[str, str] = {
    "output": "Download the result: job.download({value}).",
    "workspace": "Leave it out: the service keeps finished steps itself, and resumes from them.",
    "cluster": "Leave it out: the service computes on its own workers.",
    "on_event": "Follow the job: for event in job.events().",
    "cancelled": "Stop the job: job.cancel().",
    "options": "Leave it out: the operator of the service sets the limits of a job. 'order',"
    " 'chunks' and 'mode' are arguments.",
    "limits": _OPERATOR,
    "plans": "Leave it out: the service keeps the indices and weights that it has analysed.",
    "progress": "Say it where you wait: job.result(progress={value}).",
    "tune": "Leave it out: the service uses the tiles that were measured on its devices.",
    **{name: _OPERATOR for name in OF_OPTIONS if name != "order"},
}
_REQUEST: Mapping[str, str] = {
    "output": "Leave it out, and fetch the result: GET /jobs/{id}/results.",
    "workspace": _SERVICE["workspace"],
    "cluster": _SERVICE["cluster"],
    "on_event": "Leave it out, and follow the job: GET /jobs/{id}/events.",
    "progress": "Leave it out, and follow the job: GET /jobs/{id}/events.",
    "cancelled": "Leave it out, and dismiss the job: DELETE /jobs/{id}.",
    **dict.fromkeys(("job_name", "labels"), "Write it beside 'inputs'."),
    "dry_run": "Execute the process 'plan' instead.",
    **{name: _OPERATOR for name in (*OF_OPTIONS, "options", "limits") if name != "order"},
}
_IN_A_FILE = "Write it into a job file, below 'inputs'; see 'halocline run --help'."
_COMMAND: Mapping[str, str] = {
    "name": "It was renamed to '--stencil-name'; that of a job is '--job-name'.",
    "every": "It was renamed to '--snapshot-every'.",
    "workspace": _SERVICE["workspace"],
    "cluster": _SERVICE["cluster"],
    "dry_run": "Plan the job instead: halocline plan.",
    "progress": "Leave it out: progress is shown unless '--quiet' is there.",
    **{name: _OPERATOR for name in (*OF_OPTIONS, "options", "limits") if name != "order"},
    **dict.fromkeys(("until", "diagnostics", "skipna", "na_thres"), _IN_A_FILE),
    **dict.fromkeys(("variables", "stages"), _IN_A_FILE),
}
_COMPILING = "Compile the program first: run(stencil(program, {name}={value}), dataset)."
_LIBRARY: Mapping[str, str] = {
    **dict.fromkeys(("literal_precision", "arithmetic", "limits", "tune"), _COMPILING),
    **dict.fromkeys(OF_OPTIONS, "Write options=Options({name}={value})."),
    "attempt": "Leave it out: the same job with the same workspace resumes.",
    "dry_run": "Ask a service for a plan: halocline.Client().stencil(..., dry_run={value}).",
    "job_name": "Leave it out: only jobs in a service have names.",
    "labels": "Leave it out: only jobs in a service have labels.",
    "client": "Leave it out: the library computes in this process.",
}


_BY_DOOR: Mapping[Door, Mapping[str, str]] = {
    Door.LIBRARY: _LIBRARY,
    Door.SERVICE: _SERVICE,
    Door.REQUEST: _REQUEST,
    Door.COMMAND: _COMMAND,
}


def way_out(door: Door, name: str, value: Any = None) -> str:
    """Return the way out for an argument that does not exist there but elsewhere, or "".

    >>> way_out(Door.SERVICE, "output", "r.zarr"), way_out(Door.REQUEST, "job_name")
    ("Download the result: job.download('r.zarr').", "Write it beside 'inputs'.")
    >>> way_out(Door.LIBRARY, "order", "row")
    "Write options=Options(order='row')."
    """
    hint = _BY_DOOR[door].get(name, "")
    return hint.replace("{name}", name).replace("{value}", shown(value))


def shown(value: Any) -> str:
    """Return how a value is written in Python, or three dots where that is long.

    >>> shown(0.1), shown("a"), shown([1] * 99)
    ('0.1', "'a'", '...')
    """
    if isinstance(value, PathLike):
        return repr(fspath(cast("PathLike[Any]", value)))
    plain = value.item() if hasattr(value, "dtype") and getattr(value, "ndim", None) == 0 else value
    text = reprlib.repr(plain)
    return text if isinstance(plain, str | bool | int | float) and len(text) < 60 else "..."
