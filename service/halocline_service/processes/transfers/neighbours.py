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
            description="An unstructured mesh in UGRID or MPAS, named as a dataset is.",
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
        Field(title="Operation", description="What is done with the values around each point."),
    ]
    variables: Annotated[
        list[Variable] | None,
        Field(
            title="Variables",
            description="What it is done with, default: all on the mesh; for a divergence, both "
            "components of a vector.",
            max_length=1000,
        ),
    ] = None
    location: Annotated[
        Literal["face", "node", "edge"] | None,
        Field(
            title="Location",
            description="Where on the mesh values lie; default: on faces, or where the operation "
            "has its own.",
        ),
    ] = None
    dim: Annotated[
        Dimension | None,
        Field(title="Dimension", description="That of the mesh, where sizes do not tell."),
    ] = None
    radius: Annotated[
        float | None,
        Field(title="Radius", description="That of the sphere in metres.", gt=0, le=1e12),
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
    description="Sums, means and derivatives of what lies around each point of a mesh.",
    keywords=("mesh", "UGRID", "MPAS", "xarray", "zarr"),
    inputs=NeighboursInputs,
    check=_check,
)
