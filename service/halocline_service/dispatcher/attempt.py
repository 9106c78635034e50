"""One attempt at a job: resolve and check its dataset, compute, and look at what came out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from halocline_engine.errors import InternalError
from halocline_service.datasets.layout import Layout
from halocline_service.datasets.references import Resolver
from halocline_service.datasets.tree import check_tree, is_zarr, parse_root
from halocline_service.jobs.job import Job, JsonObject
from halocline_service.processes.base import Inputs, Process
from halocline_service.processes.stencil import StencilInputs
from halocline_service.processes.table import PROCESSES

__all__ = ["EngineEvent", "Runner", "Scan", "Tools", "attempt"]


class EngineEvent(Protocol):
    """What a run tells: its progress from 0 to 1, and itself as JSON with a `kind`."""

    @property
    def progress(self) -> float:
        """How much is done."""
        ...

    def to_json(self) -> JsonObject:
        """Give it as JSON."""
        ...


Runner = Callable[..., object]  # `halocline_engine.run.run`
Scan = Callable[[Path], None]  # raises DatasetError for a file that reads other files


@dataclass(frozen=True, slots=True)
class Tools:
    """What an attempt uses."""

    layout: Layout
    resolver: Resolver
    runner: Runner
    scan: Scan
    cluster: str | None
    largest_chunk: int


def attempt(
    job: Job,
    tools: Tools,
    on_event: Callable[[EngineEvent], None],
    cancelled: Callable[[], bool],
) -> JsonObject:
    """Compute a job's outputs. Raises whatever goes wrong."""
    process = PROCESSES[job.process]
    inputs = process.inputs.model_validate(job.request["inputs"])
    if process.inline is not None:
        return _inline(process, inputs, job, cancelled)
    assert isinstance(inputs, StencilInputs)
    return _stencil(job, inputs, tools, on_event, cancelled)


def _inline(
    process: Process, inputs: Inputs, job: Job, cancelled: Callable[[], bool]
) -> JsonObject:
    assert process.inline is not None
    values = process.inline.run(inputs, cancelled)
    wanted = job.request["outputs"]
    return {"values": {name: value for name, value in values.items() if name in wanted}}


def _stencil(
    job: Job,
    inputs: StencilInputs,
    tools: Tools,
    on_event: Callable[[EngineEvent], None],
    cancelled: Callable[[], bool],
) -> JsonObject:
    dataset = tools.resolver.resolve(inputs.dataset, owner=job.owner)
    _check_dataset(dataset, tools)
    folder = tools.layout.attempt(job.lease)
    folder.mkdir(mode=0o700, parents=True)
    work = tools.layout.work(job.id)
    work.mkdir(mode=0o700, exist_ok=True)
    output = folder / "result.zarr"
    result: Any = tools.runner(
        inputs.program,
        str(dataset),
        **inputs.arguments(),
        cluster=tools.cluster,
        output=str(output),
        on_event=on_event,
        workspace=str(work),
        attempt=job.fence,
        cancelled=cancelled,
    )
    if hasattr(result, "close"):
        result.close()
    _check_result(output)
    return {"zarr": {"result": f"{folder.name}/{output.name}"}}


def _check_dataset(dataset: Path, tools: Tools) -> None:
    if dataset.is_dir():
        check_tree(dataset, largest_chunk=tools.largest_chunk)
    else:
        tools.scan(dataset)


def _check_result(output: Path) -> None:
    """Refuse a store without consolidated metadata: over HTTP it would open as empty."""
    if not is_zarr(output) or not parse_root(output).get("consolidated_metadata"):
        raise InternalError("The engine wrote no consolidated Zarr store as the result.")
