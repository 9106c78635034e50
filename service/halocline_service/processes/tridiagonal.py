"""`tridiagonal` solves systems along a dimension: the inputs are those of the engine's function."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictBool

from halocline_service.processes.base import RESULT, Control, Process
from halocline_service.processes.solves import SolveInputs, VariableName

__all__ = ["TRIDIAGONAL", "TridiagonalInputs"]


class TridiagonalInputs(SolveInputs):
    """The keyword arguments of `tridiagonal`, as JSON."""

    lower: Annotated[
        VariableName,
        Field(title="Lower", description="The variable that multiplies the row before."),
    ]
    diagonal: Annotated[
        VariableName, Field(title="Diagonal", description="The variable on the diagonal.")
    ]
    upper: Annotated[
        VariableName,
        Field(title="Upper", description="The variable that multiplies the row behind."),
    ]
    rhs: Annotated[
        VariableName, Field(title="Right-hand side", description="The variable on the other side.")
    ]
    dim: Annotated[
        VariableName, Field(title="Dimension", description="Along which the equations couple.")
    ]
    periodic: Annotated[
        StrictBool, Field(title="Periodic", description="Whether the first and last rows couple.")
    ] = False
    pivoting: Annotated[
        StrictBool,
        Field(title="Pivoting", description="Whether rows change places where that is better."),
    ] = False
    residual: Annotated[
        StrictBool,
        Field(title="Residual", description="Whether to give each system's backward error."),
    ] = False


def _check(_inputs: TridiagonalInputs) -> None:
    """Leave the rest to the data."""


TRIDIAGONAL = Process(
    id="tridiagonal",
    version="1.0.0",
    title="Tridiagonal systems",
    description="Solves a tridiagonal system along a dimension at every point of the others.",
    keywords=("solve", "tridiagonal", "xarray", "zarr"),
    inputs=TridiagonalInputs,
    outputs=RESULT,
    control=(Control.ASYNC, Control.DISMISS),
    check=_check,
)
