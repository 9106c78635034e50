"""From a checked request to its result: choose mode and places, plan, see that all fits, run."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from halocline_engine.backends.settled import left_of
from halocline_engine.backends.targets import TARGETS
from halocline_engine.datasets.chunk_files.packed import ALL, CHECKED, decoding_bytes, packed_array
from halocline_engine.datasets.memory.reached import reach_variables
from halocline_engine.datasets.memory.shared import can_share, share_variables
from halocline_engine.datasets.stores.device import OnDevice
from halocline_engine.datasets.stores.result import (
    attributes_of,
    check_result,
    in_memory_copy,
)
from halocline_engine.datasets.stores.source import InMemory, Source, ZarrStore, spool
from halocline_engine.device.decode.codecs import find_nvcomp
from halocline_engine.device.launch.streams import wait_for_all
from halocline_engine.device.memory.zero_copy import ring_bytes
from halocline_engine.distribute.blocks.work import Code
from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.jobs.checkpoint import checkpoint_times
from halocline_engine.distribute.jobs.outputs import (
    check_space,
    field_bytes,
    result_needs,
    same_disk,
    temporary_folder,
)
from halocline_engine.distribute.jobs.shares import StepWork, step_work
from halocline_engine.distribute.jobs.snapshots import place_of_step
from halocline_engine.distribute.modes.choose import choose
from halocline_engine.distribute.modes.plan_events import (
    JobBytes,
    compiled,
    device_inputs,
    planned,
    results_on_device,
)
from halocline_engine.distribute.pipeline.resources import io_threads
from halocline_engine.distribute.reductions.running import with_labels
from halocline_engine.distribute.resident.plan import Choice
from halocline_engine.distribute.resident.run import run_resident
from halocline_engine.distribute.stencils.demand import Demand, Supply
from halocline_engine.distribute.stencils.job import Job, Sharing
from halocline_engine.distribute.stencils.memory import held_bytes
from halocline_engine.distribute.stencils.passes import stream
from halocline_engine.distribute.stencils.plan import Plan, make_plan
from halocline_engine.distribute.stencils.request import Checked, fingerprint_of
from halocline_engine.distribute.tasks.cancel import CancelToken
from halocline_engine.distribute.tasks.events import OnEvent
from halocline_engine.distribute.tasks.options import Options, check_compiled
from halocline_engine.distribute.transports.stored import is_raw
from halocline_engine.errors import CapacityError
from halocline_engine.processors import usable_processors

__all__ = ["launch"]

# Two finished passes are kept while a third one is written.
_PASSES = 3
#: Blocks that overlap on a device: one is sent, one computed, one fetched.
_SLOTS = 3
#: As many are enough where files go straight to the device, and nothing waits for large buffers.
_SLOTS_DIRECT = 2
#: Bytes below which what takes files straight to a device is not worth its beginning.
_LARGE = 1 << 30
#: Bytes of a block below which sending it alone is mostly waiting.
_LEAST_SENT = 16 << 20


@dataclass(frozen=True, slots=True)
class _Bytes:
    """Sizes in bytes of results with snapshots, of fields between passes, and of inputs."""

    result: int
    snapshots: int
    kept: int
    loaded: int


@dataclass(frozen=True, slots=True)
class _Places:
    """Places of results and intermediate fields; None is the memory of this process."""

    workspace: Path | None
    output: Path | None


def launch(
    checked: Checked,
    pool: Pool,
    on_event: OnEvent,
    cancelled: CancelToken | None,
    options: Options,
    mode: str,
) -> xr.Dataset:
    """Plan a job and run it; raises `CapacityError` or `OutputError` before it reads or writes."""
    check_compiled(checked.compiled, options)
    checked, frame, attributes = _checked_frame(checked)
    sizes = _sizes(checked)
    memory = pool.memory
    choice = partial(_choice, checked, pool, sizes, memory, options, mode)
    chosen = choice()
    resident, on_device = chosen.resident, chosen.on_device
    in_memory = not pool.remote and (bool(resident) or _passes_in_memory(checked, sizes, memory))
    how = {"in_memory": in_memory, "on_device": on_device}
    plan = resident.plan if resident else _plan(checked, memory, pool, options, sizes, **how)
    sharing = _sharing(checked, pool, sizes, resident=bool(resident))
    gathered = _result_sharing(checked, sharing, resident=bool(resident))
    _check_disk(checked, pool, sizes, sharing, gathered, in_memory=in_memory)
    on_event(planned(checked, pool, plan, chosen, JobBytes(sizes.loaded, sizes.result, in_memory)))
    on_event(compiled(checked.compiled))
    with ExitStack() as stack:
        places = _result_files(checked, pool, stack, in_memory=in_memory)
        is_moved = pool.remote and checked.request.output is None and not gathered
        stays = bool(resident) or on_device
        job = Job(
            source=_source(checked, pool, places, stack, sharing, stays=stays),
            frame=xr.Dataset() if is_moved else frame,
            attributes={} if is_moved else attributes,
            code=Code.of(checked.compiled),
            scalars=checked.scalars,
            plan=plan,
            steps=checked.request.steps,
            output=places.output,
            workspace=places.workspace,
            attempt=checked.request.attempt,
            fingerprint=fingerprint_of(checked) if checked.request.workspace else "",
            stored=not isinstance(checked.opened.source, InMemory),
            target=checked.compiled.target,
            compressed=options.compressed,
            sharing=gathered,
            until=checked.request.until,
            every=checked.request.every,
            diagnosis=checked.diagnosis,
            on_device=on_device,
            work=_step_work(checked),
            forcing=checked.forcing,
            labels=checked.labels,
        )
        if resident is None:
            result = stream(job, pool, on_event, cancelled)
        else:
            times = checkpoint_times(options, sizes.kept)
            result = run_resident(job, resident, pool, on_event, cancelled, times, choice)
        return in_memory_copy(result, frame, attributes) if is_moved else result


def _choice(
    checked: Checked, pool: Pool, sizes: _Bytes, memory: int, options: Options, mode: str
) -> Choice:
    """Return the mode of a job for the workers that there are."""
    found = choose(checked, _supply(checked, pool, sizes, memory), options, mode)
    return _placed(found, checked, pool, sizes, options)


def _step_work(checked: Checked) -> StepWork:
    """Return the work of a step, as far as constant scalars decide it."""
    left = left_of(checked.compiled.program, checked.scalars.constant)
    return step_work(left, checked.match.grid)


def _labelled(checked: Checked) -> Checked:
    """Return a checked request with the labels of its diagnostics; reads them."""
    if checked.diagnosis is None:
        return checked
    return replace(checked, diagnosis=with_labels(checked.diagnosis, checked.opened.dataset))


def _checked_frame(
    checked: Checked,
) -> tuple[Checked, xr.Dataset, Mapping[str, Mapping[str, Any]]]:
    """Return the request with labels, the result without its variables, and their attributes.

    Raises `OutputError` where it could not be stored.
    """
    checked = _labelled(checked)
    frame, uses = checked.frame(), checked.match.uses
    attributes = attributes_of(checked.opened.dataset, uses)
    diagnosis, grid = checked.diagnosis, checked.match.grid
    if diagnosis is not None:
        frame, attributes = diagnosis.with_coordinates(frame), attributes | diagnosis.attributes
        uses, grid = (*uses, *diagnosis.uses), diagnosis.with_dims(grid)
    if checked.request.output is not None:
        check_result(frame, uses, grid, attributes, checked.request.output)
    return checked, frame, attributes


def _supply(checked: Checked, pool: Pool, sizes: _Bytes, memory: int) -> Supply:
    """Return what there is for blocks that stay in memory, beside results in memory."""
    here = 0 if pool.remote or checked.request.output is not None else sizes.result
    supply = replace(Supply.of(pool, checked.compiled.target), memory=memory)
    if supply.device is None or not results_on_device(checked, pool):
        return replace(supply, memory=memory - here)
    # The result of a block that is alone is the array that it has at the end.
    alone = pool.workers == 1 and math.prod(checked.match.grid.extra_sizes) == 1
    beside = 0 if alone and not checked.request.chunks else sizes.result
    return replace(supply, device=supply.device - beside)


def _sharing(checked: Checked, pool: Pool, sizes: _Bytes, *, resident: bool) -> Sharing:
    """Return how workers get a dataset of this process, or give a result, without files."""
    source_here = isinstance(checked.opened.source, InMemory)
    result_here = checked.request.output is None
    if not (source_here or result_here) or not pool.remote or not pool.same_host:
        return ""
    if not can_share(sizes.loaded + sizes.result):
        return ""
    if pool.reaches_memory:
        return "reached"
    return "shared" if resident else ""


def _result_sharing(checked: Checked, sharing: Sharing, *, resident: bool) -> Sharing:
    """Return how workers give a result; snapshots of passes are files that the next one reads."""
    if checked.request.output is not None:
        return ""
    passes = sharing == "reached" and checked.request.every is None
    return sharing if resident or passes else ""


def _sizes(checked: Checked) -> _Bytes:
    grid, uses = checked.match.grid, checked.match.uses
    every, steps = checked.request.every, checked.request.steps
    snapshots = 0 if every is None else place_of_step(steps, every)
    last = field_bytes([use for use in uses if use.result], grid)
    diagnosis = checked.diagnosis
    more = 0 if diagnosis is None else field_bytes(diagnosis.uses, diagnosis.with_dims(grid))
    return _Bytes(
        result=(snapshots + 1) * last + more,
        snapshots=snapshots * last,
        kept=field_bytes([use for use in uses if use.kept], grid),
        loaded=field_bytes([use for use in uses if use.loaded], grid) + _series_bytes(checked),
    )


def _series_bytes(checked: Checked) -> int:
    """Return the bytes of forcing beside the records that are in memory at once."""
    uses = {use.name: use for use in checked.match.uses}
    return sum(
        (one.size - one.windows.count) * field_bytes([uses[one.parts[0]]], checked.match.grid)
        for one in checked.forcing.fields
        if one.parts[0] in uses
    )


def _passes_in_memory(checked: Checked, sizes: _Bytes, memory: int) -> bool:
    """Whether what goes from pass to pass may stay in arrays of this process."""
    request = checked.request
    if request.workspace is not None:
        return False
    return request.steps == 1 or 2 * sizes.kept <= memory // 2


def _placed(
    chosen: Choice, checked: Checked, pool: Pool, sizes: _Bytes, options: Options
) -> Choice:
    """Say where results lie: on the device where inputs do, if blocks of one step or all fit."""
    if not results_on_device(checked, pool):
        return chosen
    blocks = checked.request.steps == 1 and options.pipeline_depth is None
    room = pool.device_memory(checked.compiled.target) or 0
    return replace(chosen, on_device=bool(chosen.resident) or (blocks and sizes.result < room))


def _plan(
    checked: Checked,
    memory: int,
    pool: Pool,
    options: Options,
    sizes: _Bytes,
    *,
    in_memory: bool,
    on_device: bool,
) -> Plan:
    request = checked.request
    uses, grid = checked.match.uses, checked.match.grid
    most = request.steps if in_memory else 1
    results = request.output is None and not on_device
    snapshots = sizes.snapshots if results else 0
    here = 0 if pool.remote else snapshots + held_bytes(uses, grid, most, results=results)
    if here > memory:
        raise CapacityError(
            f"The result needs {here} bytes of memory, but only {memory} are free.",
            hint="Give output= to write it to a Zarr store instead.",
            needed=here,
            available=memory,
        )
    slots = 0 if on_device else _slots(checked, options)
    cache = options.cache_bytes
    demand = replace(
        Demand.of(checked, steps_per_pass=options.steps_per_pass, in_memory=in_memory),
        order=options.order,
        stored=not isinstance(checked.opened.source, InMemory),
        cache=0 if cache is None and slots and _all_raw(checked) else cache,
        slots=slots,
    )
    supply = replace(Supply.of(pool, checked.compiled.target), memory=memory - here)
    if on_device and supply.device is not None:
        # What a block reads and writes lies on the device as well.
        half = max(1, (supply.device - sizes.result) // 2)
        supply = replace(supply, device=half, memory=min(half, supply.memory))
    plan = make_plan(demand, supply)
    codecs, device_decoding = _device_decoding(checked, options) if slots else ((), 0)
    if slots and _direct_io(checked, options):
        buffers = ring_bytes(max(io_threads(usable_processors())))
        direct_io = replace(supply, direct_io=True, buffers=buffers)
        plan = _with_staging(plan, demand, direct_io)
        if not plan.direct_io and options.pipeline_depth is None:
            plan = _with_staging(plan, replace(demand, slots=_SLOTS_DIRECT), direct_io)
    elif device_decoding:
        found = _with_staging(plan, demand, replace(supply, device_decoding=device_decoding))
        plan = plan if found is plan else replace(found, device_decoding=codecs)
    if here:
        here = snapshots + held_bytes(uses, grid, min(most, plan.passes), results=results)
    return replace(plan, projected=plan.projected + here)


def _with_staging(plan: Plan, demand: Demand, supply: Supply) -> Plan:
    """Return a plan for more on the device, or the same one where it would cut otherwise.

    Larger blocks and more steps at once are worth more than rooms for files, or for decoding.
    """
    try:
        found = make_plan(demand, supply)
    except CapacityError:
        return plan
    cuts = [(one.block, one.extra_block, one.steps_per_pass) for one in (plan, found)]
    return found if cuts[0] == cuts[1] else plan


def _slots(checked: Checked, options: Options) -> int:
    """Return how many blocks overlap on the device of a process; 0 where there is none.

    Points of other dimensions are sent one by one, which is only of use where they are large and
    no chunk has several of them.
    """
    if options.pipeline_depth is not None:
        return options.pipeline_depth
    grid = checked.match.grid
    loaded = [use for use in checked.match.uses if use.loaded]
    alone = all(
        size == 1 or dim not in use.dims or not use.chunks or use.chunks[use.dims.index(dim)] == 1
        for use in loaded
        for dim, size in zip(grid.extra, grid.extra_sizes, strict=True)
    )
    plane = math.prod(grid.sizes) * sum(np.dtype(use.dtype).itemsize for use in loaded)
    many = math.prod(grid.extra_sizes) > 1
    fits = alone and (plane >= _LEAST_SENT if many else True)
    return _SLOTS if TARGETS[checked.compiled.target].on_device and fits else 0


def _direct_io(checked: Checked, options: Options) -> bool:
    """Whether files shall go straight to the device, and back from there."""
    if options.direct_io is not None:
        return options.direct_io
    uses = [use for use in checked.match.uses if use.loaded or use.result]
    large = field_bytes(uses, checked.match.grid) >= _LARGE
    return TARGETS[checked.compiled.target].on_device and large and _all_raw(checked)


def _device_decoding(checked: Checked, options: Options) -> tuple[tuple[str, ...], int]:
    """Return the codecs whose chunks shall be decoded on the device, and the bytes that takes."""
    source = checked.opened.source
    wanted = options.device_decoding or (
        options.device_decoding is None and find_nvcomp() is not None
    )
    if not wanted or not isinstance(source, ZarrStore):
        return (), 0
    codecs = ALL if options.device_decoding else CHECKED
    arrays = [
        packed_array(source.path, use.variable, use.dtype)
        for use in checked.match.uses
        if use.loaded
    ]
    return codecs, decoding_bytes([one for one in arrays if one and one.decodes(codecs)])


def _all_raw(checked: Checked) -> bool:
    """Whether all that is loaded lies in plain files, which nothing needs to be kept of."""
    grid, source = checked.match.grid, checked.opened.source
    loaded = [use for use in checked.match.uses if use.loaded]
    return all(is_raw(source, use.variable, use, grid) for use in loaded)


def _check_disk(
    checked: Checked,
    pool: Pool,
    sizes: _Bytes,
    sharing: Sharing,
    gathered: Sharing,
    *,
    in_memory: bool,
) -> None:
    request = checked.request
    scratch = request.workspace or (request.output.parent if request.output else _temporary())
    needs = [] if request.output is None else [result_needs(request.output, sizes.result)]
    if request.steps > 1 and not in_memory:
        needs.append((scratch, _PASSES * sizes.kept))
    if pool.remote and request.output is None and not gathered:
        needs.append((scratch, sizes.result))
    if pool.remote and not sharing and isinstance(checked.opened.source, InMemory):
        needs.append((scratch, sizes.loaded))
    if request.every is not None and (request.workspace is not None or pool.remote):
        result = scratch if request.output is None else request.output.parent
        # Snapshots that lie in the workspace are linked where they can be.
        linked = (request.output is not None or pool.remote) and same_disk(scratch, result)
        needs += [] if linked else [(scratch, sizes.result)]
    check_space(needs)


def _temporary() -> Path:
    return Path(tempfile.gettempdir())


def _result_files(checked: Checked, pool: Pool, stack: ExitStack, *, in_memory: bool) -> _Places:
    """Return where passes and result go; a directory that the caller did not name is temporary."""
    request = checked.request
    if in_memory or (request.workspace is not None and not pool.remote):
        return _Places(request.workspace, request.output)
    parent = None if request.output is None else request.output.parent
    made = stack.enter_context(temporary_folder(parent))
    output = request.output or (made / "result" if pool.remote else None)
    return _Places(request.workspace or made, output)


def _source(
    checked: Checked,
    pool: Pool,
    places: _Places,
    stack: ExitStack,
    sharing: Sharing,
    *,
    stays: bool,
) -> Source:
    """Return what workers read: a dataset of this process is written for other processes.

    It is shared as `sharing` says, or goes to a new folder in the workspace, where every other name
    may be the caller's.
    """
    opened = checked.opened
    on_device = TARGETS[checked.compiled.target].on_device
    if stays and on_device and not pool.remote and device_inputs(checked):
        wait_for_all()  # streams of the caller may still be writing there
        return OnDevice(opened.dataset)
    if not pool.remote or not isinstance(opened.source, InMemory):
        return opened.source
    assert places.workspace is not None
    names = [use.variable for use in checked.match.uses if use.loaded]
    names += [] if checked.diagnosis is None else checked.diagnosis.constant
    if sharing:
        share = reach_variables if sharing == "reached" else share_variables
        return share(opened.dataset, names, stack)
    places.workspace.mkdir(parents=True, exist_ok=True)
    made = stack.enter_context(temporary_folder(places.workspace))
    return spool(opened.dataset, names, made / "input")
