"""Gather and scatter on datasets, by arrays of indices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.analysis.named import near
from halocline_engine.arguments import number, place_of, sizes_by_name, text, whole
from halocline_engine.datasets.names import result_name
from halocline_engine.datasets.stores.provenance import (
    coordinates_of,
    coordinates_within,
    with_history,
)
from halocline_engine.datasets.stores.source import Opened, native, open_source
from halocline_engine.datasets.variables import variable_of
from halocline_engine.distribute.executors.local import LocalPool
from halocline_engine.distribute.jobs.reading import chunked
from halocline_engine.distribute.tasks.events import Event
from halocline_engine.distribute.tasks.options import Options
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
from halocline_engine.errors import ArgumentError, FieldError
from halocline_engine.functions.documentation import documented
from halocline_engine.functions.execution import Execution
from halocline_engine.kernels.indirect.apply import check_combinable
from halocline_engine.kernels.indirect.indices import LEFT_OUT, check_whole, resolve
from halocline_engine.kernels.indirect.plan import (
    IndexPlan,
    PlanCache,
    plan_key,
    plan_transfer,
    plans_of,
)
from halocline_engine.kernels.indirect.problem import (
    Direction,
    Duplicates,
    Index,
    Negative,
    OutOfRange,
    Policy,
    choice,
)

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["gather", "scatter"]

#: Bytes that an index takes while it is checked and analysed; an element that is named takes one.
_BYTES_AN_INDEX = 48
#: Indices that were made sure of before.
_SURE = Policy(OutOfRange.MASK, duplicates=Duplicates.LAST)


@dataclass(frozen=True, slots=True)
class _Axes:
    """The dimensions of a transfer in the order [batch, element, value] of its work."""

    batch: tuple[str, ...]
    elements: tuple[str, ...]
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """An exchange of the variable `found` by `where`, and how it is to be done."""

    opened: Opened
    exchange: Exchange
    found: xr.DataArray
    where: xr.DataArray
    chunks: Mapping[str, int]
    output: Path | None
    plans: PlanCache | None


@documented
def gather(
    dataset: xr.Dataset | str | Path,
    *,
    source: str,
    index: str,
    dim: str,
    name: str = "gathered",
    out_of_range: str = "error",
    negative: str = "out_of_range",
    fill: float | None = None,
    target: str = "auto",
    mode: str = "auto",
    chunks: Mapping[str, int] | None = None,
    cluster: int | str | Client | None = None,
    output: str | Path | None = None,
    on_event: Callable[[Event], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    options: Options | None = None,
    plans: PlanCache | None = None,
) -> xr.Dataset:
    """Gather elements of a variable along a dimension by an array of indices.

    Parameters
    ----------
    %(dataset)s
    source : str
        Variable to take elements of, of any type of fixed size.
    index : str
        Variable of indices, from 0. Its dimensions replace `dim`; dimensions that it shares with
        `source` are taken pairwise.
    dim : str
        Dimension of `source` that is indexed.
    name : str, default: 'gathered'
        Name of the result.
    out_of_range : {'error', 'clip', 'wrap', 'mask'}, default: 'error'
        Rule for indices that name no element: an error that names the first, the nearest element,
        periodic repetition, or no move.
    negative : {'out_of_range', 'from_end'}, default: 'out_of_range'
        Whether -1 is out of range, or the last element as in Python.
    fill : number, optional
        Value where nothing is moved; by default NaN, or 0 in types without NaN.
    %(execution)s
    %(plans)s

    Returns
    -------
    xarray.Dataset
        The elements: with source (time, cell, level) and index (point), the result is (time, point,
        level) and holds ``source[t, index[p], l]``. Coordinates along `dim` are gathered if the
        indices fit into memory.

    Raises
    ------
    %(errors)s

    Notes
    -----
    A block has all of `dim`, with the indices in memory, if that fits. Otherwise, or if `chunks`
    names `dim` or a dimension of the index, elements are sorted into buckets by blocks of `dim` and
    of the index, and only those that are named are moved.

    Examples
    --------
    >>> import xarray as xr
    >>> import halocline_engine as he
    >>> dataset = xr.Dataset({"t": ("cell", [10.0, 11.0, 12.0]), "at": ("point", [2, 0])})
    >>> he.gather(dataset, source="t", index="at", dim="cell")["gathered"].values.tolist()
    [12.0, 10.0]

    """
    policy = Policy(
        choice(OutOfRange, "out_of_range", out_of_range), choice(Negative, "negative", negative)
    )
    _check_names(source, index, dim)
    opened = open_source(dataset)
    found, where = _variable(opened, source), _variable(opened, index)
    dims, named = _dims(found), _dims(where)
    if dim not in dims:
        raise _no_dimension(dim, source, dims)
    shared = tuple(d for d in dims if d in named and d != dim)
    new = tuple(d for d in named if d not in shared)
    result_dims = _replaced([d for d in dims if d != dim], dims.index(dim), new)
    axes = _around(dims, (*shared, dim))
    exchange = Exchange(
        direction=Direction.GATHER,
        source=chunked(opened, source),
        index=chunked(opened, index),
        names=(source, index, result_name(name)),
        dim=dim,
        own=dims,
        dims=result_dims,
        batch=axes.batch,
        values=axes.values,
        shared=shared,
        indexed=new,
        sizes={**_sizes(where), **_sizes(found)} | {d: int(where.sizes[d]) for d in new},
        size=int(found.sizes[dim]),
        dtype=native(found.dtype).str,
        policy=policy,
        fill=_filling(native(found.dtype), fill),
        attributes=found.attrs,
    )
    sizes, written = sizes_by_name("chunks", chunks), place_of("output", output)
    kept = None if plans is None else plans_of(plans)
    job = _Job(opened, exchange, found, where, sizes, written, kept)
    return _run(job, Execution(target, mode, cluster, on_event, cancelled, options))


@documented
def scatter(
    dataset: xr.Dataset | str | Path,
    *,
    source: str,
    index: str,
    dim: str,
    size: int,
    name: str = "scattered",
    duplicates: str = "error",
    out_of_range: str = "error",
    negative: str = "out_of_range",
    fill: float | None = None,
    target: str = "auto",
    mode: str = "auto",
    chunks: Mapping[str, int] | None = None,
    cluster: int | str | Client | None = None,
    output: str | Path | None = None,
    on_event: Callable[[Event], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    options: Options | None = None,
    plans: PlanCache | None = None,
) -> xr.Dataset:
    """Scatter elements of a variable into a new dimension by an array of indices.

    Parameters
    ----------
    %(dataset)s
    source : str
        Variable to take elements of, with all dimensions of the index.
    index : str
        Variable of indices, from 0. The new dimension replaces its dimensions.
    dim : str
        Name of the new dimension.
    size : int
        Length of the new dimension.
    name : str, default: 'scattered'
        Name of the result.
    duplicates : {'error', 'last', 'sum', 'min', 'max'}, default: 'error'
        Rule for several elements with one index, applied in the order of the indices.
    out_of_range : {'error', 'clip', 'wrap', 'mask'}, default: 'error'
        Rule for indices that name no element: an error that names the first, the nearest element,
        periodic repetition, or no move.
    negative : {'out_of_range', 'from_end'}, default: 'out_of_range'
        Whether -1 is out of range, or the last element as in Python.
    fill : number, optional
        Value that no index names; by default NaN, or 0 in types without NaN.
    %(execution)s
    %(plans)s

    Returns
    -------
    xarray.Dataset
        The scattered elements; the result has the same bits on every target.

    Raises
    ------
    %(errors)s

    Examples
    --------
    >>> import xarray as xr
    >>> import halocline_engine as he
    >>> dataset = xr.Dataset({"t": ("point", [5.0, 7.0]), "to": ("point", [2, 0])})
    >>> result = he.scatter(dataset, source="t", index="to", dim="cell", size=3)
    >>> result["scattered"].values.tolist()
    [7.0, nan, 5.0]

    """
    policy = Policy(
        choice(OutOfRange, "out_of_range", out_of_range),
        choice(Negative, "negative", negative),
        choice(Duplicates, "duplicates", duplicates),
    )
    _check_names(source, index, dim)
    opened = open_source(dataset)
    found, where = _variable(opened, source), _variable(opened, index)
    dims, named = _dims(found), _dims(where)
    for d in named:
        if d not in dims:
            raise _no_dimension(d, source, dims)
    axes = _around(dims, tuple(d for d in dims if d in named))
    place = min((dims.index(d) for d in named), default=0)
    exchange = Exchange(
        direction=Direction.SCATTER,
        source=chunked(opened, source),
        index=chunked(opened, index),
        names=(source, index, result_name(name)),
        dim=dim,
        own=dims,
        dims=_replaced([d for d in dims if d not in named], place, (dim,)),
        batch=axes.batch,
        values=axes.values,
        shared=(),
        indexed=axes.elements,
        sizes=_sizes(found),
        size=whole("size", size, 0),
        dtype=native(found.dtype).str,
        policy=policy,
        fill=_filling(native(found.dtype), fill),
        attributes=found.attrs,
    )
    sizes, written = sizes_by_name("chunks", chunks), place_of("output", output)
    kept = None if plans is None else plans_of(plans)
    job = _Job(opened, exchange, found, where, sizes, written, kept)
    return _run(job, Execution(target, mode, cluster, on_event, cancelled, options))


def _run(job: _Job, execution: Execution) -> xr.Dataset:
    """Do an exchange whole where it fits, else, or where it is asked for, in buckets."""
    exchange = job.exchange
    source, index, name = exchange.names
    _check_movable(source, job.found.dtype)
    check_combinable(exchange.policy.duplicates, native(job.found.dtype))
    _each_once(exchange.dims, name)
    check_whole(job.where.dtype, index)
    check_storable(exchange.dtype, source, job.output)
    moved = names_moved(exchange, job.chunks)
    what = f"{exchange.direction.value} of '{source}' by '{index}'"
    with execution.pool() as (pool, chosen):
        if not moved and fits_whole(exchange, pool, chosen, LocalPool().memory):
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


def _whole(job: _Job, what: str) -> Request:
    """Return the exchange as one change, with all indices resolved and analysed."""
    exchange, found = job.exchange, job.found
    sizes, (source, _, name) = exchange.sizes, exchange.names
    places = _places(job)
    taken = (*exchange.shared, exchange.dim) if exchange.gather else exchange.indexed
    made = (*exchange.shared, *exchange.indexed) if exchange.gather else (exchange.dim,)
    index, size, policy = places, exchange.size, exchange.policy
    plain = None
    if exchange.gather:
        index = plain = resolve(places, size, policy, name=exchange.names[1])
        outer = math.prod(sizes[d] for d in exchange.shared)
        index, size, policy = _offset(plain, outer, size), outer * size, _SURE
    coordinates = _coordinates(job, plain)
    plan = _planned(job, index, size, policy)
    change = Change(
        variables=(source,),
        result=name,
        dtype=exchange.dtype,
        own=exchange.own,
        batch=exchange.batch,
        taken=taken,
        values=exchange.values,
        made=made,
        dims=exchange.dims,
        operation=Moving(plan, exchange.fill),
        attributes=found.attrs,
    )
    return Request(
        opened=job.opened,
        changes=(change,),
        sizes=dict(sizes) if exchange.gather else {**sizes, exchange.dim: exchange.size},
        frame=with_history(xr.Dataset(coords=coordinates), job.opened.dataset, what),
        chunks=job.chunks,
        output=job.output,
        what=what,
    )


def _planned(job: _Job, index: NDArray[Any], size: int, policy: Policy) -> IndexPlan:
    """Return the plan of these indices, from the cache where there is one."""
    exchange = job.exchange
    element = math.prod(exchange.sizes[d] for d in exchange.values) * job.found.dtype.itemsize
    element, uses = max(1, element), math.prod(exchange.sizes[d] for d in exchange.batch)

    def make() -> IndexPlan:
        return plan_transfer(
            exchange.direction, index, size, element, policy, uses=uses, name=exchange.names[1]
        )

    if job.plans is None:
        return make()
    key = plan_key(exchange.direction, index, size, element, policy, uses)
    return job.plans.get(key, make)


def _coordinates(job: _Job, plain: Index | None) -> dict[str, xr.DataArray]:
    """Return the coordinates of a result, `plain` being the resolved indices of a gather.

    Where they are not given, they are read if there is something to take by them and they fit.
    """
    exchange, found = job.exchange, job.found
    if not exchange.gather:
        return coordinates_within(found, [d for d in exchange.dims if d != exchange.dim])
    dim, size = exchange.dim, int(job.where.size)
    along = any(dim in item.dims for item in coordinates_of(found).values())
    room = _BYTES_AN_INDEX * size <= LocalPool().memory
    if plain is None and along and not exchange.shared and room:
        plain = resolve(_places(job), exchange.size, exchange.policy, name=exchange.names[1])
    return _gathered(found, job.where, dim, plain, exchange.shared)


def _variable(opened: Opened, name: str) -> xr.DataArray:
    names = [str(one) for one in opened.dataset.variables]
    if name not in names:
        raise FieldError(
            f"The dataset has no variable '{name}'.", hint=near(name, names) or "Check the name."
        )
    return variable_of(opened.dataset, name)


def _dims(array: xr.DataArray) -> tuple[str, ...]:
    return tuple(str(dim) for dim in array.dims)


def _sizes(array: xr.DataArray) -> dict[str, int]:
    return {str(dim): int(size) for dim, size in array.sizes.items()}


def _check_names(source: object, index: object, dim: object) -> None:
    for argument, given in (("source", source), ("index", index)):
        text(argument, given, "the name of a variable")
    if not text("dim", dim, "the name of a dimension"):
        raise ArgumentError("Argument 'dim' must be the name of a dimension, got ''.")


def _check_movable(name: str, dtype: np.dtype[Any]) -> None:
    """Raise `FieldError` for values that are not equal numbers of bytes."""
    if dtype.hasobject or dtype.kind == "T":
        raise FieldError(
            f"Variable '{name}' has values of type '{dtype}', which differ in size.",
            hint="Convert texts with astype('U'), or other objects to numbers.",
        )


def _no_dimension(dim: str, name: str, dims: Sequence[str]) -> FieldError:
    has = ", ".join(f"'{one}'" for one in dims) or "none"
    return FieldError(f"Variable '{name}' has no dimension '{dim}'; it has {has}.")


def _each_once(dims: Sequence[str], name: str) -> None:
    twice = [dim for n, dim in enumerate(dims) if dim in dims[:n]]
    if twice:
        raise FieldError(
            f"The result '{name}' would have the dimension '{twice[0]}' twice.",
            hint="Rename a dimension of the index.",
        )


def _around(dims: tuple[str, ...], elements: tuple[str, ...]) -> _Axes:
    """Return the order of work: dimensions behind the last element's are values of an element."""
    last = max((dims.index(d) for d in elements), default=-1)
    batch = tuple(d for d in dims[: last + 1] if d not in elements)
    return _Axes(batch, elements, dims[last + 1 :])


def _replaced(rest: Sequence[str], place: int, new: Sequence[str]) -> tuple[str, ...]:
    return (*rest[:place], *new, *rest[place:])


def _filling(dtype: np.dtype[Any], fill: float | None) -> Any:
    """Return what stands where nothing is moved."""
    if fill is not None and not isinstance(fill, (bool, np.bool)):
        number("fill", fill, f"a value of type '{dtype}'")
    if fill is None:
        if dtype.kind in "mM":
            return np.array("NaT", dtype)
        return dtype.type(np.nan) if dtype.kind in "fc" else np.zeros((), dtype)[()]
    if dtype.kind in "fc":
        return dtype.type(fill)
    if dtype.kind in "biu" and fill == fill and int(fill) == fill:
        limits = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        if limits[0] <= fill <= limits[1]:
            return dtype.type(fill)
    raise ArgumentError(f"Argument 'fill' must be a value of type '{dtype}', got {fill!r}.")


def _places(job: _Job) -> NDArray[Any]:
    """Return all indices in the order of the work."""
    exchange = job.exchange
    taken = (*exchange.shared, *exchange.indexed)
    what = f"indices '{exchange.names[1]}'"
    check_memory(what, _BYTES_AN_INDEX * int(job.where.size) + exchange.size)
    whole = cast("Any", job.where).transpose(*taken).values
    return np.ascontiguousarray(whole, native(whole.dtype)).reshape(-1)


def _offset(index: Index, outer: int, size: int) -> NDArray[Any]:
    """Return indices into all elements of the shared dimensions together."""
    if outer == 1 or not index.size:
        return index
    whole = index.astype(np.int64).reshape(outer, -1)
    shifted = whole + size * np.arange(outer)[:, np.newaxis]
    return np.where(whole == LEFT_OUT, LEFT_OUT, shifted).reshape(-1)


def _gathered(
    found: xr.DataArray, where: xr.DataArray, dim: str, plain: Index | None, shared: tuple[str, ...]
) -> dict[str, xr.DataArray]:
    """Return the coordinates of a gather.

    These are the ones that do not have `dim`, those of the index, and those along `dim` at the
    places that were taken, if all were and they are the same for all elements of an index.
    """
    kept = coordinates_within(found, [d for d in _dims(found) if d != dim])
    kept |= coordinates_within(where, _dims(where))
    if plain is None or shared or (plain == LEFT_OUT).any():
        return kept
    taken = xr.Variable(where.dims, plain.reshape(where.shape))
    for name, item in coordinates_of(found).items():
        if dim in item.dims and (name not in kept or name == dim):
            kept[name] = cast("Any", item).reset_coords(drop=True).isel({dim: taken})
    return kept
