"""`factor` eliminates matrices once, for `solve`: the inputs are those of the engine's function."""

from __future__ import annotations

from halocline_service.processes.base import Process
from halocline_service.processes.solves.common import PeriodicInputs

__all__ = ["FACTOR", "FactorInputs"]


class FactorInputs(PeriodicInputs):
    """The keyword arguments of `factor`, as JSON."""


FACTOR = Process(
    id="factor",
    version="1.0.0",
    title="Factors of tridiagonal matrices",
    description="Factors tridiagonal matrices, for several calls of 'solve'.",
    keywords=("factor", "tridiagonal", "xarray", "zarr"),
    inputs=FactorInputs,
)
