"""Common parts of `gather` and `scatter`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from halocline_service.processes.blocks import Sizes, StreamedInputs, Variable

__all__ = ["TransferInputs"]


class TransferInputs(StreamedInputs):
    """The keyword arguments that `gather` and `scatter` share, as JSON."""

    source: Annotated[Variable, Field(title="Source", description="Variable of the elements.")]
    chunks: Annotated[
        Sizes | None,
        Field(
            title="Chunks",
            description="Block sizes along dimensions of the source, the index or the result. "
            "Sizes along indexed dimensions sort the elements into buckets.",
            max_length=16,
        ),
    ] = None
    index: Annotated[Variable, Field(title="Index", description="Variable of the indices, from 0.")]
    out_of_range: Annotated[
        Literal["error", "clip", "wrap", "mask"],
        Field(title="Out of range", description="Rule for indices out of range."),
    ] = "error"
    negative: Annotated[
        Literal["out_of_range", "from_end"],
        Field(title="Negative", description="Whether negative indices count from the end."),
    ] = "out_of_range"
    fill: Annotated[
        float | None,
        Field(title="Fill", description="Value of unassigned elements; by default NaN or 0."),
    ] = None
