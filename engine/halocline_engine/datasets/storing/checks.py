"""Storability of values in memory, checked before any work.

Names, types and attributes are tried in a store in memory. Of what is computed, or read from
elsewhere, nothing is touched.
"""

from __future__ import annotations

import functools
import inspect
import reprlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import xarray as xr

from halocline_engine.datasets.storing.array_names import hint_of_name, storable
from halocline_engine.datasets.storing.attributes import LeftOut, is_time, json_form
from halocline_engine.datasets.storing.opening import open_zarr
from halocline_engine.datasets.storing.writing import is_in_memory, store_values
from halocline_engine.datasets.untyped import ZARR

__all__ = ["Refuse", "check_storable", "check_values", "warn_of_left_out"]

#: Makes an error of a sentence and a `hint`.
Refuse = Callable[..., Exception]

_XARRAY: Any = xr
_OWN = ("halocline", "halocline_engine", "halocline_service")
_RENAME = "Rename or drop it before the run."
_CONVERT = "Convert them to numbers or texts, or drop it, before the run."
_FAILURES = (NotImplementedError, TypeError, ValueError)


def check_storable(dataset: xr.Dataset, refuse: Refuse) -> None:
    """Raise what `refuse` makes where a store cannot hold a dataset of memory as it is."""
    for name, variable in dataset.variables.items():
        what = _named(dataset, name)
        if not isinstance(name, str) or not storable(name):
            raise refuse(
                f"{what} cannot be stored, as its name is not a valid array name.",
                hint=hint_of_name(str(name), _RENAME),
            )
        _check_type(what, variable, refuse)
    for name, index in cast("Any", dataset.xindexes).items():
        if isinstance(index, xr.indexes.PandasMultiIndex):
            raise refuse(
                f"The coordinate '{name}' is part of a MultiIndex, which no store can hold.",
                hint=f"Take it apart with reset_index('{index.dim}') before the run; set_index puts"
                " it together again.",
            )
    _check_attributes("the dataset", dataset.attrs, refuse)
    for name, variable in dataset.variables.items():
        _check_attributes(f"'{name}'", variable.attrs, refuse)
    check_values(dataset, refuse)


def check_values(dataset: xr.Dataset, refuse: Refuse) -> None:
    """Raise what `refuse` makes where objects or times in memory would come back as others."""
    for name, variable in cast("Any", dataset).variables.items():
        kind = variable.dtype.kind
        if kind not in "OMm" or not is_in_memory(variable):
            continue
        if not _comes_back(name, variable):
            times = "times that" if kind in "Mm" or is_time(variable) else "values that"
            raise refuse(
                f"{_named(dataset, name)} has {times} would come back from a store as others.",
                hint=_CONVERT,
            )


def warn_of_left_out(left_out: LeftOut) -> None:
    """Warn the caller of the attributes by which xarray would decode what is stored."""
    if not left_out:
        return
    parts = [
        f"{', '.join(map(repr, attributes))} of {'the dataset' if name is None else repr(name)}"
        for name, attributes in left_out.items()
    ]
    warnings.warn(
        "Attributes by which xarray would change values on opening are left out of the store:"
        f" {'; '.join(parts)}. Memory holds values; decode them with xarray.decode_cf first if"
        " these are still encoded.",
        UserWarning,
        stacklevel=_depth_of_caller(),
    )


def _depth_of_caller() -> int:
    """Return how many frames up from the caller of this function code of the user is."""
    frame, depth = inspect.currentframe(), 0
    while frame is not None and frame.f_globals["__name__"].partition(".")[0] in _OWN:
        frame, depth = frame.f_back, depth + 1
    return depth


def _named(dataset: xr.Dataset, name: object) -> str:
    return f"The {'coordinate' if name in dataset.coords else 'variable'} {name!r}"


def _check_type(what: str, variable: Any, refuse: Refuse) -> None:
    kind = cast("object", variable.dtype)
    if not isinstance(kind, np.dtype) or not _has_type(cast("np.dtype[Any]", kind)):
        raise refuse(f"{what} has values of type '{kind}', which no store can hold.", hint=_CONVERT)
    if variable.dtype.kind == "O" and is_in_memory(variable):
        _check_objects(what, variable, refuse)


@functools.cache
def _has_type(dtype: np.dtype[Any]) -> bool:
    """Whether a store has a type; records have none that every reader knows."""
    return dtype.kind == "O" or (dtype.kind != "V" and _can_store(np.zeros(1, dtype)))


def _check_objects(what: str, variable: Any, refuse: Refuse) -> None:
    """Try one value of each type: whether they have a type of a store depends on these."""
    values: dict[str, Any] = {}
    for value in variable.values.flat:
        values.setdefault(type(value).__name__, value)
    some = np.empty(len(values), object)
    some[:] = list(values.values())
    if not _can_store(some):
        kinds = [f"'{kind}'" for kind in sorted(values)]
        said = f"of type {kinds[0]}" if len(kinds) == 1 else f"of the types {', '.join(kinds)}"
        raise refuse(f"{what} has values {said}, which no store can hold.", hint=_CONVERT)


def _can_store(values: np.ndarray[Any, Any]) -> bool:
    try:
        _stored(_XARRAY.Dataset({"value": ("n", values)}))
    except _FAILURES:
        return False
    return True


def _comes_back(name: object, variable: Any) -> bool:
    """Whether a variable opens from a store with the same values."""
    bare = _XARRAY.Variable(variable.dims, variable.data, encoding=variable.encoding)
    try:
        store = _stored(_XARRAY.Dataset({name: bare}))
    except _FAILURES as error:  # which has no name
        raise ValueError(str(error).replace("variable None", f"variable {name!r}")) from error
    opened = open_zarr(store, consolidated=False)
    return bool(_as_texts(opened[name].variable).equals(_as_texts(bare)))


def _as_texts(variable: Any) -> Any:
    """Return objects with bytes as texts: in a store both are the same where they are mixed."""
    if variable.dtype.kind not in "OS":
        return variable
    values = np.empty(variable.shape, object)
    for at, value in np.ndenumerate(variable.values):
        values[at] = value.decode("latin-1") if isinstance(value, bytes) else value
    return variable.copy(data=values)


def _stored(dataset: xr.Dataset) -> Any:
    store = ZARR.storage.MemoryStore()
    store_values(dataset, store)
    return store


def _check_attributes(what: str, attributes: Mapping[Any, Any], refuse: Refuse) -> None:
    for name, value in attributes.items():
        try:
            json_form({name: value})
        except TypeError as error:
            raise refuse(
                f"The attribute {name!r} of {what} cannot be stored, as it is"
                f" {reprlib.repr(value)}, the {type(value).__name__}.",
                hint="Use texts as names, and texts, numbers or lists of them as values.",
            ) from error
