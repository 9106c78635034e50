"""Regridding by precomputed weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Unpack

import xarray as xr

from halocline_engine.analysis.named import near
from halocline_engine.arguments import check_flags, distinct, number, several
from halocline_engine.datasets.formats.centres import coordinates_in, order_of
from halocline_engine.datasets.formats.weights import Weights, read_weights
from halocline_engine.datasets.grids.horizontal import horizontal_dims
from halocline_engine.datasets.inputs.opening import DatasetLike, open_source
from halocline_engine.datasets.stores.provenance import coordinates_within, with_history
from halocline_engine.datasets.variables import (
    hint_of_conversion,
    hint_of_packed,
    is_distinct,
    variable_of,
)
from halocline_engine.distribute.jobs.outputs import open_beside
from halocline_engine.distribute.transfers.job import (
    Change,
    Multiplying,
    Request,
    change_job,
    check_memory,
)
from halocline_engine.errors import ArgumentError, FieldError
from halocline_engine.functions.documentation import documented
from halocline_engine.functions.execution import Execution, ExecutionArguments
from halocline_engine.interface.renames import complement
from halocline_engine.kernels.indirect.plan import PlanCache, plans_of
from halocline_engine.kernels.indirect.sparse import Form, Missing, Sparse
from halocline_engine.signatures import complete

__all__ = ["regrid"]

_TYPES = ("float32", "float64")


@documented(ExecutionArguments)
def regrid(
    dataset: DatasetLike,
    weights: xr.Dataset | str | Path,
    *,
    variables: Sequence[str] | None = None,
    skipna: bool = True,
    na_thres: float = 1.0,
    dims: Sequence[str] | None = None,
    target_dims: Sequence[str] | None = None,
    plans: PlanCache | None = None,
    **given: Unpack[ExecutionArguments],
) -> xr.Dataset:
    """Regrid variables to another horizontal grid by precomputed weights.

    Parameters
    ----------
    %(dataset)s
    weights : xarray.Dataset or path
        Weights as ESMF and SCRIP write them: `row`, `col` and `S`.
    variables : sequence of str, optional
        Variables to regrid, float32 or float64; by default all on the source grid.
    skipna : bool, default: True
        Whether to skip NaN in the source: the other cells take over its weight. Otherwise target
        cells with NaN among their source cells are NaN.
    na_thres : float, default: 1.0
        With `skipna`, the share of the weight that may be missing, from 0 to 1: a target cell with
        more is NaN.
    dims : sequence of str, optional
        Dimensions of the source grid; by default those of latitude and longitude, or successive
        dimensions of its sizes.
    target_dims : sequence of str, optional
        Dimensions of the target grid; by default those of the source if there are as many,
        otherwise 'y' and 'x', or 'cell'.
    %(plans)s
    %(execution)s

    Returns
    -------
    xarray.Dataset
        The regridded variables, with the centres of the target cells if the weights hold them.
        Cells that the weights do not reach are NaN.

    %(raises)s

    Notes
    -----
    Terms are added in double precision in the order of the file, so every target gives the same
    bits. Blocks have the whole grid. With `skipna`, a target cell is also NaN where the
    weights, or those of the cells that are not missing, sum to 0 or have different signs. Where the
    weights hold the centres of the source cells, these are matched with latitude and longitude of
    the dataset, whose cells may be in any order; other cells are refused.

    Examples
    --------
    >>> import xarray as xr
    >>> import halocline_engine as he
    >>> weights = xr.Dataset(
    ...     {
    ...         "row": ("n_s", [1, 1, 2]),
    ...         "col": ("n_s", [1, 2, 3]),
    ...         "S": ("n_s", [0.5, 0.5, 1.0]),
    ...         "src_grid_dims": ("src_grid_rank", [3]),
    ...         "dst_grid_dims": ("dst_grid_rank", [2]),
    ...     }
    ... )
    >>> dataset = xr.Dataset({"t": ("cell", [1.0, 3.0, 7.0])})
    >>> he.regrid(dataset, weights, target_dims=["station"])["t"].values.tolist()
    [2.0, 7.0]

    """
    execution = Execution(**complete(regrid, given))
    check_flags(skipna=skipna)
    if not 0 <= number("na_thres", na_thres, "a number from 0 to 1") <= 1:
        raise ArgumentError(f"Argument 'na_thres' must be a number from 0 to 1, got {na_thres!r}.")
    rule = Missing.RENORMALISE if skipna else Missing.PROPAGATE
    least = complement(float(na_thres))
    variables = several("variables", variables, "['t', 'u']")
    dims = distinct("dims", dims, "['lat', 'lon']")
    target_dims = distinct("target_dims", target_dims, "['y', 'x']")
    opened = open_source(dataset)
    beside = open_beside(weights, "weights", execution.output)
    kept = plans_of(plans)
    known = read_weights(beside, check_memory, kept)
    chosen = _chosen(opened.dataset, known, variables, dims)
    first = next(iter(chosen.values()))
    named = _target_dims(opened.dataset[next(iter(chosen))], first, known, target_dims)
    matrices = _matrices(opened.dataset, chosen, known, kept)
    changes = tuple(
        _change(
            opened.dataset[name],
            name,
            lying,
            named,
            Multiplying(matrices[name], Form.PLAIN, rule, least),
        )
        for name, lying in chosen.items()
    )
    what = f"regrid of {', '.join(chosen)}"
    coordinates = _centres(known, named)
    for change in changes:
        coordinates |= coordinates_within(opened.dataset[change.result], change.batch)
    frame = xr.Dataset(coords=coordinates)
    request = Request(
        opened=opened,
        changes=changes,
        sizes=_sizes(opened.dataset, changes, dict(zip(named, known.target.shape, strict=True))),
        frame=with_history(frame, opened.dataset, what),
        chunks=execution.block_sizes,
        output=execution.place,
        what=what,
    )
    return execution.run_job(partial(change_job, request), "there is one pass")


def _chosen(
    dataset: xr.Dataset,
    weights: Weights,
    variables: Sequence[str] | None,
    dims: Sequence[str] | None,
) -> dict[str, tuple[str, ...]]:
    """Return the variables to regrid, each with its dimensions on the source grid."""
    names = [str(name) for name in dataset.data_vars]
    chosen: dict[str, tuple[str, ...]] = {}
    for name in names if variables is None else variables:
        if name not in names:
            raise FieldError(f"The dataset has no variable '{name}'.", hint=near(name, names))
        if variables is None and not is_distinct(dataset, name):
            continue
        array = variable_of(dataset, name)
        lying = _on_grid(array, weights, dims)
        fits = lying is not None and array.dtype.name in _TYPES
        if lying is not None and fits:
            chosen[name] = lying
        elif variables is not None:
            raise FieldError(
                f"Variable '{name}' cannot be regridded: expected float32 or float64 on a grid of"
                f" {_by(weights.source.shape)} cells, got '{array.dtype}' with the dimensions"
                f" {dict(array.sizes)}.",
                hint=hint_of_conversion(array, "Name the dimensions of the grid with dims=."),
            )
    if not chosen:
        raise FieldError(
            "The dataset has no variable of type float32 or float64 on a grid of"
            f" {_by(weights.source.shape)} cells, for which the weights were made; its dimensions"
            f" are {dict(dataset.sizes)}.",
            hint=hint_of_packed(dataset.data_vars.values())
            or "Make weights for the grid of the dataset, whose sizes stand in 'src_grid_dims', the"
            " fastest one first; or name its dimensions with dims=.",
        )
    return chosen


def _on_grid(
    array: xr.DataArray, weights: Weights, dims: Sequence[str] | None
) -> tuple[str, ...] | None:
    """Return the dimensions of a variable on the source grid, in the order of the grid.

    Raises `FieldError` if they are ambiguous.
    """
    if dims is not None:
        return _as_named(array, weights, tuple(dims))
    shape = weights.source.shape
    # Files of unstructured grids may say N x 1.
    shapes = dict.fromkeys((shape, tuple(size for size in shape if size > 1)))
    return next((dims for one in shapes if (dims := _fitting(array, one))), None)


def _fitting(array: xr.DataArray, shape: tuple[int, ...]) -> tuple[str, ...] | None:
    own = tuple(str(dim) for dim in array.dims)
    rank = len(shape)
    windows = [own[at : at + rank] for at in range(len(own) - rank + 1)] if rank else []
    fitting = [window for window in windows if _sizes_of(array, window) == shape]
    known = horizontal_dims(array) if rank == 2 else None
    if known is not None:
        ways = [way for way in (known, known[::-1]) if _sizes_of(array, way) == shape]
        return ways[0] if ways else None
    if len(fitting) > 1:
        shown = " or ".join(f"({', '.join(window)})" for window in fitting)
        raise FieldError(
            f"The grid of {_by(shape)} cells could be {shown} of variable"
            f" '{array.name}' with the dimensions {dict(array.sizes)}.",
            hint=f"Say which with dims={list(fitting[0])!r}.",
        )
    return fitting[0] if fitting else None


def _as_named(
    array: xr.DataArray, weights: Weights, dims: tuple[str, ...]
) -> tuple[str, ...] | None:
    """Return the given dimensions if a variable has them and their sizes fit, otherwise None."""
    if not {*dims} <= {str(dim) for dim in array.dims}:
        return None
    sizes = _sizes_of(array, dims)
    return dims if math.prod(sizes) == math.prod(weights.source.shape) else None


def _sizes_of(array: xr.DataArray, dims: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(int(array.sizes[dim]) for dim in dims)


def _matrices(
    dataset: xr.Dataset,
    chosen: Mapping[str, tuple[str, ...]],
    known: Weights,
    plans: PlanCache,
) -> dict[str, Sparse]:
    """Return the matrix of each variable, in the order of its cells.

    Raises `FieldError` if the cells of a variable differ from those of the weights.
    """
    used = known.used()
    by_centres: dict[tuple[object, ...], Sparse] = {}
    matrices: dict[str, Sparse] = {}
    for name, dims in chosen.items():
        coordinates = coordinates_in(dataset, dataset[name], dims)
        key = (dims, *(item.name for item in coordinates.values()))
        if key not in by_centres:
            shape = _sizes_of(dataset[name], dims)
            order = order_of(name, dims, coordinates, shape, known.source, used)
            by_centres[key] = known.matrix if order is None else known.in_order(order, plans)
        matrices[name] = by_centres[key]
    return matrices


def _target_dims(
    array: xr.DataArray, source: tuple[str, ...], weights: Weights, named: Sequence[str] | None
) -> tuple[str, ...]:
    rank = len(weights.target.shape)
    if named is not None:
        if len(named) != rank:
            raise ArgumentError(
                f"Argument 'target_dims' must name {rank} dimensions, got {list(named)!r}."
            )
        return tuple(named)
    if len(source) == rank:
        horizontal, axis = horizontal_dims(array), weights.target.latitude_axis()
        if horizontal is None or axis is None or {*horizontal} != {*source}:
            return source
        return horizontal[::-1] if axis else horizontal
    return {1: ("cell",), 2: ("y", "x")}.get(rank, tuple(f"axis_{n}" for n in range(rank)))


def _change(
    array: xr.DataArray,
    name: str,
    lying: tuple[str, ...],
    named: tuple[str, ...],
    operation: Multiplying,
) -> Change:
    """Return the output variable; the target's dimensions replace the source's first one."""
    own = tuple(str(dim) for dim in array.dims)
    rest = tuple(dim for dim in own if dim not in lying)
    place = min(own.index(dim) for dim in lying)
    before = [dim for dim in own[:place] if dim in rest]
    dims = (*before, *named, *(dim for dim in rest if dim not in before))
    if len(set(dims)) < len(dims):
        raise FieldError(
            f"The result '{name}' would have the dimensions {dims}, one of them twice.",
            hint="Name others with target_dims=.",
        )
    return Change(
        variables=(name,),
        result=name,
        dtype=array.dtype.name,
        own=own,
        batch=rest,
        taken=lying,
        values=(),
        made=named,
        dims=dims,
        operation=operation,
        attributes=array.attrs,
    )


def _sizes(
    dataset: xr.Dataset, changes: Sequence[Change], made: Mapping[str, int]
) -> dict[str, int]:
    """Return the sizes of all dimensions of the results; those in `made` are new."""
    sizes = dict(made)
    for change in changes:
        for dim in change.batch:
            size = int(dataset.sizes[dim])
            if sizes.setdefault(dim, size) != size:
                raise FieldError(
                    f"The dimension '{dim}' of '{change.result}' has {size} points, and that of"
                    f" the target grid {sizes[dim]}.",
                    hint="Name others with target_dims=.",
                )
    return sizes


def _centres(weights: Weights, named: tuple[str, ...]) -> dict[str, xr.DataArray]:
    """Return latitude and longitude, one-dimensional for a rectilinear grid."""
    centres = weights.target
    if centres.latitude is None or centres.longitude is None:
        return {}
    latitude = centres.latitude.reshape(centres.shape)
    longitude = centres.longitude.reshape(centres.shape)
    lat_attrs = {"standard_name": "latitude", "units": "degrees_north"}
    lon_attrs = {"standard_name": "longitude", "units": "degrees_east"}
    if (
        latitude.ndim == 2
        and (latitude == latitude[:, :1]).all()
        and (longitude == longitude[:1]).all()
    ):
        return {
            named[0]: xr.DataArray(latitude[:, 0], dims=named[0], attrs=lat_attrs),
            named[1]: xr.DataArray(longitude[0], dims=named[1], attrs=lon_attrs),
        }
    return {
        "latitude": xr.DataArray(latitude, dims=named, attrs=lat_attrs),
        "longitude": xr.DataArray(longitude, dims=named, attrs=lon_attrs),
    }


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
