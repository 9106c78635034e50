"""Dimensions of a dataset that are I, J and K.

In this order: what the caller says; what CF attributes say (through cf_xarray: `axis`,
`standard_name`, `units` of one-dimensional coordinates; X and longitude are I, Y and latitude are
J, Z and vertical are K); a dimension that is called `x` or `i`, `y` or `j`, `z` or `k`; one that
is called `lon` or `longitude`, `lat` or `latitude`; one that has a name which models give to that
axis. Two answers, or none where one is needed, are an error. Where it makes no difference what an
axis is, none is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import xarray as xr

from halocline_engine.analysis.named import check_axes
from halocline_engine.datasets.grids.conventions import Dimensions, dimensions_of
from halocline_engine.datasets.grids.dimension_names import axis_named
from halocline_engine.datasets.grids.staggering import check_shared
from halocline_engine.errors import AxisError
from halocline_engine.ir.types import Axis

__all__ = ["find_axes", "suggest_axes"]

_CF_AXIS = {Axis.I: "X", Axis.J: "Y", Axis.K: "Z"}
_NAMES = (
    {Axis.I: ("x", "i"), Axis.J: ("y", "j"), Axis.K: ("z", "k")},
    {Axis.I: ("lon", "longitude"), Axis.J: ("lat", "latitude"), Axis.K: ()},
)


def find_axes(
    dataset: xr.Dataset,
    variables: Sequence[str],
    used: Sequence[Axis],
    needed: Collection[Axis],
    given: Mapping[str, str | None] | None,
    positional: Collection[Axis] = (),
    known: Dimensions | None = None,
) -> tuple[str | None, str | None, str | None]:
    """Return the dimensions of I, J and K, None for an axis that the dataset does not have.

    Looks at the dimensions of `variables` only. `used` are the axes of the program's fields; an
    axis of `needed` must be there, because the program reads neighbours along it. The result
    depends on positions along axes of `positional`: it must be known whether they are there. What
    is known of the dimensions of the variables may be given.
    """
    known = known or dimensions_of(dataset[list(variables)])
    part = known.dataset
    chosen = _given(part, given or {})
    for axis in (axis for axis in Axis if axis in {*used, *needed, *positional}):
        if axis in chosen:
            continue
        free = [str(dim) for dim in part.dims if dim not in chosen.values()]
        candidates = _candidates(known, axis, free)
        if len(candidates) > 1:
            check_shared(part, variables, candidates, axis)
        if len(candidates) > 1 and axis in {*needed, *positional}:
            raise _ambiguous(axis, candidates)
        chosen[axis] = candidates[0] if len(candidates) == 1 else None
    for axis in needed:
        if chosen.get(axis) is None:
            free = [str(dim) for dim in part.dims if dim not in chosen.values()]
            raise _missing(axis, free, _unknown(known, chosen))
    for axis in positional:
        unknown = _unknown(known, chosen)
        if axis.value not in (given or {}) and chosen[axis] is None and unknown:
            raise _undecided(axis, unknown)
    return chosen.get(Axis.I), chosen.get(Axis.J), chosen.get(Axis.K)


def suggest_axes(dataset: xr.Dataset) -> dict[str, str]:
    """Return the dimensions of a dataset that are I, J and K, where only one can be each."""
    known = dimensions_of(dataset)
    suggested: dict[str, str] = {}
    for axis in Axis:
        free = [str(dim) for dim in dataset.dims if dim not in suggested.values()]
        candidates = _candidates(known, axis, free)
        if len(candidates) == 1:
            suggested[axis.value] = candidates[0]
    return suggested


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


def _candidates(known: Dimensions, axis: Axis, free: Sequence[str]) -> list[str]:
    """Return the dimensions that could be this axis, by the first rule that names any."""
    rules = [
        *known.by_attributes[axis],
        *([dim for dim in free if dim.lower() in called[axis]] for called in _NAMES),
        [dim for dim in free if axis_named(dim) is axis],
    ]
    for dims in rules:
        if candidates := [dim for dim in dims if dim in free]:
            return candidates
    return []


def _unknown(known: Dimensions, chosen: Mapping[Axis, str | None]) -> list[str]:
    """Return the dimensions of which it is not known what they are."""
    recognised = {*chosen.values(), *known.kinds, *known.others}
    return [str(dim) for dim in known.dataset.dims if dim not in recognised]


def _names(dims: Sequence[str]) -> str:
    return ", ".join(f"'{dim}'" for dim in dims) or "no dimensions"


def _ambiguous(axis: Axis, candidates: Sequence[str]) -> AxisError:
    return AxisError(
        f"Axis '{axis}' could be any of {_names(candidates)}.",
        hint=f"Choose one: axes={{'{axis}': '{candidates[0]}'}}.",
    )


def _missing(axis: Axis, free: Sequence[str], unknown: Sequence[str]) -> AxisError:
    where = f"among the dimensions {_names(free)}" if free else "and no dimension is left for it"
    if not unknown:
        return AxisError(
            f"Axis '{axis}' was not found {where}.",
            hint="The program reads neighbours along it: give the variables that dimension, or say"
            " with axes={...} which dimension is which axis.",
        )
    return AxisError(
        f"Axis '{axis}' was not found {where}.",
        hint=f"Say which one it is: axes={{'{axis}': {_example(unknown)}}}, or give the coordinates"
        f" CF attributes such as axis='{_CF_AXIS[axis]}'.",
    )


def _undecided(axis: Axis, unknown: Sequence[str]) -> AxisError:
    return AxisError(
        f"The result depends on axis '{axis}', and it is not known whether it is one of the"
        f" dimensions {_names(unknown)}.",
        hint=f"Say it: axes={{'{axis}': {_example(unknown)}}}, or axes={{'{axis}': None}} if the"
        " data has no such axis.",
    )


def _example(dims: Sequence[str]) -> str:
    return f"'{dims[0]}'" if len(dims) == 1 else "..."
