"""Gather and scatter on datasets: elements along a dimension, named by an array of indices.

`gather` takes elements of the variable `source` along `dim`. In the result the dimensions of the
variable `index` stand where `dim` stood: with source (time, cell, level) and index (point), the
result is (time, point, level) and holds source[t, index[p], l]. Where source and index share
another dimension, they are taken pairwise along it: source (time, cell) and index (time, point)
give source[t, index[t, p]].

`scatter` puts the elements of `source` into a new dimension `dim` of length `size`: all dimensions
of the index go, and `dim` stands where the first of them stood. Places that no index names hold
`fill`, by default NaN, or 0 where the type has none.

Indices count from 0. `out_of_range` says what is done with those that name no element: "error"
(the first is named), "clip" (the nearest element is meant), "wrap" (elements repeat periodically)
or "mask" (nothing is moved: a gathered element holds `fill`). `negative` is "out_of_range", or
"from_end" as in Python. `duplicates` says what is done where several elements are scattered to one
place: "error", "last" (in the order of the indices), "sum", "min" or "max", in that order, so that
results are the same bit for bit on every target.

Values are moved as they are, whatever their type, for all other dimensions by one analysis of the
indices; the dimensions before the first that changes may be cut into blocks. `target`, `chunks`,
`cluster`, `output`, `on_event` and `cancelled` are those of `run`, and the result is the same bit
for bit whatever they are. A block has all of `dim`, and the indices are held in memory. The result
has the coordinates that fit and a line in the history. Raises a `RequestError` or `CapacityError`
before anything is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.datasets.match import near
from halocline_engine.datasets.provenance import (
    coordinates_of,
    coordinates_within,
    with_history,
)
from halocline_engine.datasets.source import Opened, open_source
from halocline_engine.distribute.changes import (
    Change,
    Moving,
    Request,
    check_room,
    place_of,
    run_changes,
)
from halocline_engine.distribute.events import Event
from halocline_engine.errors import ArgumentError, FieldError
from halocline_engine.kernels.indirect.apply import check_combinable
from halocline_engine.kernels.indirect.indices import LEFT_OUT, resolve
from halocline_engine.kernels.indirect.plan import plan_transfer
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
) -> xr.Dataset:
    """Return a dataset with the elements that `index` names; see the head of the module."""
    policy = Policy(
        choice(OutOfRange, "out_of_range", out_of_range), choice(Negative, "negative", negative)
    )
    opened = open_source(dataset)
    found, where = _variable(opened, source), _variable(opened, index)
    dims, named = _dims(found), _dims(where)
    if dim not in dims:
        raise _no_dimension(dim, source, dims)
    shared = tuple(d for d in dims if d in named and d != dim)
    new = tuple(d for d in named if d not in shared)
    axes = _around(dims, (*shared, dim))
    result_dims = _replaced([d for d in dims if d != dim], dims.index(dim), new)
    _each_once(result_dims, name)
    named_elements = math.prod(int(found.sizes[d]) for d in (*shared, dim))
    places = _places(opened, index, (*shared, *new), named_elements)
    plain = resolve(places.reshape(-1), int(found.sizes[dim]), policy, name=index)
    sizes = {**_sizes(where), **_sizes(found)} | {d: int(where.sizes[d]) for d in new}
    moved = _offset(plain, math.prod(sizes[d] for d in shared), int(found.sizes[dim]))
    moving = _moving(Direction.GATHER, moved, found, axes, fill, _SURE)
    change = _change(found, source, name, axes, (*shared, *new), result_dims, moving)
    frame = xr.Dataset(coords=_gathered(found, where, dim, plain, shared))
    what = f"gather of '{source}' by '{index}'"
    request = _request(opened, change, sizes, frame, chunks, output, what)
    return run_changes(request, mode, target, cluster, on_event, cancelled)


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
) -> xr.Dataset:
    """Return a dataset with elements put where `index` says; see the head of the module."""
    policy = Policy(
        choice(OutOfRange, "out_of_range", out_of_range),
        choice(Negative, "negative", negative),
        choice(Duplicates, "duplicates", duplicates),
    )
    if isinstance(size, bool) or size < 0:
        raise ArgumentError(f"Argument 'size' must be a whole number from 0, got {size!r}.")
    opened = open_source(dataset)
    found, where = _variable(opened, source), _variable(opened, index)
    dims, named = _dims(found), _dims(where)
    for d in named:
        if d not in dims:
            raise _no_dimension(d, source, dims)
    axes = _around(dims, tuple(d for d in dims if d in named))
    place = min((dims.index(d) for d in named), default=0)
    result_dims = _replaced([d for d in dims if d not in named], place, (dim,))
    _each_once(result_dims, name)
    check_combinable(policy.duplicates, found.dtype)
    places = _places(opened, index, axes.elements, size).reshape(-1)
    moving = _moving(Direction.SCATTER, places, found, axes, fill, policy, size, index)
    change = _change(found, source, name, axes, (dim,), result_dims, moving)
    sizes = {**_sizes(found), dim: size}
    frame = xr.Dataset(coords=coordinates_within(found, [d for d in result_dims if d != dim]))
    what = f"scatter of '{source}' by '{index}'"
    request = _request(opened, change, sizes, frame, chunks, output, what)
    return run_changes(request, mode, target, cluster, on_event, cancelled)


def _variable(opened: Opened, name: str) -> xr.DataArray:
    names = [str(one) for one in opened.dataset.variables]
    if name not in names:
        raise FieldError(
            f"The dataset has no variable '{name}'.", hint=near(name, names) or "Check the name."
        )
    return opened.dataset[name]


def _dims(array: xr.DataArray) -> tuple[str, ...]:
    return tuple(str(dim) for dim in array.dims)


def _sizes(array: xr.DataArray) -> dict[str, int]:
    return {str(dim): int(size) for dim, size in array.sizes.items()}


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


def _places(opened: Opened, index: str, dims: tuple[str, ...], size: int) -> NDArray[Any]:
    variable = opened.dataset[index]
    check_room(f"indices '{index}'", _BYTES_AN_INDEX * int(variable.size) + size)
    return np.ascontiguousarray(cast("Any", variable).transpose(*dims).values)


def _offset(index: Index, outer: int, size: int) -> NDArray[Any]:
    """Return indices into all elements of the shared dimensions together."""
    if outer == 1:
        return index
    whole = index.astype(np.int64).reshape(outer, -1)
    shifted = whole + size * np.arange(outer)[:, np.newaxis]
    return np.where(whole == LEFT_OUT, LEFT_OUT, shifted).reshape(-1)


def _moving(
    direction: Direction,
    index: NDArray[Any],
    found: xr.DataArray,
    axes: _Axes,
    fill: float | None,
    policy: Policy,
    size: int | None = None,
    name: str = "index",
) -> Moving:
    """Return the operation; `size` counts the elements that are named, default: those there are."""
    sizes = _sizes(found)
    lengths = [math.prod(sizes[d] for d in part) for part in (axes.batch, axes.elements)]
    element = math.prod(sizes[d] for d in axes.values) * found.dtype.itemsize
    plan = plan_transfer(
        direction,
        index,
        lengths[1] if size is None else size,
        max(1, element),
        policy,
        uses=lengths[0],
        name=name,
    )
    return Moving(plan, _filling(found.dtype, fill))


def _change(
    found: xr.DataArray,
    source: str,
    name: str,
    axes: _Axes,
    made: tuple[str, ...],
    dims: tuple[str, ...],
    moving: Moving,
) -> Change:
    return Change(
        variables=(source,),
        result=name,
        dtype=found.dtype.str,
        own=_dims(found),
        batch=axes.batch,
        taken=axes.elements,
        values=axes.values,
        made=made,
        dims=dims,
        operation=moving,
        attributes=found.attrs,
    )


def _request(
    opened: Opened,
    change: Change,
    sizes: dict[str, int],
    frame: xr.Dataset,
    chunks: Mapping[str, int] | None,
    output: str | Path | None,
    what: str,
) -> Request:
    return Request(
        opened=opened,
        changes=(change,),
        sizes=sizes,
        frame=with_history(frame, opened.dataset, what),
        chunks=chunks or {},
        output=place_of(output),
        what=what,
    )


def _gathered(
    found: xr.DataArray, where: xr.DataArray, dim: str, plain: Index, shared: tuple[str, ...]
) -> dict[str, xr.DataArray]:
    """Return the coordinates of a gather.

    These are the ones that do not have `dim`, those of the index, and those along `dim` at the
    places that were taken, if all were and they are the same for all elements of an index.
    """
    kept = coordinates_within(found, [d for d in _dims(found) if d != dim])
    kept |= coordinates_within(where, _dims(where))
    if shared or (plain == LEFT_OUT).any():
        return kept
    taken = xr.Variable(where.dims, plain.reshape(where.shape))
    for name, item in coordinates_of(found).items():
        if dim in item.dims and (name not in kept or name == dim):
            kept[name] = cast("Any", item).reset_coords(drop=True).isel({dim: taken})
    return kept
