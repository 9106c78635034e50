"""`solve` solves with factors that `factor` made: the inputs are those of the engine's function."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from halocline_engine.datasets.names import solution_names
from halocline_service.processes.base import Process, names
from halocline_service.processes.blocks import Variable
from halocline_service.processes.solves.common import SolutionInputs

__all__ = ["SOLVE", "FactoredInputs"]


class FactoredInputs(SolutionInputs):
    """The keyword arguments of `solve`, as JSON."""

    datasets: ClassVar[tuple[str, ...]] = ("dataset", "factors")

    factors: Annotated[
        str,
        Field(
            title="Factors",
            description="Result of 'factor', as a reference such as 'job:<id>'.",
            min_length=1,
            max_length=4096,
            json_schema_extra=names("dataset"),
        ),
    ]
    rhs: Annotated[
        Variable | list[Variable],
        Field(
            title="Right-hand sides",
            description="Variables of the right-hand sides; the solutions of several are named "
            "'<rhs>_<name>'.",
            min_length=1,
            max_length=1000,
        ),
    ]


def _check(inputs: FactoredInputs) -> None:
    """Refuse names that no solutions can have."""
    solution_names(inputs.rhs, inputs.name)


SOLVE = Process(
    id="solve",
    version="1.0.0",
    title="Tridiagonal systems with factors",
    description="Solves tridiagonal systems with matrices that 'factor' has factored.",
    keywords=("solve", "tridiagonal", "xarray", "zarr"),
    inputs=FactoredInputs,
    check=_check,
)
