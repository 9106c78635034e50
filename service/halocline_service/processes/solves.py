"""What the processes that solve systems of equations have in common."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from halocline_service.processes.base import DatasetInputs

__all__ = ["BlockInputs", "SolveInputs", "VariableName"]

VariableName = Annotated[str, Field(min_length=1, max_length=200)]


class BlockInputs(DatasetInputs):
    """How blocks of systems are computed, as JSON."""

    target: Annotated[
        Literal["auto", "cuda", "cpu", "reference"],
        Field(title="Target", description="What computes."),
    ] = "auto"
    mode: Annotated[
        Literal["auto", "streamed"],
        Field(title="Mode", description="A solve needs one pass, so its blocks are streamed."),
    ] = "auto"
    chunks: Annotated[
        dict[VariableName, Annotated[int, Field(ge=1, le=2**40)]] | None,
        Field(title="Chunks", description="Sizes of the blocks, by dimension.", max_length=16),
    ] = None


class SolveInputs(BlockInputs):
    """The keyword arguments that all solves have, as JSON."""

    name: Annotated[
        VariableName,
        Field(title="Name", description="What the variable with the solution is called."),
    ] = "solution"
