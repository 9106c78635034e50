"""Sequences of stages on datasets, repeated step by step."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Unpack, cast

import dask.base
import xarray as xr

from halocline_engine.analysis.named import near
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
from halocline_engine.distribute.sequences.template import StageOf
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
from halocline_engine.interface.uncompiled import READING, Uncompiled
from halocline_engine.interface.workspace import attempt_of
from halocline_engine.signatures import complete
from halocline_engine.version import halocline_version

__all__ = ["STAGES", "sequence"]

#: What a stage may be, by the names that processes of the service have.
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
_REASON = "the stages of a step follow each other"
_EXAMPLE = "[{'stencil': {'program': text}}, {'tridiagonal': {'lower': 'a', ...}}]"


@documented(ExecutionArguments)
def sequence(
    stages: Sequence[Mapping[str, Mapping[str, Any]]],
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
        of a variable of the same name. `chunks` are those of stages that give none.
    %(dataset)s
    steps : int, default: 1
        Number of times the stages are run.
    feedback : mapping of str to str, optional
        Variables of the dataset by the result that becomes them in the next step. A result that has
        the name of a variable needs none.
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
            stages=tuple(stage.on(pool, chosen, execution) for stage in checked),
            kinds=tuple(stage.kind for stage in checked),
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
    """A stage that has a sense as far as can be told without data."""

    number: int
    kind: str
    arguments: Mapping[str, Any]

    def on(self, pool: Pool, target: str, execution: Execution) -> StageOf:
        """Return what makes its job for a dataset."""
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


def _stages(given: object) -> list[_Stage]:
    """Return the stages; raises `ArgumentError` for one that is none, or has other arguments."""
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise ArgumentError(
            "Argument 'stages' must be a list of at least one stage.",
            hint=f"Write for example stages={_EXAMPLE}.",
        )
    return [_stage(number, each) for number, each in enumerate(cast("Sequence[Any]", given), 1)]


def _stage(number: int, given: object) -> _Stage:
    found = by_name(f"stages[{number - 1}]", given, _EXAMPLE)
    if len(found) != 1:
        raise ArgumentError(
            f"Stage {number} must be one kind with its arguments, got {len(found)} keys.",
            hint=f"Write for example stages={_EXAMPLE}.",
        )
    ((kind, named),) = found.items()
    if kind not in STAGES:
        raise ArgumentError(
            f"Stage {number} has the unknown kind '{kind}'.", hint=near(kind, STAGES)
        )
    arguments = by_name(f"stages[{number - 1}]['{kind}']", named, "{...}")
    parameters = inspect.signature(STAGES[kind]).parameters
    own = {name: one for name, one in parameters.items() if name not in _OF_ALL}
    for name in arguments:
        if name in _OF_ALL:
            raise ArgumentError(
                f"Stage {number}, '{kind}', cannot have the argument '{name}'.",
                hint="Leave it out there; if the sequence has it, give it once for all stages.",
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
    return _Stage(number, kind, arguments)


def _named_before(stages: Sequence[_Stage]) -> list[Mapping[str, Mapping[str, Any]]]:
    """Return stages by the names that their arguments had when workspaces were first made."""
    return [{each.kind: with_old_names(each.kind, _without_reading(each))} for each in stages]


def _without_reading(stage: _Stage) -> Mapping[str, Any]:
    """Return the arguments of a stage, with those that say how its text is read beside it."""
    program = stage.arguments.get("program")
    if not isinstance(program, Uncompiled):
        return stage.arguments
    default = Uncompiled(program.program)
    how = {name: getattr(program, name) for name in READING}
    told = {name: value for name, value in how.items() if value != getattr(default, name)}
    return {**stage.arguments, "program": program.program, **told}


def _identity(opened: Opened) -> object:
    """Return what tells datasets apart, as far as that can be known."""
    return opened.dataset if isinstance(opened.source, InMemory) else opened.identity
