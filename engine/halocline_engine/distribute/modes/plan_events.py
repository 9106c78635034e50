"""Events that describe the plan of a job before anything is computed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from halocline_engine.backends.base import Adjustable, Drawable
from halocline_engine.backends.compiled import Compiled as Program
from halocline_engine.backends.targets import TARGETS
from halocline_engine.datasets.grids.match import FieldUse, Grid, Role
from halocline_engine.datasets.stores.source import InMemory
from halocline_engine.datasets.untyped import is_on_device
from halocline_engine.distribute.exchanges.transport import Transport, transport_of
from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.resident.fusing import feedback_of, unfused_layout
from halocline_engine.distribute.resident.plan import Choice
from halocline_engine.distribute.stencils.demand import Supply
from halocline_engine.distribute.stencils.pace import Pace
from halocline_engine.distribute.stencils.plan import Plan
from halocline_engine.distribute.stencils.request import Checked, temporaries_of
from halocline_engine.distribute.tasks.events import Compiled, Planned
from halocline_engine.ir.remember import remembered
from halocline_engine.processors import usable_processors
from halocline_engine.schedule.show import show_schedule
from halocline_engine.schedule.temporal.step import Refused, step_of

__all__ = [
    "JobBytes",
    "compiled",
    "copied",
    "device_inputs",
    "host_inputs",
    "planned",
    "results_on_device",
    "shortened",
    "transport",
    "unfused",
]

#: Characters of generated code that are told.
_LONGEST = 200_000


@dataclass(frozen=True, slots=True)
class JobBytes:
    """The bytes that a job reads and makes, and whether passes hand over arrays."""

    loaded: int
    result: int
    in_memory: bool


@remembered
def compiled(compiled: Program) -> Compiled:
    """Return the event that shows the program as it was compiled."""
    artifact = compiled.artifact
    lines = (
        *(artifact.tilings() if isinstance(artifact, Adjustable) else ()),
        *(artifact.walks() if isinstance(artifact, Drawable) else ()),
    )
    return Compiled(
        name=compiled.program.name,
        target=compiled.target,
        schedule=show_schedule(compiled.schedule) + "".join(f"{line}\n" for line in lines),
        code=shortened(artifact.source),
    )


def shortened(code: str) -> str:
    """Return a text that an event can carry."""
    left = len(code) - _LONGEST
    return code if left <= 0 else f"{code[:_LONGEST]}\n... and {left} characters more\n"


def planned(checked: Checked, pool: Pool, plan: Plan, chosen: Choice, moved: JobBytes) -> Planned:
    """Return the event that says how a job will run."""
    sizes = zip(plan.layout.grid.sizes, plan.block, strict=True)
    counts = [-(-size // block) for size, block in sizes]
    return Planned(
        mode=chosen.mode,
        reason=chosen.reason + copied(checked, pool, chosen),
        target=checked.compiled.target,
        workers=pool.workers if chosen.resident is None else len(chosen.resident.ranks),
        blocks=len(plan.blocks),
        passes=plan.passes,
        steps=checked.request.steps,
        steps_per_pass=plan.steps_per_pass,
        projected_bytes=plan.projected,
        order=plan.order.name,
        width=plan.order.width,
        cache_bytes=plan.cache,
        chunks=plan.chunks,
        predicted_fetches=plan.predicted_fetches,
        rows=counts[plan.order.along],
        length=counts[1 - plan.order.along],
        halo=_halo(plan),
        block=_block(plan),
        input_bytes=moved.loaded,
        result_bytes=moved.result,
        transport=transport(checked, pool, chosen),
        unfused=unfused(checked, chosen),
        predicted_rate=_rate(checked, pool, plan, chosen, moved),
    )


def _halo(plan: Plan) -> tuple[tuple[str, int, int], ...]:
    """Return how far one step reads below and above a point, by dimension."""
    dims = zip(plan.layout.grid.dims, plan.layout.reach, strict=True)
    return tuple((dim, -low, high) for dim, (low, high) in dims if dim and (low or high))


def _block(plan: Plan) -> tuple[tuple[str, int], ...]:
    grid = plan.layout.grid
    sizes = (*zip(grid.dims, plan.block, strict=True),)
    others = zip(grid.extra, plan.extra_block, strict=True)
    return (*((dim, size) for dim, size in sizes if dim), *others)


def device_inputs(checked: Checked) -> list[str]:
    """Return the variables that are read and lie on a device of this process."""
    opened = checked.opened
    if not isinstance(opened.source, InMemory):
        return []
    loaded = [use.variable for use in checked.match.uses if use.loaded]
    return [name for name in loaded if is_on_device(opened.dataset, name)]


def host_inputs(checked: Checked) -> list[str]:
    """Return the variables that are read and do not lie on a device of this process."""
    there = device_inputs(checked)
    return [u.variable for u in checked.match.uses if u.loaded and u.variable not in there]


def results_on_device(checked: Checked, pool: Pool | Supply) -> bool:
    """Say whether results stay on a device, if blocks do: where inputs were there."""
    request = checked.request
    here = not pool.remote and request.output is None and request.every is None
    return here and TARGETS[checked.compiled.target].on_device and bool(device_inputs(checked))


def copied(checked: Checked, pool: Pool, chosen: Choice) -> str:
    """Return what is said of variables of a device that go by way of the host, as a clause."""
    if not device_inputs(checked):
        return ""
    stays = chosen.resident is not None or chosen.on_device
    if not stays or pool.remote or not TARGETS[checked.compiled.target].on_device:
        return "; arrays of the device are copied by way of the host"
    return "" if results_on_device(checked, pool) else "; results are copied to the host"


def transport(checked: Checked, pool: Pool, chosen: Choice) -> str:
    """Return how halos shall go from worker to worker; ranks find out whether they can."""
    return _transport(checked, pool, chosen).name


def _transport(checked: Checked, pool: Pool, chosen: Choice) -> Transport:
    ranks = 1 if chosen.resident is None else len(chosen.resident.ranks)
    same_host = ranks > 1 and pool.same_host
    target = checked.compiled.target
    return transport_of(target, ranks, remote=pool.remote, same_host=same_host)


def unfused(checked: Checked, chosen: Choice) -> str:
    """Return why each step is a pass through memory of its own; nothing where several may be one.

    How many they are, and whether it pays, is found out where they are made.
    """
    target = checked.compiled.target
    if checked.request.steps == 1:
        return ""
    if chosen.resident is None:
        return "blocks do not stay in memory"
    if not TARGETS[target].compiles:
        return f"the target '{target}' makes one step after the other"
    schedule = checked.compiled.schedule
    found = step_of(schedule.program, schedule.facts, feedback_of(checked.layout))
    of_program = found.reason if isinstance(found, Refused) else ""
    return of_program or unfused_layout(checked.layout)


def _rate(checked: Checked, pool: Pool, plan: Plan, chosen: Choice, moved: JobBytes) -> float:
    """Return about how many cells are computed a second, over all workers and steps.

    Steps read and write their fields once, as fast as the memory of a machine or device does.
    """
    grid, steps = plan.layout.grid, checked.request.steps
    points = math.prod(grid.sizes) * math.prod(grid.extra_sizes)
    workers = pool.workers if chosen.resident is None else len(chosen.resident.ranks)
    target = TARGETS[checked.compiled.target]
    memories = workers if target.on_device else -(-workers // max(1, pool.workers_per_host))
    cores = 1 if target.on_device or not target.compiles else usable_processors()
    rate = memories * min(target.memory_rate * cores, target.most_memory_rate)
    each = sum(_traffic(use, grid) for use in plan.layout.uses)
    each += 2 * points * sum(size for size, _ in temporaries_of(checked.compiled))
    seconds = steps * (each / rate + target.step_cost)
    if chosen.resident is not None:
        seconds += steps / plan.steps_per_pass * _transport(checked, pool, chosen).latency
    else:
        pace = Pace(checked.compiled.target, moved.in_memory, len(plan.layout.uses))
        seconds += plan.passes * pace.moving(moved.loaded + moved.result)
    return points * steps / seconds if seconds else 0.0


def _traffic(use: FieldUse, grid: Grid) -> int:
    """Return the bytes of a field that a step reads and writes."""
    times = 2 if use.role is Role.IN_PLACE else 1
    return times * math.prod(map(grid.size_of, use.dims)) * np.dtype(use.dtype).itemsize
