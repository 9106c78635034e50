"""`gather` takes elements along a dimension: the inputs are those of the engine's function."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from halocline_engine.datasets.names import result_name
from halocline_service.processes.base import Process
from halocline_service.processes.blocks import Dimension, Name
from halocline_service.processes.transfers.common import TransferInputs

__all__ = ["GATHER", "GatherInputs"]


class GatherInputs(TransferInputs):
    """The keyword arguments of `gather`, as JSON."""

    dim: Annotated[
        Dimension, Field(title="Dimension", description="Dimension of the source that is indexed.")
    ]
    name: Annotated[Name, Field(title="Name", description="Name of the result.")] = "gathered"


def _check(inputs: GatherInputs) -> None:
    """Refuse a name that no result can have."""
    result_name(inputs.name)


GATHER = Process(
    id="gather",
    version="1.0.0",
    title="Gather",
    description="Takes elements along a dimension by an array of indices.",
    keywords=("gather", "index", "xarray", "zarr"),
    inputs=GatherInputs,
    check=_check,
)
