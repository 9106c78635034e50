"""Run column programs on arrays: one column, or many beside each other, on any target."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from halocline_engine.analysis.dependence import check
from halocline_engine.analysis.extents import analyse
from halocline_engine.analysis.levels import touched_levels
from halocline_engine.backends.base import Executable
from halocline_engine.backends.registry import find
from halocline_engine.ir.columns.check import Known, check_columns
from halocline_engine.ir.columns.formulas.metric import CENTRE_WIDTH, FACE_WIDTH, Widths
from halocline_engine.ir.columns.lower import lower_columns
from halocline_engine.ir.columns.points import Shape
from halocline_engine.ir.columns.table import At
from halocline_engine.ir.nodes import Field, Program
from halocline_engine.ir.types import DType
from halocline_engine.ir.verify import verify
from halocline_engine.language.columns import parse_columns
from halocline_engine.passes.pipeline import PASSES
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.plan import plan

__all__ = [
    "Column",
    "Loader",
    "Prepared",
    "executable_of",
    "lowered",
    "norm",
    "run_column",
    "runge_kutta",
    "stretched",
    "uniform",
]

Array: TypeAlias = NDArray[Any]
State: TypeAlias = dict[str, Array]
Slopes: TypeAlias = Callable[[State, float], State]
Loader: TypeAlias = Callable[[Schedule], Executable]


@dataclass(frozen=True, eq=False)
class Column:
    """Heights of the faces of a column; a periodic one has one more height than faces."""

    heights: Array
    periodic: bool = False
    flipped: bool = False

    @property
    def levels(self) -> int:
        return len(self.heights) - 1

    @property
    def centres(self) -> Array:
        return 0.5 * (self.heights[1:] + self.heights[:-1])

    @property
    def faces(self) -> Array:
        return self.heights[: self.shape.domain]

    @property
    def shape(self) -> Shape:
        return Shape(self.levels, self.periodic, self.flipped)

    @property
    def centre_widths(self) -> Array:
        return np.diff(self.heights)

    @property
    def face_widths(self) -> Array:
        widths = self.centre_widths
        ends = (widths[0], widths[-1])
        if self.periodic:
            return np.concatenate([[0.5 * sum(ends)], np.diff(self.centres)])
        return np.concatenate([[ends[0]], np.diff(self.centres), [ends[1]]])


def uniform(levels: int, low: float, high: float, *, periodic: bool = False) -> Column:
    return Column(np.linspace(low, high, levels + 1), periodic)


def stretched(levels: int, low: float, high: float, scale: float) -> Column:
    """Exponential stretching: thin cells at the bottom."""
    zeta = np.linspace(0.0, 1.0, levels + 1)
    h = scale / (high - low)
    eta = -h * np.log1p(np.expm1(-1.0 / h) * zeta)
    return Column(low + (high - low) * eta)


def lowered(
    text: str,
    places: Mapping[str, At],
    shape: Shape,
    *,
    scalars: tuple[str, ...] = (),
    dtype: str = "float64",
    types: Mapping[str, str] | None = None,
) -> Program:
    """Return the program of a text, checked as compiling does."""
    own = types or {}
    known = {name: Known(DType(own.get(name, dtype)), at) for name, at in places.items()}
    columns = check_columns(parse_columns(text), known, scalars, "result")
    program = lower_columns(columns, shape, Widths(), DType(dtype), text=text)
    verify(program)
    for rewrite in PASSES:
        program = rewrite(program)
        verify(program)
    check(program)
    return program


class Prepared:
    """A compiled text and the arrays that it works on; call it with fields to get its results.

    Fields are [..., level] from bottom to top. Where a variable lives follows from its number of
    levels, one for FLAT, or from `places`.
    """

    def __init__(
        self,
        text: str,
        column: Column,
        fields: Mapping[str, Any],
        *,
        places: Mapping[str, At] | None = None,
        target: str | Loader = "reference",
        scalars: tuple[str, ...] = (),
        dtype: str = "float64",
    ) -> None:
        arrays = {name: np.atleast_1d(np.asarray(v, dtype)) for name, v in fields.items()}
        given = places or {}
        known = {name: given.get(name) or _place(a, column) for name, a in arrays.items()}
        self.column, self.dtype = column, dtype
        self.program = lowered(text, known, column.shape, scalars=scalars, dtype=dtype)
        wide = np.broadcast_shapes(*(a.shape[:-1] for a in arrays.values()))
        self.wide = int(np.prod(wide))
        self.views = {f.name: self._view(f, arrays) for f in self.program.fields}
        self.touched = touched_levels(self.program, column.shape.domain)
        _check_inside(self.touched, self.views)
        self.executable = executable_of(self.program, target)
        self.origins = dict.fromkeys(self.views, (0, 0, 0))

    def __call__(
        self, fields: Mapping[str, Any], scalars: Mapping[str, float] | None = None
    ) -> dict[str, Array]:
        column = self.column
        widths = {CENTRE_WIDTH: column.centre_widths, FACE_WIDTH: column.face_widths}
        for field in self.program.fields:
            view = self.views[field.name]
            if field.written:
                view[...] = np.nan
            else:
                values = np.asarray({**widths, **fields}[field.name], self.dtype)
                turned = values[..., ::-1] if column.flipped else values
                view[:, 0, :] = turned
        numbers = {name: float(value) for name, value in (scalars or {}).items()}
        used = {scalar.name: numbers[scalar.name] for scalar in self.program.scalars}
        domain = (self.wide, 1, column.shape.domain)
        self.executable(self.views, used, self.origins, domain)
        return {
            field.name: self._taken(field.name) for field in self.program.fields if field.written
        }

    def _view(self, field: Field, arrays: Mapping[str, Array]) -> Array:
        """Return an array as long as the field is; only results have a level for every face."""
        shape = self.column.shape
        if len(field.axes) == 2:
            levels = 1
        elif field.written:
            levels = shape.domain
        elif field.name == CENTRE_WIDTH:
            levels = shape.levels
        elif field.name == FACE_WIDTH:
            levels = shape.domain
        else:
            levels = arrays[field.name].shape[-1]
        wide = self.wide if len(field.axes) > 1 else 1
        return np.full((wide, 1, levels), np.nan, self.dtype, order="F")

    def _taken(self, name: str) -> Array:
        """Return a result from bottom to top; on centres without the last level, left NaN."""
        low, high = self.touched.get(name, (0, 0))
        values = self.views[name][:, 0, low : high + 1]
        return values[:, ::-1] if self.column.flipped else values


def run_column(
    text: str,
    column: Column,
    fields: Mapping[str, Any],
    *,
    places: Mapping[str, At] | None = None,
    target: str | Loader = "reference",
    scalars: Mapping[str, float] | None = None,
    dtype: str = "float64",
) -> dict[str, Array]:
    """Return the results of a text, once; see `Prepared`."""
    names = tuple(scalars or {})
    made = Prepared(text, column, fields, places=places, target=target, scalars=names, dtype=dtype)
    return made(fields, scalars)


def runge_kutta(slopes: Slopes, state: State, time: float, step: float) -> State:
    """Make one step of Shu and Osher's third-order scheme that keeps extrema."""

    def euler(now: State, at: float) -> State:
        rates = slopes(now, at)
        return {name: now[name] + step * rates[name] for name in now}

    one = euler(state, time)
    two = euler(one, time + step)
    two = {name: 0.75 * state[name] + 0.25 * two[name] for name in state}
    three = euler(two, time + 0.5 * step)
    return {name: state[name] / 3.0 + 2.0 / 3.0 * three[name] for name in state}


def norm(error: Array, column: Column, at: At) -> float:
    """Return the root of the mean square over the column; end faces count half."""
    weights = column.centre_widths if at is At.CENTRE else column.face_widths.copy()
    if at is At.FACE and not column.periodic:
        weights[[0, -1]] *= 0.5
    return float(np.sqrt((error**2 * weights).sum() / weights.sum()))


@functools.lru_cache(maxsize=64)
def _loaded(program: Program, target: str) -> Executable:
    return find(target).build(plan(program, analyse(program))).load()


def executable_of(program: Program, target: str | Loader) -> Executable:
    """Return a program that is alive on a target; equal ones are compiled once."""
    if isinstance(target, str):
        return _loaded(program, target)
    return target(plan(program, analyse(program)))


def _place(array: Array, column: Column) -> At:
    if array.shape[-1] == 1 and column.levels > 1:
        return At.FLAT
    if column.periodic:
        raise ValueError("centres and faces are as many; say which")
    return At.CENTRE if array.shape[-1] == column.levels else At.FACE


def _check_inside(touched: Mapping[str, tuple[int, int]], views: Mapping[str, Array]) -> None:
    """Assert what the analysis of levels proves: nothing outside an array is touched."""
    for name, (low, high) in touched.items():
        assert low >= 0, name
        assert high < views[name].shape[2], name
