"""Sequences of stages on datasets, repeated step by step."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Unpack, cast

import dask.base
import xarray as xr

from halocline_engine.analysis.named import near
from halocline_engine.analysis.scalars import STEP
from halocline_engine.arguments import (
    RESIDENT_MODES,
    by_name,
    distinct,
    names_by_name,
    place_of,
    whole,
)
from halocline_engine.datasets.inputs.opening import DatasetLike, open_source
from halocline_engine.datasets.stores.source import InMemory, Opened
from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.jobs.execute import Blockwise
from halocline_engine.distribute.jobs.outputs import check_workspace
from halocline_engine.distribute.sequences.job import sequence_job
from halocline_engine.distribute.sequences.request import Kept, SequenceRequest
from halocline_engine.distribute.sequences.template import Repeated, StageOf
from halocline_engine.distribute.tasks.events import Event
from halocline_engine.distribute.tasks.options import options_of
from halocline_engine.errors import ArgumentError, HaloclineError
from halocline_engine.functions.column import column
from halocline_engine.functions.documentation import documented
from halocline_engine.functions.execution import Execution, ExecutionArguments, Planning
from halocline_engine.functions.gather import gather, scatter
from halocline_engine.functions.neighbours import neighbours
from halocline_engine.functions.regrid import regrid
from halocline_engine.functions.run import run
from halocline_engine.functions.solve import pentadiagonal, solve, tree, tridiagonal
from halocline_engine.interface.absent import Door, way_out
from halocline_engine.interface.habits import hint_of_argument
from halocline_engine.interface.refusals import renamed_to
from halocline_engine.interface.renames import with_old_names
from halocline_engine.interface.stage_counts import check_stage_count
from halocline_engine.interface.uncompiled import READING, Uncompiled
from halocline_engine.interface.workspace import attempt_of
from halocline_engine.signatures import complete
from halocline_engine.version import halocline_version

__all__ = ["STAGES", "sequence"]

#: Functions of stages, by the names of processes of the service.
STAGES: Mapping[str, Callable[..., Any]] = {
    "stencil": run,
    "column": column,
    "tridiagonal": tridiagonal,
    "pentadiagonal": pentadiagonal,
    "solve": solve,
    "tree": tree,
    "gather": gather,
    "scatter": scatter,
    "neighbours": neighbours,
    "regrid": regrid,
}
#: Arguments of these functions that belong to the whole sequence.
_OF_ALL = {
    *(ExecutionArguments.__annotations__.keys() - {"chunks"}),
    *("dataset", "steps", "until", "snapshot_every", "time", "workspace", "plans"),
    "diagnostics",
}
#: Repetitions within each other, at most.
_DEPTH = 2
_REASON = "the stages of a step follow each other"
_EXAMPLE = "[{'stencil': {'program': text}}, {'tridiagonal': {'lower': 'a', ...}}]"


@documented(ExecutionArguments)
def sequence(
    stages: Sequence[Mapping[str, Any]],
    dataset: DatasetLike,
    *,
    steps: int = 1,
    feedback: Mapping[str, str] | None = None,
    snapshot_every: int | None = None,
    results: Sequence[str] | None = None,
    workspace: str | PathLike[str] | None = None,
    **given: Unpack[ExecutionArguments],
) -> xr.Dataset:
    """Run several stages one after the other, step by step.

    Parameters
    ----------
    stages : sequence of mapping
        The stages of a step, each as ``{kind: arguments}``: 'stencil' with the arguments of `run`,
        or 'column', 'tridiagonal', 'pentadiagonal', 'solve', 'tree', 'gather', 'scatter',
        'neighbours' or 'regrid' with those of the function of that name, without the dataset.
        A stage reads the dataset and what the stages before it made; what it makes takes the place
        of a variable of the same name. ``{'repeat': 4, 'stages': [...]}`` runs stages four times.
        `chunks` are those of stages that give none.
    %(dataset)s
    steps : int, default: 1
        Number of times the stages are run.
    feedback : mapping of str to str, optional
        Variables of the dataset by the result that becomes them in the next step. A result that has
        the name of a variable needs none. A variable that gets a result may be passed on itself:
        ``{'h_new': 'h', 'h': 'h_old'}`` keeps the time level before.
    %(execution)s
    snapshot_every : int, optional
        Steps between two snapshots: results are kept after so many steps, and so on, and after the
        last one. They lie along a first dimension 'step', whose coordinate says after how many.
    results : sequence of str, optional
        Which of the variables that stages make are results; by default all.
    workspace : path, optional
        Folder that keeps the values between two steps from time to time, and snapshots. The same
        job with the same workspace resumes from the last ones.

    Returns
    -------
    xarray.Dataset
        What the stages made in the last step, or the `results` among it.

    Raises
    ------
    ProgramError
        The program of a stage is wrong; the message shows the line.
    %(errors)s

    Notes
    -----
    The result has the bits of the same functions called one after the other. Indices, weights,
    counts and heights are read once and must be variables of the dataset.

    Examples
    --------
    One step of implicit diffusion after one of decay:

    >>> import xarray as xr
    >>> import halocline_engine as he
    >>> dataset = xr.Dataset({"t": ("z", [0.0, 8.0, 0.0])})
    >>> bands = {"below": -1.0, "here": 3.0, "above": -1.0}
    >>> dataset = dataset.assign({name: ("z", [value] * 3) for name, value in bands.items()})
    >>> decay = '''
    ... def decay(t: Field[float]):
    ...     with computation(PARALLEL), interval(...):
    ...         t = 0.5 * t
    ... '''
    >>> names = {"lower": "below", "diagonal": "here", "upper": "above", "rhs": "t", "dim": "z"}
    >>> stages = [
    ...     {"stencil": {"program": decay, "axes": {"I": None, "J": None, "K": "z"}}},
    ...     {"tridiagonal": {**names, "name": "t"}},
    ... ]
    >>> he.sequence(stages, dataset, steps=2)["t"].values.round(3).tolist()
    [0.245, 0.449, 0.245]

    """
    execution = Execution(**complete(sequence, given), modes=RESIDENT_MODES)
    checked = _stages(stages)
    check_stage_count(_run_stages(checked))
    opened = open_source(dataset)
    place, kept = execution.place, place_of("workspace", workspace)
    count = whole("steps", steps, 1)
    fed = names_by_name("feedback", feedback, "{'after': 'before'}")
    wanted = distinct("results", results, "['t']")
    if kept is not None:
        check_workspace(kept, place, opened.place)
    with execution.pool(of_stages=True) as (pool, chosen):
        parts = (_named_before(checked), count, fed, chosen, halocline_version(), _identity(opened))
        name = "" if kept is None else str(dask.base.tokenize(*parts))  # which reads the dataset
        request = SequenceRequest(
            stages=tuple(_planned(checked, lambda one: one.on(pool, chosen, execution))),
            kinds=_kinds(checked),
            steps=count,
            feedback=fed,
            every=None if snapshot_every is None else whole("snapshot_every", snapshot_every, 1),
            results=None if wanted is None else tuple(wanted),
            output=place,
            kept=None if kept is None else Kept(kept, attempt_of(workspace), name),
            mode=execution.mode,
            chunks=execution.block_sizes,
            options=options_of(execution.options),
        )
        return execution.run(sequence_job(request, opened, pool, execution.tell), pool, _REASON)


@dataclass(frozen=True, slots=True)
class _Stage:
    """A stage with valid arguments, as far as can be checked without data; numbered from 1."""

    number: str
    kind: str
    arguments: Mapping[str, Any]

    def on(self, pool: Pool, target: str, execution: Execution) -> StageOf:
        """Return a function that makes the job of the stage for a dataset."""
        told: list[Event] = []

        def tell(event: Event) -> None:
            if event not in told:  # it is planned for the first step and for later ones
                told.append(event)
                execution.tell(event)

        def job(opened: Opened) -> Blockwise:
            planning = Planning(pool, target)
            how = {"chunks": execution.chunks, **self.arguments}
            how |= {"target": target, "cluster": planning, "options": execution.options}
            try:
                STAGES[self.kind](dataset=opened, on_event=tell, **how)
            except HaloclineError as error:
                error.message = f"Stage {self.number}, '{self.kind}': {error.message}"
                raise
            return planning.jobs[0]

        return job


@dataclass(frozen=True, slots=True)
class _Repeat:
    """Stages that are run several times in a row."""

    count: int
    parts: Sequence[_Stage | _Repeat]


def _stages(given: object, within: str = "", depth: int = 0) -> list[_Stage | _Repeat]:
    """Return the stages; raises `ArgumentError` for invalid ones and for wrong arguments."""
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        named = f"The 'stages' of stage {within}" if within else "Argument 'stages'"
        raise ArgumentError(
            f"{named} must be a list of at least one stage.",
            hint=f"Write for example stages={_EXAMPLE}.",
        )
    several = cast("Sequence[Any]", given)
    prefix = f"{within}." if within else ""
    return [_part(f"{prefix}{at}", one, depth) for at, one in enumerate(several, 1)]


def _part(number: str, given: object, depth: int) -> _Stage | _Repeat:
    """Return a stage, or stages that are repeated."""
    told = by_name(_place(number), given, _EXAMPLE)
    if "repeat" not in told:
        return _stage(number, told)
    if {*told} != {"repeat", "stages"}:
        raise ArgumentError(
            f"Stage {number} must have 'repeat' and 'stages', got {', '.join(map(repr, told))}.",
            hint="Write for example {'repeat': 4, 'stages': [...]}.",
        )
    if depth == _DEPTH:
        raise ArgumentError(
            f"Stage {number} is repeated within {_DEPTH} other repetitions, expected at most"
            f" {_DEPTH} in all.",
            hint="Multiply the numbers of two of them.",
        )
    count = whole(f"{_place(number)}['repeat']", told["repeat"], 1)
    return _Repeat(count, _stages(told["stages"], number, depth + 1))


def _place(number: str) -> str:
    """Return how a stage is written as an element of the argument.

    >>> _place("2.1")
    "stages[1]['stages'][0]"
    """
    return "stages" + "['stages']".join(f"[{int(at) - 1}]" for at in number.split("."))


def _run_stages(parts: Iterable[_Stage | _Repeat]) -> int:
    """Return how many stages a step runs."""
    return sum(p.count * _run_stages(p.parts) if isinstance(p, _Repeat) else 1 for p in parts)


def _planned(
    parts: Iterable[_Stage | _Repeat], of: Callable[[_Stage], StageOf]
) -> list[StageOf | Repeated]:
    """Return what makes the jobs of stages."""
    return [
        Repeated(part.count, tuple(_planned(part.parts, of)))
        if isinstance(part, _Repeat)
        else of(part)
        for part in parts
    ]


def _kinds(parts: Iterable[_Stage | _Repeat]) -> str:
    """Return the kinds of stages in words.

    >>> _kinds([_Stage("1", "column", {}), _Repeat(3, [_Stage("2.1", "stencil", {})])])
    'column, 3 times (stencil)'
    """
    return ", ".join(
        f"{part.count} times ({_kinds(part.parts)})" if isinstance(part, _Repeat) else part.kind
        for part in parts
    )


def _stage(number: str, given: Mapping[str, Any]) -> _Stage:
    if len(given) != 1:
        raise ArgumentError(
            f"Stage {number} must be one kind with its arguments, got {len(given)} keys.",
            hint=f"Write for example stages={_EXAMPLE}.",
        )
    ((kind, named),) = given.items()
    if kind not in STAGES:
        raise ArgumentError(
            f"Stage {number} has the unknown kind '{kind}'.", hint=near(kind, STAGES)
        )
    arguments = by_name(f"{_place(number)}['{kind}']", named, "{...}")
    parameters = inspect.signature(STAGES[kind]).parameters
    own = {name: one for name, one in parameters.items() if name not in _OF_ALL}
    for name in arguments:
        if name in _OF_ALL:
            raise ArgumentError(
                f"Stage {number}, '{kind}', cannot have the argument '{name}'.",
                hint=_way_out_of_stage(name),
            )
        if name not in own:
            raise ArgumentError(
                f"Stage {number}, '{kind}', has no argument '{name}'{renamed_to(kind, name)}.",
                hint=way_out(Door.LIBRARY, name, arguments[name])
                or hint_of_argument(name, arguments[name], own)
                or near(name, own),
            )
    for name, one in own.items():
        if one.default is one.empty and name not in arguments:
            raise ArgumentError(
                f"Stage {number}, '{kind}', needs the argument '{name}'.",
                hint=f"It has {', '.join(own)}.",
            )
    _check_scalars(number, kind, arguments.get("scalars"))
    return _Stage(number, kind, arguments)


def _named_before(parts: Iterable[_Stage | _Repeat]) -> list[Mapping[str, Any]]:
    """Return stages by the names that their arguments had when workspaces were first made."""
    return [
        {"repeat": part.count, "stages": _named_before(part.parts)}
        if isinstance(part, _Repeat)
        else {part.kind: with_old_names(part.kind, _without_reading(part))}
        for part in parts
    ]


def _without_reading(stage: _Stage) -> Mapping[str, Any]:
    """Return the arguments of a stage, with the options for reading its program."""
    program = stage.arguments.get("program")
    if not isinstance(program, Uncompiled):
        return stage.arguments
    default = Uncompiled(program.program)
    how = {name: getattr(program, name) for name in READING}
    told = {name: value for name, value in how.items() if value != getattr(default, name)}
    return {**stage.arguments, "program": program.program, **told}


def _identity(opened: Opened) -> object:
    """Return the identity of a dataset, for comparison with earlier runs."""
    return opened.dataset if isinstance(opened.source, InMemory) else opened.identity


def _way_out_of_stage(name: str) -> str:
    """Return the hint for an argument of `run` that no stage has."""
    if name in inspect.signature(sequence).parameters:
        return "Leave it out there, and give it once for the sequence."
    return f"Leave it out: sequences have no '{name}'."


def _is_by_step(value: Any) -> bool:
    """Return whether a scalar has a clock, or values along the steps."""
    if isinstance(value, Mapping):
        form = cast("Mapping[str, Any]", value)
        return "clock" in form or form.get("dim") == STEP
    return STEP in getattr(value, "dims", ())


def _check_scalars(number: str, kind: str, scalars: object) -> None:
    """Refuse scalars that vary from step to step; stages have no clock."""
    none: Mapping[str, Any] = {}
    given = cast("Mapping[str, Any]", scalars) if isinstance(scalars, Mapping) else none
    for name, value in given.items():
        if _is_by_step(value):
            raise ArgumentError(
                f"Stage {number}, '{kind}': scalar '{name}' varies from step to step, but scalars"
                " of stages are constant.",
                hint="Give a number, values along another dimension, or use 'run'.",
            )
