"""CF and xgcm attributes in every place and form in which datasets have them.

xarray moves `formula_terms`, `bounds`, `grid_mapping` and others from attributes to the encoding
with `decode_coords="all"`. Values are written in upper case, with blanks, as pairs or as words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import cf_xarray  # noqa: F401 # pyright: ignore[reportUnusedImport, reportMissingTypeStubs] - adds the accessor
import numpy as np
import xarray as xr
from xarray.conventions import CF_RELATED_DATA

from halocline_engine.datasets.grids.dimension_names import axis_named, is_time_or_member
from halocline_engine.errors import AxisError
from halocline_engine.ir.types import Axis

__all__ = [
    "SHIFT",
    "Dimensions",
    "attribute_of",
    "attributes_of",
    "dimensions_of",
    "shifts_of",
    "with_encoded_attributes",
]

#: xgcm's attribute of coordinates that lie between others.
SHIFT = "c_grid_axis_shift"

_AXES = {Axis.I: "X", Axis.J: "Y", Axis.K: "Z"}
_COORDINATES = {Axis.I: "longitude", Axis.J: "latitude", Axis.K: "vertical"}
#: Attributes that tell an axis, and how their values are written.
_WRITTEN = {"axis": str.upper, "cartesian_axis": str.upper, "positive": str.lower}
_TELLING = (*_WRITTEN, "standard_name", "long_name", "units", "_CoordinateAxisType", "grads_dim")
_WORDS: dict[str, tuple[float, ...]] = {
    "left": (-0.5,),
    "right": (0.5,),
    "outer": (-0.5, 0.5),
    "inner": (0.5, -0.5),
    "center": (),
    "centre": (),
}


class _Cf(Protocol):
    @property
    def axes(self) -> Mapping[str, Sequence[str]]: ...
    @property
    def coordinates(self) -> Mapping[str, Sequence[str]]: ...


def attribute_of(variable: xr.DataArray | xr.Variable, name: str) -> str:
    """Return an attribute from where xarray leaves it, in `attrs` or `encoding`, '' for none."""
    encoding: Mapping[str, Any] = variable.encoding
    found = variable.attrs.get(name)
    return str((encoding.get(name) if found is None else found) or "").strip()


def attributes_of(variable: xr.DataArray | xr.Variable) -> dict[str, Any]:
    """Return all attributes, with what `decode_coords="all"` moved to the encoding."""
    encoding: Mapping[str, Any] = variable.encoding
    moved = {key: encoding[key] for key in CF_RELATED_DATA if key in encoding}
    return {**moved, **variable.attrs}


def with_encoded_attributes(dataset: xr.Dataset) -> xr.Dataset:
    """Return a dataset whose variables have all their attributes in `attrs`."""
    whole = dataset.copy()
    for name in dataset.variables:
        whole[name].attrs = attributes_of(dataset[name])
    return whole


def shifts_of(dataset: xr.Dataset, dim: str) -> tuple[float, ...]:
    """Return by how many cells xgcm's attribute says that the points of a dimension are shifted.

    Faces at both ends have two shifts, centres none. Raises `AxisError` for another value.
    """
    shifts: list[float] = []
    coords = cast("Mapping[str, xr.DataArray]", dataset.coords)
    for name, item in coords.items():
        if tuple(item.dims) == (dim,) and SHIFT in item.attrs:
            shifts.extend(_shifts(str(name), item.attrs[SHIFT]))
    return tuple(shifts)


def _shifts(name: str, value: Any) -> tuple[float, ...]:
    if isinstance(value, str) and value.strip().lower() in _WORDS:
        return _WORDS[value.strip().lower()]
    if isinstance(value, str):
        numbers: list[Any] = re.sub(r"[][(),;]", " ", value).split()
    else:
        numbers = np.ravel(value).tolist()
    try:
        shifts = tuple(float(number) for number in numbers)
    except (TypeError, ValueError):
        shifts = (np.nan,)
    if not shifts or not set(shifts) <= {-0.5, 0.0, 0.5}:
        raise AxisError(
            f"Attribute '{SHIFT}' of '{name}' must be -0.5, 0.5 or both, got {value!r}.",
            hint="Faces before the centre with their number have -0.5, those behind it 0.5.",
        )
    return tuple(shift for shift in shifts if shift)


@dataclass(frozen=True, slots=True, eq=False)
class Dimensions:
    """What attributes and names say of the dimensions of a dataset.

    `by_attributes` has for each axis the dimensions of which attributes of 1-D coordinates say that
    they are of it, then those of longitude, latitude or the vertical. `others` are times, members
    and the like; `kinds` has the axis of each dimension of which anything is known.
    """

    dataset: xr.Dataset
    by_attributes: Mapping[Axis, tuple[list[str], list[str]]]
    others: frozenset[str]
    kinds: Mapping[str, Axis]


def dimensions_of(dataset: xr.Dataset) -> Dimensions:
    """Return what is known of the dimensions of a dataset."""
    coords = cast("Mapping[str, xr.DataArray]", dataset.coords)
    lines = {str(name): str(item.dims[0]) for name, item in coords.items() if item.ndim == 1}
    cf = cast("_Cf", cast("Any", _telling(dataset)).cf)
    axes, coordinates = cf.axes, cf.coordinates

    def along(names: Iterable[str]) -> list[str]:
        return sorted({lines[name] for name in names if name in lines})

    ranked = {
        axis: (along(axes.get(_AXES[axis], ())), along(coordinates.get(_COORDINATES[axis], ())))
        for axis in Axis
    }
    kinds: dict[str, Axis] = {}
    for rank in (0, 1):
        for axis, dims in ranked.items():
            kinds = {**dict.fromkeys(dims[rank], axis), **kinds}
    dates = (str(name) for name, item in coords.items() if item.dtype.kind in "Mm")
    names = [str(dim) for dim in dataset.dims]
    times = {*along([*axes.get("T", ()), *dates]), *filter(is_time_or_member, names)}
    for dim in names:
        named = None if dim in kinds or dim in times else axis_named(dim)
        if named is not None:
            kinds[dim] = named
    return Dimensions(dataset, ranked, frozenset(times), kinds)


def _telling(dataset: xr.Dataset) -> xr.Dataset:
    """Return the coordinates with the attributes that tell axes, written as CF writes them."""
    part = xr.Dataset(coords=dataset.coords)
    for name in part.coords:
        attrs: Mapping[str, Any] = dataset[name].attrs
        texts = {key: attrs[key].strip() for key in _TELLING if isinstance(attrs.get(key), str)}
        part[name].attrs = {
            key: _WRITTEN[key](text) if key in _WRITTEN else text for key, text in texts.items()
        }
    return part
