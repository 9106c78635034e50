"""Checks of requests to execute a process, and storage of jobs."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import anyio.to_thread

from halocline_service.api.checking.inputs import JsonObject
from halocline_service.api.problems import ProblemError
from halocline_service.api.requests.context import Context
from halocline_service.api.schemas import Execute
from halocline_service.datasets.addresses import localised
from halocline_service.datasets.references import no_upload
from halocline_service.datasets.wording import Wording, wording_of
from halocline_service.jobs.job import Job, JobRequest
from halocline_service.jobs.states import FINAL
from halocline_service.processes.base import Process, ReadingInputs
from halocline_service.store.base import (
    IdempotencyConflict,
    JobQuery,
    Page,
    QueueFull,
    UploadGone,
)

__all__ = [
    "ExecutionRequest",
    "Preference",
    "check",
    "outcome_of",
    "preference",
    "request_of",
    "submit",
    "used_key",
]

_LONGEST_WAIT = 30  # seconds
_RECENT = 10  # finished jobs that determine the pace of a queue
_LATER = "-"  # placeholder for a dataset that is not uploaded yet


@dataclass(frozen=True, slots=True)
class ExecutionRequest:
    """A checked request to execute: inputs as JSON, and references of its datasets."""

    process: Process
    inputs: JsonObject
    references: Mapping[str, str]
    outputs: tuple[str, ...]
    raw: bool
    name: str | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Preference:
    """Content of the `Prefer` header (RFC 7240)."""

    run_async: bool


def preference(header: str | None) -> Preference:
    """Return the preferences of a `Prefer` header; unknown ones are ignored."""
    wishes = [part.partition(";")[0].strip().lower() for part in (header or "").split(",")]
    return Preference(run_async="respond-async" in wishes)


async def check(
    here: Context, process: Process, body: Execute, owner: str, base: str
) -> ExecutionRequest:
    """Check a request without reading data; `base` is the API's URL.

    Raises a problem or an engine error.
    """
    outcome = await outcome_of(here, process, body, owner, base)
    return await request_of(here, process, body, owner, outcome)


async def outcome_of(
    here: Context,
    process: Process,
    body: Execute,
    owner: str,
    base: str,
    *,
    without: Sequence[str] = (),
    facts: bool = False,
) -> JsonObject:
    """Check inputs in another process; the datasets in `without` are not uploaded yet.

    See `checking.inputs.checked`.
    """
    reads = issubclass(process.inputs, ReadingInputs)
    sent = localised(body.inputs, base) if reads else body.inputs
    inputs = {**dict.fromkeys(without, _LATER), **sent}
    return await here.checks(owner, process.id, inputs, facts=facts)


async def request_of(
    here: Context,
    process: Process,
    body: Execute,
    owner: str,
    outcome: JsonObject,
    *,
    without: Sequence[str] = (),
    outlines: Mapping[str, JsonObject] = MappingProxyType({}),
) -> ExecutionRequest:
    """Return the request with checked inputs, after a check with its available datasets.

    `outlines` describe datasets that are not uploaded yet. Raises a problem or an engine error.
    """
    if "problem" in outcome:
        raise ProblemError(**outcome["problem"])
    wanted = tuple(process.outputs) if body.outputs is None else tuple(body.outputs)
    for name in wanted:
        if name not in process.outputs:
            raise _no_output(process, name)
    references: dict[str, str] = outcome["references"]
    named = {name: given for name, given in references.items() if name not in without}
    places = await anyio.to_thread.run_sync(_resolve, here, named, owner)
    datasets = {**places, **outlines}
    if references and references.keys() <= datasets.keys():
        await _fit(here, process, outcome["inputs"], named, datasets, owner)
    labels = tuple(dict.fromkeys(body.labels))
    is_raw = body.response == "raw"
    inputs = outcome["inputs"]
    return ExecutionRequest(process, inputs, references, wanted, is_raw, body.job_name, labels)


def _resolve(here: Context, references: Mapping[str, str], owner: str) -> dict[str, JsonObject]:
    """Return the places of datasets by input, for a check. Raises an engine error."""
    largest = here.settings.chunk_bytes
    places = {
        name: here.resolver.resolve(reference, owner=owner)
        for name, reference in references.items()
    }
    return {name: {"place": str(at), "largest_chunk": largest} for name, at in places.items()}


async def _fit(
    here: Context,
    process: Process,
    inputs: JsonObject,
    references: Mapping[str, str],
    datasets: Mapping[str, JsonObject],
    owner: str,
) -> None:
    """Raise a problem if inputs do not match their datasets."""
    fit = await here.checks.fit(owner, process.id, inputs, datasets)
    if "problem" in fit:
        wording = await anyio.to_thread.run_sync(_wording, here, references, owner)
        problem = fit["problem"]
        told = {name: wording.told(problem[name]) for name in ("detail", "hint")}
        raise ProblemError(**problem | told)


def _wording(here: Context, references: Mapping[str, str], owner: str) -> Wording:
    return wording_of(references, here.resolver, root=here.layout.root, owner=owner)


def _no_output(process: Process, name: str) -> ProblemError:
    return ProblemError(
        "no-such-output",
        f"Process '{process.id}' has no output '{name}'.",
        hint=f"It has: {', '.join(process.outputs)}.",
    )


def submit(here: Context, asked: ExecutionRequest, owner: str, idempotency_key: str | None) -> Job:
    """Store the job in the database."""
    request = {
        "inputs": asked.inputs,
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
        uploads=_uploads(asked.references),
        name=asked.name,
        labels=asked.labels,
    )
    try:
        return here.store.jobs.add(job, queue_limit=here.settings.queue_per_owner)
    except IdempotencyConflict:
        raise used_key(idempotency_key) from None
    except UploadGone as gone:  # deleted after the check
        raise no_upload(gone.upload_id) from None
    except QueueFull:
        raise ProblemError(
            "queue-full",
            f"{here.settings.queue_per_owner} jobs are waiting or running already, "
            "and no more are allowed.",
            hint="Wait for some to finish, or dismiss some.",
            headers={"Retry-After": str(_until_one_ends(here, owner))},
        ) from None


def used_key(idempotency_key: str | None) -> ProblemError:
    """Return the problem of an idempotency key that was used for another request."""
    return ProblemError(
        "idempotency",
        f"Idempotency key '{idempotency_key}' was used before for another request.",
        hint="Use a new key for each new request.",
    )


def _until_one_ends(here: Context, owner: str) -> int:
    """Return the expected seconds until a job of an owner ends, from the recent ones."""
    query = JobQuery(owner=owner, states=tuple(FINAL), page=Page(limit=_RECENT))
    ends = [job.finished for job in here.store.jobs.list(query) if job.finished is not None]
    if not ends:
        return _LONGEST_WAIT
    return min(_LONGEST_WAIT, math.ceil(max(1.0, (here.now() - min(ends)) / len(ends))))


def _uploads(references: Mapping[str, str]) -> tuple[str, ...]:
    """Return the identifiers of the uploads among references."""
    parts = [reference.partition(":") for reference in references.values()]
    return tuple(dict.fromkeys(name for scheme, _, name in parts if scheme == "upload"))
