"""Common inputs of processes: names of variables, target and blocks."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from halocline_service.processes.base import WHOLE, DatasetInputs, names

__all__ = [
    "Chunks",
    "Dimension",
    "Feedback",
    "FieldName",
    "Input",
    "Name",
    "Output",
    "ScalarName",
    "Sizes",
    "SnapshotEvery",
    "Steps",
    "StreamedInputs",
    "Target",
    "Variable",
]

#: The name of a variable, a dimension or a symbol.
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]

#: The name of a variable of the dataset.
Variable: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=200, json_schema_extra=names("variable"))
]
#: The name of a dimension of the dataset.
Dimension: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=200, json_schema_extra=names("dimension"))
]
#: The name of a field of a program.
FieldName: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=200, json_schema_extra=names("field"))
]
#: The name of a scalar of a program.
ScalarName: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=200, json_schema_extra=names("scalar"))
]
#: The name of a field that a program reads.
Input: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=200, json_schema_extra=names("input"))
]
#: The name of a field that a program writes.
Output: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=200, json_schema_extra=names("output"))
]

#: Numbers of points by dimension.
Sizes: TypeAlias = dict[Dimension, Annotated[int, Field(ge=1, le=2**40), WHOLE]]

Target: TypeAlias = Annotated[
    Literal["auto", "cuda", "cpu", "reference"],
    Field(
        title="Target",
        description="Target that computes: 'cuda' (or 'gpu') on GPUs, 'cpu' on cores, 'reference' "
        "with NumPy, or 'auto' on GPUs if workers have them, otherwise on cores.",
    ),
    BeforeValidator(lambda given: "cuda" if given == "gpu" else given),
]

Chunks: TypeAlias = Annotated[
    Sizes | None,
    Field(title="Chunks", description="Block sizes by dimension.", max_length=16),
]

Steps: TypeAlias = Annotated[
    int, Field(title="Steps", description="Number of steps.", ge=1, le=10_000_000), WHOLE
]

Feedback: TypeAlias = Annotated[
    dict[Output, Input] | None,
    Field(
        title="Feedback",
        description="Inputs by output: in the next step, the output replaces the input.",
        max_length=64,
    ),
]

SnapshotEvery: TypeAlias = Annotated[
    int | None,
    Field(
        title="Snapshot every",
        description="Number of steps between snapshots of the result, along a dimension 'step' or "
        "'time'.",
        ge=1,
        le=10_000_000,
    ),
    WHOLE,
]


class StreamedInputs(DatasetInputs):
    """Options for the blocks of a process that needs one pass, as JSON."""

    target: Target = "auto"
    mode: Annotated[
        Literal["auto", "streamed"],
        Field(title="Mode", description="Mode of the blocks; they are streamed in one pass."),
    ] = "auto"
    chunks: Chunks = None
