"""Common parts of the processes that solve systems of equations."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field, StrictBool

from halocline_engine.datasets.names import check_results, result_name
from halocline_service.processes.blocks import Dimension, Name, StreamedInputs, Variable

__all__ = [
    "BandInputs",
    "Diagonal",
    "PeriodicInputs",
    "RightHandSide",
    "SolutionInputs",
    "SolveInputs",
    "check_solution",
]

Diagonal: TypeAlias = Annotated[
    Variable, Field(title="Diagonal", description="Variable of the diagonal.")
]
RightHandSide: TypeAlias = Annotated[
    Variable, Field(title="Right-hand side", description="Variable of the right-hand side.")
]


class SolutionInputs(StreamedInputs):
    """Inputs of a process about its solution, as JSON."""

    name: Annotated[Name, Field(title="Name", description="Name of the solution.")] = "solution"


class BandInputs(StreamedInputs):
    """A matrix with a band along a dimension, as JSON."""

    lower: Annotated[
        Variable, Field(title="Lower", description="Variable that multiplies the previous row.")
    ]
    diagonal: Diagonal
    upper: Annotated[
        Variable, Field(title="Upper", description="Variable that multiplies the next row.")
    ]
    dim: Annotated[Dimension, Field(title="Dimension", description="Dimension of the rows.")]


class PeriodicInputs(BandInputs):
    """A tridiagonal matrix, as JSON."""

    periodic: Annotated[
        StrictBool, Field(title="Periodic", description="Whether the system couples both ends.")
    ] = False


class SolveInputs(BandInputs, SolutionInputs):
    """A system with a band that is solved at once, as JSON."""

    rhs: RightHandSide
    pivoting: Annotated[
        StrictBool,
        Field(title="Pivoting", description="Whether to exchange rows for stability."),
    ] = False
    residual: Annotated[
        StrictBool,
        Field(title="Residual", description="Whether to return the residual of each system."),
    ] = False


def check_solution(inputs: SolveInputs) -> None:
    """Refuse a name that no solution can have."""
    check_results([result_name(inputs.name)], [inputs.dim])
