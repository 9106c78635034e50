"""A marker in stores for what xarray's conventions cannot express.

These are coordinates whose names have blanks, as the attribute that lists coordinates separates
them by blanks, and types of times, which are always decoded to nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import xarray as xr

from halocline_engine.datasets.storing.attributes import is_time

__all__ = ["Marker", "time_coder", "time_type"]

#: The attribute of a store.
_NAME = "_halocline_values"
_CFTIME = "cftime"
_UNITS = ("s", "ms", "us")


@dataclass(frozen=True, slots=True)
class Marker:
    """Coordinates of a store, and the types of its times: a unit of NumPy's, or 'cftime'."""

    coordinates: tuple[str, ...] = ()
    times: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def for_dataset(cls, dataset: xr.Dataset) -> Marker:
        """Return the marker that a store of a dataset needs."""
        names = [str(name) for name in dataset.coords if name not in dataset.dims]
        is_listed = "coordinates" not in dataset.attrs
        odd = [name for name in names if not is_listed or len(name.split()) != 1]
        times = {str(name): time_type(one) for name, one in dataset.variables.items()}
        return cls(tuple(odd), {name: kind for name, kind in times.items() if kind})

    @classmethod
    def of(cls, attributes: Mapping[Any, Any]) -> Marker:
        """Return the marker among the attributes of a store; anybody may have written it."""
        document = _members(attributes.get(_NAME))
        names = document.get("coordinates")
        times = _members(document.get("times"))
        return cls(
            tuple(str(name) for name in cast("list[Any]", names)) if type(names) is list else (),
            {name: kind for name, kind in times.items() if kind in (*_UNITS, _CFTIME)},
        )

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of a store that hold it."""
        parts = {"coordinates": list(self.coordinates), "times": dict(self.times)}
        document = {name: part for name, part in parts.items() if part}
        return {_NAME: document} if document else {}

    def time_coders(self) -> dict[str, Any]:
        """Return what decodes times that have another type than xarray gives them."""
        return {name: time_coder(kind) for name, kind in self.times.items()}

    def applied(self, decoded: xr.Dataset) -> xr.Dataset:
        """Return a decoded dataset with its coordinates, and without the marker."""
        names = [name for name in self.coordinates if name in decoded.variables]
        plain: Any = decoded.set_coords(names) if names else decoded
        plain.attrs.pop(_NAME, None)
        return plain


def time_coder(kind: str) -> Any:
    """Return xarray's coder for a type of times."""
    coder: Any = xr.coders.CFDatetimeCoder
    return coder(use_cftime=True) if kind == _CFTIME else coder(time_unit=kind or "ns")


def time_type(variable: Any) -> str:
    """Return the type of times as the marker has it; empty for what xarray gives itself."""
    if not is_time(variable):
        return ""
    if variable.dtype.kind != "M":
        return _CFTIME
    unit = variable.dtype.str.partition("[")[2].rstrip("]")
    return unit if unit in _UNITS else ""


def _members(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
