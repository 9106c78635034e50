"""Outlines of datasets: names, dimensions, types, attributes and short coordinates.

An outline is JSON, so that a request can be checked where the dataset is not.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, NoReturn, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.datasets.storing.opening import ValuesNeeded
from halocline_engine.errors import DatasetError

__all__ = ["needs_values", "outline_of", "outlined", "without_values"]

_LONGEST = 1000  # characters of an attribute; longer ones name no axis and no grid
_LONGEST_AXIS = 1000
_MOST_DIMENSIONS = 32


def needs_values(error: BaseException) -> bool:
    """Say whether an error comes from values that an outline does not have."""
    return any(isinstance(each, ValuesNeeded) for each in _chain(error))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def outline_of(dataset: xr.Dataset) -> dict[str, Any]:
    """Return the outline of a dataset as JSON; no value is read.

    >>> outline_of(xr.Dataset({"t": (("y", "x"), [[1.0, 2.0]], {"units": "K"})}))["variables"]
    {'t': {'dims': ['y', 'x'], 'shape': [1, 2], 'dtype': 'float64', 'attrs': {'units': 'K'}}}
    """
    return {
        "variables": {
            str(name): {
                "dims": [str(dim) for dim in variable.dims],
                "shape": [int(size) for size in variable.shape],
                "dtype": _named(cast("Any", variable).dtype),
                "attrs": _plain(variable.attrs),
                **(
                    {"values": _numbers(axis)} if (axis := _axis(dataset, name)) is not None else {}
                ),
            }
            for name, variable in dataset.variables.items()
        },
        "coordinates": [str(name) for name in dataset.coords],
        "attrs": _plain(dataset.attrs),
    }


def outlined(outline: Mapping[str, Any]) -> xr.Dataset:
    """Return the dataset of an outline; raises `DatasetError` where it is none."""
    try:
        variables = {str(name): _variable(one) for name, one in dict(outline["variables"]).items()}
        names = {str(name) for name in outline["coordinates"]}
        return _dataset(variables, names, dict(outline["attrs"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DatasetError(
            f"The outline of a dataset cannot be read: {error}.",
            hint="It has 'variables', each with 'dims', 'shape', 'dtype' and 'attrs', "
            "'coordinates' and 'attrs'.",
        ) from error


def without_values(dataset: xr.Dataset) -> xr.Dataset:
    """Return a dataset of the same outline; other values than those in it cannot be read."""
    variables: dict[str, xr.Variable] = {}
    for name, one in dataset.variables.items():
        axis = _axis(dataset, name)
        data = _lazy(one.shape, cast("Any", one).dtype) if axis is None else axis
        variables[str(name)] = xr.Variable(one.dims, data, one.attrs, one.encoding)
    return _dataset(variables, {str(name) for name in dataset.coords}, dataset.attrs)


def _dataset(
    variables: Mapping[str, xr.Variable], coordinates: set[str], attrs: Mapping[str, Any]
) -> xr.Dataset:
    coords = {name: one for name, one in variables.items() if name in coordinates}
    data = {name: one for name, one in variables.items() if name not in coordinates}
    return xr.Dataset(data, xr.Coordinates(coords, indexes={}), attrs)  # no index reads its values


def _variable(outline: Mapping[str, Any]) -> xr.Variable:
    dims, shape = [str(dim) for dim in outline["dims"]], [int(size) for size in outline["shape"]]
    if len(dims) > _MOST_DIMENSIONS or any(size < 0 for size in shape):
        raise ValueError("a shape is impossible")
    dtype = np.dtype(str(outline["dtype"]))
    if "values" in outline:
        data = np.asarray(outline["values"], dtype).reshape(shape)
    else:
        data = _lazy(tuple(shape), dtype)
    return xr.Variable(dims, data, outline["attrs"])


def _axis(dataset: xr.Dataset, name: Hashable) -> NDArray[Any] | None:
    """Return a short coordinate along its own dimension, of numbers or dates that are in memory."""
    if name not in dataset.indexes or name not in dataset.dims:
        return None
    values = dataset[name].values
    is_short = values.size <= _LONGEST_AXIS and values.dtype.kind in "iufM"
    return values if is_short and bool(np.isfinite(values).all()) else None


def _numbers(axis: NDArray[Any]) -> list[Any]:
    """Return numbers as JSON has them; dates are those since 1970."""
    return (axis.astype(np.int64) if axis.dtype.kind == "M" else axis).tolist()


def _named(dtype: np.dtype[Any]) -> str:
    """Return the name by which NumPy knows a type; others hold objects."""
    try:
        return str(np.dtype(str(dtype)))
    except TypeError:
        return "object"


def _lazy(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    from xarray.core.indexing import LazilyIndexedArray

    return cast("Any", LazilyIndexedArray)(_Unknown(shape, dtype))


class _Unknown(cast("type[Any]", cast("Any", xr).backends.BackendArray)):
    """An array of which everything but its values is known."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape = shape
        self.dtype = dtype

    def __getitem__(self, key: object) -> NoReturn:
        raise ValuesNeeded("Only the outline of the dataset is known.")


def _plain(attrs: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the attributes that JSON carries."""
    held = {str(name): _json(value) for name, value in attrs.items()}
    return {name: value for name, value in held.items() if value is not None}


def _json(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = cast("Any", value).tolist()
    match value:
        case str():
            return value if len(value) <= _LONGEST else None
        case bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else None
        case list() | tuple():
            items = [_json(one) for one in cast("list[Any]", value)[:16]]
            return None if None in items else items
        case _:
            return None
