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

    left: Annotated[Variable, Field(title="Left", description="Variable of the left operand.")]
    right: Annotated[Variable, Field(title="Right", description="Variable of the right operand.")]
    dim: Annotated[
        Dimension,
        Field(title="Dimension", description="Dimension to sum over, of both operands."),
    ]
    name: Annotated[Name, Field(title="Name", description="Name of the product.")] = "product"
    chunks: Annotated[
        Sizes | None,
        Field(
            title="Chunks",
            description="Block sizes of the product by dimension, rounded up to tiles.",
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
