"""From a caller's arguments to a job: everything is checked here, before anything is written."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import dask.base
import xarray as xr

from halocline_engine.analysis.extents import exact_reads
from halocline_engine.analysis.named import arguments_of, joined_components, used_fields
from halocline_engine.analysis.scalars import given_scalars_of
from halocline_engine.backends.compiled import Compiled
from halocline_engine.backends.settled import replanned, with_records, with_scalars
from halocline_engine.backends.targets import TARGETS
from halocline_engine.datasets.diagnostics import Diagnostic
from halocline_engine.datasets.formats.data_dimensions import with_components, with_lookups
from halocline_engine.datasets.formats.tables import check_points, with_columns
from halocline_engine.datasets.grids.match import Match, Role, match_fields
from halocline_engine.datasets.grids.positions import Placing
from halocline_engine.datasets.stores.result import frame_of, history_line
from halocline_engine.datasets.stores.source import InMemory, Opened
from halocline_engine.datasets.times.clock import Clock, TimeRequest
from halocline_engine.datasets.times.forcing import (
    Forcing,
    calendar_of_forcing,
    find_forcing,
    first_records,
)
from halocline_engine.distribute.blocks.scalars import StepScalars, scalars_of_run
from halocline_engine.distribute.grid.boundary import Line
from halocline_engine.distribute.grid.geometry import Layout, Reaches, reaches_of
from halocline_engine.distribute.jobs.outputs import check_output, check_workspace
from halocline_engine.distribute.jobs.snapshots import Labels
from halocline_engine.distribute.reductions.running import Diagnosis, bind_diagnosis
from halocline_engine.distribute.stencils.conditions import lines_of
from halocline_engine.distribute.stencils.memory import Temporaries
from halocline_engine.distribute.stencils.order import check_sizes
from halocline_engine.distribute.tasks.until import Until
from halocline_engine.errors import ArgumentError
from halocline_engine.ir.extent import CENTRE
from halocline_engine.ir.types import Axis
from halocline_engine.passes.shift_fields import shift_fields
from halocline_engine.passes.weigh_records import Records
from halocline_engine.passes.widen_planes import widen_planes
from halocline_engine.version import halocline_version

__all__ = ["Checked", "Request", "check", "fingerprint_of", "temporaries_of"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Request:
    """Request of a caller, as `run` describes it."""

    fields: Mapping[str, str]
    scalars: Mapping[str, Any]
    axes: Mapping[str, str | None] | None
    boundary: Mapping[str, Any]
    steps: int
    feedback: Mapping[str, str]
    chunks: Mapping[str, int]
    output: Path | None
    workspace: Path | None
    attempt: int
    grid: Mapping[str, Mapping[str, str]] | None = None
    positions: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    until: Until | None = None
    every: int | None = None
    time: TimeRequest | None = None
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """A validated request with its fields, boundaries and scalars.

    The dataset has all records of the `forcing`, of which the uses of the match are one each.
    """

    request: Request
    opened: Opened
    compiled: Compiled
    match: Match
    layout: Layout
    scalars: StepScalars
    clock: Clock | None = None
    forcing: Forcing = Forcing()  # noqa: RUF009 - frozen
    diagnosis: Diagnosis | None = None

    @property
    def labels(self) -> Labels:
        """The labels of results."""
        return Labels(self.clock)

    def frame(self) -> xr.Dataset:
        """Return the result without its variables."""
        now = dt.datetime.now(dt.UTC)
        name, steps = self.compiled.program.name, self.request.steps
        line = history_line(name, steps, now, halocline_version())
        if self.request.until is not None:
            line += " at most"
        if self.request.every is not None:
            line += f", kept after every {self.request.every}"
        return frame_of(self.opened.dataset, self.match.uses, line)


def check(request: Request, opened: Opened, compiled: Compiled) -> Checked:
    """Return the request with all names resolved; raises a `RequestError` where it is invalid.

    Reads no values but times and those of tables, and writes nothing.
    """
    if request.output is not None:
        check_output(request.output, opened.place)
    if request.workspace is not None:
        check_workspace(request.workspace, request.output, opened.place)
    given = given_scalars_of(compiled.program, request.scalars)
    known, fields = with_lookups(opened, compiled.program, request.fields)
    feedback = joined_components(compiled.program, request.feedback)
    request = replace(request, feedback=feedback)
    kept = {*feedback.values(), *_shaping(compiled, opened.dataset, fields)}
    compiled = with_scalars(compiled, known, given.constant, kept)
    opened, fields, axes = with_columns(opened, compiled.program, fields, request.axes)
    opened, fields = with_components(opened, compiled.program, fields, axes)
    clock, forcing = _clock_and_forcing(request, compiled, opened.dataset, fields)
    dataset = first_records(opened.dataset, forcing)
    arguments = _with_parts(arguments_of(compiled.program), forcing)
    if clock is not None:
        request = replace(request, steps=clock.steps)
        compiled, fields = _with_forcing(compiled, forcing, fields)
    program = compiled.program
    placing = Placing(request.grid, request.positions)
    match = match_fields(program, compiled.facts, dataset, fields, request.feedback, axes, placing)
    records = forcing.chunks()
    uses = tuple(replace(use, records=records.get(use.name, 1)) for use in match.uses)
    match = replace(match, uses=uses)
    check_points(dataset, program, {use.name: use.variable for use in match.uses})
    if match.moves:
        complete = [use.name for use in match.uses if use.complete]
        moved = widen_planes(shift_fields(program, match.moves, complete))
        compiled = replanned(compiled, moved)
        program = compiled.program
    scalars = scalars_of_run(program, given, request.steps, clock, forcing, match.grid)
    reaches = tuple(reaches_of(compiled.facts.fields[use.name]) for use in match.uses)
    lines = lines_of(request.boundary, match.grid, match.uses, reaches, arguments)
    _check_steps(request, match)
    _check_until(request.until, match)
    _check_labels(request, match, dataset, clock)
    exact = _exact(compiled, match, reaches) if match.grid.positions else ()
    has_gathers, varying = bool(program.gathers), scalars.change
    layout = Layout(match.grid, match.uses, lines, reaches, has_gathers, varying, exact)
    check_sizes(layout, request.chunks)
    diagnosis = _diagnosis(request, opened.dataset, match, Labels(clock))
    return Checked(request, opened, compiled, match, layout, scalars, clock, forcing, diagnosis)


def _clock_and_forcing(
    request: Request, compiled: Compiled, dataset: xr.Dataset, fields: Mapping[str, str]
) -> tuple[Clock | None, Forcing]:
    """Return the clock of a run, and the fields that vary with its time."""
    if request.time is None:
        _check_clock(request)
        return None, Forcing()
    used = used_fields(compiled.program)
    written = {one.name for one in used if one.written}
    states = {*request.feedback.values(), *written - request.feedback.keys()}
    inputs = [one.name for one in used if one.name not in states | written]
    request.time.check_names(inputs)
    calendar = calendar_of_forcing(dataset, inputs, fields)
    clock = request.time.clock(request.steps, dataset, calendar)
    return clock, find_forcing(dataset, inputs, sorted(states), fields, clock, request.time)


def _with_parts(arguments: Mapping[str, list[str]], forcing: Forcing) -> dict[str, list[str]]:
    """Return the fields of each argument, with those of its records."""
    parts = {one.name: list(one.parts) for one in forcing.fields if one.windows.count > 1}
    return {
        name: [part for field in fields for part in parts.get(field, [field])]
        for name, fields in arguments.items()
    }


def _with_forcing(
    compiled: Compiled, forcing: Forcing, fields: Mapping[str, str]
) -> tuple[Compiled, Mapping[str, str]]:
    """Return the program on records, and the variables of its fields."""
    several = [one for one in forcing.fields if one.windows.count > 1]
    if not several:
        return compiled, fields
    made = {one.name: Records(one.parts, one.weights) for one in several}
    rest = {name: to for name, to in fields.items() if name not in made}
    return with_records(compiled, made), {**rest, **Forcing(tuple(several)).variables()}


def _exact(compiled: Compiled, match: Match, reaches: Sequence[Reaches]) -> tuple[Reaches, ...]:
    """Return reaches that hold the point itself only where it is read."""
    read = exact_reads(compiled.program, compiled.facts)
    flat = (read.get(use.name, (i, j)) for use, (i, j, _) in zip(match.uses, reaches, strict=True))
    return tuple((*one, levels) for one, (_, _, levels) in zip(flat, reaches, strict=True))


def _shaping(compiled: Compiled, dataset: xr.Dataset, fields: Mapping[str, str]) -> Iterator[str]:
    """Yield the fields with other dimensions than those before, or that are read further away.

    The results of a job have these dimensions, and none where neighbours are missing, whether or
    not its scalars leave any use for the values. A field without a variable is among them: that
    there is one does not depend on scalars either.
    """
    program, found = compiled.program, set[tuple[Hashable, ...]]()
    reach = [(0, 0)] * len(Axis)
    for own in (one for one in used_fields(program) if one.name in program.arguments):
        variable = fields.get(own.name, own.name)
        dims = dataset[variable].dims if variable in dataset.variables else None
        ranges = list(zip(reach, compiled.facts.fields[own.name], strict=True))
        wider = [(min(low, one), max(high, other)) for (low, high), (one, other) in ranges]
        if dims is None or dims not in found or wider != reach:
            yield own.name
            reach = wider
        if dims is not None:
            found.add(dims)


def temporaries_of(compiled: Compiled) -> Temporaries:
    """Return the size and extent of the temporaries that are whole arrays on the target.

    What is read through tables is among them.
    """
    program, extents = compiled.program, compiled.facts.temporaries
    made = {one.name for one in (*program.gathers, *program.scratch)}
    gathered = tuple((f.dtype.itemsize, CENTRE) for f in program.fields if f.name in made)
    if TARGETS[compiled.target].compiles:
        own = tuple((b.dtype.itemsize, b.extent) for b in compiled.schedule.buffers)
    else:
        own = tuple((t.dtype.itemsize, extents[t.name]) for t in program.temporaries)
    return (*own, *gathered)


def fingerprint_of(checked: Checked) -> str:
    """Return what names the job: the same program on the same data with the same arguments.

    How it is cut up is no part of it, as that does not change the result.
    """
    request, opened = checked.request, checked.opened
    identity = opened.identity
    if isinstance(opened.source, InMemory):
        names = [use.variable for use in checked.match.uses if use.loaded]
        identity = str(dask.base.tokenize(opened.dataset[names]))
    parts: list[object] = [
        checked.compiled.fingerprint,
        identity,
        sorted((use.name, use.variable, use.role) for use in checked.match.uses),
        sorted((name, repr(value)) for name, value in checked.scalars.constant.items()),
        sorted(
            (name, one.dims, one.values.tobytes().hex())
            for name, one in checked.scalars.series.items()
        ),
        None if checked.clock is None else checked.clock.identity,
        checked.forcing.identity,
        checked.match.grid.dims,
        [use.dims for use in checked.match.uses],
        [[_written(line) for line in lines] for lines in checked.layout.lines],
        request.steps,
        sorted(request.feedback.items()),
    ]
    parts += [repr(one) for one in request.diagnostics]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _written(line: Line) -> list[str]:
    return [word for side in (line.low, line.high) for word in (side.kind, repr(side.value))]


def _check_until(until: Until | None, match: Match) -> None:
    """Raise where what is measured is no output of floats that feeds an input."""
    feeding = [use.name for use in match.uses if use.role is Role.FEEDS]
    floats = [u.name for u in match.uses if u.role is Role.FEEDS and u.dtype.startswith("float")]
    if until is not None and until.field not in floats:
        named = ", ".join(f"'{name}'" for name in floats) or "no such output"
        kind = "of floats that feeds an input" if until.field in feeding else "that feeds an input"
        raise ArgumentError(
            f"The 'field' of argument 'until' must be an output {kind}, got '{until.field}'.",
            hint=f"There is {named}.",
        )


def _diagnosis(
    request: Request, dataset: xr.Dataset, match: Match, labels: Labels
) -> Diagnosis | None:
    """Return the diagnostics; raises where their steps would not be those of the result."""
    if not request.diagnostics:
        return None
    others = {"until": request.until, "snapshot_every": request.every}
    for name, value in others.items():
        if value is not None:
            raise ArgumentError(
                f"Arguments 'diagnostics' and '{name}' cannot be given together yet.",
                hint=f"Leave '{name}' out, or reduce its result with reduce.",
            )
    return bind_diagnosis(request.diagnostics, dataset, match, request.steps, labels)


def _check_labels(request: Request, match: Match, dataset: xr.Dataset, clock: Clock | None) -> None:
    """Raise where something else has the name of the labels of results."""
    dim = Labels(clock).dim
    results = [use for use in match.uses if use.result]
    taken = {use.variable for use in results}.union(*(use.dims for use in results))
    if clock is None:
        taken |= {str(name) for name in (*dataset.dims, *dataset.variables)}
    if dim in taken and not (clock is None and request.every is None):
        raise ArgumentError(
            f"With '{'time' if clock else 'snapshot_every'}' results have a dimension '{dim}', but"
            " the dataset, or the result, has something of that name.",
            hint=f"Rename it, as dataset.rename({dim}='number').",
        )


def _check_clock(request: Request) -> None:
    """Raise where a scalar asks for a clock, and there is none."""
    for name, value in request.scalars.items():
        if isinstance(value, Mapping) and "clock" in value:
            raise ArgumentError(
                f"Scalar '{name}' is told by a clock, but the run has none.",
                hint="Give the run one: time={'start': '2015-01-01', 'step': '15min'}.",
            )


def _check_steps(request: Request, match: Match) -> None:
    """Raise where more than one step would change nothing: no field goes from step to step."""
    if request.steps == 1 or any(use.kept for use in match.uses):
        return
    outputs = [use.name for use in match.uses if use.result]
    inputs = [use for use in match.uses if use.role is Role.INPUT]
    example = next(
        (
            f" feedback={{'{name}': '{use.name}'}}"
            for name in outputs
            for use in inputs
            if use.axes == next(other.axes for other in match.uses if other.name == name)
        ),
        " feedback={output: input}",
    )
    raise ArgumentError(
        f"With {request.steps} steps some output must feed an input, but nothing does.",
        hint=f"Say which one:{example}.",
    )
