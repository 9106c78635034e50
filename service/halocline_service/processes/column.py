"""`column` evaluates operators on staggered columns: the inputs are those of the engine."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictFloat, StrictInt

from halocline_engine.errors import ArgumentError
from halocline_service.processes.base import Process, ProgramText
from halocline_service.processes.blocks import (
    Dimension,
    FieldName,
    Name,
    ScalarName,
    StreamedInputs,
    Variable,
)

__all__ = ["COLUMN", "ColumnInputs", "check_expression"]


class ColumnInputs(StreamedInputs):
    """The keyword arguments of `column`, as JSON."""

    expression: Annotated[
        ProgramText,
        Field(
            title="Expression",
            description="Staggered operators on variables of the dataset: an expression, or lines "
            "'name = expression'. The text is parsed, never executed.",
        ),
    ]
    fields: Annotated[
        dict[FieldName, Variable] | None,
        Field(
            title="Fields",
            description="Variables by name in the expression; by default of the same name.",
            max_length=64,
        ),
    ] = None
    scalars: Annotated[
        dict[ScalarName, StrictInt | StrictFloat] | None,
        Field(title="Scalars", description="Numbers by name in the expression.", max_length=64),
    ] = None
    axis: Annotated[
        Dimension | dict[Literal["centre", "face"], Dimension] | None,
        Field(
            title="Axis",
            description="Vertical dimension of the centres, or of centres and faces; by default it "
            "follows from attributes of CF, SGRID and xgcm.",
        ),
    ] = None
    heights: Annotated[
        Variable | None,
        Field(title="Heights", description="Variable with the heights of the faces."),
    ] = None
    boundary: Annotated[
        dict[Dimension, Literal["periodic"]] | None,
        Field(
            title="Boundary",
            description="'periodic' by vertical dimension; others belong to the expression.",
            max_length=2,
        ),
    ] = None
    dtype: Annotated[
        Literal["float32", "float64"] | None,
        Field(title="Data type", description="Type of all fields; by default of the variables."),
    ] = None
    name: Annotated[
        Name, Field(title="Name", description="Name of the result of a bare expression.")
    ] = "result"


def check_expression(inputs: ColumnInputs) -> None:
    """Check the expression without data, and what the inputs say of it.

    Raises `ProgramError` with its place, or `ArgumentError`.
    """
    from halocline_engine.analysis.columns import (
        check_axis,
        check_fields,
        check_periodic,
        check_result_names,
        check_scalars,
        check_variables,
        shown_results,
    )
    from halocline_engine.datasets.names import result_name
    from halocline_engine.ir.columns.calls import check_operators
    from halocline_engine.language.columns import parse_columns

    try:
        inputs.expression.encode()
    except UnicodeEncodeError as error:
        raise ArgumentError("Input 'expression' is not text that UTF-8 can express.") from error
    syntax = parse_columns(inputs.expression)
    check_operators(syntax)
    check_fields(syntax, inputs.fields or {})
    check_scalars(syntax, inputs.scalars or {})
    check_variables(syntax, inputs.scalars or {})
    check_result_names(shown_results(syntax, result_name(inputs.name)))
    axis: str | dict[str, str] | None = inputs.arguments().get("axis")
    if axis is not None:
        check_axis(axis)
    if isinstance(axis, dict) and len(axis) > 1:
        check_periodic(inputs.boundary or {}, [axis["centre"], axis["face"]])


COLUMN = Process(
    id="column",
    version="1.0.0",
    title="Column operators",
    description="Evaluates operators on staggered vertical grids as one fused program.",
    keywords=("column", "staggered", "finite differences", "xarray", "zarr"),
    inputs=ColumnInputs,
    check=check_expression,
)
