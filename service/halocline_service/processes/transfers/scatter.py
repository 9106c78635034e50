"""`scatter` puts elements where indices say: the inputs are those of the engine's function."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from halocline_engine.datasets.names import check_results, result_name
from halocline_service.processes.base import WHOLE, Process
from halocline_service.processes.blocks import Name
from halocline_service.processes.transfers.common import TransferInputs

__all__ = ["SCATTER", "ScatterInputs"]


class ScatterInputs(TransferInputs):
    """The keyword arguments of `scatter`, as JSON."""

    dim: Annotated[Name, Field(title="Dimension", description="Name of the new dimension.")]
    size: Annotated[
        int, Field(title="Size", description="Length of the new dimension.", ge=0, le=2**48), WHOLE
    ]
    name: Annotated[Name, Field(title="Name", description="Name of the result.")] = "scattered"
    duplicates: Annotated[
        Literal["error", "last", "sum", "min", "max"],
        Field(title="Duplicates", description="Rule for several elements with one index."),
    ] = "error"


def _check(inputs: ScatterInputs) -> None:
    """Refuse a name that no result can have."""
    check_results([result_name(inputs.name)], [inputs.dim])


SCATTER = Process(
    id="scatter",
    version="1.0.0",
    title="Scatter",
    description="Puts elements into a new dimension by an array of indices.",
    keywords=("scatter", "index", "xarray", "zarr"),
    inputs=ScatterInputs,
    check=_check,
)
