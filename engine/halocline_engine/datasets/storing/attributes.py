"""Attributes that a store keeps: those of JSON by which xarray changes nothing on opening.

Memory holds values, and attributes by which xarray decodes may be left on them: xarray keeps
attributes in arithmetic. In a store they would have the values decoded once more. xarray's own
rules tell which ones these are: an attribute that its decoder consumes, or that its encoder needs
for itself, cannot stay.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

import numpy as np
import pandas as pd  # pyright: ignore[reportMissingTypeStubs] - it has none
import xarray as xr

from halocline_engine.datasets.untyped import ZARR

__all__ = ["LeftOut", "drop_decoding_attributes", "first_value", "is_time", "json_form"]

#: Attributes that are left out, by their variable; those of the dataset are under None.
LeftOut = Mapping[str | None, tuple[str, ...]]

#: Bytes of the longest numbers of JSON.
_LONGEST = 8
_XARRAY: Any = xr
_PANDAS: Any = pd


def json_form(value: object) -> Any:
    """Return an attribute as JSON has it; raises `TypeError` where it would come back as another.

    >>> json_form(np.arange(2)), json_form((1, "a")), json_form({"a": np.float32(0.5)})
    ([0, 1], [1, 'a'], {'a': 0.5})
    """
    if isinstance(value, np.ndarray | np.generic):
        return json_form(_python_form(value))
    match value:
        case None | str() | bool() | int() | float():
            return value
        case list() | tuple():
            return [json_form(one) for one in cast("list[object]", value)]
        case dict() if all(isinstance(name, str) for name in cast("dict[object, object]", value)):
            return {name: json_form(one) for name, one in cast("dict[str, object]", value).items()}
        case _:
            raise TypeError(type(value))


def _python_form(array: Any) -> Any:
    """Return an array or a number of NumPy's as Python's."""
    kind, size = array.dtype.kind, array.dtype.itemsize
    if kind not in "biufUO" or (kind == "f" and size > _LONGEST):
        raise TypeError(array.dtype)
    return array.tolist()


def drop_decoding_attributes(dataset: xr.Dataset) -> tuple[xr.Dataset, LeftOut]:
    """Return a dataset without the attributes by which xarray would decode it, and their names."""
    plain = cast("Any", dataset).copy()
    left_out: dict[str | None, tuple[str, ...]] = {
        str(name): (*_decoding(variable), *_bounds(dataset, variable))
        for name, variable in plain.variables.items()
        if variable.attrs
    }
    left_out[None] = _hidden(dataset.attrs)
    for name, attributes in left_out.items():
        owner = plain if name is None else plain[name]
        for attribute in dict.fromkeys(attributes):
            del owner.attrs[attribute]
    return plain, {name: attributes for name, attributes in left_out.items() if attributes}


def is_time(variable: Any) -> bool:
    """Whether a variable holds dates, of NumPy or of cftime."""
    return variable.dtype.kind == "M" or hasattr(first_value(variable), "calendar")


def first_value(variable: Any) -> object:
    """Return the first object that is not missing; None where there is none."""
    if variable.dtype != np.dtype("O") or not variable.size:
        return None
    first = variable[(0,) * variable.ndim].values.item()
    if not np.any(_PANDAS.isnull(first)):
        return first
    values = variable.values.ravel()
    return next(iter(values[~_PANDAS.isnull(values)]), None)


def _decoding(variable: Any) -> tuple[str, ...]:
    """Return the attributes of a variable that xarray consumes on opening, or writes itself.

    Units of times that it cannot decode are none of them.
    """
    attributes: dict[str, Any] = dict(variable.attrs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoded = _XARRAY.conventions.encode_cf_variable(_sample(variable))
        written = encoded.attrs
        for decode_times in (True, False):
            with suppress(Exception):  # decoders raise whatever values of attributes make them
                kept = _decoded(encoded, {**attributes, **written}, decode_times)
                return tuple(name for name in attributes if name not in kept or name in written)
        # One of them has a value that has no meaning to xarray.
        return tuple(
            name
            for name, value in attributes.items()
            if name in written or not _is_kept(encoded, {name: value})
        )


def _is_kept(encoded: Any, attribute: Mapping[str, Any]) -> bool:
    """Whether xarray opens a variable with an attribute, and leaves it there."""
    try:
        return {*attribute} <= {*_decoded(encoded, attribute, decode_times=False)}
    except Exception:
        return False


def _decoded(encoded: Any, attributes: Mapping[str, Any], decode_times: bool) -> dict[str, Any]:
    """Return the attributes that are left when xarray has decoded a variable."""
    plain = {name: json_form(value) for name, value in attributes.items()}
    stored = _XARRAY.Dataset({"value": (encoded.dims, encoded.data, plain)})
    return _XARRAY.decode_cf(stored, decode_times=decode_times)["value"].attrs


def _sample(variable: Any) -> Any:
    """Return a variable with one value of the type of another one."""
    values = np.zeros(1, variable.dtype)
    if variable.dtype == np.dtype("O"):
        # Objects are stored as what they are, and missing ones as NaN.
        first = first_value(variable)
        values = np.array([np.nan if first is None else first])
    if values.dtype.kind in "SUT":
        # xarray decodes digits as times, and finds text among them only when it reads all values.
        values = np.array(["0"]).astype(values.dtype)
    return _XARRAY.Variable(("n",), values)


def _bounds(dataset: xr.Dataset, variable: Any) -> tuple[str, ...]:
    """Return `bounds` of times that name numbers, which xarray would take for times as well."""
    target = dataset.variables.get(str(variable.attrs.get("bounds")))
    is_taken = target is not None and is_time(variable) and not is_time(target)
    return ("bounds",) if is_taken else ()


def _hidden(attributes: Mapping[Any, Any]) -> tuple[str, ...]:
    """Return the attributes of a dataset that xarray does not show when it opens a store."""
    if not attributes:
        return ()
    store = ZARR.storage.MemoryStore()
    plain = {name: json_form(value) for name, value in attributes.items()}
    _XARRAY.Dataset(attrs=plain).to_zarr(store, zarr_format=3, consolidated=False)
    shown = _XARRAY.open_zarr(store, consolidated=False).attrs
    return tuple(name for name in attributes if name not in shown)
