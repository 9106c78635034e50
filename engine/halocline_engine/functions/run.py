"""Run a stencil program on a dataset and return the dataset of what it writes.

`program` is a text or a `Stencil`; `name`, `externals`, `dtypes` and `target` are those of
`stencil`. `dataset` is an xarray.Dataset, or the path of a Zarr store or a NetCDF file, whose
values are decoded as xarray does; types are never cast.

`fields` maps fields of the program to variables (default: the same name). A field that is
written becomes a variable of the result: with the old values where nothing is written if the
dataset has that variable, else created, and NaN there (0 where the type has no NaN). A
variable that lacks an axis of a field that is only read is repeated along it. `axes` maps I,
J and K to dimensions (None: there is no such axis); left out, it comes from CF attributes or
from dimensions called x, y and z. Without K the program runs on one level, if it needs no
more. Dimensions that the program does not use are looped over.

`boundary` maps dimensions of I, J and K to what lies beyond their ends, either for both or as
{"low": ..., "high": ...}: "edge" (the last cell again), "reflect" (mirrored at the last cell,
which is not repeated), "extrapolate" (linear), {"constant": value}, "periodic" (both ends), or
"none", which is the default: cells whose stencil leaves the data are not computed and keep
their old value, which is NaN in a created variable. It holds for all fields, before each step.

The program is run `steps` times. `feedback` maps an output to the input that gets its values
before the next step; the output keeps the input's values where nothing is written. Fields that
are written in place go on by themselves. Any other output holds what the last step wrote.

`chunks` are block sizes by dimension (default: planned from memory; K is never split). `order` is
how blocks follow each other: in "row"s, down "column"s of them, in columns that turn ("zigzag") or
in "tiles", while a cache of decoded chunks keeps what they share; "auto" takes columns as wide as
the memory allows. `options` makes choices otherwise than the plan: `Options(memory=...)` are the
bytes that the blocks of a process may take, with what this process holds of results and passes,
`device_memory` those on its device, and `cache` those of decoded chunks, 0 for none. What cannot
fit is refused. `cluster` is None for this process, a number of worker processes to start on this
machine, the address of a Dask scheduler, or a `distributed.Client`; workers on other machines must
see the paths. `output` is where a Zarr store is made: it appears when it is complete, or not at
all; without it the result is in memory. In `workspace` each finished pass over the data is kept,
and a run of the same job with the same workspace goes on from the newest one; `attempt` keeps the
files of two runs apart. `on_event` is called with events of `distribute.tasks.events`, and
`cancelled` is asked again and again whether to stop, which raises `CancelledError`.

The result has the coordinates and attributes of the dataset and a line in `history`. It is the
same, bit for bit, for any blocks, steps per pass and workers on one target. Raises a
`ProgramError`, `RequestError` or `CapacityError` before anything is read or written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import xarray as xr

from halocline_engine.arguments import (
    by_name,
    names_by_name,
    place_of,
    sizes_by_name,
    whole,
)
from halocline_engine.backends.registry import find, resolve
from halocline_engine.backends.tables import with_tables
from halocline_engine.datasets.stores.source import open_source
from halocline_engine.distribute.executors.base import Pool
from halocline_engine.distribute.executors.select import check_threads, granted, local_pool
from halocline_engine.distribute.stencils.request import Request, check
from halocline_engine.distribute.stencils.run import launch
from halocline_engine.distribute.tasks.events import Event
from halocline_engine.distribute.tasks.options import Options, options_of
from halocline_engine.errors import ArgumentError
from halocline_engine.functions.execution import Execution
from halocline_engine.functions.stencil import Stencil
from halocline_engine.program import Compiled, compile_program, fingerprint

if TYPE_CHECKING:
    from distributed import Client

    from halocline_engine.distribute.executors.dask import ClusterPool

__all__ = ["run"]

_REASON = "blocks are read, computed and written pass by pass"
#: What runs the blocks; see `run`.
_Cluster: TypeAlias = "int | str | Client | None"


def run(
    program: str | Stencil,
    dataset: xr.Dataset | str | Path,
    *,
    fields: Mapping[str, str] | None = None,
    scalars: Mapping[str, Any] | None = None,
    externals: Mapping[str, Any] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    name: str | None = None,
    axes: Mapping[str, str | None] | None = None,
    boundary: Mapping[str, Any] | None = None,
    steps: int = 1,
    feedback: Mapping[str, str] | None = None,
    target: str = "auto",
    mode: str = "auto",
    chunks: Mapping[str, int] | None = None,
    order: str = "auto",
    cluster: int | str | Client | None = None,
    output: str | Path | None = None,
    on_event: Callable[[Event], None] | None = None,
    workspace: str | Path | None = None,
    attempt: int = 0,
    cancelled: Callable[[], bool] | None = None,
    options: Options | None = None,
) -> xr.Dataset:
    """Run a stencil program on a dataset and return the dataset of what it writes."""
    execution = Execution(target, mode, cluster, on_event, cancelled, options)
    options = options_of(options)
    check_threads(options, cluster)
    request = Request(
        fields=names_by_name("fields", fields, "{'inp': 'temperature'}"),
        scalars=by_name("scalars", scalars, "{'weight': 0.25}"),
        axes=_axes(axes),
        boundary=by_name("boundary", boundary, "{'lon': 'periodic', 'lat': 'edge'}"),
        steps=whole("steps", steps, 1),
        feedback=names_by_name("feedback", feedback, "{'out': 'inp'}"),
        chunks=sizes_by_name("chunks", chunks),
        output=place_of("output", output),
        workspace=place_of("workspace", workspace),
        attempt=whole("attempt", attempt, 0),
        order=order,
    )
    opened = open_source(dataset)
    with ExitStack() as stack:
        existing = _existing_pool(cluster, stack)
        chosen = resolve(target) if existing is None else existing.resolve(target)
        compiled = _compile(program, name, externals, dtypes, chosen)
        checked = check(request, opened, compiled)
        pool = granted(existing or _new_pool(cluster, chosen, stack, options), options)
        return launch(checked, pool, execution.tell, cancelled, options, _REASON)


# What users read about `run` is long, and stands at the head of this file.
run.__doc__ = __doc__


def _existing_pool(cluster: _Cluster, stack: ExitStack) -> ClusterPool | None:
    """Return the pool of a scheduler that runs already; None where none was named."""
    if cluster is None or isinstance(cluster, Integral):
        return None
    from halocline_engine.distribute.executors.dask import connect

    return stack.enter_context(connect(cluster))


def _new_pool(cluster: _Cluster, target: str, stack: ExitStack, options: Options) -> Pool:
    """Return this process, or new processes on this machine; the latter end with the stack."""
    if not isinstance(cluster, Integral):
        return local_pool(options)
    from halocline_engine.distribute.executors.dask import start

    return stack.enter_context(start(whole("cluster", cluster, 1), target))


def _compile(
    program: str | Stencil,
    name: str | None,
    externals: Mapping[str, Any] | None,
    dtypes: Mapping[str, Any] | None,
    target: str,
) -> Compiled:
    """Compile a text, or take a stencil as it was compiled, for this target."""
    if not isinstance(program, Stencil):
        return compile_program(
            program, name=name, externals=externals, dtypes=dtypes, target=target
        )
    for argument, value in (("name", name), ("externals", externals), ("dtypes", dtypes)):
        if value is not None:
            raise ArgumentError(
                f"Argument '{argument}' belongs to a program's text, but a stencil was given.",
                hint=f"Give '{argument}' to halocline_engine.stencil(...).",
            )
    compiled = program.compiled
    if compiled.target == target:
        return compiled
    return Compiled(
        program=compiled.program,
        facts=compiled.facts,
        schedule=compiled.schedule,
        artifact=with_tables(find(target).build(compiled.schedule), compiled.program),
        target=target,
        fingerprint=fingerprint(compiled.program, target),
    )


def _axes(given: object) -> Mapping[str, str | None] | None:
    example = "{'I': 'lon', 'J': 'lat'}"
    return None if given is None else names_by_name("axes", given, example, none=True)
