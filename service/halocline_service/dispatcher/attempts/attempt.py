"""One attempt at a job: resolve and check its dataset, compute, and look at what came out."""

from __future__ import annotations

import errno
import functools
import logging
import shutil
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from halocline_engine.errors import (
    CancelledError,
    ClusterError,
    DatasetError,
    HaloclineError,
    InternalError,
    OutputError,
)
from halocline_engine.interface.workspace import Workspace
from halocline_service.datasets.digests import digest_within
from halocline_service.datasets.layout import Layout
from halocline_service.datasets.links import Links
from halocline_service.datasets.references import DatasetRefused, Resolves
from halocline_service.datasets.tree import check_tree, is_zarr, parse_root
from halocline_service.datasets.wording import Wording, wording_of
from halocline_service.dispatcher.attempts.provenance import add_provenance
from halocline_service.jobs.job import Job, JsonObject
from halocline_service.processes.base import DatasetInputs, ReadingInputs
from halocline_service.processes.plan import PLAN, PlanInputs
from halocline_service.processes.sequence import SequenceInputs
from halocline_service.processes.stencil import StencilInputs
from halocline_service.processes.table import PROCESSES

__all__ = [
    "ROOM",
    "Attempt",
    "EngineEvent",
    "EngineFunctions",
    "InProcess",
    "Runner",
    "Scan",
    "Tools",
    "attempt",
    "attempt_inline",
    "check_room",
    "check_still_there",
    "described_of",
    "places_of",
]

_log = logging.getLogger(__name__)
#: The way out where a disk has no room.
ROOM = "Remove jobs and uploads that are no longer needed, or ask the operator for more room."


class EngineEvent(Protocol):
    """Event of a run: its progress from 0 to 1, and itself as JSON with a `kind`."""

    @property
    def progress(self) -> float:
        """Share of the work that is done."""
        ...

    def to_json(self) -> JsonObject:
        """Give it as JSON."""
        ...


_OF_EVENTS = ("kind", "progress")
_DIGESTED = 1 << 30  # bytes of a dataset whose content is digested after a job has read it
_TICK = 0.05  # between looks whether a job that waits was dismissed

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
    """Tools of an attempt: `runner` runs stencils, `engine` gives what runs other processes.

    `cluster` is the address of a scheduler, or its client, or None for this process. `limits` are
    options of the engine by their names: bytes that an operator grants.
    """

    layout: Layout
    resolver: Resolves
    runner: Runner
    scan: Scan
    cluster: object
    largest_chunk: int
    engine: Callable[[str], Runner] = field(default_factory=EngineFunctions)
    limits: Mapping[str, float] = field(default_factory=dict[str, float])


class Attempt(Protocol):
    """Computes a job's outputs, wherever. Raises whatever goes wrong."""

    def __call__(
        self, job: Job, on_event: Callable[[EngineEvent], None], cancelled: Callable[[], bool]
    ) -> JsonObject:
        """Give the outputs; tell events meanwhile, and stop once `cancelled` says so."""
        ...


@dataclass(frozen=True, slots=True)
class InProcess:
    """Makes attempts in this process."""

    tools: Tools

    def __call__(
        self, job: Job, on_event: Callable[[EngineEvent], None], cancelled: Callable[[], bool]
    ) -> JsonObject:
        """Compute a job's outputs."""
        return attempt(job, self.tools, on_event, cancelled)


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
    inline = attempt_inline(job, cancelled)
    if inline is not None:
        return inline
    inputs = _inputs(job)
    told: dict[str, Any] = {"on_event": on_event, "cancelled": cancelled, "progress": False}
    named = inputs.references()
    wording = wording_of(named, tools.resolver, root=tools.layout.root, owner=job.owner)
    with _for_users(wording):
        return _computed(job, inputs, tools, told)


def attempt_inline(job: Job, cancelled: Callable[[], bool]) -> JsonObject | None:
    """Compute the outputs of a small process; None where the engine computes them."""
    process = PROCESSES[job.process]
    if process.inline is None:
        return None
    inputs = process.inputs.model_validate(job.request["inputs"])
    _wait(process.inline.pause(inputs), cancelled)
    values = process.inline.run(inputs)
    wanted = job.request["outputs"]
    return {"values": {name: value for name, value in values.items() if name in wanted}}


def _wait(seconds: float, cancelled: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    while (rest := end - time.monotonic()) > 0:
        if cancelled():
            raise CancelledError("The job was stopped on request.")
        time.sleep(min(rest, _TICK))


def described_of(job: Job, resolver: Resolves) -> dict[str, dict[str, str]]:
    """Give what is known of each dataset that a job names, by its reference."""
    references = _inputs(job).references().values()
    return {each: dict(resolver.described(each, owner=job.owner)) for each in references}


def places_of(job: Job, resolver: Resolves) -> dict[str, str]:
    """Give the path of each dataset that a job names, by its reference. Raises `DatasetRefused`."""
    references = _inputs(job).references().values()
    return {each: str(resolver.resolve(each, owner=job.owner)) for each in references}


def check_still_there(job: Job, resolver: Resolves) -> None:
    """Refuse what was read from a dataset that was deleted: chunks that are gone read as fill."""
    for reference in _inputs(job).references().values():
        try:
            resolver.resolve(reference, owner=job.owner)
        except DatasetRefused as error:
            raise DatasetError(
                f"Dataset '{reference}' was deleted while it was read.",
                hint="Submit the job again with a dataset that exists until its end.",
            ) from error


def _inputs(job: Job) -> ReadingInputs:
    return _read(job.process, job.request["inputs"])


def _read(process: str, given: Mapping[str, Any]) -> ReadingInputs:
    inputs = PROCESSES[process].inputs.model_validate(given)
    assert isinstance(inputs, ReadingInputs)
    return inputs


def _claimed_before() -> ClusterError:
    """Return the error for an attempt whose files are there: a restored database forgot it."""
    return ClusterError(
        "The database has lost that this attempt was begun, and the job is attempted again.",
        hint="Restore databases together with the data folder; see the runbook.",
    )


def _computed(job: Job, inputs: ReadingInputs, tools: Tools, told: Mapping[str, Any]) -> JsonObject:
    places: dict[str, str] = {}
    links: list[Links] = []
    named = inputs.references()
    for name, reference in named.items():
        place = tools.resolver.resolve(reference, owner=job.owner)
        if place.is_dir() and not place.is_relative_to(tools.layout.root):  # users make no links
            links.append(Links(reference, place, tools.resolver.roots))
            links[-1].begin()
        _check_dataset(place, tools)
        places[name] = str(place)
    folder = tools.layout.attempt(job.lease)
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise _claimed_before() from None
    output = folder / "result.zarr"
    told = {**told, **_granted(inputs, tools), "cluster": tools.cluster, "output": str(output)}
    if isinstance(inputs, PlanInputs):
        return _planned(job, inputs, places, tools, told)
    assert isinstance(inputs, DatasetInputs)
    heard = _Target(told["on_event"])
    result: Any = _call(job, job.process, inputs, places, tools)(**told | {"on_event": heard})
    if hasattr(result, "close"):
        result.close()
    if heard.worked:
        _tell_ceilings(heard.target, tools.cluster, told["on_event"])
    _check_result(output)
    check_still_there(job, tools.resolver)
    for each in links:
        each.finish()
    datasets = {
        name: _described(tools.resolver.described(each, owner=job.owner), Path(places[name]))
        for name, each in named.items()
    }
    add_provenance(output, job, job.request["inputs"], heard.target, datasets)
    return {"zarr": {"result": f"{folder.name}/{output.name}"}}


def _described(known: Mapping[str, str], place: Path) -> Mapping[str, str]:
    """Give what is known of a dataset, with the digest of its content if that is soon told."""
    if "sha256" in known:
        return known
    digest = digest_within(place, _DIGESTED)
    return known if digest is None else {**known, "sha256": digest}


def _call(
    job: Job, process: str, inputs: DatasetInputs, places: Mapping[str, str], tools: Tools
) -> Runner:
    """Return the engine's function with all arguments that a user has given."""
    named = inputs.keywords(places)
    if isinstance(inputs, StencilInputs | SequenceInputs):
        work = tools.layout.work(job.id)
        work.mkdir(mode=0o700, exist_ok=True)
        named["workspace"] = Workspace(str(work), job.fence)
    function = tools.runner if isinstance(inputs, StencilInputs) else tools.engine(process)
    return functools.partial(function, **named)


def _planned(
    job: Job, asked: PlanInputs, places: Mapping[str, str], tools: Tools, told: Mapping[str, Any]
) -> JsonObject:
    """Return the plan of a job as its only output."""
    from halocline_engine.functions.reports.planning import plan_of

    inputs = _read(asked.process, asked.inputs)
    assert isinstance(inputs, DatasetInputs)
    plan = plan_of(_call(job, asked.process, inputs, places, tools), **told).to_json()
    return {"values": {"plan": {name: plan[name] for name in plan if name not in _OF_EVENTS}}}


class _Target:
    """Passes events on, and keeps what computes, and whether workers told what they did."""

    def __init__(self, on_event: Callable[[EngineEvent], None]) -> None:
        self._on_event = on_event
        self.target = ""
        self.worked = False

    def __call__(self, event: EngineEvent) -> None:
        fields = event.to_json()
        self.target = str(fields.get("target", self.target))
        self.worked |= fields.get("kind") == "worked"
        self._on_event(event)


def _tell_ceilings(target: str, cluster: object, on_event: Callable[[EngineEvent], None]) -> None:
    """Tell what the machines of workers can do, which each measures once; no job fails for it."""
    from halocline_engine.functions.reports.ceilings import ceilings

    try:
        found = ceilings(target, cluster)
    except Exception:
        _log.warning("no ceilings were measured", exc_info=True)
        return
    for each in found:
        on_event(each)


def check_room(job: Job, folder: Path, headroom: int) -> None:
    """Refuse to write to a disk that is nearly full. Raises `OutputError`.

    `headroom` are bytes that no job may take.

    A job that writes no files may go on.
    """
    if PROCESSES[job.process].inline is not None or job.process == PLAN.id:
        return
    free = shutil.disk_usage(folder).free
    if free < headroom:
        raise OutputError(
            f"There is no room for a result: {free} bytes of the disk are free, and "
            f"{headroom} must stay free.",
            hint=ROOM,
        )


@contextmanager
def _for_users(wording: Wording) -> Generator[None]:
    """Say what went wrong in words for those who know neither an output nor where files are kept.

    What the engine said is the cause, for the log.
    """
    try:
        yield
    except OutputError as error:
        raise OutputError(wording.told(error.message), hint=ROOM) from error
    except HaloclineError as error:
        raise wording.of(error) from error
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise OutputError("The result cannot be written: the disk is full.", hint=ROOM) from error


def _granted(inputs: ReadingInputs, tools: Tools) -> dict[str, Any]:
    """Return the engine's options: what an operator grants, and those among the inputs."""
    if isinstance(inputs, PlanInputs):
        inputs = _read(inputs.process, inputs.inputs)
    asked = inputs.options() if isinstance(inputs, StencilInputs) else {}
    chosen: dict[str, Any] = {**tools.limits, **asked}
    if not chosen:
        return {}
    import halocline_engine

    return {"options": halocline_engine.Options(**chosen)}


def _check_dataset(dataset: Path, tools: Tools) -> None:
    if dataset.is_dir():
        check_tree(dataset, largest_chunk=tools.largest_chunk)
    else:
        tools.scan(dataset)


def _check_result(output: Path) -> None:
    """Refuse a store without consolidated metadata: over HTTP it would open as empty."""
    if not is_zarr(output) or not parse_root(output).get("consolidated_metadata"):
        raise InternalError("The engine wrote no consolidated Zarr store as the result.")
