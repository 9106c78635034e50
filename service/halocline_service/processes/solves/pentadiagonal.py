"""`pentadiagonal` solves along a dimension: the inputs are those of the engine's function."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from halocline_service.processes.base import Process
from halocline_service.processes.blocks import Variable
from halocline_service.processes.solves.common import SolveInputs, check_solution

__all__ = ["PENTADIAGONAL", "PentadiagonalInputs"]


class PentadiagonalInputs(SolveInputs):
    """The keyword arguments of `pentadiagonal`, as JSON."""

    second_lower: Annotated[
        Variable,
        Field(title="Second lower", description="Variable that multiplies the row two before."),
    ]
    second_upper: Annotated[
        Variable,
        Field(title="Second upper", description="Variable that multiplies the row two after."),
    ]


PENTADIAGONAL = Process(
    id="pentadiagonal",
    version="1.0.0",
    title="Pentadiagonal systems",
    description="Solves a pentadiagonal system along a dimension at every point of the others.",
    keywords=("solve", "pentadiagonal", "xarray", "zarr"),
    inputs=PentadiagonalInputs,
    check=check_solution,
)
