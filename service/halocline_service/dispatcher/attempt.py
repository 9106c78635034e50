"""One attempt at a job: resolve and check its dataset, compute, and look at what came out."""

from __future__ import annotations

import errno
import functools
import shutil
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from halocline_engine.errors import DatasetError, InternalError, OutputError
from halocline_service.datasets.layout import Layout
from halocline_service.datasets.links import Links
from halocline_service.datasets.references import DatasetRefused, Resolver
from halocline_service.datasets.tree import check_tree, is_zarr, parse_root
from halocline_service.jobs.job import Job, JsonObject
from halocline_service.processes.base import DatasetInputs, Inputs, Process
from halocline_service.processes.stencil import StencilInputs
from halocline_service.processes.table import PROCESSES

__all__ = [
    "ROOM",
    "EngineEvent",
    "EngineFunctions",
    "Runner",
    "Scan",
    "Tools",
    "attempt",
    "check_room",
]

#: The way out where a disk has no room.
ROOM = "Remove jobs and uploads that are no longer needed, or ask the operator for more room."


class EngineEvent(Protocol):
    """What a run tells: its progress from 0 to 1, and itself as JSON with a `kind`."""

    @property
    def progress(self) -> float:
        """How much is done."""
        ...

    def to_json(self) -> JsonObject:
        """Give it as JSON."""
        ...


Runner = Callable[..., object]  # `halocline_engine.run`, or another function of the engine
# Processes whose functions take a cache of analysed indices, weights and meshes.
_WITH_PLANS = ("gather", "scatter", "regrid", "neighbours")
Scan = Callable[[Path], None]  # raises DatasetError for a file that reads other files


class EngineFunctions:
    """The engine's functions by the names of processes, loaded when they are first asked for.

    What was analysed for one job is kept for later ones, as long as this object lives.
    """

    def __init__(self) -> None:
        self._plans: object | None = None

    def __call__(self, process: str) -> Runner:
        """Return what runs a process."""
        import halocline_engine

        function = cast("Runner", getattr(halocline_engine, process))
        if process not in _WITH_PLANS:
            return function
        if self._plans is None:
            self._plans = halocline_engine.PlanCache()
        return functools.partial(function, plans=self._plans)


@dataclass(frozen=True, slots=True)
class Tools:
    """What an attempt uses: `runner` runs stencils, `engine` gives what runs other processes.

    `limits` are options of the engine by their names: bytes that an operator grants. `headroom`
    are bytes of the disk that no job may take.
    """

    layout: Layout
    resolver: Resolver
    runner: Runner
    scan: Scan
    cluster: str | None
    largest_chunk: int
    engine: Callable[[str], Runner] = field(default_factory=EngineFunctions)
    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    headroom: int = 0


def attempt(
    job: Job,
    tools: Tools,
    on_event: Callable[[EngineEvent], None],
    cancelled: Callable[[], bool],
) -> JsonObject:
    """Compute a job's outputs. Raises whatever goes wrong.

    There must be room for them: the engine projects what it writes before it begins, and a disk
    that fills up meanwhile ends the job; in both cases by an `OutputError` for the user's eyes.
    """
    process = PROCESSES[job.process]
    inputs = process.inputs.model_validate(job.request["inputs"])
    if process.inline is not None:
        return _inline(process, inputs, job, cancelled)
    assert isinstance(inputs, DatasetInputs)
    told: dict[str, Any] = {"on_event": on_event, "cancelled": cancelled}
    check_room(job, tools)
    with _for_users(tools.layout):
        return _computed(job, inputs, tools, told)


def _inline(
    process: Process, inputs: Inputs, job: Job, cancelled: Callable[[], bool]
) -> JsonObject:
    assert process.inline is not None
    values = process.inline.run(inputs, cancelled)
    wanted = job.request["outputs"]
    return {"values": {name: value for name, value in values.items() if name in wanted}}


def _computed(job: Job, inputs: DatasetInputs, tools: Tools, told: Mapping[str, Any]) -> JsonObject:
    places: dict[str, str] = {}
    links: list[Links] = []
    for name, reference in inputs.references().items():
        place = tools.resolver.resolve(reference, owner=job.owner)
        if place.is_dir() and not place.is_relative_to(tools.layout.root):  # users make no links
            links.append(Links(reference, place, tools.resolver.roots))
            links[-1].begin()
        _check_dataset(place, tools)
        places[name] = str(place)
    dataset = places.pop("dataset")
    folder = tools.layout.attempt(job.lease)
    folder.mkdir(mode=0o700, parents=True)
    output = folder / "result.zarr"
    told = {**told, **_granted(tools), "cluster": tools.cluster, "output": str(output)}
    result: Any
    if isinstance(inputs, StencilInputs):
        work = tools.layout.work(job.id)
        work.mkdir(mode=0o700, exist_ok=True)
        steps = {"workspace": str(work), "attempt": job.fence}
        result = tools.runner(inputs.program, dataset, **inputs.arguments(), **told, **steps)
    else:
        result = tools.engine(job.process)(dataset=dataset, **places, **inputs.arguments(), **told)
    if hasattr(result, "close"):
        result.close()
    _check_result(output)
    _check_still_there(job, inputs, tools)
    for each in links:
        each.finish()
    return {"zarr": {"result": f"{folder.name}/{output.name}"}}


def check_room(job: Job, tools: Tools) -> None:
    """Refuse to write to a disk that is nearly full. Raises `OutputError`.

    A job that writes no files may go on.
    """
    if PROCESSES[job.process].inline is not None:
        return
    free = shutil.disk_usage(tools.layout.root).free
    if free < tools.headroom:
        raise OutputError(
            f"There is no room for a result: {free} bytes of the disk are free, and "
            f"{tools.headroom} must stay free.",
            hint=ROOM,
        )


@contextmanager
def _for_users(layout: Layout) -> Generator[None]:
    """Say that a disk has no room in words for those who have no output to choose.

    Where the service keeps its files is not for them either.
    """
    try:
        yield
    except OutputError as error:
        message = error.message.replace(str(layout.root), "the service's folder")
        raise OutputError(message, hint=ROOM) from error
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise OutputError("The result cannot be written: the disk is full.", hint=ROOM) from error


def _granted(tools: Tools) -> dict[str, Any]:
    """Return the engine's options where an operator grants less than there is."""
    if not tools.limits:
        return {}
    import halocline_engine

    options = cast("Callable[..., object]", halocline_engine.Options)
    return {"options": options(**tools.limits)}


def _check_dataset(dataset: Path, tools: Tools) -> None:
    if dataset.is_dir():
        check_tree(dataset, largest_chunk=tools.largest_chunk)
    else:
        tools.scan(dataset)


def _check_still_there(job: Job, inputs: DatasetInputs, tools: Tools) -> None:
    """Refuse what was read from a dataset that was deleted: chunks that are gone read as fill."""
    for reference in inputs.references().values():
        try:
            tools.resolver.resolve(reference, owner=job.owner)
        except DatasetRefused as error:
            raise DatasetError(
                f"Dataset '{reference}' was deleted while it was read.",
                hint="Submit the job again with a dataset that stays until it has ended.",
            ) from error


def _check_result(output: Path) -> None:
    """Refuse a store without consolidated metadata: over HTTP it would open as empty."""
    if not is_zarr(output) or not parse_root(output).get("consolidated_metadata"):
        raise InternalError("The engine wrote no consolidated Zarr store as the result.")
