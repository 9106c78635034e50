"""Writing values of memory to a Zarr store, from which they open as they are."""

from __future__ import annotations

import itertools
import warnings
from typing import Any, cast

import numpy as np
import pandas as pd  # pyright: ignore[reportMissingTypeStubs] - it has none
import xarray as xr

from halocline_engine.datasets.storing.attributes import (
    drop_decoding_attributes,
    first_value,
    is_time,
    json_form,
)
from halocline_engine.datasets.storing.marker import Marker, time_coder, time_type
from halocline_engine.datasets.untyped import store_dataset

__all__ = ["is_in_memory", "load_objects", "store_values"]

_XARRAY: Any = xr
_PANDAS: Any = pd
#: Encodings that name other variables, which belong to what a variable means.
_REFERENCES = (
    *("bounds", "grid_mapping", "climatology", "geometry", "node_coordinates", "node_count"),
    *("part_node_count", "interior_ring", "cell_measures", "formula_terms"),
)
_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def store_values(dataset: xr.Dataset, path: Any, **options: Any) -> None:
    """Write a dataset of memory to a new store, from which it opens as it is.

    `path` is one, or a store of Zarr's. Encodings of a source are dropped, but for references and
    for units of times that lose nothing.
    """
    with warnings.catch_warnings():
        # Zarr warns of types that its third format does not specify yet, xarray of coordinates
        # that the marker lists.
        warnings.simplefilter("ignore")
        store_dataset(_prepared(dataset), path, **options)


def _prepared(dataset: xr.Dataset) -> xr.Dataset:
    kept, _ = drop_decoding_attributes(dataset)
    plain: Any = cast("Any", kept).drop_encoding()
    for name, variable in cast("Any", dataset).variables.items():
        references = {k: v for k, v in variable.encoding.items() if k in _REFERENCES}
        attributes = {**references, **plain[name].attrs}
        plain[name].attrs = {key: json_form(value) for key, value in attributes.items()}
        plain[name].encoding.update(_encoding(plain.variables[name], variable.encoding))
    plain.attrs = {key: json_form(value) for key, value in plain.attrs.items()}
    return _with_wide_characters(plain).assign_attrs(Marker.for_dataset(plain).attributes)


def load_objects(dataset: xr.Dataset) -> xr.Dataset:
    """Return a dataset with its objects and times in memory, whose encoding depends on values."""
    loaded: Any = cast("Any", dataset).copy()
    for name, variable in loaded.variables.items():
        if variable.dtype.kind in "OMm":
            loaded[name] = loaded[name].compute()
    return loaded


def is_in_memory(array: Any) -> bool:
    """Whether values are in memory, where a part of them is no copy."""
    first = (slice(0, 1),) * array.ndim
    one, other = (array[first].data for _ in range(2))
    return type(one) is type(other) is np.ndarray and np.shares_memory(one, other)


def _encoding(variable: Any, source: dict[str, Any]) -> dict[str, Any]:
    """Return the encoding that keeps the values of a variable; `source` is that of its source."""
    if is_time(variable):
        return _time_encoding(variable, source)
    if variable.dtype == np.dtype("O"):
        return _text_encoding(variable)
    # NaN is a value like others: xarray need not look for it.
    return {"_FillValue": None} if variable.dtype.kind == "f" else {}


def _time_encoding(variable: Any, source: dict[str, Any]) -> dict[str, Any]:
    """Return units of times that lose nothing: those of the source, xarray's or the finest."""
    if not is_in_memory(variable):
        return {}
    units = {key: source[key] for key in ("units", "calendar") if key in source}
    kind = variable.dtype.str.partition("[")[2].rstrip("]")
    finest = {"units": f"{_UNITS.get(kind, 'microseconds')} since 1970-01-01", "dtype": "int64"}
    exact = filter(None, (_exact(variable, one) for one in (units, {}, finest)))
    return next(exact, units)


def _exact(variable: Any, encoding: dict[str, Any]) -> dict[str, Any] | None:
    """Return the encoding with which times come back as they are, None where they do not.

    It names the type of fractions, of which xarray would warn.
    """
    coding, trial = _XARRAY.conventions, variable.copy(deep=False)
    trial.encoding = encoding
    trial.attrs = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            coder = time_coder(time_type(variable))
            encoded = coding.encode_cf_variable(trial)
            if not coding.decode_cf_variable("", encoded, decode_times=coder).equals(trial):
                return None
    except Exception:  # whatever units of a source are
        return None
    units = {key: encoded.attrs[key] for key in ("units", "calendar") if key in encoded.attrs}
    return {**units, "dtype": "float64"} if encoded.dtype.kind == "f" else {**encoding, **units}


def _is_bytes(variable: Any) -> bool:
    """Whether a variable has objects that are bytes."""
    is_first = isinstance(first_value(variable), bytes)
    return is_first and not _PANDAS.isnull(variable.values).any()


def _text_encoding(variable: Any) -> dict[str, Any]:
    """Return what stands for missing texts: the empty one, or the first one that is no value."""
    values = variable.values.ravel()
    missing = _PANDAS.isnull(values)
    texts = [text for text in values[~missing] if isinstance(text, str)]
    if not missing.any() or not texts or len(texts) < np.count_nonzero(~missing):
        return {}
    candidates = itertools.chain([""], (f"missing {number}" for number in itertools.count()))
    return {"missing_value": next(text for text in candidates if text not in texts)}


def _with_wide_characters(dataset: xr.Dataset) -> xr.Dataset:
    """Return a dataset in which single characters have room for two, where xarray joins them."""
    names = [name for name, one in dataset.variables.items() if _is_bytes(one)]
    dataset = dataset.assign({name: cast("Any", dataset[name]).astype("S") for name in names})
    opened = _XARRAY.decode_cf(
        dataset, mask_and_scale=False, decode_times=False, decode_coords=False
    )
    joined = [name for name, one in dataset.variables.items() if opened[name].dims != one.dims]
    return dataset.assign({name: cast("Any", dataset[name]).astype("S2") for name in joined})
