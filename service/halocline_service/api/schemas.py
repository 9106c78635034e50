"""Requests and responses as pydantic models, the source of the OpenAPI document."""

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

#: Maximum number of values in a request; no process needs more.
_MOST_VALUES = 5000
_PRINTED = r"^[^\x00-\x1f\x7f]+$"
_WORD = r"^[^\x00-\x1f\x7f,]+$"


#: Name of a job: one line of text.
JobName: TypeAlias = Annotated[str, Field(min_length=1, max_length=200, pattern=_PRINTED)]
#: Label of a job: without commas, which separate labels in a query.
JobLabel: TypeAlias = Annotated[str, Field(min_length=1, max_length=100, pattern=_WORD)]


def timestamp(seconds: float | None) -> str | None:
    """Return a time in the form of RFC 3339.

    >>> timestamp(0.5)
    '1970-01-01T00:00:00.500Z'
    """
    if seconds is None:
        return None
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


class Link(BaseModel):
    """A link with its relation."""

    href: str
    rel: str
    type: str | None = None
    title: str | None = None


class Landing(BaseModel):
    """The landing page of the API."""

    title: str
    description: str
    links: list[Link]


class Conformance(BaseModel):
    """The conformance classes of the API."""

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
    """A page of the list of processes."""

    processes: list[ProcessSummary]
    links: list[Link]


class ProcessDescription(ProcessSummary):
    """A process with its inputs and outputs."""

    inputs: dict[str, dict[str, Any]]
    outputs: dict[str, dict[str, Any]]


class OutputWish(BaseModel):
    """Requested form of one output."""

    model_config = ConfigDict(extra="forbid")

    transmissionMode: Literal["value", "reference"] | None = None
    format: dict[str, Any] | None = None


class Execute(BaseModel):
    """A request to execute a process, by the current and the older schema of OGC."""

    model_config = ConfigDict(extra="forbid")

    schema_uri: str | None = Field(
        default=None, alias="$schema", max_length=2048, description="Schema; ignored."
    )
    id: str | None = Field(default=None, description="Id of the process, if given.")
    process: str | None = Field(default=None, description="Address of the process, if given.")
    mode: Literal["auto", "async", "sync"] = Field(
        default="auto", description="'async' is the same as 'Prefer: respond-async'."
    )
    title: str | None = Field(default=None, max_length=1000, description="Title; ignored.")
    headers: list[Any] | None = Field(
        default=None, max_length=100, description="Headers of callbacks; ignored."
    )

    inputs: dict[str, Any] = Field(
        default_factory=dict[str, Any],
        description="Values by input, plain or as {'value': ...}.",
    )
    outputs: dict[str, OutputWish] | None = Field(
        default=None, description="Requested outputs; by default all."
    )
    response: Literal["document", "raw"] = "document"
    job_name: JobName | None = Field(default=None, description="Name of the job, in one line.")
    labels: list[JobLabel] = Field(
        default_factory=list[str],
        max_length=20,
        description="Labels without commas, for lists of jobs: GET /jobs?label=...",
    )

    most_values: ClassVar[int] = _MOST_VALUES

    @model_validator(mode="before")
    @classmethod
    def _refuse_many(cls, given: Any) -> Any:
        """Refuse requests with very many values, whose faults would fill the memory."""
        if isinstance(given, dict) and "subscriber" in cast("dict[str, Any]", given):
            raise ValueError(
                "Member 'subscriber' is not supported: no callbacks are made. Follow "
                "GET /jobs/{id}/events instead."
            )
        if _exceeds(given, cls.most_values):
            raise ValueError(
                f"It has more than {cls.most_values} values. Put large data into the dataset."
            )
        if isinstance(given, dict):
            return with_new_names("job", cast("dict[str, Any]", given))
        return given


class Check(Execute):
    """A request to check, possibly with outlines of datasets that are not uploaded yet."""

    most_values: ClassVar[int] = 20 * _MOST_VALUES

    datasets: dict[str, dict[str, Any]] = Field(
        default_factory=dict[str, dict[str, Any]],
        max_length=64,
        description="Outlines by input, for datasets that are not uploaded yet: 'variables' with "
        "'dims', 'shape', 'dtype' and 'attrs' each, 'coordinates', and 'attrs'.",
    )


def _exceeds(given: Any, most: int) -> bool:
    """Return whether a JSON document has more than `most` values."""
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
    """Result of a check of a request, without reading data."""

    process: str
    valid: bool = Field(description="Whether execution would accept the request.")
    missing: list[str] = Field(description="Missing datasets, by input.")
    problem: dict[str, Any] | None = Field(
        default=None, description="The problem that execution would return, if any."
    )
    program: dict[str, Any] | None = Field(
        default=None,
        description="For a stencil: its fields with halos, its scalars, and warnings.",
    )


class StatusInfo(BaseModel):
    """Status of a job."""

    jobID: str
    id: str
    type: Literal["process"] = "process"
    processingEntityType: Literal["ogc-api-processes"] = "ogc-api-processes"
    processID: str
    job_name: str | None = Field(default=None, description="Name of the job.")
    labels: list[str] | None = Field(default=None, description="Labels of the job.")
    status: Literal["accepted", "running", "successful", "failed", "dismissed"]
    message: str
    progress: int = Field(ge=0, le=100, description="Percent.")
    attempt: int = Field(description="Number of starts of the job.")
    created: str
    started: str | None = None
    finished: str | None = None
    updated: str
    exception: dict[str, Any] | None = Field(default=None, description="Problem of a failed job.")
    links: list[Link]


class JobInputs(BaseModel):
    """Inputs of a job."""

    processID: str
    inputs: dict[str, Any] = Field(description="The inputs, after checks.")
    outputs: list[str] = Field(description="The requested outputs.")
    job_name: str | None = None
    labels: list[str]


class JobList(BaseModel):
    """A page of the list of jobs, newest first."""

    jobs: list[StatusInfo]
    links: list[Link]


class OpenUpload(BaseModel):
    """Announcement of an upload."""

    model_config = ConfigDict(extra="forbid")

    digest: str | None = Field(
        default=None,
        pattern="^[0-9a-f]{64}$",
        description="SHA-256 of the output of 'sha256sum' for the objects of the store, sorted by "
        "key. If you have a complete upload with this digest, it is returned; otherwise the sent "
        "objects must match the digest.",
    )
    keep: bool = Field(
        default=True,
        description="Whether to keep the upload until it is deleted. Otherwise it is deleted with "
        "the last job that reads it.",
    )


class UploadInfo(BaseModel):
    """An upload of a dataset, open or complete."""

    id: str
    status: Literal["open", "complete"]
    href: str = Field(
        description="Root of the Zarr store, for PUTs of its keys, or the complete NetCDF file."
    )
    reference: str = Field(description="Reference of the dataset in inputs of jobs.")
    created: str
    completed: str | None = None
    keys: int | None = Field(default=None, description="Number of objects, once complete.")
    bytes: int | None = Field(default=None, description="Size in bytes, once complete.")
    digest: str | None = Field(default=None, description="Digest of the objects as sent.")
    kept: bool = Field(description="Whether the upload is kept when no job reads it.")
    links: list[Link]


class UploadList(BaseModel):
    """A page of the list of uploads, newest first."""

    uploads: list[UploadInfo]
    links: list[Link]


class DatasetList(BaseModel):
    """Datasets in the configured folders."""

    datasets: list[str]
    truncated: bool = Field(description="Whether there are more datasets than listed.")
    links: list[Link]


class DatasetVariable(BaseModel):
    """A variable of a dataset, without its values."""

    name: str
    dims: list[str]
    shape: list[int]
    chunks: list[int] | None = Field(default=None, description="Chunk sizes in the store, if any.")
    dtype: str
    bytes: int = Field(description="Decoded size in bytes.")
    coordinate: bool
    units: str | None = None
    long_name: str | None = None
    standard_name: str | None = None


class DatasetDescription(BaseModel):
    """The dimensions and variables of a dataset."""

    dataset: str
    sizes: dict[str, int] = Field(description="Lengths by dimension.")
    axes: dict[Literal["I", "J", "K"], str] = Field(
        description="Dimensions of I, J and K by attributes and names, as far as there are any."
    )
    bytes: int = Field(description="Decoded size of all variables in bytes.")
    variables: list[DatasetVariable]


class Presence(BaseModel):
    """Readiness of the service, with the outcome of each check."""

    status: Literal["ready", "not ready"]
    checks: dict[str, str]
