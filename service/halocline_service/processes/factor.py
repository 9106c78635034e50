"""`factor` eliminates matrices once, for `solve`: the inputs are those of the engine's function."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictBool

from halocline_service.processes.base import RESULT, Control, Process
from halocline_service.processes.solves import BlockInputs, VariableName

__all__ = ["FACTOR", "FactorInputs"]


class FactorInputs(BlockInputs):
    """The keyword arguments of `factor`, as JSON."""

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
    dim: Annotated[
        VariableName, Field(title="Dimension", description="Along which the equations couple.")
    ]
    periodic: Annotated[
        StrictBool, Field(title="Periodic", description="Whether the first and last rows couple.")
    ] = False


def _check(_inputs: FactorInputs) -> None:
    """Leave the rest to the data."""


FACTOR = Process(
    id="factor",
    version="1.0.0",
    title="Factors of tridiagonal matrices",
    description="Eliminates tridiagonal matrices once, so that 'solve' need not do it again.",
    keywords=("factor", "tridiagonal", "xarray", "zarr"),
    inputs=FactorInputs,
    outputs=RESULT,
    control=(Control.ASYNC, Control.DISMISS),
    check=_check,
)
