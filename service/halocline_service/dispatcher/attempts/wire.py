"""Messages between a dispatcher and the processes of its attempts: lines of JSON.

```
to the process     {"setup": ...} once; then {"job": ..., "places": ..., "datasets": ...}s,
                   {"stop": true}
from the process   {"ready": true} once; then {"event": ...}s, {"outputs": ...} or {"error": ...}
```

An error travels as its code and its words, never as an object: what reads a user's files may have
been taken over, so nothing that it sends is more than data.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast

from halocline_engine.errors import CapacityError, HaloclineError, InternalError, ProgramError
from halocline_service.jobs.errors import error_fields
from halocline_service.jobs.job import Job, JsonObject
from halocline_service.jobs.states import State

__all__ = [
    "LONGEST_LINE",
    "ClusterLost",
    "Told",
    "error_from",
    "error_to",
    "job_from",
    "job_to",
    "line_of",
    "message_of",
]

#: Bytes of a line; a process that sends more is ended.
LONGEST_LINE = 16 * 2**20


class ClusterLost(ConnectionError):
    """Loss of the cluster during a run, as its library reported it."""


@dataclass(frozen=True, slots=True)
class Told:
    """An event as a process told it."""

    progress: float
    fields: JsonObject

    def to_json(self) -> JsonObject:
        """Give it as JSON."""
        return self.fields


def line_of(message: JsonObject) -> bytes:
    """Write a message."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def message_of(line: bytes) -> dict[str, Any]:
    """Read a message. Raises `ValueError`."""
    message: Any = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError("A message must be an object.")  # noqa: TRY004  malformed, as text is
    return cast("dict[str, Any]", message)


def job_to(job: Job) -> JsonObject:
    """Give a job as JSON."""
    return asdict(job)


def job_from(fields: Mapping[str, Any]) -> Job:
    """Read a job."""
    known: dict[str, Any] = {**fields, "state": State(fields["state"])}
    known["labels"] = tuple(fields["labels"])
    return Job(**known)


def error_to(error: Exception) -> JsonObject:
    """Give an error as JSON; an unexpected one says no more than that."""
    match error:
        case HaloclineError():
            return {"fields": error_fields(error), "errno": _errno_under(error)}
        case MemoryError():
            return {"memory": True}
        case ClusterLost() | ConnectionError() | TimeoutError():
            return {"cluster": True}
        case OSError() if error.errno is not None:
            return {"errno": error.errno}
        case _ if type(error).__module__.partition(".")[0] == "distributed":
            return {"cluster": True}
        case _:
            return {"unexpected": True}


def error_from(message: Mapping[str, Any]) -> Exception:
    """Make the error again that a process told."""
    match message:
        case {"fields": {"code": str(code), **fields}, "errno": number}:
            error = _rebuilt(code, fields)
            if isinstance(number, int):
                error.__cause__ = OSError(number, os.strerror(number))
            return error
        case {"memory": True}:
            return MemoryError()
        case {"cluster": True}:
            return ClusterLost("The connection to the workers was lost.")
        case {"errno": int(number)}:
            return OSError(number, os.strerror(number))
        case _:
            return RuntimeError("The process that computed the job met an unexpected error.")


def _errno_under(error: BaseException) -> int | None:
    """Give the number of the system's error that another was raised from."""
    cause = error.__cause__
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno is not None:
            return cause.errno
        cause = cause.__cause__
    return None


def _rebuilt(code: str, fields: Mapping[str, Any]) -> HaloclineError:
    kind = next((each for each in _kinds(HaloclineError) if each.code == code), InternalError)
    known = {name: fields[name] for name in _members(kind) if name in fields}
    error = kind(str(fields.get("message", "")), hint=str(fields.get("hint", "")), **known)
    if isinstance(error, ProgramError):
        others = (_rebuilt(str(each.get("code")), each) for each in fields.get("others", ()))
        error.others = tuple(other for other in others if isinstance(other, ProgramError))
    return error


def _kinds(kind: type[HaloclineError]) -> Generator[type[HaloclineError]]:
    yield kind
    for each in kind.__subclasses__():
        if each.__module__ == HaloclineError.__module__:
            yield from _kinds(each)


def _members(kind: type[HaloclineError]) -> tuple[str, ...]:
    if issubclass(kind, ProgramError):
        return ("line", "column", "excerpt", "rule")
    return ("needed", "available") if issubclass(kind, CapacityError) else ()
