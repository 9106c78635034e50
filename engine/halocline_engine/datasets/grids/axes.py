"""Dimensions of a dataset that are I, J and K.

In this order: what the caller says; what CF attributes say (through cf_xarray: `axis`,
`standard_name`, `units` of one-dimensional coordinates; X and longitude are I, Y and latitude are
J, Z and vertical are K); a dimension that is called `x` or `i`, `y` or `j`, `z` or `k`; one that
is called `lon` or `longitude`, `lat` or `latitude`. Two answers, or none where one is needed, are
an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

import cf_xarray  # noqa: F401 # pyright: ignore[reportUnusedImport, reportMissingTypeStubs] - adds the accessor
import xarray as xr

from halocline_engine.analysis.named import check_axes
from halocline_engine.errors import AxisError
from halocline_engine.ir.types import Axis

__all__ = ["find_axes"]

_CF_AXIS = {Axis.I: "X", Axis.J: "Y", Axis.K: "Z"}
_CF_COORDINATE = {Axis.I: "longitude", Axis.J: "latitude", Axis.K: "vertical"}
_NAMES = (
    {Axis.I: ("x", "i"), Axis.J: ("y", "j"), Axis.K: ("z", "k")},
    {Axis.I: ("lon", "longitude"), Axis.J: ("lat", "latitude"), Axis.K: ()},
)


class _Cf(Protocol):
    @property
    def axes(self) -> Mapping[str, Sequence[str]]: ...
    @property
    def coordinates(self) -> Mapping[str, Sequence[str]]: ...


def find_axes(
    dataset: xr.Dataset,
    variables: Sequence[str],
    used: Sequence[Axis],
    needed: Sequence[Axis],
    given: Mapping[str, str | None] | None,
) -> tuple[str | None, str | None, str | None]:
    """Return the dimensions of I, J and K, None for an axis that the dataset does not have.

    Looks at the dimensions of `variables` only. `used` are the axes of the program's fields; an
    axis of `needed` must be there, because the program reads neighbours along it. I and J, where
    used, must be there as well unless `given` says None for them.
    """
    part = dataset[list(variables)]
    chosen = _given(part, given or {})
    for axis in used:
        if axis in chosen:
            continue
        free = [str(dim) for dim in part.dims if dim not in chosen.values()]
        candidates = _candidates(part, axis, free)
        if len(candidates) > 1:
            raise _ambiguous(axis, candidates)
        chosen[axis] = candidates[0] if candidates else None
        if chosen[axis] is None and axis is not Axis.K:
            raise _missing(axis, free)
    for axis in needed:
        if chosen.get(axis) is None:
            free = [str(dim) for dim in part.dims if dim not in chosen.values()]
            raise _missing(axis, free)
    return chosen.get(Axis.I), chosen.get(Axis.J), chosen.get(Axis.K)


def _given(part: xr.Dataset, given: Mapping[str, str | None]) -> dict[Axis, str | None]:
    chosen: dict[Axis, str | None] = {}
    check_axes(given)
    for key, dim in given.items():
        if dim is not None and dim not in part.dims:
            raise AxisError(
                f"Axis '{key}' must be a dimension of the variables, got '{dim}'.",
                hint=f"They have {_names([str(d) for d in part.dims])}.",
            )
        chosen[Axis(key)] = dim
    return chosen


def _candidates(part: xr.Dataset, axis: Axis, free: Sequence[str]) -> list[str]:
    """Return the dimensions that could be this axis, by the first rule that names any."""
    cf = cast(_Cf, cast(Any, part).cf)
    for names in (
        cf.axes.get(_CF_AXIS[axis], ()),
        cf.coordinates.get(_CF_COORDINATE[axis], ()),
    ):
        found = sorted({str(part[name].dims[0]) for name in names if part[name].ndim == 1})
        found = [dim for dim in found if dim in free]
        if found:
            return found
    for called in _NAMES:
        if found := [dim for dim in free if dim.lower() in called[axis]]:
            return found
    return []


def _names(dims: Sequence[str]) -> str:
    return ", ".join(f"'{dim}'" for dim in dims) or "no dimensions"


def _ambiguous(axis: Axis, candidates: Sequence[str]) -> AxisError:
    return AxisError(
        f"Axis '{axis}' could be any of {_names(candidates)}.",
        hint=f"Choose one: axes={{'{axis}': '{candidates[0]}'}}.",
    )


def _missing(axis: Axis, free: Sequence[str]) -> AxisError:
    example = free[-1] if free else "name"
    return AxisError(
        f"Axis '{axis}' was not found among the dimensions {_names(free)}."
        if free
        else f"Axis '{axis}' was not found, no dimension is left for it.",
        hint=f"Say which one it is: axes={{'{axis}': '{example}'}}, or give the coordinates CF"
        f" attributes such as axis='{_CF_AXIS[axis]}'.",
    )
