"""Common parts of `gather` and `scatter`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from halocline_service.processes.blocks import Sizes, StreamedInputs, Variable

__all__ = ["TransferInputs"]


class TransferInputs(StreamedInputs):
    """The keyword arguments that `gather` and `scatter` share, as JSON."""

    source: Annotated[Variable, Field(title="Source", description="The variable that is moved.")]
    chunks: Annotated[
        Sizes | None,
        Field(
            title="Chunks",
            description="Sizes of the blocks along dimensions of the source, the index or the"
            " result. Along those that change, elements are sorted into buckets.",
            max_length=16,
        ),
    ] = None
    index: Annotated[
        Variable, Field(title="Index", description="The variable with whole numbers from 0.")
    ]
    out_of_range: Annotated[
        Literal["error", "clip", "wrap", "mask"],
        Field(title="Out of range", description="What an index that names no element does."),
    ] = "error"
    negative: Annotated[
        Literal["out_of_range", "from_end"],
        Field(title="Negative", description="Whether negative indices count from the end."),
    ] = "out_of_range"
    fill: Annotated[
        float | None,
        Field(title="Fill", description="What stands where nothing is moved; default: NaN or 0."),
    ] = None
