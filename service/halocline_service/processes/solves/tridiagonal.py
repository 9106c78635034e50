"""`tridiagonal` solves systems along a dimension: the inputs are those of the engine's function."""

from __future__ import annotations

from halocline_service.processes.base import Process
from halocline_service.processes.solves.common import PeriodicInputs, SolveInputs, check_solution

__all__ = ["TRIDIAGONAL", "TridiagonalInputs"]


class TridiagonalInputs(SolveInputs, PeriodicInputs):
    """The keyword arguments of `tridiagonal`, as JSON."""


TRIDIAGONAL = Process(
    id="tridiagonal",
    version="1.0.0",
    title="Tridiagonal systems",
    description="Solves a tridiagonal system along a dimension at every point of the others.",
    keywords=("solve", "tridiagonal", "xarray", "zarr"),
    inputs=TridiagonalInputs,
    check=check_solution,
)
