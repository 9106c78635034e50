"""Jobs of gathers and scatters: in one piece if they fit into memory, otherwise in buckets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.datasets.stores.provenance import (
    coordinates_of,
    coordinates_within,
    with_history,
)
from halocline_engine.datasets.stores.source import Opened, native
from halocline_engine.datasets.variables import values_of
from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.transfers.buckets_job import (
    ExchangeRequest,
    fits_whole,
    names_moved,
    run_exchange,
)
from halocline_engine.distribute.transfers.buckets_plan import Exchange
from halocline_engine.distribute.transfers.job import (
    Change,
    Moving,
    Request,
    change_job,
    check_memory,
    check_storable,
)
from halocline_engine.errors import FieldError
from halocline_engine.functions.execution import Execution, Planning
from halocline_engine.kernels.indirect.apply import check_combinable
from halocline_engine.kernels.indirect.indices import LEFT_OUT, check_whole, resolve
from halocline_engine.kernels.indirect.plan import (
    IndexPlan,
    PlanCache,
    plan_key,
    plan_transfer,
)
from halocline_engine.kernels.indirect.problem import (
    Duplicates,
    Index,
    OutOfRange,
    Policy,
)

__all__ = ["IndexJob", "run_index_job"]

#: Memory per index during checks and analysis; each indexed element takes one byte besides.
_BYTES_AN_INDEX = 48
#: Policy for indices that were checked before.
_SURE = Policy(OutOfRange.MASK, duplicates=Duplicates.LAST)


@dataclass(frozen=True, slots=True, eq=False)
class IndexJob:
    """An exchange of the elements of `source` by the indices `where`."""

    opened: Opened
    exchange: Exchange
    source: xr.DataArray
    where: xr.DataArray
    chunks: Mapping[str, int]
    output: Path | None
    plans: PlanCache | None


def run_index_job(job: IndexJob, execution: Execution) -> xr.Dataset:
    """Run an exchange in one piece if it fits; otherwise, or if `chunks` ask for it, in buckets."""
    exchange = job.exchange
    source, index, name = exchange.names
    _check_movable(source, job.source.dtype)
    check_combinable(exchange.policy.duplicates, native(job.source.dtype))
    _each_once(exchange.layout.dims, name)
    check_whole(job.where.dtype, index)
    check_storable(exchange.dtype, source, job.output)
    moved = names_moved(exchange, job.chunks)
    what = f"{exchange.direction.value} of '{source}' by '{index}'"
    with execution.pool() as (pool, chosen):
        planning = isinstance(execution.cluster, Planning)  # stages are never in buckets
        if planning or (not moved and fits_whole(exchange, pool, chosen, LocalPool().memory)):
            whole = change_job(_whole(job, what), pool, chosen)
            return execution.run(whole, pool, "there is one pass")
        frame = xr.Dataset(coords=_coordinates(job, None))
        request = ExchangeRequest(
            opened=job.opened,
            exchange=exchange,
            frame=with_history(frame, job.opened.dataset, what),
            chunks=job.chunks,
            output=job.output,
            what=what,
        )
        return run_exchange(request, pool, chosen, execution.tell, execution.cancelled)


def _whole(job: IndexJob, what: str) -> Request:
    """Return the exchange as one change, with all indices resolved and analysed."""
    exchange = job.exchange
    layout = exchange.layout
    sizes, (source, _, name) = layout.sizes, exchange.names
    places = _places(job)
    taken = (*layout.shared, exchange.dim) if exchange.gather else layout.indexed
    made = (*layout.shared, *layout.indexed) if exchange.gather else (exchange.dim,)
    index, size, policy = places, layout.size, exchange.policy
    plain = None
    if exchange.gather:
        index = plain = resolve(places, size, policy, name=exchange.names[1])
        outer = math.prod(sizes[d] for d in layout.shared)
        index, size, policy = _offset(plain, outer, size), outer * size, _SURE
    coordinates = _coordinates(job, plain)
    plan = _planned(job, index, size, policy)
    change = Change(
        variables=(source,),
        result=name,
        dtype=exchange.dtype,
        own=exchange.own,
        batch=layout.batch,
        taken=taken,
        values=layout.values,
        made=made,
        dims=layout.dims,
        operation=Moving(plan, exchange.fill),
        attributes=job.source.attrs,
    )
    return Request(
        opened=job.opened,
        changes=(change,),
        sizes=dict(sizes) if exchange.gather else {**sizes, exchange.dim: layout.size},
        frame=with_history(xr.Dataset(coords=coordinates), job.opened.dataset, what),
        chunks=job.chunks,
        output=job.output,
        what=what,
    )


def _planned(job: IndexJob, index: NDArray[Any], size: int, policy: Policy) -> IndexPlan:
    """Return the plan of some indices, from the cache if there is one."""
    exchange = job.exchange
    layout = exchange.layout
    element = math.prod(layout.sizes[d] for d in layout.values) * job.source.dtype.itemsize
    element, uses = max(1, element), math.prod(layout.sizes[d] for d in layout.batch)

    def make() -> IndexPlan:
        return plan_transfer(
            exchange.direction, index, size, element, policy, uses=uses, name=exchange.names[1]
        )

    if job.plans is None:
        return make()
    key = plan_key(exchange.direction, index, size, element, policy, uses)
    return job.plans.get(key, make)


def _coordinates(job: IndexJob, plain: Index | None) -> dict[str, xr.DataArray]:
    """Return the coordinates of a result; `plain` are the resolved indices of a gather.

    Without `plain`, indices are read if coordinates need them and if they fit into memory.
    """
    exchange, source = job.exchange, job.source
    layout = exchange.layout
    if not exchange.gather:
        return coordinates_within(source, [d for d in layout.dims if d != exchange.dim])
    dim, size = exchange.dim, int(job.where.size)
    along = any(dim in item.dims for item in coordinates_of(source).values())
    room = _BYTES_AN_INDEX * size <= LocalPool().memory
    if plain is None and along and not layout.shared and room:
        plain = resolve(_places(job), layout.size, exchange.policy, name=exchange.names[1])
    return _gather_coordinates(source, job.where, dim, plain, layout.shared)


def _check_movable(name: str, dtype: np.dtype[Any]) -> None:
    """Raise `FieldError` for values of variable size."""
    if dtype.hasobject or dtype.kind == "T":
        raise FieldError(
            f"Variable '{name}' has values of type '{dtype}', which differ in size.",
            hint="Convert texts with astype('U'), or other objects to numbers.",
        )


def _each_once(dims: Sequence[str], name: str) -> None:
    twice = [dim for n, dim in enumerate(dims) if dim in dims[:n]]
    if twice:
        raise FieldError(
            f"The result '{name}' would have the dimension '{twice[0]}' twice.",
            hint="Rename a dimension of the index.",
        )


def _places(job: IndexJob) -> NDArray[Any]:
    """Return all indices, in the order of shared and indexed dimensions."""
    exchange = job.exchange
    layout = exchange.layout
    taken = (*layout.shared, *layout.indexed)
    what = f"indices '{exchange.names[1]}'"
    check_memory(what, _BYTES_AN_INDEX * int(job.where.size) + layout.size)
    whole = values_of(cast("Any", job.where).transpose(*taken))
    return np.ascontiguousarray(whole, native(whole.dtype)).reshape(-1)


def _offset(index: Index, outer: int, size: int) -> NDArray[Any]:
    """Return indices into all elements of the shared dimensions together."""
    if outer == 1 or not index.size:
        return index
    whole = index.astype(np.int64).reshape(outer, -1)
    shifted = whole + size * np.arange(outer)[:, np.newaxis]
    return np.where(whole == LEFT_OUT, LEFT_OUT, shifted).reshape(-1)


def _gather_coordinates(
    source: xr.DataArray,
    where: xr.DataArray,
    dim: str,
    plain: Index | None,
    shared: tuple[str, ...],
) -> dict[str, xr.DataArray]:
    """Return the coordinates of a gather.

    These are the coordinates without `dim`, those of the index, and the gathered coordinates along
    `dim` if no index is out of range and the dimensions of the index are not those of the source.
    """
    kept = coordinates_within(source, [str(one) for one in source.dims if str(one) != dim])
    kept |= coordinates_within(where, tuple(str(one) for one in where.dims))
    if plain is None or shared or (plain == LEFT_OUT).any():
        return kept
    taken = xr.Variable(where.dims, plain.reshape(where.shape))
    for name, item in coordinates_of(source).items():
        if dim in item.dims and (name not in kept or name == dim):
            kept[name] = cast("Any", item).reset_coords(drop=True).isel({dim: taken})
    return kept
