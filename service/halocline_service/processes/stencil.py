"""`stencil` runs a stencil program over a dataset: the inputs are those of `run`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt

from halocline_engine.errors import ArgumentError
from halocline_engine.interface.uncompiled import READING, with_reading
from halocline_service.processes.base import WHOLE, DatasetInputs, Inputs, Process, ProgramText
from halocline_service.processes.blocks import (
    Chunks,
    Dimension,
    Feedback,
    FieldName,
    Name,
    Output,
    ScalarName,
    SnapshotEvery,
    Steps,
    Target,
    Variable,
)
from halocline_service.processes.reduce import RunDiagnosticInputs

if TYPE_CHECKING:
    from halocline_engine.ir.nodes import Program
    from halocline_engine.program_warning import ProgramWarning

__all__ = [
    "OPTIONS",
    "STENCIL",
    "ClockScalar",
    "ConstantBoundary",
    "FieldBoundary",
    "LiteralPrecision",
    "ScalarValues",
    "SidedBoundary",
    "StencilInputs",
    "Time",
    "Until",
    "check_program",
    "program_arguments",
    "tell_program",
]

#: Inputs that are options of the engine's function.
OPTIONS = ("order",)
#: The inputs that say what a program means.
_OF_PROGRAM = ("program", "stencil_name", "externals", "dtypes", *READING)
_Scalar = StrictBool | StrictInt | StrictFloat
_Constant = _Scalar | Annotated[str, Field(max_length=200)]
#: A number, an axis index, the name of a function, or constants and functions by name.
_Member = _Constant | dict[Literal["function", "axis", "index", "offset"], _Constant]
_External = _Constant | Annotated[dict[Name, _Member], Field(max_length=256)]


class ConstantBoundary(Inputs):
    """Constant value of cells beyond the edge."""

    constant: StrictBool | StrictInt | StrictFloat


_BoundaryRule = (
    Literal["periodic", "edge", "reflect", "symmetric", "antisymmetric", "extrapolate", "none"]
    | ConstantBoundary
)


_Position = Literal["center", "centre", "left", "right", "outer", "inner"]


class LiteralPrecision(Inputs):
    """Bits of whole numbers and of others in a text."""

    int: Literal[32, 64] = 64
    float: Literal[32, 64] = 64


class SidedBoundary(Inputs):
    """One rule for each side of a dimension."""

    low: _BoundaryRule = "none"
    high: _BoundaryRule = "none"


class FieldBoundary(SidedBoundary):
    """One rule for each side of a dimension, and others for some fields."""

    fields: Annotated[
        dict[FieldName, _BoundaryRule | SidedBoundary],
        Field(default_factory=dict, description="Rules of single fields.", max_length=256),
    ]


class ClockScalar(Inputs):
    """A scalar that the clock of the job tells at the beginning of each step."""

    clock: Literal["step", "seconds", "day_of_year", "time_of_day"]


class ScalarValues(Inputs):
    """Values of a scalar along the steps, or a dimension that is looped over."""

    values: Annotated[list[_Scalar], Field(min_length=1, max_length=1_000_000)]
    dim: Dimension


_Date = Annotated[str, Field(max_length=40)]
_Duration = Annotated[str, Field(max_length=40)]
_Method = Literal["previous", "nearest", "linear", "mean"]


class Time(Inputs):
    """The clock of a job, and how variables that vary with time follow from their records."""

    start: Annotated[_Date | None, Field(title="Start")] = None
    step: Annotated[_Duration, Field(title="Step")]
    end: Annotated[_Date | None, Field(title="End")] = None
    duration: Annotated[_Duration | None, Field(title="Duration")] = None
    calendar: Annotated[_Date | None, Field(title="Calendar")] = None
    reference: Annotated[_Date | None, Field(title="Reference")] = None
    interpolate: Annotated[
        _Method | Annotated[dict[FieldName, _Method], Field(max_length=256)] | None,
        Field(title="Interpolation"),
    ] = None
    cyclic: Annotated[StrictBool | _Duration | None, Field(title="Period")] = None


class Until(Inputs):
    """Condition that a step changes an output by at most `below`."""

    field: Annotated[Output, Field(title="Result")]
    below: Annotated[float, Field(title="Changes by less than", ge=0)]
    change: Annotated[Literal["max", "norm"], Field(title="Measured as")] = "max"
    check_every: Annotated[int, Field(title="Check every", ge=1, le=10_000_000), WHOLE] = 100
    non_finite: Annotated[Literal["error", "ignore"], Field(title="Values that are not finite")] = (
        "error"
    )


class StencilInputs(DatasetInputs):
    """The keyword arguments of `run`, as JSON."""

    program: Annotated[
        ProgramText,
        Field(
            title="Program",
            description="Text of a stencil: a function in GT4Py's Cartesian language. "
            "The text is parsed, never executed.",
        ),
    ]
    fields: Annotated[
        dict[FieldName, Variable] | None,
        Field(
            title="Fields",
            description="Variables by field of the program; by default of the same name.",
            max_length=256,
        ),
    ] = None
    scalars: Annotated[
        dict[ScalarName, _Scalar | ClockScalar | ScalarValues] | None,
        Field(
            title="Scalars",
            description="Values of the scalar parameters: numbers, "
            '{"values": [...], "dim": "step"}, or {"clock": "seconds"}.',
            max_length=256,
        ),
    ] = None
    externals: Annotated[
        dict[Name, _External] | None,
        Field(
            title="Externals",
            description="Values of imported names: numbers, positions on an axis such as "
            '{"axis": "I", "index": -1}, functions of the text as {"function": "name"}, and '
            "constants of a module by their names.",
            max_length=256,
        ),
    ] = None
    dtypes: Annotated[
        dict[Name, Name] | None,
        Field(
            title="Data types",
            description="Types of names in annotations: types of numbers, or of fields such as "
            "'Field[IJ, np.float32]'.",
            max_length=64,
        ),
    ] = None
    literal_precision: Annotated[
        Literal[32, 64] | LiteralPrecision,
        Field(
            title="Precision of literals",
            description="Bits of numbers in the text, or of whole numbers ('int') and others.",
        ),
    ] = 64
    arithmetic: Annotated[
        Literal["separate", "fused"],
        Field(
            title="Arithmetic",
            description="Whether to round after each operation, or once for a * b + c.",
        ),
    ] = "separate"
    stencil_name: Annotated[
        str | None,
        Field(
            title="Stencil name",
            description="Name of the stencil, if the text has several.",
            max_length=200,
        ),
    ] = None
    axes: Annotated[
        dict[Literal["I", "J", "K"], Dimension | None] | None,
        Field(
            title="Axes",
            description="Dimensions of I, J and K, or null for an axis that the dataset lacks; by "
            "default they follow from CF attributes and names.",
        ),
    ] = None
    grid: Annotated[
        dict[Name, dict[_Position, Dimension]] | None,
        Field(
            title="Grid",
            description='Dimensions by axis and position, such as {"X": {"center": "xh", "right": '
            '"xq"}}; by default found by attributes and by names.',
            max_length=16,
        ),
    ] = None
    positions: Annotated[
        dict[FieldName, Annotated[list[Dimension], Field(max_length=2)]] | None,
        Field(
            title="Positions",
            description="Dimensions of results on axes that have several, such as "
            '{"curl": ["yq", "xq"]}.',
            max_length=256,
        ),
    ] = None
    boundary: Annotated[
        dict[Dimension, _BoundaryRule | FieldBoundary] | None,
        Field(
            title="Boundary",
            description="Values beyond the ends of each dimension, for both ends or for each.",
            max_length=16,
        ),
    ] = None
    steps: Steps = 1
    feedback: Feedback = None
    until: Annotated[
        Until | None,
        Field(title="Until", description="Condition to end the job before the last step."),
    ] = None
    snapshot_every: SnapshotEvery = None
    time: Annotated[
        Time | None,
        Field(
            title="Time",
            description='Start and length of the steps, as "2015-01-01" and "15min"; fields whose '
            "variables vary with time are read as it goes on.",
        ),
    ] = None
    diagnostics: Annotated[
        dict[Name, RunDiagnosticInputs] | None,
        Field(
            title="Diagnostics",
            description="Sums, means, extremes and histograms of fields after each step, or "
            "'every' so many, by the name of the result.",
            min_length=1,
            max_length=64,
        ),
    ] = None
    target: Target = "auto"
    mode: Annotated[
        Literal["auto", "streamed", "resident"],
        Field(
            title="Mode",
            description="Whether blocks pass through memory, or stay in it and exchange halos.",
        ),
    ] = "auto"
    chunks: Chunks = None
    order: Annotated[
        Literal["auto", "row", "column", "zigzag"],
        Field(title="Order", description="Order of the blocks, for reuse of chunks."),
    ] = "auto"

    def arguments(self) -> dict[str, Any]:
        """Give the inputs that were asked for, but program and dataset."""
        return self.model_dump(exclude={"program", "dataset"}, exclude_unset=True)

    def keywords(self, places: Mapping[str, Any]) -> dict[str, Any]:
        """Give the keyword arguments of `run`, but its options."""
        asked = self.model_dump(exclude={"dataset", *OPTIONS}, exclude_unset=True)
        return {**places, **program_arguments(asked)}

    def options(self) -> dict[str, Any]:
        """Give the inputs that are among the options of `run`."""
        return self.model_dump(include={*OPTIONS}, exclude_unset=True)


def program_arguments(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Give the inputs of a stencil as keyword arguments of `run`."""
    # A line break makes it text: what users send never names a file here.
    return with_reading({**inputs, "program": f"{inputs['program']}\n"})


def check_program(inputs: StencilInputs) -> None:
    """Parse and check the program without data, and what the inputs name of it.

    Raises `ProgramError` with its place, or `ArgumentError`.
    """
    from halocline_engine.analysis.boundaries import check_boundary
    from halocline_engine.analysis.dependence import check
    from halocline_engine.analysis.named import (
        arguments_of,
        check_axes,
        check_feedback,
        check_fields,
        dims_given,
        joined_components,
    )
    from halocline_engine.analysis.scalars import given_scalars_of
    from halocline_engine.datasets.diagnostics import diagnostics_of
    from halocline_engine.datasets.names import check_written
    from halocline_engine.datasets.times.clock import time_of

    given = inputs.arguments()
    program, _ = _lowered(inputs)
    check(program)
    axes: dict[str, str | None] = given.get("axes") or {}
    boundary: dict[str, Any] = given.get("boundary") or {}
    check_fields(program, inputs.fields or {})
    given_scalars_of(program, given.get("scalars") or {})
    time_of(given.get("time"))
    check_feedback(program, joined_components(program, inputs.feedback or {}))
    check_written(program, inputs.fields or {})
    check_axes(axes)
    check_boundary(boundary, dims_given(program, axes), arguments_of(program))
    if inputs.diagnostics is not None:
        diagnostics_of("diagnostics", given["diagnostics"], of_run=True)


def tell_program(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the facts of a program, independent of other inputs."""
    from halocline_service.processes.program_facts import program_facts

    of_program = {name: given[name] for name in _OF_PROGRAM if name in given}
    inputs = StencilInputs.model_validate({"dataset": "-", **of_program})
    program, warnings = _lowered(inputs)
    return program_facts(program, warnings, inputs.program)


def _lowered(inputs: StencilInputs) -> tuple[Program, tuple[ProgramWarning, ...]]:
    """Give the meaning of the program. Raises `ProgramError` with its place."""
    from halocline_engine.arguments import literal_bits
    from halocline_engine.ir.lower.program import lower
    from halocline_engine.language.gtscript import parse

    try:
        inputs.program.encode()
    except UnicodeEncodeError as error:
        raise ArgumentError("Input 'program' is not text that UTF-8 can express.") from error
    integer, floating = literal_bits(inputs.arguments().get("literal_precision", 64))
    return lower(
        parse(inputs.program),
        name=inputs.stencil_name,
        externals=inputs.externals,
        dtypes=inputs.dtypes,
        literal_int=integer,
        literal_float=floating,
    )


STENCIL = Process(
    id="stencil",
    version="1.0.0",
    title="Stencil",
    description="Runs a stencil program over a dataset, block by block with halos.",
    keywords=("stencil", "xarray", "zarr"),
    inputs=StencilInputs,
    check=check_program,
    tell=tell_program,
)
