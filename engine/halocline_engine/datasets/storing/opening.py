"""Opening what is stored: xarray's decoding, where it can.

Times that xarray cannot decode, such as `months since`, make a whole file unreadable for it. Here
they stay numbers with their units, and everything else is decoded.
"""

from __future__ import annotations

from typing import Any, cast

import xarray as xr

from halocline_engine.datasets.storing.marker import Marker

__all__ = ["decode", "open_zarr"]

_XARRAY: Any = xr


def open_zarr(store: Any, **options: Any) -> xr.Dataset:
    """Open a Zarr store lazily; `options` are those of xarray."""
    return decode(
        _XARRAY.open_dataset(
            store,
            engine="zarr",
            chunks=None,
            decode_cf=False,
            create_default_indexes=False,
            **options,
        )
    )


def decode(raw: xr.Dataset) -> xr.Dataset:
    """Return the decoded form of a dataset that was opened with `decode_cf=False`.

    Raises what xarray raises where something else than times cannot be decoded.
    """
    marker = Marker.of(raw.attrs)
    coders: dict[str, Any] = marker.time_coders()
    try:
        decoded = _decoded(raw, coders)
    except Exception:
        odd = [str(name) for name in raw.variables if not _is_decodable(raw, str(name), coders)]
        if not odd:
            raise
        decoded = _decoded_but_times(raw, odd, coders)
    return marker.applied(decoded)


def _decoded(raw: xr.Dataset, coders: dict[str, Any]) -> xr.Dataset:
    # xarray adds to attributes of bounds.
    return _XARRAY.decode_cf(cast("Any", raw).copy(), decode_times=coders or True)


def _is_decodable(raw: xr.Dataset, name: str, coders: dict[str, Any]) -> bool:
    try:
        _decoded(_XARRAY.Dataset({name: raw.variables[name]}), coders)
    except Exception:
        return False
    return True


def _decoded_but_times(raw: xr.Dataset, odd: list[str], coders: dict[str, Any]) -> xr.Dataset:
    """Return a dataset whose odd times stay numbers, and so do their bounds."""
    plain = cast("Any", raw).copy()
    bounds = {name: plain[name].attrs.pop("bounds", None) for name in odd}
    decoded: Any = _decoded(plain, {**coders, **dict.fromkeys(odd, False)})
    for name, target in bounds.items():
        if target is not None:
            decoded[name].attrs["bounds"] = target
    return decoded
