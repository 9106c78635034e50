"""`solve` solves with factors that `factor` made: the inputs are those of the engine's function."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from halocline_service.processes.base import RESULT, Control, Process
from halocline_service.processes.solves import SolveInputs, VariableName

__all__ = ["SOLVE", "FactoredInputs"]


class FactoredInputs(SolveInputs):
    """The keyword arguments of `solve`, as JSON."""

    datasets: ClassVar[tuple[str, ...]] = ("dataset", "factors")

    factors: Annotated[
        str,
        Field(
            title="Factors",
            description="What 'factor' made, named as a dataset is: 'job:<id>', for example.",
            min_length=1,
            max_length=4096,
        ),
    ]
    rhs: Annotated[
        VariableName | list[VariableName],
        Field(
            title="Right-hand sides",
            description="The variable on the other side, or several; then their solutions are "
            "called '<rhs>_<name>'.",
            min_length=1,
            max_length=1000,
        ),
    ]


def _check(_inputs: FactoredInputs) -> None:
    """Leave the rest to the data."""


SOLVE = Process(
    id="solve",
    version="1.0.0",
    title="Tridiagonal systems with factors",
    description="Solves tridiagonal systems whose matrices were eliminated before, by 'factor'.",
    keywords=("solve", "tridiagonal", "xarray", "zarr"),
    inputs=FactoredInputs,
    outputs=RESULT,
    control=(Control.ASYNC, Control.DISMISS),
    check=_check,
)
