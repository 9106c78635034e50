"""Operators on staggered columns: an expression on a dataset, as one fused program.

`expression` is one expression, or lines `name = expression`, of operators, arithmetic, functions,
variables and scalars, for example::

    DivergenceF2C(bottom=SetValue(0.0))(f * GradientC2F(top=SetGradient(g))(a * b))

The operators and their boundary conditions are in `ir.columns.table`. Values live on the centres or
on the faces of the cells, or have no level; a boundary value is a number, a scalar or a variable
over the horizontal. Names that begin with "_" are no results; the value of a bare expression is
called `name`. Nothing of the text is executed.

`fields` maps names of the text to variables (default: the same name), `scalars` gives numbers to
others. The dimensions of centres and faces are found from `vertical_dimensions` of an SGRID
topology, from xgcm's `c_grid_axis_shift`, and from CF attributes, or given as `axis`: that of the
centres, or {"centre": ..., "face": ...}. Where the dataset has one of both only, the other is made,
and results on it have its coordinates. `heights` names a variable with the heights of the faces;
left out, they follow from a hybrid height with bounds, a coordinate along the faces, or the bounds
of one along the centres (see `datasets.grids.column_grid`). Derivatives are along height, upwards,
whatever the order of the levels and the coordinate's `positive`. `boundary` is {dim: "periodic"}
for periodic columns, which have as many faces as centres.

Everything is computed in `dtype`, by default float32 where all floating-point variables are, else
float64. Missing values (NaN) stay missing where an operator reads them. Results have the dimensions
of all variables together, in the order of the largest one, and coordinates and attributes of the
dataset; a column integral has no vertical dimension.

`column_matrix` gives the bands of the matrix that acts on the variable `of`, where the expression
is linear in it: band d of row k multiplies element k + d, both counted in the order of the data,
each along its own dimension (a face comes before the centre with its number). The bands are called
`name` + "_lower2", "_lower", "_diagonal", "_upper" and so on for d = -2, -1, 0, 1, and have d as
the attribute `matrix_offset`. Values of boundary conditions are no part of it: the expression is
the matrix times the variable, plus what it gives for 0. The bands of "a - dt * L(a)" are those that
`tridiagonal` solves for an implicit step.

`dataset`, `target`, `chunks`, `cluster`, `output`, `on_event`, `cancelled` and `options` are those
of `run`; columns are never split, and the result is the same, bit for bit, for any blocks and
workers on one target. Raises a `ProgramError` with the place in the text, a `RequestError` or a
`CapacityError` before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xarray as xr

from halocline_engine.arguments import (
    by_name,
    names_by_name,
    place_of,
    sizes_by_name,
    text,
)
from halocline_engine.datasets.names import result_name
from halocline_engine.datasets.stores.source import open_source
from halocline_engine.distribute.columns.job import ColumnRequest, check_column, column_job
from halocline_engine.distribute.tasks.events import Event
from halocline_engine.distribute.tasks.options import Options, options_of
from halocline_engine.functions.execution import Execution

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["column", "column_matrix"]

_REASON = "a column program needs one pass"


def column(
    expression: str,
    dataset: xr.Dataset | str | Path,
    *,
    fields: Mapping[str, str] | None = None,
    scalars: Mapping[str, Any] | None = None,
    axis: str | Mapping[str, str] | None = None,
    heights: str | None = None,
    boundary: Mapping[str, Any] | None = None,
    dtype: str | None = None,
    name: str = "result",
    target: str = "auto",
    mode: str = "auto",
    chunks: Mapping[str, int] | None = None,
    cluster: int | str | Client | None = None,
    output: str | Path | None = None,
    on_event: Callable[[Event], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    options: Options | None = None,
) -> xr.Dataset:
    """Evaluate staggered column operators on a dataset; see the head of the module."""
    request = ColumnRequest(
        text=text("expression", expression, "the text of an expression"),
        fields=names_by_name("fields", fields, "{'T': 'temperature'}"),
        scalars=by_name("scalars", scalars, "{'K': 0.1}"),
        axis=_axis(axis),
        heights=_name("heights", heights, "heights"),
        boundary=by_name("boundary", boundary, "{'lev': 'periodic'}"),
        dtype=dtype,
        name=result_name(name),
        chunks=sizes_by_name("chunks", chunks),
        output=place_of("output", output),
    )
    execution = Execution(target, mode, cluster, on_event, cancelled, options)
    return _run(request, dataset, execution)


def column_matrix(
    expression: str,
    dataset: xr.Dataset | str | Path,
    *,
    of: str,
    fields: Mapping[str, str] | None = None,
    scalars: Mapping[str, Any] | None = None,
    axis: str | Mapping[str, str] | None = None,
    heights: str | None = None,
    boundary: Mapping[str, Any] | None = None,
    dtype: str | None = None,
    name: str = "matrix",
    target: str = "auto",
    mode: str = "auto",
    chunks: Mapping[str, int] | None = None,
    cluster: int | str | Client | None = None,
    output: str | Path | None = None,
    on_event: Callable[[Event], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    options: Options | None = None,
) -> xr.Dataset:
    """Return the bands of a linear expression of one variable; see the head of the module."""
    request = ColumnRequest(
        text=text("expression", expression, "the text of an expression"),
        fields=names_by_name("fields", fields, "{'T': 'temperature'}"),
        scalars=by_name("scalars", scalars, "{'K': 0.1}"),
        axis=_axis(axis),
        heights=_name("heights", heights, "heights"),
        boundary=by_name("boundary", boundary, "{'lev': 'periodic'}"),
        dtype=dtype,
        name=result_name(name),
        chunks=sizes_by_name("chunks", chunks),
        output=place_of("output", output),
        of=text("of", of, "the name of a variable"),
    )
    execution = Execution(target, mode, cluster, on_event, cancelled, options)
    return _run(request, dataset, execution)


def _run(
    request: ColumnRequest, dataset: xr.Dataset | str | Path, execution: Execution
) -> xr.Dataset:
    checked = check_column(request, open_source(dataset))
    options = options_of(execution.options)
    with execution.pool() as (pool, target):
        return execution.run(column_job(checked, pool, target, options), pool, _REASON)


# What users read about them is long, and stands at the head of this file.
column.__doc__ = __doc__
column_matrix.__doc__ = __doc__


def _axis(axis: str | Mapping[str, str] | None) -> str | Mapping[str, str] | None:
    if axis is None or isinstance(axis, str):
        return axis
    return names_by_name("axis", axis, "{'centre': 'lev', 'face': 'ilev'}")


def _name(argument: str, given: str | None, what: str) -> str | None:
    return None if given is None else text(argument, given, f"the name of a variable of {what}")
