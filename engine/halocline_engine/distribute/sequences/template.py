"""The dataset as a stage will find it: variables of earlier stages are there, but not their values.

A stage is planned before anything is computed. Dimensions, types and coordinates of what stages
make are known by then; where a plan asks for values, such as the counts of a ragged array, they
must be those of the dataset itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from xarray.backends import BackendArray
from xarray.core.indexing import LazilyIndexedArray

from halocline_engine.analysis.named import near
from halocline_engine.datasets.stores.source import InMemory, Opened, Region
from halocline_engine.distribute.jobs.execute import Blockwise, Output, frame_of_job
from halocline_engine.errors import ArgumentError, FieldError

__all__ = ["Repeated", "Round", "StageOf", "fed_outputs", "plan_rounds"]

#: Makes the job of a stage for the dataset that it will find.
StageOf = Callable[[Opened], Blockwise]


@dataclass(frozen=True, slots=True)
class Repeated:
    """Stages that are run several times in a row."""

    count: int
    parts: tuple[StageOf | Repeated, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """The jobs of a step, and the dataset that the next step finds.

    A job that is run several times is there as often.
    """

    jobs: tuple[Blockwise, ...]
    after: Opened


def plan_rounds(
    opened: Opened,
    stages: Sequence[StageOf | Repeated],
    feedback: Mapping[str, str],
    *,
    several: bool,
) -> tuple[Round, Round]:
    """Return the first step, and the one that all others are like, if there are `several`.

    Later steps also find what the first one made. Raises what a stage raises, and `FieldError`
    where a variable would change its dimensions or type on the way.
    """
    _check_targets(opened.dataset, feedback)
    first = _round(opened, stages, feedback, is_first=True)
    if not several:
        return first, first
    return first, _round(first.after, stages, feedback, is_first=False)


def _round(
    opened: Opened,
    stages: Sequence[StageOf | Repeated],
    feedback: Mapping[str, str],
    *,
    is_first: bool,
) -> Round:
    jobs, opened = _jobs(opened, stages, is_first=is_first)
    made = {output.name: output for job in jobs for output in job.outputs}
    for output in fed_outputs(feedback, made).values():
        sizes = tuple(int(opened.dataset.sizes[dim]) for dim in output.dims)
        opened = _with(opened, output, _later(output, sizes))
    return Round(tuple(jobs), opened)


def fed_outputs(feedback: Mapping[str, str], made: Mapping[str, Output]) -> dict[str, Output]:
    """Return the source of each variable in the next step: a result, or a variable passed on.

    Raises `ArgumentError` where a chain of feedback begins with no result.
    """
    sources = {target: name for name, target in feedback.items()}
    found: dict[str, Output] = {}
    for target, name in sources.items():
        first, seen = name, set[str]()
        while first not in made and first in sources and first not in seen:
            seen.add(first)
            first = sources[first]
        if first not in made:
            raise ArgumentError(
                f"Argument 'feedback' names '{name}', which no stage makes.", hint=near(name, made)
            )
        found[target] = replace(made[first], name=target)
    return found


def _later(output: Output, shape: tuple[int, ...]) -> xr.DataArray:
    """Return a variable whose values are not there yet."""
    values = LazilyIndexedArray(_Later(output.name, shape, np.dtype(output.dtype)))
    return xr.DataArray(xr.Variable(output.dims, values, dict(output.attributes)))


def _jobs(
    opened: Opened, stages: Sequence[StageOf | Repeated], *, is_first: bool
) -> tuple[list[Blockwise], Opened]:
    """Return the jobs of stages, and the dataset with their results.

    In the first step, repeated stages read their own results from the second time on.
    """
    jobs: list[Blockwise] = []
    for stage in stages:
        if isinstance(stage, Repeated):
            first, opened = _jobs(opened, stage.parts, is_first=is_first)
            again = is_first and stage.count > 1
            later, opened = _jobs(opened, stage.parts, is_first=True) if again else (first, opened)
            jobs += [*first, *(stage.count - 1) * later]
            continue
        jobs.append(stage(opened))
        opened = _with_results(opened, jobs[-1])
    return jobs, opened


def _check_targets(dataset: xr.Dataset, feedback: Mapping[str, str]) -> None:
    known = [str(name) for name in dataset.data_vars]
    for name, target in feedback.items():
        if target not in known:
            raise ArgumentError(
                f"With 'feedback' the result '{name}' becomes '{target}', but the dataset has no"
                " such variable.",
                hint=near(target, known),
            )
    if len({*feedback.values()}) < len(feedback):
        raise ArgumentError(
            "With 'feedback' two results become the same variable.", hint="Leave one of them out."
        )


def _with_results(opened: Opened, job: Blockwise) -> Opened:
    """Return the dataset with what a stage makes, and the coordinates that come with it."""
    for output in job.outputs:
        shape = tuple(job.grid.size_of(dim) for dim in output.dims)
        opened = _with(opened, output, _later(output, shape))
    frame = frame_of_job(job)
    new = {name: frame[name] for name in frame.coords if name not in opened.dataset.variables}
    return _opened(cast("Any", opened.dataset).assign_coords(new), opened)


def _with(opened: Opened, output: Output, found: xr.DataArray) -> Opened:
    """Return the dataset with a variable, which must be like the one that it replaces."""
    dataset, name = opened.dataset, output.name
    if name in dataset.variables:
        before = dataset[name]
        kinds = [(each.dims, each.dtype) for each in (before, found)]
        if kinds[0] != kinds[1]:
            shown = [f"{dtype} along {_dims(dims)}" for dims, dtype in kinds]
            raise FieldError(
                f"A stage makes '{name}' as {shown[1]}, but the variable that it replaces is"
                f" {shown[0]}.",
                hint="Give the result another name, or convert the variable.",
            )
    return _opened(dataset.assign({name: found.variable}), opened)


def _dims(dims: Sequence[object]) -> str:
    return ", ".join(f"'{dim}'" for dim in dims) or "no dimension"


def _opened(dataset: xr.Dataset, before: Opened) -> Opened:
    return Opened(dataset, _Template(dataset), before.path, before.identity)


@dataclass(frozen=True, slots=True, eq=False)
class _Template:
    """Reads what plans ask for."""

    dataset: xr.Dataset

    def read(self, name: str, region: Region) -> NDArray[Any]:
        return InMemory(self.dataset).read(name, region)


class _Later(BackendArray):
    """Values that are not there yet."""

    def __init__(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._name, self.shape, self.dtype = name, shape, dtype

    def __getitem__(self, key: object) -> NoReturn:
        raise FieldError(
            f"The values of '{self._name}' are needed before the first step, but a stage makes"
            " them.",
            hint="Indices, counts and heights must be variables of the dataset.",
        )
