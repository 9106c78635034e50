"""From a request's body to checked inputs and a stored job, or to outputs at once."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic import ValidationError

from halocline_service.api.problems import ProblemError, inputs_problem
from halocline_service.api.requests.context import Context
from halocline_service.api.schemas import Execute
from halocline_service.datasets.addresses import localised
from halocline_service.datasets.references import no_upload
from halocline_service.jobs.job import Job, JobRequest
from halocline_service.jobs.states import FINAL
from halocline_service.processes.base import Inputs, Process, ReadingInputs
from halocline_service.processes.describe import resolved_schema
from halocline_service.processes.plan import PlanInputs
from halocline_service.store.base import (
    IdempotencyConflict,
    JobQuery,
    Page,
    QueueFull,
    UploadGone,
)

__all__ = ["ExecutionRequest", "Preference", "check", "preference", "submit"]

_LONGEST_WAIT = 30  # seconds
_RECENT = 10  # jobs by which the pace of a queue is judged
_LATER = "-"  # stands for a dataset that is not named yet
_QUALIFIERS = {"value", "mediaType", "encoding", "schema", "format", "type"}


@dataclass(frozen=True, slots=True)
class ExecutionRequest:
    """A request to execute, checked."""

    process: Process
    inputs: Inputs
    outputs: tuple[str, ...]
    raw: bool
    name: str | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Preference:
    """Content of the `Prefer` header (RFC 7240)."""

    run_async: bool


def preference(header: str | None) -> Preference:
    """Read a `Prefer` header; what is not known is ignored."""
    wishes = [part.partition(";")[0].strip().lower() for part in (header or "").split(",")]
    return Preference(run_async="respond-async" in wishes)


def check(
    here: Context,
    process: Process,
    body: Execute,
    owner: str,
    base: str,
    *,
    without: Sequence[str] = (),
) -> ExecutionRequest:
    """Check all that can be told without reading data; `base` is the API's URL.

    The inputs `without` which it is checked name datasets and are not there yet. Raises a problem
    or an engine error.
    """
    reads = issubclass(process.inputs, ReadingInputs)
    sent = localised(body.inputs, base) if reads else body.inputs
    inputs = _checked(here, process, {**dict.fromkeys(without, _LATER), **sent})
    wanted = tuple(process.outputs) if body.outputs is None else tuple(body.outputs)
    for name in wanted:
        if name not in process.outputs:
            raise _no_output(process, name)
    if isinstance(inputs, ReadingInputs):
        for name, reference in inputs.references().items():
            if name not in without:
                here.resolver.resolve(reference, owner=owner)
    labels = tuple(dict.fromkeys(body.labels))
    return ExecutionRequest(process, inputs, wanted, body.response == "raw", body.name, labels)


def _checked(here: Context, process: Process, inputs: Mapping[str, Any]) -> Inputs:
    """Return the inputs of a process as its model has them; those of one that is planned too."""
    given = _unqualified(process, inputs)
    try:
        found = process.inputs.model_validate(given)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        raise inputs_problem(faults, given, what="Input", model=process.inputs) from None
    process.check(found)
    if not isinstance(found, PlanInputs):
        return found
    planned = _checked(here, here.processes[found.process], found.inputs)
    plain = planned.model_dump(mode="json", exclude_unset=True)
    return found.model_copy(update={"inputs": plain})


def _no_output(process: Process, name: str) -> ProblemError:
    return ProblemError(
        "no-such-output",
        f"Process '{process.id}' has no output '{name}'.",
        hint=f"It has: {', '.join(process.outputs)}.",
    )


def _unqualified(process: Process, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Take values out of OGC's `{"value": ...}` and `{"href": ...}`.

    An input that is an object itself is taken out only if what is inside is an object.
    """
    schemas = resolved_schema(process.inputs)["properties"]
    return {
        name: _value(value, takes_object='"object"' in json.dumps(schemas.get(name, {})))
        for name, value in inputs.items()
    }


def _value(value: Any, *, takes_object: bool) -> Any:
    if not isinstance(value, dict):
        return value
    members = cast("dict[str, Any]", value)
    if set(members) <= {"href", "type", "title", "rel"} and "href" in members:
        return members["href"]
    if "value" in members and set(members) <= _QUALIFIERS:
        inner = members["value"]
        is_value = isinstance(inner, dict) or not takes_object
        return cast("Any", inner) if is_value else members
    return members


def submit(here: Context, asked: ExecutionRequest, owner: str, idempotency_key: str | None) -> Job:
    """Store the job; it is in the database when this returns."""
    request = {
        "inputs": asked.inputs.model_dump(mode="json", exclude_unset=True),
        "outputs": list(asked.outputs),
    }
    called = [[asked.name, *asked.labels]] if asked.name or asked.labels else []
    text = json.dumps([asked.process.id, request, *called], sort_keys=True)
    job = JobRequest(
        owner=owner,
        process=asked.process.id,
        request=request,
        fingerprint=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
        idempotency_key=idempotency_key,
        max_attempts=here.settings.max_attempts,
        uploads=_uploads(asked.inputs),
        name=asked.name,
        labels=asked.labels,
    )
    try:
        return here.store.jobs.add(job, queue_limit=here.settings.queue_per_owner)
    except IdempotencyConflict:
        raise ProblemError(
            "idempotency",
            f"Idempotency key '{idempotency_key}' was used before for another request.",
            hint="Use a new key for each new request.",
        ) from None
    except UploadGone as gone:  # since it was checked
        raise no_upload(gone.upload_id) from None
    except QueueFull:
        raise ProblemError(
            "queue-full",
            f"{here.settings.queue_per_owner} jobs are waiting or running already, "
            "and no more are allowed.",
            hint="Wait for some to finish, or dismiss some.",
            headers={"Retry-After": str(_until_one_ends(here, owner))},
        ) from None


def _until_one_ends(here: Context, owner: str) -> int:
    """Return seconds in which a job of an owner is likely to end, as the last ones did."""
    query = JobQuery(owner=owner, states=tuple(FINAL), page=Page(limit=_RECENT))
    ends = [job.finished for job in here.store.jobs.list(query) if job.finished is not None]
    if not ends:
        return _LONGEST_WAIT
    return min(_LONGEST_WAIT, math.ceil(max(1.0, (here.now() - min(ends)) / len(ends))))


def _uploads(inputs: Inputs) -> tuple[str, ...]:
    """Give the identifiers of the uploads that inputs name."""
    named = inputs.references().values() if isinstance(inputs, ReadingInputs) else ()
    parts = [reference.partition(":") for reference in named]
    return tuple(dict.fromkeys(name for scheme, _, name in parts if scheme == "upload"))
