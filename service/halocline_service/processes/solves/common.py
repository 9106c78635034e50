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
    Variable, Field(title="Diagonal", description="The variable on the diagonal.")
]
RightHandSide: TypeAlias = Annotated[
    Variable, Field(title="Right-hand side", description="The variable on the other side.")
]


class SolutionInputs(StreamedInputs):
    """Inputs of a process about its solution, as JSON."""

    name: Annotated[
        Name, Field(title="Name", description="What the variable with the solution is called.")
    ] = "solution"


class BandInputs(StreamedInputs):
    """A matrix with a band along a dimension, as JSON."""

    lower: Annotated[
        Variable, Field(title="Lower", description="The variable that multiplies the row before.")
    ]
    diagonal: Diagonal
    upper: Annotated[
        Variable, Field(title="Upper", description="The variable that multiplies the row behind.")
    ]
    dim: Annotated[
        Dimension, Field(title="Dimension", description="Along which the equations couple.")
    ]


class PeriodicInputs(BandInputs):
    """A tridiagonal matrix, as JSON."""

    periodic: Annotated[
        StrictBool, Field(title="Periodic", description="Whether the first and last rows couple.")
    ] = False


class SolveInputs(BandInputs, SolutionInputs):
    """A system with a band that is solved at once, as JSON."""

    rhs: RightHandSide
    pivoting: Annotated[
        StrictBool,
        Field(title="Pivoting", description="Whether rows change places where that is better."),
    ] = False
    residual: Annotated[
        StrictBool,
        Field(title="Residual", description="Whether to give each system's backward error."),
    ] = False


def check_solution(inputs: SolveInputs) -> None:
    """Refuse a name that no solution can have."""
    check_results([result_name(inputs.name)], [inputs.dim])
