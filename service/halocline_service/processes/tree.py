"""`tree` solves systems on trees: the inputs are those of the engine's function."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from halocline_service.processes.base import RESULT, Control, Process
from halocline_service.processes.solves import SolveInputs, VariableName

__all__ = ["TREE", "TreeInputs"]


class TreeInputs(SolveInputs):
    """The keyword arguments of `tree`, as JSON."""

    diagonal: Annotated[
        VariableName, Field(title="Diagonal", description="The variable on the diagonal.")
    ]
    upper: Annotated[
        VariableName,
        Field(title="Upper", description="The variable that couples a node and its parent."),
    ]
    parent: Annotated[
        VariableName,
        Field(
            title="Parent",
            description="The variable with each node's parent, counted from 0 in its cell; -1 at "
            "the root.",
        ),
    ]
    rhs: Annotated[
        VariableName, Field(title="Right-hand side", description="The variable on the other side.")
    ]
    row_size: Annotated[
        VariableName,
        Field(
            title="Row size",
            description="The count variable of a contiguous ragged array: the nodes of each cell.",
        ),
    ]


def _check(_inputs: TreeInputs) -> None:
    """Leave the rest to the data."""


TREE = Process(
    id="tree",
    version="1.0.0",
    title="Systems on trees",
    description="Solves a symmetric system on each tree of a contiguous ragged array.",
    keywords=("solve", "tree", "Hines", "neuron", "xarray", "zarr"),
    inputs=TreeInputs,
    outputs=RESULT,
    control=(Control.ASYNC, Control.DISMISS),
    check=_check,
)
