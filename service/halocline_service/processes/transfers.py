"""What the processes that move elements or grids have in common."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from halocline_service.processes.base import DatasetInputs

__all__ = ["Name", "StreamedInputs", "TransferInputs"]

Name = Annotated[str, Field(min_length=1, max_length=200)]


class StreamedInputs(DatasetInputs):
    """How blocks are computed, as JSON."""

    target: Annotated[
        Literal["auto", "cuda", "cpu", "reference"],
        Field(title="Target", description="What computes."),
    ] = "auto"
    mode: Annotated[
        Literal["auto", "streamed"],
        Field(title="Mode", description="There is one pass, so its blocks are streamed."),
    ] = "auto"
    chunks: Annotated[
        dict[Name, Annotated[int, Field(ge=1, le=2**40)]] | None,
        Field(
            title="Chunks",
            description="Sizes of the blocks along dimensions that stay as they are.",
            max_length=16,
        ),
    ] = None


class TransferInputs(StreamedInputs):
    """The keyword arguments that `gather` and `scatter` share, as JSON."""

    source: Annotated[Name, Field(title="Source", description="The variable that is moved.")]
    chunks: Annotated[
        dict[Name, Annotated[int, Field(ge=1, le=2**40)]] | None,
        Field(
            title="Chunks",
            description="Sizes of the blocks along dimensions of the source, the index or the"
            " result. Along those that change, elements are sorted into buckets.",
            max_length=16,
        ),
    ] = None
    index: Annotated[
        Name, Field(title="Index", description="The variable with whole numbers from 0.")
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
