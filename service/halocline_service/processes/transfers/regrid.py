"""`regrid` applies weight files: the inputs are those of the engine's function."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from halocline_engine.arguments import distinct, several
from halocline_service.processes.base import Process, names
from halocline_service.processes.blocks import Dimension, Name, StreamedInputs, Variable

__all__ = ["REGRID", "RegridInputs"]


class RegridInputs(StreamedInputs):
    """The keyword arguments of `regrid`, as JSON."""

    datasets: ClassVar[tuple[str, ...]] = ("dataset", "weights")

    weights: Annotated[
        str,
        Field(
            title="Weights",
            description="A file of ESMF or SCRIP, named as a dataset is.",
            min_length=1,
            max_length=4096,
            json_schema_extra=names("dataset"),
        ),
    ]
    variables: Annotated[
        list[Variable] | None,
        Field(
            title="Variables",
            description="What is regridded; default: all on the weights' grid.",
            max_length=1000,
        ),
    ] = None
    skipna: Annotated[
        bool,
        Field(
            title="Skip NaN",
            description="Whether other cells take over the weight of NaN, or the result is NaN.",
        ),
    ] = True
    na_thres: Annotated[
        float,
        Field(
            title="NaN threshold",
            description="With 'skipna', the share of its weight that a cell may lack.",
            ge=0,
            le=1,
        ),
    ] = 1.0
    dims: Annotated[
        list[Dimension] | None,
        Field(title="Dimensions", description="Those of the source grid.", max_length=16),
    ] = None
    target_dims: Annotated[
        list[Name] | None,
        Field(
            title="Target dimensions",
            description="Names for those of the target grid.",
            max_length=16,
        ),
    ] = None


def _check(inputs: RegridInputs) -> None:
    """Refuse lists without names, and a dimension that is named twice."""
    several("variables", inputs.variables, "['t', 'u']")
    distinct("dims", inputs.dims, "['lat', 'lon']")
    distinct("target_dims", inputs.target_dims, "['y', 'x']")


REGRID = Process(
    id="regrid",
    version="1.0.0",
    title="Regrid",
    description="Brings fields from one horizontal grid to another, by a file of weights.",
    keywords=("regrid", "remap", "xarray", "zarr"),
    inputs=RegridInputs,
    check=_check,
)
