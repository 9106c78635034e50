"""Opening what is stored: xarray's decoding, where it can.

Times that xarray cannot decode, such as `months since`, make a whole file unreadable for it. Here
they stay numbers with their units, and everything else is decoded.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import xarray as xr

from halocline_engine.datasets.storing.marker import Marker
from halocline_engine.datasets.untyped import ZARR

__all__ = ["ValuesNeeded", "open_stored", "open_zarr"]

_XARRAY: Any = xr
_NONE = Marker()


class ValuesNeeded(Exception):
    """Values are asked for of which only the outline is known."""


def open_zarr(store: Any, **options: Any) -> xr.Dataset:
    """Open a Zarr store lazily; see `open_stored`."""
    attributes: dict[str, Any] = {}
    with suppress(Exception):  # xarray says what is wrong with the store
        form = options.get("zarr_format")
        attributes = dict(ZARR.open_group(store, mode="r", zarr_format=form).attrs)
    marker = Marker.of(attributes)
    return marker.applied(open_stored(store, marker, engine="zarr", chunks=None, **options))


def open_stored(store: Any, marker: Marker = _NONE, **options: Any) -> xr.Dataset:
    """Open a dataset as `xarray.open_dataset` does, to which `options` go.

    Raises what that raises where something else than times cannot be decoded.
    """
    coders = marker.time_coders()
    open_with = functools.partial(_XARRAY.open_dataset, store, **options)
    try:
        return open_with(decode_times=coders or True)
    except Exception:  # whatever xarray raises
        plain = open_with(decode_times=False)
        numbers = _undecodable(plain)
        if not numbers:
            raise
        return _open_but_times(open_with, plain, {**coders, **numbers})


def _undecodable(plain: xr.Dataset) -> dict[str, Any]:
    """Return the variables that cannot be decoded as times with False.

    Bounds without units are decoded with those of their times.
    """
    names: list[str] = []
    for name, variable in plain.variables.items():
        bounds = str(variable.attrs.get("bounds"))
        if not _is_decodable(plain, str(name)):
            own = bounds in plain.variables and "units" in plain[bounds].attrs
            names += [str(name)] if own else [str(name), bounds]
        elif bounds in plain.variables and not _is_decodable(plain, str(name), bounds):
            names.append(bounds)
    return dict.fromkeys(names, False)


def _is_decodable(plain: xr.Dataset, *names: str) -> bool:
    variables = {name: cast("Any", plain).variables[name].copy() for name in names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            _XARRAY.decode_cf(_XARRAY.Dataset(variables))
        except Exception:
            return False
    return True


def _open_but_times(
    open_with: Callable[..., xr.Dataset], plain: xr.Dataset, decode_times: dict[str, Any]
) -> xr.Dataset:
    """Return the dataset with some times as numbers; xarray adds attributes to bounds of times."""
    opened: Any = open_with(decode_times=decode_times)
    for name, is_decoded in decode_times.items():
        if name in opened.variables and is_decoded is False:
            opened[name].attrs = dict(plain[name].attrs)
    return opened
