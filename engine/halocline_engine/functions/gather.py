"""Gather and scatter on datasets, by arrays of indices."""

import reprlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Unpack

import numpy as np
import xarray as xr

from halocline_engine.analysis.named import near
from halocline_engine.arguments import as_held, plain_number, text, whole, written
from halocline_engine.datasets.inputs.opening import DatasetLike, open_source
from halocline_engine.datasets.names import result_name
from halocline_engine.datasets.stores.source import native
from halocline_engine.datasets.variables import named_variable
from halocline_engine.distribute.jobs.reading import chunked
from halocline_engine.distribute.transfers.buckets_plan import Exchange, ExchangeLayout
from halocline_engine.errors import ArgumentError, FieldError
from halocline_engine.functions.documentation import documented
from halocline_engine.functions.execution import Execution, ExecutionArguments
from halocline_engine.functions.index_job import IndexJob, run_index_job
from halocline_engine.kernels.indirect.plan import (
    PlanCache,
    plans_of,
)
from halocline_engine.kernels.indirect.problem import (
    Direction,
    Duplicates,
    Negative,
    OutOfRange,
    Policy,
    choice,
)
from halocline_engine.signatures import Default, complete, described

__all__ = ["IndexArguments", "gather", "scatter"]


class IndexArguments(ExecutionArguments, total=False):
    """Rules for indices, and for elements that are not assigned.

    Parameters
    ----------
    out_of_range : {'error', 'clip', 'wrap', 'mask'}, default: 'error'
        Rule for indices out of range: an error, the nearest element, periodic repetition, or no
        assignment.
    negative : {'out_of_range', 'from_end'}, default: 'out_of_range'
        Whether -1 is out of range, or the last element as in Python.
    fill : number, optional
        Value of elements that are not assigned; by default NaN, or 0 for types without NaN.
    plans : PlanCache, optional
        Keeps the analysis of indices, weights and meshes for later calls.

    """

    out_of_range: Annotated[str, Default("error")]
    negative: Annotated[str, Default("out_of_range")]
    fill: Annotated[float | None, Default(None)]
    plans: Annotated[PlanCache | None, Default(None)]


_indexing = documented(IndexArguments, indexing=described(IndexArguments))


@_indexing
def gather(
    dataset: DatasetLike,
    *,
    source: str,
    index: str,
    dim: str,
    name: str = "gathered",
    **given: Unpack[IndexArguments],
) -> xr.Dataset:
    """Gather elements of a variable along a dimension by an array of indices.

    Parameters
    ----------
    %(dataset)s
    source : str
        Variable of the elements, of any type of fixed size.
    index : str
        Variable of indices, from 0. Its dimensions replace `dim`; dimensions that it shares with
        `source` are taken pairwise.
    dim : str
        Dimension of `source` that is indexed.
    name : str, default: 'gathered'
        Name of the result.
    %(indexing)s
    %(execution)s

    Returns
    -------
    xarray.Dataset
        The elements: with source (time, cell, level) and index (point), the result is (time, point,
        level) and holds ``source[t, index[p], l]``. Coordinates along `dim` are gathered if the
        indices fit into memory.

    %(raises)s

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
    names = (source, index, name)
    return _exchanged(Direction.GATHER, dataset, names, dim, _gathered, **complete(gather, given))


@_indexing
def scatter(
    dataset: DatasetLike,
    *,
    source: str,
    index: str,
    dim: str,
    size: int,
    name: str = "scattered",
    duplicates: str = "error",
    **given: Unpack[IndexArguments],
) -> xr.Dataset:
    """Scatter elements of a variable into a new dimension by an array of indices.

    Parameters
    ----------
    %(dataset)s
    source : str
        Variable of the elements, with all dimensions of the index.
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
    %(indexing)s
    %(execution)s

    Returns
    -------
    xarray.Dataset
        The scattered elements; the result has the same bits on every target.

    %(raises)s

    Examples
    --------
    >>> import xarray as xr
    >>> import halocline_engine as he
    >>> dataset = xr.Dataset({"t": ("point", [5.0, 7.0]), "to": ("point", [2, 0])})
    >>> result = he.scatter(dataset, source="t", index="to", dim="cell", size=3)
    >>> result["scattered"].values.tolist()
    [7.0, nan, 5.0]

    """
    return _exchanged(
        Direction.SCATTER,
        dataset,
        (source, index, name),
        dim,
        partial(_scattered, size=size),
        duplicates=duplicates,
        **complete(scatter, given),
    )


def _exchanged(
    direction: Direction,
    dataset: DatasetLike,
    variables: tuple[str, str, str],
    dim: str,
    layout_of: Callable[[xr.DataArray, xr.DataArray, str], ExchangeLayout],
    *,
    duplicates: str = "error",
    out_of_range: str,
    negative: str,
    fill: float | None,
    plans: PlanCache | None,
    **given: Unpack[ExecutionArguments],
) -> xr.Dataset:
    execution = Execution(**given)
    policy = Policy(
        choice(OutOfRange, "out_of_range", out_of_range),
        choice(Negative, "negative", negative),
        choice(Duplicates, "duplicates", duplicates),
    )
    source, index, name = variables
    _check_names(source, index, dim)
    opened = open_source(dataset)
    array, where = named_variable(opened.dataset, source), named_variable(opened.dataset, index)
    exchange = Exchange(
        direction=direction,
        source=chunked(opened, source),
        index=chunked(opened, index),
        names=(source, index, result_name(name)),
        dim=dim,
        own=_dims(array),
        layout=layout_of(array, where, dim),
        dtype=native(array.dtype).str,
        policy=policy,
        fill=_filling(native(array.dtype), fill),
        attributes=array.attrs,
    )
    kept = None if plans is None else plans_of(plans)
    job = IndexJob(opened, exchange, array, where, execution.block_sizes, execution.place, kept)
    return run_index_job(job, execution)


def _gathered(source: xr.DataArray, where: xr.DataArray, dim: str) -> ExchangeLayout:
    """Return the layout of a gather along `dim`, which the dimensions of the index replace."""
    dims, named = _dims(source), _dims(where)
    if dim not in dims:
        raise _no_dimension(dim, source.name, dims)
    shared = tuple(d for d in dims if d in named and d != dim)
    new = tuple(d for d in named if d not in shared)
    batch, _, values = _around(dims, (*shared, dim))
    return ExchangeLayout(
        dims=_replaced([d for d in dims if d != dim], dims.index(dim), new),
        batch=batch,
        values=values,
        shared=shared,
        indexed=new,
        sizes={**_sizes(where), **_sizes(source)} | {d: int(where.sizes[d]) for d in new},
        size=int(source.sizes[dim]),
    )


def _scattered(source: xr.DataArray, where: xr.DataArray, dim: str, *, size: int) -> ExchangeLayout:
    """Return the layout of a scatter into `dim`, which replaces the dimensions of the index."""
    dims, named = _dims(source), _dims(where)
    for d in named:
        if d not in dims:
            raise _no_dimension(d, source.name, dims)
    batch, elements, values = _around(dims, tuple(d for d in dims if d in named))
    place = min((dims.index(d) for d in named), default=0)
    return ExchangeLayout(
        dims=_replaced([d for d in dims if d not in named], place, (dim,)),
        batch=batch,
        values=values,
        shared=(),
        indexed=elements,
        sizes=_sizes(source),
        size=whole("size", size, 0),
    )


def _dims(array: xr.DataArray) -> tuple[str, ...]:
    return tuple(str(dim) for dim in array.dims)


def _sizes(array: xr.DataArray) -> dict[str, int]:
    return {str(dim): int(size) for dim, size in array.sizes.items()}


def _check_names(source: object, index: object, dim: object) -> None:
    for argument, given in (("source", source), ("index", index)):
        text(argument, given, "the name of a variable")
    if not text("dim", dim, "the name of a dimension"):
        raise ArgumentError(
            "Argument 'dim' must be the name of a dimension, got ''.",
            hint="Name one of the source.",
        )


def _no_dimension(dim: str, name: object, dims: Sequence[str]) -> FieldError:
    return FieldError(f"Variable '{name}' has no dimension '{dim}'.", hint=near(dim, dims))


def _around(
    dims: tuple[str, ...], elements: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the order [batch, element, value] of dimensions; values follow the last element."""
    last = max((dims.index(d) for d in elements), default=-1)
    batch = tuple(d for d in dims[: last + 1] if d not in elements)
    return batch, elements, dims[last + 1 :]


def _replaced(rest: Sequence[str], place: int, new: Sequence[str]) -> tuple[str, ...]:
    return (*rest[:place], *new, *rest[place:])


def _filling(dtype: np.dtype[Any], fill: float | None) -> Any:
    """Return the value of elements that are not assigned."""
    if fill is None:
        if dtype.kind in "mM":
            return np.array("NaT", dtype)
        return dtype.type(np.nan) if dtype.kind in "fc" else np.zeros((), dtype)[()]
    plain = plain_number(fill)
    if plain is not None and dtype.kind == "c":
        return dtype.type(plain)
    held = None if plain is None or dtype.kind not in "biuf" else as_held(plain, dtype)
    if held is None:
        kind = f"the {type(fill).__name__} "
        got = written(plain) if plain is not None else kind + reprlib.repr(fill)
        raise ArgumentError(
            f"Argument 'fill' must be a value of type '{dtype}', got {got}.",
            hint="Convert it, or leave it out.",
        )
    return dtype.type(held)
