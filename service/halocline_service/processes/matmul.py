"""`matmul` multiplies matrices: the inputs are those of the engine's function."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from halocline_engine.datasets.names import result_name
from halocline_service.processes.base import Process
from halocline_service.processes.blocks import Dimension, Name, Sizes, StreamedInputs, Variable

__all__ = ["MATMUL", "MatmulInputs"]


class MatmulInputs(StreamedInputs):
    """The keyword arguments of `matmul`, as JSON."""

    left: Annotated[Variable, Field(title="Left", description="The variable that is multiplied.")]
    right: Annotated[
        Variable, Field(title="Right", description="The variable that it is multiplied by.")
    ]
    dim: Annotated[
        Dimension,
        Field(title="Dimension", description="Over which is summed; both variables have it."),
    ]
    name: Annotated[
        Name, Field(title="Name", description="What the variable with the product is called.")
    ] = "product"
    chunks: Annotated[
        Sizes | None,
        Field(
            title="Chunks",
            description="How much of the product is done at a time along its dimensions, rounded"
            " up to tiles.",
            max_length=16,
        ),
    ] = None


def _check(inputs: MatmulInputs) -> None:
    """Refuse a name that no result can have."""
    result_name(inputs.name)


MATMUL = Process(
    id="matmul",
    version="1.0.0",
    title="Matrix product",
    description="Multiplies two variables and sums over a dimension, from store to store.",
    keywords=("matmul", "matrix", "product", "dot", "xarray", "zarr"),
    inputs=MatmulInputs,
    check=_check,
)
