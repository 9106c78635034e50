"""Choice between the streamed and the resident mode, with its reason."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from halocline_engine.distribute.grid.boundary import local
from halocline_engine.distribute.grid.geometry import Layout
from halocline_engine.distribute.modes.pace import is_resident_faster
from halocline_engine.distribute.modes.plan_events import host_inputs, results_on_device
from halocline_engine.distribute.resident.plan import Choice, ResidentPlan, plan_resident
from halocline_engine.distribute.stencils.demand import Demand, Supply
from halocline_engine.distribute.stencils.plan import shown_bytes
from halocline_engine.distribute.stencils.request import Checked, Request
from halocline_engine.errors import ArgumentError, CapacityError

if TYPE_CHECKING:
    from halocline_engine.distribute.tasks.options import Options

__all__ = ["check_staying", "choose", "resident_demand", "streaming_option"]

_STREAMED = "blocks are read, computed and written pass by pass"
#: Points of dimensions that are looped over, of which each would be a block of its own.
_POINTS = 64
#: Options that say how blocks go through a process.
_OF_STREAMS = ("chunk_cache", "pipeline_depth", "direct_io", "device_decoding", "threads")


def choose(checked: Checked, supply: Supply, options: Options, mode: str) -> Choice:
    """Return the mode of a job.

    Raises `ArgumentError` or `CapacityError` where the caller wants a mode that is impossible.
    """
    request = checked.request
    if mode == "streamed":
        _check_streamed(request)
        return Choice(_STREAMED)
    mode = "resident" if request.until is not None or request.diagnostics else mode
    stays = results_on_device(checked, supply)
    if mode == "auto" and request.steps == 1 and not is_resident_faster(checked, supply):
        return Choice(f"{_STREAMED}, as there is one step")
    wanted = streaming_option(options)
    if wanted and mode == "auto":
        return Choice(f"{_STREAMED}, as '{wanted}' asks for it")
    check_staying(options)
    points = math.prod(checked.match.grid.extra_sizes)
    if mode == "auto" and not stays and points > max(_POINTS, supply.workers):
        return Choice(
            f"{_STREAMED}, as there are {points} points of dimensions that the program does not use"
        )
    demand = replace(
        resident_demand(checked, options),
        copied=supply.remote or request.every is not None or request.workspace is not None,
        on_device=stays and not host_inputs(checked),
    )
    plan = plan_resident(demand, supply)
    workers = f"{supply.workers} worker{'s' if supply.workers > 1 else ''}"
    steps = f"{request.steps} step{'s' if request.steps > 1 else ''}"
    needed, available = shown_bytes(_bytes(plan)), shown_bytes(_available(plan, supply))
    if plan.fits(supply):
        return Choice(
            f"{steps} on blocks that fit the memory of {workers}: {needed} of {available} each",
            plan,
        )
    if mode == "auto":
        return Choice(
            f"{_STREAMED}, as the blocks do not fit the memory of {workers}:"
            f" {needed} of {available} each"
        )
    raise CapacityError(
        f"Blocks that stay in memory need {needed} of each of {workers}, but only {available}"
        " are free.",
        hint="Use more workers, or mode='streamed'.",
        needed=_bytes(plan),
        available=_available(plan, supply),
    )


def _check_streamed(request: Request) -> None:
    """Raise `ArgumentError` for arguments that need resident blocks."""
    wanted = {
        "until": "the last step is looked at" if request.until is not None else "",
        "diagnostics": "fields are reduced between steps" if request.diagnostics else "",
    }
    for argument, what in wanted.items():
        if what:
            raise ArgumentError(
                f"With '{argument}' {what}, for which blocks stay in memory, but mode='streamed'"
                " was asked for.",
                hint="Leave the mode out.",
            )


def streaming_option(options: Options) -> str:
    """Return an option that is given and says how blocks follow each other, or nothing."""
    wanted = [name for name in _OF_STREAMS if getattr(options, name) is not None]
    wanted += ["order"] if options.order != "auto" else []
    return wanted[0] if wanted else ""


def check_staying(options: Options) -> None:
    """Raise `ArgumentError` where an option asks for blocks that follow each other."""
    wanted = streaming_option(options)
    if wanted:
        raise ArgumentError(
            f"With mode='resident' blocks stay where they are, but '{wanted}' says how they"
            " follow each other.",
            hint="Leave it out, or use mode='streamed'.",
        )


def resident_demand(checked: Checked, options: Options) -> Demand:
    """Return what a job asks for whose blocks stay in memory.

    They have all levels, so that those beyond the ends of a periodic column are made of the others.
    """
    layout = checked.layout
    steps_per_pass = 1 if _wraps_levels(layout) else options.steps_per_pass
    demand = Demand.of(checked, steps_per_pass=steps_per_pass, in_memory=True)
    lines = tuple((i, j, local(k, layout.grid.sizes[2])) for i, j, k in layout.lines)
    return replace(demand, layout=replace(layout, lines=lines))


def _wraps_levels(layout: Layout) -> bool:
    """Whether levels beyond the data are made of others after each step, so that none are fused."""
    return layout.endless[2] and any(layout.reach[2])


def _bytes(plan: ResidentPlan) -> int:
    return plan.device or plan.host


def _available(plan: ResidentPlan, supply: Supply) -> int:
    return supply.device or 0 if plan.device else supply.memory
