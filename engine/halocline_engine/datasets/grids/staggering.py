"""Variables of staggered grids: dimensions that stand in the place of an axis.

The fields of a program share the points of each axis. Where models give the faces of cells a
dimension of their own, looping over it would combine each face with each cell.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence

import xarray as xr

from halocline_engine.datasets.grids.conventions import Dimensions
from halocline_engine.errors import AxisError
from halocline_engine.ir.types import Axis

__all__ = ["check_places", "check_shared"]


def check_shared(
    dataset: xr.Dataset, variables: Sequence[str], dims: Sequence[str], axis: Axis
) -> None:
    """Raise `AxisError` where two variables each have only one of two dimensions of an axis."""
    for one, other in itertools.combinations(dims, 2):
        alone = [_having(dataset, variables, *pair) for pair in ((one, other), (other, one))]
        if all(alone):
            what = f"have different points along axis '{axis}'"
            places = ((alone[0][0], one), (alone[1][0], other))
            raise _apart(dataset, what, *places, flat=axis is not Axis.K)


def check_places(
    known: Dimensions,
    variables: Mapping[str, Collection[Axis]],
    dims: tuple[str | None, str | None, str | None],
) -> None:
    """Raise `AxisError` for a variable with another dimension in the place of an axis.

    `variables` has the axes along which neighbours of each are read. A dimension stands there if
    attributes or names say that it is of that axis. One of which nothing is known does if
    neighbours are read, or if it lies beside the same dimensions, with about as many points.
    """
    part, names, kinds, others = known.dataset, list(variables), known.kinds, known.others
    loops = [str(dim) for dim in part.dims if dim not in dims]
    unknown = [loop for loop in loops if loop not in {*kinds, *others}]
    for axis, dim in zip(Axis, dims, strict=True):
        same = [loop for loop in loops if kinds.get(loop) is axis]
        check_shared(part, names, [*([dim] if dim else []), *same], axis)
        for name in (one for one in names if dim and axis in variables[one]):
            own = part[name].dims
            for loop in (one for one in unknown if one in own and dim not in own):
                if dim and not _is_joined(part, names, dim, loop):
                    what = f"have different points along axis '{axis}'"
                    places = ((_having(part, names, dim)[0], dim), (name, loop))
                    raise _apart(part, what, *places, flat=axis is not Axis.K)
    for loop in unknown:
        for dim in (one for one in (*dims, *unknown) if one and one not in {loop, *others}):
            pair = _alike(part, names, dim, loop)
            if pair and not _is_joined(part, names, dim, loop):
                what = "seem to have different points"
                raise _apart(part, what, *pair, flat=dim != dims[2])


def _having(
    dataset: xr.Dataset, variables: Sequence[str], dim: str, without: str = ""
) -> list[str]:
    """Return the variables that have a dimension, and another one not."""
    return [n for n in variables if dim in dataset[n].dims and without not in dataset[n].dims]


def _is_joined(dataset: xr.Dataset, variables: Sequence[str], one: str, other: str) -> bool:
    """Whether a variable has both dimensions, so that neither stands for the other."""
    return any({one, other} <= {*dataset[name].dims} for name in variables)


def _alike(
    dataset: xr.Dataset, variables: Sequence[str], dim: str, loop: str
) -> tuple[tuple[str, str], tuple[str, str]] | None:
    """Return two variables in which the dimensions lie beside the same ones, and are as long.

    Faces may be one more, or less, than cells. Where a dimension lies alone, nothing can be said.
    """
    if abs(dataset.sizes[loop] - dataset.sizes[dim]) > 1:
        return None
    for name in _having(dataset, variables, loop):
        place = {dim if one == loop else str(one) for one in dataset[name].dims}
        for model in _having(dataset, variables, dim):
            if len(place) > 1 and place <= {*dataset[model].dims}:
                return (model, dim), (name, loop)
    return None


def _apart(dataset: xr.Dataset, what: str, *places: tuple[str, str], flat: bool) -> AxisError:
    (one, dim), (other, loop) = sorted(places, key=lambda place: dataset.sizes[place[1]])
    dims = tuple(dim if name == loop else str(name) for name in dataset[other].dims)
    return AxisError(
        f"Variables '{one}' and '{other}' {what}, '{dim}' and '{loop}', but fields of a program"
        " share them.",
        hint=f"{_placed(dataset, dim, loop) if flat else ''}Interpolate '{other}' to '{dim}', or"
        " name those of its points that belong to each"
        f" point of '{dim}', such as the first ones: dataset['{other}'] = ({dims},"
        f" dataset['{other}'].isel({loop}=slice(0, {dataset.sizes[dim]})).data). To loop over"
        f" both, broadcast '{other}' to '{dim}'.",
    )


def _placed(dataset: xr.Dataset, dim: str, loop: str) -> str:
    """Return how to say where points lie that may be faces of cells, or the other way round."""
    more = dataset.sizes[loop] - dataset.sizes[dim]
    if more not in (0, 1):
        return ""
    position, other = ("outer", "inner") if more else ("right", "left")
    either = f"'{position}': '{loop}'}}}}, or '{other}'"
    if more:
        either = f"'{position}': '{loop}'}}}}, or {{'center': '{loop}', '{other}': '{dim}'}}"
    return f"If one has faces, say where they lie: grid={{'X': {{'center': '{dim}', {either}. "
