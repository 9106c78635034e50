"""A planned run of a stencil program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import xarray as xr

from halocline_engine.datasets.grids.match import FieldUse, Grid
from halocline_engine.datasets.stores.source import Source
from halocline_engine.datasets.times.forcing import Forcing
from halocline_engine.distribute.blocks.scalars import StepScalars
from halocline_engine.distribute.blocks.work import Code
from halocline_engine.distribute.jobs.shares import StepWork
from halocline_engine.distribute.jobs.snapshots import Labels
from halocline_engine.distribute.reductions.running import Diagnosis
from halocline_engine.distribute.stencils.plan import Plan
from halocline_engine.distribute.tasks.until import Until

__all__ = ["Job", "Sharing"]

#: How arrays are with several processes: in memory that they share, in that of one which others
#: reach, or not.
Sharing = Literal["shared", "reached", ""]


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """All that a mode needs to know of a run.

    `frame` is the result without its variables, which have `attributes`. `output` None asks for a
    result in memory; `workspace` None for passes in memory. `fingerprint` names the job: a pass
    with the same one is a pass of this job. `stored` says that the source is a store whose chunks
    are known; `target` is where a pipeline computes, if the plan has one; `compressed` is how
    results are stored. Where other processes of this machine write results in memory, `sharing`
    says how. The job ends early where `until` says so. With `every` the results are those after so
    many steps, and so on. A `diagnosis` adds variables to the result. `on_device` says that results
    stay on the device, as arrays of CuPy. `work` is that of a step. Steps read records of the
    `forcing`; `labels` are those of results.
    """

    source: Source
    frame: xr.Dataset
    attributes: Mapping[str, Mapping[str, Any]]
    code: Code
    scalars: StepScalars
    plan: Plan
    steps: int
    output: Path | None
    workspace: Path | None
    attempt: int
    fingerprint: str
    stored: bool = False
    target: str = ""
    compressed: bool = True
    sharing: Sharing = ""
    until: Until | None = None
    every: int | None = None
    diagnosis: Diagnosis | None = None
    on_device: bool = False
    work: StepWork | None = None
    forcing: Forcing = field(default_factory=Forcing)
    labels: Labels = field(default_factory=Labels)

    @property
    def uses(self) -> tuple[FieldUse, ...]:
        """The fields."""
        return self.plan.layout.uses

    @property
    def grid(self) -> Grid:
        """The grid."""
        return self.plan.layout.grid

    @property
    def kept(self) -> list[FieldUse]:
        """The fields that go from pass to pass."""
        return [use for use in self.uses if use.kept]
