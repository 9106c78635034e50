"""Operators on staggered columns of datasets."""

from collections.abc import Mapping
from typing import Annotated, Any, Unpack

import xarray as xr

from halocline_engine.arguments import (
    by_name,
    names_by_name,
    text,
)
from halocline_engine.datasets.inputs.opening import DatasetLike, open_source
from halocline_engine.datasets.names import result_name
from halocline_engine.distribute.columns.job import ColumnRequest, check_column, column_job
from halocline_engine.distribute.tasks.options import options_of
from halocline_engine.functions.documentation import documented
from halocline_engine.functions.execution import Execution, ExecutionArguments
from halocline_engine.signatures import Default, complete, described

__all__ = ["ColumnArguments", "column", "column_matrix"]

_REASON = "a column program needs one pass"


class ColumnArguments(ExecutionArguments, total=False):
    """Names and types in an expression, and options of the computation.

    Parameters
    ----------
    fields : mapping of str to str, optional
        Variables by name in the text; by default the variable of the same name.
    scalars : mapping of str to number, optional
        Numbers by name in the text.
    axis : str or mapping of str to str, optional
        Vertical dimension of the centres, or ``{'centre': ..., 'face': ...}``. By default it
        follows from SGRID's `vertical_dimensions`, from `c_grid_axis_shift`, from CF attributes, or
        from names of models. If only one of both exists, the other is created.
    heights : str, optional
        Variable with the heights of the faces. By default they follow from a hybrid height with
        bounds, a coordinate along the faces, or the bounds of one along the centres. Derivatives
        are along height, upwards, in any order of the levels.
    boundary : mapping of str to str, optional
        ``{dim: 'periodic'}`` for periodic columns, which have as many faces as centres.
    dtype : {'float32', 'float64'}, optional
        Type of all values; by default float32 if all floating-point variables are, otherwise
        float64.

    """

    fields: Annotated[Mapping[str, str] | None, Default(None)]
    scalars: Annotated[Mapping[str, Any] | None, Default(None)]
    axis: Annotated[str | Mapping[str, str] | None, Default(None)]
    heights: Annotated[str | None, Default(None)]
    boundary: Annotated[Mapping[str, Any] | None, Default(None)]
    dtype: Annotated[str | None, Default(None)]


_shown = documented(
    ColumnArguments,
    column=described(ColumnArguments),
    expression="""
expression : str
    One expression, or lines ``name = expression``, of operators, arithmetic, functions,
    variables and scalars. Names that begin with an underscore are not results. The text is
    parsed, never executed.
""",
    example="""
>>> import xarray as xr
>>> import halocline_engine as he
>>> dataset = xr.Dataset(
...     {"t": ("z", [1.0, 2.0, 4.0])},
...     coords={
...         "z": ("z", [0.5, 1.5, 2.5], {"axis": "Z"}),
...         "z_f": ("z_f", [0.0, 1.0, 2.0, 3.0], {"axis": "Z", "c_grid_axis_shift": -0.5}),
...     },
... )
""",
)


@_shown
def column(
    expression: str,
    dataset: DatasetLike,
    *,
    name: str = "result",
    **given: Unpack[ColumnArguments],
) -> xr.Dataset:
    """Evaluate operators on staggered columns as one fused program.

    Parameters
    ----------
    %(expression)s
    %(dataset)s
    %(column)s
    name : str, default: 'result'
        Name of the result of a bare expression.
    %(execution)s

    Returns
    -------
    xarray.Dataset
        One variable for each name, on the dimensions of all variables together in the order of the
        largest one. A column integral has no vertical dimension.

    Raises
    ------
    ProgramError
        The expression is wrong; the message shows the place.
    %(errors)s

    See Also
    --------
    column_matrix : The matrix of a linear expression.

    Notes
    -----
    Values live at the centres or on the faces of cells, or have no level. `docs/columns.md` lists
    the operators and their boundary conditions. NaN stays where an operator reads it. Columns are
    never split into blocks. Names and boundary conditions are those of ClimaCore.jl.

    Examples
    --------
    %(example)s
    >>> flux = "GradientC2F(bottom=SetGradient(0.0), top=SetGradient(0.0))(t)"
    >>> he.column(flux, dataset)["result"].values.tolist()
    [0.0, 1.0, 2.0, 0.0]

    """
    return _run(expression, dataset, name=name, **complete(column, given))


@_shown
def column_matrix(
    expression: str,
    dataset: DatasetLike,
    *,
    of: str,
    name: str = "matrix",
    **given: Unpack[ColumnArguments],
) -> xr.Dataset:
    """Return the banded matrix of an expression that is linear in one variable.

    Parameters
    ----------
    %(expression)s
    %(dataset)s
    of : str
        Variable that the matrix acts on.
    %(column)s
    name : str, default: 'matrix'
        Prefix of the names of the bands.
    %(execution)s

    Returns
    -------
    xarray.Dataset
        Bands ``<name>_lower2``, ``_lower``, ``_diagonal``, ``_upper`` and so on. Band d of row k
        multiplies element k + d, each counted in the order of the data along its own dimension (a
        face precedes the centre with its number); the attribute `matrix_offset` is d. `tridiagonal`
        solves with the bands of ``"a - dt * L(a)"`` for an implicit step.

    Raises
    ------
    ProgramError
        The expression is wrong or not linear in the variable; the message shows the place.
    %(errors)s

    Notes
    -----
    Values of boundary conditions are not part of the matrix: the expression is the matrix times the
    variable, plus the value of the expression for 0.

    Examples
    --------
    %(example)s
    >>> no_flux = "bottom=SetGradient(0.0), top=SetGradient(0.0)"
    >>> matrix = he.column_matrix(f"DivergenceF2C()(GradientC2F({no_flux})(t))", dataset, of="t")
    >>> matrix["matrix_diagonal"].values.tolist()
    [-1.0, -2.0, -1.0]

    """
    of = text("of", of, "the name of a variable")
    return _run(expression, dataset, name=name, of=of, **complete(column_matrix, given))


def _run(
    expression: str,
    dataset: DatasetLike,
    *,
    fields: Mapping[str, str] | None,
    scalars: Mapping[str, Any] | None,
    axis: str | Mapping[str, str] | None,
    heights: str | None,
    boundary: Mapping[str, Any] | None,
    dtype: str | None,
    name: str,
    of: str | None = None,
    **given: Unpack[ExecutionArguments],
) -> xr.Dataset:
    execution = Execution(**given)
    request = ColumnRequest(
        text=text("expression", expression, "the text of an expression"),
        fields=names_by_name("fields", fields, "{'T': 'temperature'}"),
        scalars=by_name("scalars", scalars, "{'K': 0.1}"),
        axis=_axis(axis),
        heights=_name("heights", heights, "heights"),
        boundary=by_name("boundary", boundary, "{'lev': 'periodic'}"),
        dtype=dtype,
        name=result_name(name),
        chunks=execution.block_sizes,
        output=execution.place,
        of=of,
    )
    checked = check_column(request, open_source(dataset))
    options = options_of(execution.options)
    with execution.pool() as (pool, target):
        return execution.run(column_job(checked, pool, target, options), pool, _REASON)


def _axis(axis: str | Mapping[str, str] | None) -> str | Mapping[str, str] | None:
    if axis is None or isinstance(axis, str):
        return axis
    return names_by_name("axis", axis, "{'centre': 'lev', 'face': 'ilev'}")


def _name(argument: str, given: str | None, what: str) -> str | None:
    return None if given is None else text(argument, given, f"the name of a variable of {what}")
