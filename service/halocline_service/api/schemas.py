"""What is sent and received, as pydantic models; the API's documents are made from these."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "Conformance",
    "DatasetList",
    "Execute",
    "JobList",
    "Landing",
    "Link",
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
    """How one output is wanted."""

    model_config = ConfigDict(extra="forbid")

    transmissionMode: Literal["value", "reference"] | None = None
    format: dict[str, Any] | None = None


class Execute(BaseModel):
    """A request to execute a process."""

    model_config = ConfigDict(extra="forbid")

    inputs: dict[str, Any] = Field(
        default_factory=dict[str, Any],
        description="Values by input; a value stands for itself, or in {'value': ...}.",
    )
    outputs: dict[str, OutputWish] | None = Field(
        default=None, description="The outputs that are wanted; all where left out."
    )
    response: Literal["document", "raw"] = "document"


class StatusInfo(BaseModel):
    """How far a job is."""

    jobID: str
    id: str
    type: Literal["process"] = "process"
    processingEntityType: Literal["ogc-api-processes"] = "ogc-api-processes"
    processID: str
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


class JobList(BaseModel):
    """Jobs, a page of them, newest first."""

    jobs: list[StatusInfo]
    links: list[Link]


class UploadInfo(BaseModel):
    """A dataset that is being sent, or was."""

    id: str
    status: Literal["open", "complete"]
    href: str = Field(description="The root of the Zarr store: PUT its keys below.")
    reference: str = Field(description="How a job names it.")
    created: str
    completed: str | None = None
    keys: int | None = Field(default=None, description="Objects, once complete.")
    bytes: int | None = Field(default=None, description="Their size, once complete.")
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


class Presence(BaseModel):
    """Whether the service can do its work, and what was looked at."""

    status: Literal["ready", "not ready"]
    checks: dict[str, str]
