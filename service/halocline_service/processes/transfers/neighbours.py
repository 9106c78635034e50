"""`neighbours` applies operators on meshes: the inputs are those of the engine's function."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from halocline_engine.arguments import several
from halocline_engine.kernels.indirect.mesh.operators import Operator, check_components, location_of
from halocline_service.processes.base import Process, names
from halocline_service.processes.blocks import Dimension, StreamedInputs, Variable

__all__ = ["NEIGHBOURS", "NeighboursInputs"]


class NeighboursInputs(StreamedInputs):
    """The keyword arguments of `neighbours`, as JSON."""

    datasets: ClassVar[tuple[str, ...]] = ("dataset", "mesh")

    mesh: Annotated[
        str,
        Field(
            title="Mesh",
            description="Unstructured mesh in UGRID or MPAS, as a reference like 'dataset'.",
            min_length=1,
            max_length=4096,
            json_schema_extra=names("dataset"),
        ),
    ]
    operation: Annotated[
        Literal[
            "sum",
            "mean",
            "gradient",
            "laplacian",
            "divergence",
            "normal_gradient",
            "normal_divergence",
            "normal_curl",
        ],
        Field(title="Operation", description="Operator on the neighbours of each point."),
    ]
    variables: Annotated[
        list[Variable] | None,
        Field(
            title="Variables",
            description="Variables of the operator, by default all on the mesh; for a divergence, "
            "both components of a vector.",
            max_length=1000,
        ),
    ] = None
    location: Annotated[
        Literal["face", "node", "edge"] | None,
        Field(
            title="Location",
            description="Location of the values on the mesh, by default faces, or that of the "
            "operation.",
        ),
    ] = None
    dim: Annotated[
        Dimension | None,
        Field(title="Dimension", description="Dimension of the mesh; by default by its size."),
    ] = None
    radius: Annotated[
        float | None,
        Field(title="Radius", description="Radius of the sphere in metres.", gt=0, le=1e12),
    ] = None


def _check(inputs: NeighboursInputs) -> None:
    """Refuse operands and locations that the operator does not have."""
    operator = Operator(inputs.operation)
    location_of(operator, inputs.location)
    check_components(operator, several("variables", inputs.variables, "['u', 'v']"))


NEIGHBOURS = Process(
    id="neighbours",
    version="1.0.0",
    title="Neighbours",
    description="Sums, means and derivatives of the values around each point of a mesh.",
    keywords=("mesh", "UGRID", "MPAS", "xarray", "zarr"),
    inputs=NeighboursInputs,
    check=_check,
)
