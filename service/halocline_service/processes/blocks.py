"""Inputs that processes have in common: names of variables, what computes, and in which blocks."""

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
        description="What computes: 'cuda', or 'gpu', is GPUs, 'cpu' cores, 'reference' NumPy, "
        "'auto' GPUs where workers have them, else cores.",
    ),
    BeforeValidator(lambda given: "cuda" if given == "gpu" else given),
]

Chunks: TypeAlias = Annotated[
    Sizes | None,
    Field(title="Chunks", description="Sizes of the blocks, by dimension.", max_length=16),
]

Steps: TypeAlias = Annotated[
    int, Field(title="Steps", description="How many steps are made.", ge=1, le=10_000_000), WHOLE
]

Feedback: TypeAlias = Annotated[
    dict[Output, Input] | None,
    Field(
        title="Feedback",
        description="The variable that each result becomes in the next step.",
        max_length=64,
    ),
]

SnapshotEvery: TypeAlias = Annotated[
    int | None,
    Field(
        title="Snapshot every",
        description="After how many steps results are kept, along a dimension 'step', or 'time'.",
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
        Field(title="Mode", description="There is one pass, so its blocks are streamed."),
    ] = "auto"
    chunks: Chunks = None
