"""`tree` solves systems on trees: the inputs are those of the engine's function."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from halocline_engine.datasets.names import result_name
from halocline_service.processes.base import Process
from halocline_service.processes.blocks import Variable
from halocline_service.processes.solves.common import Diagonal, RightHandSide, SolutionInputs

__all__ = ["TREE", "TreeInputs"]


class TreeInputs(SolutionInputs):
    """The keyword arguments of `tree`, as JSON."""

    diagonal: Diagonal
    rhs: RightHandSide
    upper: Annotated[
        Variable,
        Field(title="Upper", description="Variable that couples a node with its parent."),
    ]
    parent: Annotated[
        Variable,
        Field(
            title="Parent",
            description="Variable of the parents: indices within the cell, from 0; -1 at the root.",
        ),
    ]
    row_size: Annotated[
        Variable,
        Field(
            title="Row size",
            description="Count variable of a contiguous ragged array: the nodes of each cell.",
        ),
    ]


def _check(inputs: TreeInputs) -> None:
    """Refuse a name that no result can have."""
    result_name(inputs.name)


TREE = Process(
    id="tree",
    version="1.0.0",
    title="Systems on trees",
    description="Solves a symmetric system on each tree of a contiguous ragged array.",
    keywords=("solve", "tree", "Hines", "neuron", "xarray", "zarr"),
    inputs=TreeInputs,
    check=_check,
)
