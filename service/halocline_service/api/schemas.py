"""Requests and responses as pydantic models, from which the API's documents are made."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from halocline_engine.interface.renames import with_new_names

__all__ = [
    "Check",
    "Checked",
    "Conformance",
    "DatasetDescription",
    "DatasetList",
    "DatasetVariable",
    "Execute",
    "JobInputs",
    "JobLabel",
    "JobList",
    "JobName",
    "Landing",
    "Link",
    "OpenUpload",
    "OutputWish",
    "Presence",
    "ProcessDescription",
    "ProcessList",
    "ProcessSummary",
    "StatusInfo",
    "UploadInfo",
    "UploadList",
    "timestamp",
]

#: Of a request; no process has use for more.
_MOST_VALUES = 5000
_PRINTED = r"^[^\x00-\x1f\x7f]+$"
_WORD = r"^[^\x00-\x1f\x7f,]+$"


#: Of a job: one line of text.
JobName: TypeAlias = Annotated[str, Field(min_length=1, max_length=200, pattern=_PRINTED)]
#: A word without commas, which divide labels in a query.
JobLabel: TypeAlias = Annotated[str, Field(min_length=1, max_length=100, pattern=_WORD)]


def timestamp(seconds: float | None) -> str | None:
    """Write a time as RFC 3339.

    >>> timestamp(0.5)
    '1970-01-01T00:00:00.500Z'
    """
    if seconds is None:
        return None
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


class Link(BaseModel):
    """A link with its meaning."""

    href: str
    rel: str
    type: str | None = None
    title: str | None = None


class Landing(BaseModel):
    """The entry of the API."""

    title: str
    description: str
    links: list[Link]


class Conformance(BaseModel):
    """The requirement classes that are met."""

    conformsTo: list[str]


class ProcessSummary(BaseModel):
    """A process in a list."""

    id: str
    version: str
    title: str
    description: str
    keywords: list[str]
    jobControlOptions: list[str]
    outputTransmission: list[Literal["value", "reference"]]
    links: list[Link]


class ProcessList(BaseModel):
    """Processes, a page of them."""

    processes: list[ProcessSummary]
    links: list[Link]


class ProcessDescription(ProcessSummary):
    """A process with its inputs and outputs."""

    inputs: dict[str, dict[str, Any]]
    outputs: dict[str, dict[str, Any]]


class OutputWish(BaseModel):
    """Wanted form of one output."""

    model_config = ConfigDict(extra="forbid")

    transmissionMode: Literal["value", "reference"] | None = None
    format: dict[str, Any] | None = None


class Execute(BaseModel):
    """A request to execute a process, with what OGC's schema and its older version allow in it."""

    model_config = ConfigDict(extra="forbid")

    schema_uri: str | None = Field(
        default=None, alias="$schema", max_length=2048, description="Of the request; not read."
    )
    id: str | None = Field(default=None, description="That of the process, if given.")
    process: str | None = Field(default=None, description="The address of the process, if given.")
    mode: Literal["auto", "async", "sync"] = Field(
        default="auto", description="'async' is what 'Prefer: respond-async' asks for."
    )
    title: str | None = Field(default=None, max_length=1000, description="For people; not read.")
    headers: list[Any] | None = Field(
        default=None, max_length=100, description="Of callbacks, which are not made; not read."
    )

    inputs: dict[str, Any] = Field(
        default_factory=dict[str, Any],
        description="Values by input; a value stands for itself, or in {'value': ...}.",
    )
    outputs: dict[str, OutputWish] | None = Field(
        default=None, description="The outputs that are wanted; all where left out."
    )
    response: Literal["document", "raw"] = "document"
    job_name: JobName | None = Field(default=None, description="Name of the job, in one line.")
    labels: list[JobLabel] = Field(
        default_factory=list[str],
        max_length=20,
        description="Words without commas by which jobs are found: GET /jobs?label=...",
    )

    most_values: ClassVar[int] = _MOST_VALUES

    @model_validator(mode="before")
    @classmethod
    def _refuse_many(cls, given: Any) -> Any:
        """Refuse what would be faults without number: each takes room until it is told."""
        if isinstance(given, dict) and "subscriber" in cast("dict[str, Any]", given):
            raise ValueError(
                "Member 'subscriber' is not supported: no callbacks are made. Follow "
                "GET /jobs/{id}/events instead."
            )
        if _exceeds(given, cls.most_values):
            raise ValueError(
                f"It has more than {cls.most_values} values. Keep what is large in the dataset."
            )
        if isinstance(given, dict):
            return with_new_names("job", cast("dict[str, Any]", given))
        return given


class Check(Execute):
    """A request that is checked only, with outlines of datasets that are still to be sent."""

    most_values: ClassVar[int] = 20 * _MOST_VALUES

    datasets: dict[str, dict[str, Any]] = Field(
        default_factory=dict[str, dict[str, Any]],
        max_length=64,
        description="Outlines by input, for datasets that are not named yet: 'variables' with "
        "'dims', 'shape', 'dtype' and 'attrs' each, 'coordinates', and 'attrs'.",
    )


def _exceeds(given: Any, most: int) -> bool:
    """Say whether a JSON document has more than so many values."""
    left, count = [given], 1
    while left:
        value = left.pop()
        if isinstance(value, dict):
            value = list(cast("dict[str, Any]", value).values())
        if isinstance(value, list):
            inner = cast("list[Any]", value)
            count += len(inner)
            if count > most:
                return True
            left.extend(inner)
    return False


class Checked(BaseModel):
    """Findings of a check of a request, without reading data."""

    process: str
    valid: bool = Field(description="Whether execution would accept it, with its datasets.")
    missing: list[str] = Field(description="Datasets that are still to be named.")
    problem: dict[str, Any] | None = Field(
        default=None, description="What execution would answer, where it is not valid."
    )
    program: dict[str, Any] | None = Field(
        default=None,
        description="Of a stencil: its fields with their halos, its scalars, and warnings.",
    )


class StatusInfo(BaseModel):
    """Status of a job."""

    jobID: str
    id: str
    type: Literal["process"] = "process"
    processingEntityType: Literal["ogc-api-processes"] = "ogc-api-processes"
    processID: str
    job_name: str | None = Field(default=None, description="Name of the job.")
    labels: list[str] | None = Field(default=None, description="Words of its owner.")
    status: Literal["accepted", "running", "successful", "failed", "dismissed"]
    message: str
    progress: int = Field(ge=0, le=100, description="Percent.")
    attempt: int = Field(description="How often it was started.")
    created: str
    started: str | None = None
    finished: str | None = None
    updated: str
    exception: dict[str, Any] | None = Field(default=None, description="Why it failed.")
    links: list[Link]


class JobInputs(BaseModel):
    """Inputs of a job."""

    processID: str
    inputs: dict[str, Any] = Field(description="The inputs, as they were checked.")
    outputs: list[str] = Field(description="The outputs that are wanted.")
    job_name: str | None = None
    labels: list[str]


class JobList(BaseModel):
    """Jobs, a page of them, newest first."""

    jobs: list[StatusInfo]
    links: list[Link]


class OpenUpload(BaseModel):
    """Announcement of an upload."""

    model_config = ConfigDict(extra="forbid")

    digest: str | None = Field(
        default=None,
        pattern="^[0-9a-f]{64}$",
        description="SHA-256 of the list that 'sha256sum' prints of the store's objects, in the "
        "order of their keys. Where you have a complete upload with it, that is the answer; else "
        "what is sent must have it.",
    )
    keep: bool = Field(
        default=True,
        description="Whether it stays until it is deleted; else it goes with the last job that "
        "reads it.",
    )


class UploadInfo(BaseModel):
    """A dataset that is being sent, or was."""

    id: str
    status: Literal["open", "complete"]
    href: str = Field(
        description="The root of the Zarr store, PUT its keys below; or the complete NetCDF file."
    )
    reference: str = Field(description="How a job names it.")
    created: str
    completed: str | None = None
    keys: int | None = Field(default=None, description="Objects, once complete.")
    bytes: int | None = Field(default=None, description="Their size, once complete.")
    digest: str | None = Field(default=None, description="Of its objects as they were sent.")
    kept: bool = Field(description="Whether it stays when no job reads it any more.")
    links: list[Link]


class UploadList(BaseModel):
    """Uploads, a page of them, newest first."""

    uploads: list[UploadInfo]
    links: list[Link]


class DatasetList(BaseModel):
    """Datasets that may be named by path."""

    datasets: list[str]
    truncated: bool = Field(description="Whether there are more than are listed.")
    links: list[Link]


class DatasetVariable(BaseModel):
    """A variable of a dataset, without its values."""

    name: str
    dims: list[str]
    shape: list[int]
    chunks: list[int] | None = Field(default=None, description="As stored, where it is chunked.")
    dtype: str
    bytes: int = Field(description="In memory, decoded.")
    coordinate: bool
    units: str | None = None
    long_name: str | None = None
    standard_name: str | None = None


class DatasetDescription(BaseModel):
    """The dimensions and variables of a dataset."""

    dataset: str
    sizes: dict[str, int] = Field(description="Lengths by dimension.")
    axes: dict[Literal["I", "J", "K"], str] = Field(
        description="The dimensions that are I, J and K by attributes and names, where one is."
    )
    bytes: int = Field(description="Of all variables in memory, decoded.")
    variables: list[DatasetVariable]


class Presence(BaseModel):
    """Whether the service can do its work, and what was looked at."""

    status: Literal["ready", "not ready"]
    checks: dict[str, str]
