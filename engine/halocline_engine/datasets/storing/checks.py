"""Storability of a result with its coordinates and attributes, checked before any work.

Names, types and attributes are tried in a store in memory, with one value of each type, so that
nothing of the dataset is read.
"""

from __future__ import annotations

import reprlib
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np
import xarray as xr

from halocline_engine.datasets.untyped import ZARR, store_dataset
from halocline_engine.errors import OutputError

__all__ = ["check_frame", "not_storable"]

_CONVERT = "Convert them to numbers or texts, or drop it, before the run."


def check_frame(frame: xr.Dataset, attributes: Iterable[Mapping[str, Any]]) -> None:
    """Raise `OutputError` where the result without its variables cannot be stored.

    `attributes` are those of the variables.
    """
    for name in frame.variables:
        _check_name(name)
        _check_type(str(name), frame[name])
    for name, index in cast("Any", frame.xindexes).items():
        if isinstance(index, xr.indexes.PandasMultiIndex):
            raise OutputError(
                f"The coordinate '{name}' is part of a MultiIndex, which no store can hold.",
                hint=f"Take it apart with reset_index('{index.dim}') before the run; set_index puts"
                " it together again.",
            )
    _check_attributes("the dataset", frame.attrs)
    for name in frame.variables:
        _check_attributes(f"'{name}'", frame[name].attrs)
    for one in attributes:
        _check_attributes("a result", one)


def not_storable(error: Exception) -> OutputError:
    """Return the error for coordinates that a library refuses when they are written."""
    return OutputError(
        f"The coordinates and attributes cannot be stored as Zarr: {str(error).rstrip('. ')}.",
        hint="Drop or convert them before the run.",
    )


def _check_name(name: object) -> None:
    if isinstance(name, str) and name not in ("", ".", "..", "zarr.json") and "/" not in name:
        return
    raise OutputError(
        f"The coordinate {name!r} cannot be stored, as its name is no name of an array in a store.",
        hint="Rename or drop it before the run.",
    )


def _check_type(name: str, array: xr.DataArray) -> None:
    kind = cast("object", array.dtype)
    if not isinstance(kind, np.dtype):
        raise OutputError(
            f"The coordinate '{name}' has values of type '{kind}', which no store can hold.",
            hint=_CONVERT,
        )
    if kind.kind == "O" and _is_here(array):
        _check_objects(name, array)


def _check_objects(name: str, array: xr.DataArray) -> None:
    """Try one value of each type: whether they have a type of a store depends on these."""
    values: dict[str, Any] = {}
    for value in array.values.flat:
        values.setdefault(type(value).__name__, value)
    some = np.empty(len(values), object)
    some[:] = list(values.values())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            store_dataset(xr.Dataset({name: ("some", some)}), ZARR.storage.MemoryStore())
    except (NotImplementedError, TypeError, ValueError) as error:
        kinds = [f"'{kind}'" for kind in sorted(values)]
        said = f"of type {kinds[0]}" if len(kinds) == 1 else f"of the types {', '.join(kinds)}"
        raise OutputError(
            f"The coordinate '{name}' has values {said}, which no store can hold.", hint=_CONVERT
        ) from error


def _is_here(array: xr.DataArray) -> bool:
    """Whether values are in memory, where a part of them is no copy."""
    first = (slice(0, 1),) * array.ndim
    variable = cast("Any", array.variable)
    one, other = (variable[first].data for _ in range(2))
    return type(one) is type(other) is np.ndarray and np.shares_memory(one, other)


def _check_attributes(what: str, attributes: Mapping[Any, Any]) -> None:
    """Try each attribute that is more than a text or a number."""
    for name, value in attributes.items():
        if isinstance(name, str) and isinstance(value, (str, int, float)):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                store_dataset(xr.Dataset(attrs={name: value}), ZARR.storage.MemoryStore())
        except (TypeError, ValueError) as error:
            raise OutputError(
                f"The attribute {name!r} of {what} cannot be stored, as it is"
                f" {reprlib.repr(value)}, the {type(value).__name__}.",
                hint="Use texts as names, and texts, numbers or lists of them as values.",
            ) from error
