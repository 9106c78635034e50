"""`reduce` sums up datasets: the inputs are those of the engine's function."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field, StrictFloat, StrictInt

from halocline_engine.errors import ArgumentError
from halocline_service.processes.base import WHOLE, Inputs, Process, names
from halocline_service.processes.blocks import Dimension, Name, StreamedInputs, Variable

__all__ = ["REDUCE", "DiagnosticInputs", "ReduceInputs", "RunDiagnosticInputs"]

#: An expression of variables, which is parsed and never executed.
_Expression: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=2000, json_schema_extra=names("variable"))
]


class DiagnosticInputs(Inputs):
    """A reduction: one of the first seven members says how values become one."""

    sum: _Expression | None = None
    mean: _Expression | None = None
    norm: _Expression | None = None
    min: _Expression | None = None
    max: _Expression | None = None
    count: _Expression | None = None
    histogram: _Expression | None = None
    weights: _Expression | None = None
    dims: Annotated[list[Dimension] | None, Field(min_length=1, max_length=16)] = None
    by: Variable | None = None
    bins: Annotated[
        list[StrictInt | StrictFloat] | None, Field(min_length=2, max_length=10_000)
    ] = None
    skipna: bool = True


class RunDiagnosticInputs(DiagnosticInputs):
    """A reduction between the steps of a run."""

    every: Annotated[int | None, Field(ge=1, le=10_000_000), WHOLE] = None


class ReduceInputs(StreamedInputs):
    """The keyword arguments of `reduce`, as JSON."""

    diagnostics: Annotated[
        dict[Name, DiagnosticInputs],
        Field(
            title="Diagnostics",
            description="Reductions by the name of the result, such as {'heat': {'sum': 'rho * t',"
            " 'weights': 'area'}}: 'sum', 'mean', 'norm', 'min', 'max', 'count' or 'histogram' of"
            " an expression, with 'weights', 'dims', 'by' (labels), 'bins' and 'skipna'.",
            min_length=1,
            max_length=64,
        ),
    ]


def _check(inputs: ReduceInputs) -> None:
    """Refuse what no dataset can have."""
    from halocline_engine.datasets.diagnostics import diagnostics_of

    if inputs.target == "cuda":
        raise ArgumentError(
            "Argument 'target' must be 'auto', 'cpu' or 'reference' for reductions, got 'cuda'.",
            hint="Leave it out: cores reduce values as they come from the dataset.",
        )
    diagnostics_of("diagnostics", inputs.arguments()["diagnostics"])


REDUCE = Process(
    id="reduce",
    version="1.0.0",
    title="Reductions",
    description="Reduces variables to sums, means, extremes and histograms, in one pass.",
    keywords=("sum", "mean", "minimum", "maximum", "histogram", "zonal mean", "xarray", "zarr"),
    inputs=ReduceInputs,
    check=_check,
)
