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
            description="Weights of ESMF or SCRIP, as a reference like 'dataset'.",
            min_length=1,
            max_length=4096,
            json_schema_extra=names("dataset"),
        ),
    ]
    variables: Annotated[
        list[Variable] | None,
        Field(
            title="Variables",
            description="Variables to regrid; by default all on the source grid.",
            max_length=1000,
        ),
    ] = None
    skipna: Annotated[
        bool,
        Field(
            title="Skip NaN",
            description="Whether to skip NaN, whose weight other cells take over.",
        ),
    ] = True
    na_thres: Annotated[
        float,
        Field(
            title="NaN threshold",
            description="With 'skipna', the largest allowed share of missing weight.",
            ge=0,
            le=1,
        ),
    ] = 1.0
    dims: Annotated[
        list[Dimension] | None,
        Field(title="Dimensions", description="Dimensions of the source grid.", max_length=16),
    ] = None
    target_dims: Annotated[
        list[Name] | None,
        Field(
            title="Target dimensions",
            description="Dimensions of the target grid.",
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
    description="Regrids variables to another horizontal grid by precomputed weights.",
    keywords=("regrid", "remap", "xarray", "zarr"),
    inputs=RegridInputs,
    check=_check,
)
