"""`plan` makes the plan of another process and computes nothing: halo, blocks, memory, bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from halocline_service.processes.base import OutputDescription, Process, ReadingInputs
from halocline_service.processes.sequence import SequenceInputs

__all__ = ["PLAN", "PlanInputs"]

#: Inputs of any process that name datasets.
_DATASETS = ("dataset", "factors", "mesh", "weights")


class PlanInputs(ReadingInputs):
    """A process, and its inputs."""

    process: Annotated[
        Literal[
            "stencil",
            "column",
            "tridiagonal",
            "pentadiagonal",
            "factor",
            "solve",
            "tree",
            "gather",
            "scatter",
            "regrid",
            "neighbours",
            "matmul",
            "reduce",
            "sequence",
        ],
        Field(title="Process", description="Process to plan."),
    ]
    inputs: Annotated[
        dict[str, Any],
        Field(title="Inputs", description="Inputs of the process to plan."),
    ]

    @classmethod
    def references_in(cls, given: Mapping[str, Any]) -> dict[str, str]:
        """Give what names datasets, by input of the process that is planned."""
        inner: Mapping[str, Any] = given["inputs"]
        if given["process"] == "sequence":
            return SequenceInputs.references_in(inner)
        return {name: inner[name] for name in _DATASETS if isinstance(inner.get(name), str)}


PLAN = Process(
    id="plan",
    version="1.0.0",
    title="Plan",
    description="Plans a job of another process: halo, blocks, passes, memory and bytes. It opens "
    "the datasets and computes nothing.",
    keywords=("plan", "cost", "dry run"),
    inputs=PlanInputs,
    outputs={
        "plan": OutputDescription(
            title="Plan",
            description="The plan, as returned by GET /jobs/{id}/plan for a job.",
            schema={"type": "object"},
        )
    },
)
