"""Dimensions of the centres and the faces of columns.

In this order: what the caller says; `vertical_dimensions` of an SGRID topology; vertical
coordinates by CF attributes (through cf_xarray), of which those with xgcm's `c_grid_axis_shift` are
on faces; dimensions called z and k; dimensions with the names that models give to levels. Of two
vertical dimensions the longer one has the faces. Where only one of both exists, the other is made.
Two answers, or none, are an error.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import xarray as xr

from halocline_engine.analysis.columns import check_axis
from halocline_engine.analysis.named import near
from halocline_engine.datasets.grids.conventions import SHIFT, dimensions_of, shifts_of
from halocline_engine.datasets.grids.dimension_names import axis_named
from halocline_engine.errors import AxisError
from halocline_engine.ir.types import Axis as GridAxis

__all__ = ["Axis", "ColumnDims", "find_column_dims"]

#: What a caller says: the dimension of the centres, or both by "centre" and "face".
Axis = str | Mapping[str, str] | None

_SGRID = re.compile(r"(\S+)\s*:\s*(\S+)\s*\(\s*padding\s*:\s*(\w+)\s*\)")
_NAMES = ("z", "k")
_HINT = "Say which: axis='z', or axis={'centre': 'z', 'face': 'z_face'}."


@dataclass(frozen=True, slots=True)
class ColumnDims:
    """The dimensions of centres and faces, and how many centres there are; one may be new."""

    centre: str
    face: str
    levels: int


def find_column_dims(
    dataset: xr.Dataset, used: Collection[str], axis: Axis, *, periodic: bool
) -> ColumnDims:
    """Return the dimensions; `used` are those of the program's variables.

    Raises `AxisError` where they are missing, ambiguous, or do not fit together.
    """
    centre, face = _found(dataset, used, axis, periodic=periodic)
    sizes = {str(dim): size for dim, size in dataset.sizes.items()}
    if centre is None:
        assert face is not None
        centre, levels = f"{face}_centre", sizes[face] - (0 if periodic else 1)
    else:
        levels = sizes[centre]
    expected = levels if periodic else levels + 1
    face = face or f"{centre}_face"
    if levels < 1 or sizes.get(face, expected) != expected:
        kind = "a periodic column" if periodic else "a column"
        raise AxisError(
            f"The faces of {kind} with {levels} centres along '{centre}' are {expected}, but"
            f" '{face}' has {sizes[face]}.",
            hint="Pad what lies on faces to both ends, or say which dimensions to use: axis={...}.",
        )
    if periodic and any(shift > 0.0 for shift in shifts_of(dataset, face)):
        raise AxisError(
            f"A face of a periodic column comes before the centre with its number, but '{face}' is"
            " shifted the other way.",
            hint=f"Roll what lies on '{face}' by one, and set '{SHIFT}' to -0.5.",
        )
    for made in (centre, face):
        if made not in sizes and made in dataset.variables:
            raise AxisError(
                f"The dimension '{made}' would be made, but that is the name of a variable.",
                hint=_HINT,
            )
    return ColumnDims(centre, face, levels)


def _found(
    dataset: xr.Dataset, used: Collection[str], axis: Axis, *, periodic: bool
) -> tuple[str | None, str | None]:
    """Return the dimensions of centres and of faces, None for one that does not exist."""
    if axis is not None:
        return _given(dataset, axis)
    topology = _of_topology(dataset)
    if topology is not None:
        return topology
    vertical = _vertical(dataset, used)
    faces = [dim for dim in vertical if shifts_of(dataset, dim)]
    centres = [dim for dim in vertical if dim not in faces]
    for several in (centres, _narrowed(centres, used)):
        if not faces and len(several) == 2:
            short, long = sorted(several, key=lambda dim: dataset.sizes[dim])
            if dataset.sizes[long] == dataset.sizes[short] + 1:
                return short, long
    centres, faces = _narrowed(centres, used), _narrowed(faces, used)
    if len(centres) == 1 and len(faces) > 1:
        expected = dataset.sizes[centres[0]] + (0 if periodic else 1)
        faces = [dim for dim in faces if dataset.sizes[dim] == expected] or faces
        if periodic:
            faces = [dim for dim in faces if min(shifts_of(dataset, dim)) < 0.0] or faces
    if not centres and not faces:
        raise AxisError(
            f"No vertical dimension was found among {_listed(sorted(used))}.",
            hint=_choice_of(sorted(used)),
        )
    for candidates in (centres, faces):
        if len(candidates) > 1:
            raise AxisError(
                f"The vertical dimension could be any of {_listed(candidates)}.",
                hint=_choice_of(candidates),
            )
    if centres and not faces and centres[0] not in _by_attributes(dataset):
        return _with_twin(dataset, centres[0])
    return (centres[0] if centres else None), (faces[0] if faces else None)


def _given(dataset: xr.Dataset, axis: str | Mapping[str, str]) -> tuple[str | None, str | None]:
    check_axis(axis)
    named = {"centre": axis} if isinstance(axis, str) else dict(axis)
    sizes = [str(dim) for dim in dataset.sizes]
    if not set(named.values()) & set(sizes):
        name = next(iter(named.values()))
        raise AxisError(
            f"Argument 'axis' names '{name}', which is no dimension of the dataset.",
            hint=near(name, sizes),
        )
    if isinstance(axis, str):
        return _with_twin(dataset, axis)
    centre, face = named.get("centre"), named.get("face")
    return (centre if centre in sizes else None), face


def _with_twin(dataset: xr.Dataset, centre: str) -> tuple[str, str | None]:
    """Return a dimension of centres, and that of its faces where the dataset has one."""
    vertical = [dim for dim in _vertical(dataset, (centre,)) if dim != centre]
    sizes = dataset.sizes
    faces = [dim for dim in vertical if shifts_of(dataset, dim) or sizes[dim] == sizes[centre] + 1]
    return centre, faces[0] if len(faces) == 1 else None


def _of_topology(dataset: xr.Dataset) -> tuple[str, str] | None:
    """Return what SGRID's `vertical_dimensions` says: centres, and faces as their ends."""
    variables = cast("Mapping[str, xr.Variable]", dataset.variables)
    for name, variable in variables.items():
        text = variable.attrs.get("vertical_dimensions")
        if variable.attrs.get("cf_role") != "grid_topology" or text is None:
            continue
        found = _SGRID.search(str(text))
        dims = (found.group(1), found.group(2)) if found else ("", "")
        if not set(dims) <= {str(dim) for dim in dataset.sizes}:
            raise AxisError(
                f"The attribute 'vertical_dimensions' of '{name}' names no dimensions, got"
                f" {text!r}.",
                hint="SGRID writes 'z: z_face (padding: none)'. " + _HINT,
            )
        return dims
    return None


def _vertical(dataset: xr.Dataset, used: Collection[str]) -> list[str]:
    """Return the vertical dimensions, in the order of the dataset.

    Names tell where attributes tell of no centres among `used`.
    """
    sizes, named = [str(dim) for dim in dataset.sizes], _by_attributes(dataset)
    vertical = [dim for dim in sizes if dim in named]
    if not any(dim in used and not shifts_of(dataset, dim) for dim in vertical):
        plain = [dim for dim in used if dim.lower() in _NAMES]
        vertical += plain or [dim for dim in sizes if axis_named(dim) is GridAxis.K]
    return [dim for dim in sizes if dim in vertical]


def _by_attributes(dataset: xr.Dataset) -> set[str]:
    """Return the dimensions along which attributes say that a vertical coordinate lies."""
    first, second = dimensions_of(dataset).by_attributes[GridAxis.K]
    return {*first, *second}


def _narrowed(dims: Sequence[str], used: Collection[str]) -> list[str]:
    """Return those that the program uses, or all where it uses none."""
    return [dim for dim in dims if dim in used] or list(dims)


def _choice_of(dims: Sequence[str]) -> str:
    """Return the argument that chooses the vertical dimension."""
    return _HINT.replace("'z", f"'{dims[0]}") if dims else _HINT


def _listed(dims: Sequence[str]) -> str:
    return ", ".join(f"'{dim}'" for dim in dims) or "no dimensions"
