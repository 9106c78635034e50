"""Values of the scalars of a program at a step and at a point of the dimensions looped over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from halocline_engine.analysis.scalars import STEP, ClockScalar, GivenScalars, ScalarSeries
from halocline_engine.backends.base import Scalars, Value
from halocline_engine.datasets.grids.match import Grid
from halocline_engine.datasets.times.clock import Clock
from halocline_engine.datasets.times.forcing import Forcing
from halocline_engine.distribute.grid.partition import Block
from halocline_engine.errors import ArgumentError
from halocline_engine.ir.nodes import Program

__all__ = ["StepScalars", "scalars_of_run"]


@dataclass(frozen=True, slots=True, eq=False)
class StepScalars:
    """The scalars of some steps: constants, and series along dimensions.

    The steps are numbered from 0.
    """

    constant: Mapping[str, Value]
    series: Mapping[str, ScalarSeries] = field(default_factory=dict[str, ScalarSeries])

    @property
    def change(self) -> bool:
        """Whether some differ from step to step."""
        return any(STEP in one.dims for one in self.series.values())

    def steps(self, first: int, count: int) -> StepScalars:
        """Return those of some steps."""
        if not self.change:
            return self
        part = {name: _steps(one, first, count) for name, one in self.series.items()}
        return replace(self, series=part)

    def at(self, extra: tuple[str, ...], block: Block, point: tuple[int, ...]) -> StepScalars:
        """Return those at a point of a block, counted from its first, along dimensions `extra`."""
        if not self.series:
            return self
        indices = {
            dim: span.start + index
            for dim, span, index in zip(extra, block.extra, point, strict=True)
        }
        found = {name: _at(one, indices) for name, one in self.series.items()}
        constant = {name: one.values.item() for name, one in found.items() if not one.dims}
        series = {name: one for name, one in found.items() if one.dims}
        return StepScalars({**self.constant, **constant}, series)

    def of(self, step: int) -> Scalars:
        """Return those of a step, at a point."""
        if not self.series:
            return self.constant
        varying: dict[str, Any] = {n: one.values[step].item() for n, one in self.series.items()}
        return {**self.constant, **varying}


def _steps(one: ScalarSeries, first: int, count: int) -> ScalarSeries:
    if STEP not in one.dims:
        return one
    along = one.dims.index(STEP)
    part = (slice(None),) * along + (slice(first, first + count),)
    return ScalarSeries(one.dims, one.values[part])


def _at(one: ScalarSeries, indices: Mapping[str, int]) -> ScalarSeries:
    """Return the values at indices of some dimensions, along the others."""
    where = tuple(indices.get(dim, slice(None)) for dim in one.dims)
    left = tuple(dim for dim in one.dims if dim not in indices)
    return ScalarSeries(left, one.values[where])


def scalars_of_run(
    program: Program,
    given: GivenScalars,
    steps: int,
    clock: Clock | None,
    forcing: Forcing,
    grid: Grid,
) -> StepScalars:
    """Return the scalars of a program at each step; raises `ArgumentError` where some are missing.

    The weights of records are among them.
    """
    dtypes = {scalar.name: np.dtype(scalar.dtype.value) for scalar in program.scalars}
    sizes = {**dict(zip(grid.extra, grid.extra_sizes, strict=True)), STEP: steps}
    series: dict[str, ScalarSeries] = {}
    for name, one in given.varying.items():
        if isinstance(one, ScalarSeries):
            _check_dims(name, one, sizes, grid)
            series[name] = one
        else:
            series[name] = _told(name, one, clock, dtypes[name])
    for forced in forcing.fields:
        for at, name in enumerate(forced.weights):
            if name in dtypes:  # some are of fields that no branch reads
                values = forced.windows.weights[:, at].astype(dtypes[name])
                series[name] = ScalarSeries((STEP,), values)
    return StepScalars(given.constant, series)


def _told(
    name: str, scalar: ClockScalar, clock: Clock | None, dtype: np.dtype[np.generic]
) -> ScalarSeries:
    assert clock is not None
    values = clock.values(scalar.quantity)
    held = values.astype(dtype)
    if dtype.kind == "i" and np.any(held != values):
        raise ArgumentError(
            f"The steps of the clock reach {int(values[-1])}, which scalar '{name}' of the type"
            f" '{dtype}' cannot hold.",
            hint="Make the parameter an 'int' of 64 bits in the program.",
        )
    return ScalarSeries((STEP,), held)


def _check_dims(name: str, one: ScalarSeries, sizes: Mapping[str, int], grid: Grid) -> None:
    if STEP in grid.extra and STEP in one.dims:
        raise ArgumentError(
            f"Scalar '{name}' varies along '{STEP}', which is the steps of the run and a dimension"
            " of the dataset.",
            hint=f"Rename that, as dataset.rename({STEP}='number').",
        )
    for dim, size in zip(one.dims, one.values.shape, strict=True):
        if dim not in sizes:
            known = ", ".join(f"'{each}'" for each in sizes)
            raise ArgumentError(
                f"Scalar '{name}' varies along '{dim}', but scalars vary along the steps of the run"
                f" or dimensions that are looped over: {known}.",
                hint="One that differs from point to point is a field.",
            )
        if size != sizes[dim]:
            what = "steps" if dim == STEP else "points"
            raise ArgumentError(
                f"Scalar '{name}' must have {sizes[dim]} values along '{dim}', as many as there are"
                f" {what}, got {size}.",
                hint="Give one value for each of them.",
            )
