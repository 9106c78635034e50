"""Heights and widths of the cells of columns, from a dataset's coordinates.

Heights of the faces come, in this order, from the variable that the caller names, which may vary
over the horizontal; from a hybrid height a + b * surface with bounds (`formula_terms`); from a
coordinate along the faces; from the bounds of one along the centres. The width of a cell is the
distance of its faces. The width of a face is the distance of the centres beside it; at an end it is
twice the distance of the face and its centre, which is the width of the cell there where the
centre lies in the middle. Derivatives are along height, upwards, whatever `positive` says of the
coordinate and wherever the data begins; `direction.py` tells which way a coordinate grows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.analysis.named import near
from halocline_engine.datasets.grids.column_dims import ColumnDims
from halocline_engine.datasets.grids.conventions import SHIFT, attribute_of
from halocline_engine.datasets.grids.direction import is_height, is_upward
from halocline_engine.datasets.variables import real_values, variable_of
from halocline_engine.errors import AxisError, FieldError
from halocline_engine.ir.columns.formulas.metric import (
    CENTRE_SCALE,
    CENTRE_WIDTH,
    FACE_SCALE,
    FACE_WIDTH,
    HEIGHT,
    SURFACE,
    Heights,
    Hybrid,
    Metric,
    Widths,
)
from halocline_engine.ir.columns.points import Shape

__all__ = ["ColumnGrid", "column_grid"]

_HYBRID = "atmosphere_hybrid_height_coordinate"
_HINT = (
    "Give the coordinate bounds, add one along the faces, or name a variable with the heights of"
    " the faces: heights='z_face'."
)

_Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnGrid:
    """Columns of a dataset.

    `widths` are the fields of the metric that have one value a level, in the order of the data;
    `variables` maps its other fields to variables; `coordinates` are those of a dimension that the
    dataset lacks.
    """

    dims: ColumnDims
    shape: Shape
    metric: Metric
    widths: Mapping[str, _Array]
    variables: Mapping[str, str]
    coordinates: Mapping[str, xr.DataArray]


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """A coordinate along the column: `faces` are one more than `centres`.

    `centre` and `face` name the variables that they come from, or are empty.
    """

    faces: _Array
    centres: _Array
    centre: str
    face: str


def column_grid(
    dataset: xr.Dataset, dims: ColumnDims, heights: str | None, *, periodic: bool
) -> ColumnGrid:
    """Return the grid; reads coordinates only. Raises `FieldError` or `AxisError`."""
    if heights is not None:
        variable = _checked_heights(dataset, dims, heights)
        if variable.ndim > 1:
            return _varying(dataset, dims, heights, periodic=periodic)
        line = _from_faces(dataset, dims, heights, _along(dataset, dims.centre), periodic=periodic)
        return _plain(dataset, dims, line, periodic=periodic)
    for name in [*_along(dataset, dims.centre), *_along(dataset, dims.face)]:
        if attribute_of(dataset[name], "formula_terms"):
            return _hybrid(dataset, dims, name, periodic=periodic)
    return _plain(dataset, dims, _line(dataset, dims, periodic=periodic), periodic=periodic)


def _checked_heights(dataset: xr.Dataset, dims: ColumnDims, heights: str) -> xr.DataArray:
    if heights not in dataset.variables:
        raise FieldError(
            f"Variable '{heights}' (argument 'heights') is not in the dataset.",
            hint=near(heights, [str(name) for name in dataset.variables]),
        )
    variable = variable_of(dataset, heights)
    if dims.face not in variable.dims or dims.centre in variable.dims:
        raise FieldError(
            f"Variable '{heights}' must hold the heights of the faces along '{dims.face}', got the"
            f" dimensions {tuple(str(dim) for dim in variable.dims)}.",
        )
    return variable


def _varying(dataset: xr.Dataset, dims: ColumnDims, heights: str, *, periodic: bool) -> ColumnGrid:
    """Return a grid whose heights are a field; the first column tells which end is the top."""
    if periodic:
        raise FieldError(
            f"Heights of a periodic column must be along '{dims.face}' only, but '{heights}' has"
            f" {tuple(str(dim) for dim in dataset[heights].dims)}."
        )
    others = {dim: 0 for dim in dataset[heights].dims if dim != dims.face}
    if 0 in dataset[heights].shape:
        raise FieldError(
            f"The heights '{heights}' must not be empty, got the sizes"
            f" {dict(dataset[heights].sizes)}."
        )
    first = _finite(dataset[heights].isel(others))
    flipped = _is_flipped(first, dataset, heights)
    shape = Shape(dims.levels, periodic=False, flipped=flipped)
    return ColumnGrid(dims, shape, Heights(), {}, {HEIGHT: heights}, {})


def _plain(dataset: xr.Dataset, dims: ColumnDims, line: _Line, *, periodic: bool) -> ColumnGrid:
    name = line.face or line.centre
    flipped = _is_flipped(line.faces, dataset, name, line.centre)
    shape = Shape(dims.levels, periodic, flipped)
    cells, faces = _widths(line, periodic=periodic)
    widths = {CENTRE_WIDTH: abs(cells), FACE_WIDTH: abs(faces)}
    made = _made(dataset, dims, {name: line}, shape)
    return ColumnGrid(dims, shape, Widths(), widths, {}, made)


def _hybrid(dataset: xr.Dataset, dims: ColumnDims, name: str, *, periodic: bool) -> ColumnGrid:
    """Return a grid with the height a + b * orog."""
    terms = _terms(attribute_of(dataset[name], "formula_terms"))
    kind = attribute_of(dataset[name], "standard_name")
    if kind != _HYBRID or not {"a", "b", "orog"} <= terms.keys() or periodic:
        raise FieldError(
            f"Heights of '{name}' follow from a formula that is not known here, that of"
            f" '{kind or 'no standard_name'}'.",
            hint="Compute the heights of the faces first, and name them: heights='z_face'.",
        )
    for term in (terms["a"], terms["b"], terms["orog"]):
        if term not in dataset.variables:
            raise FieldError(
                f"'formula_terms' of '{name}' names '{term}', which is no variable of the dataset."
            )
    own, scale = (_term(dataset, dims, terms[key]) for key in ("a", "b"))
    flipped = _is_flipped(own.faces, dataset, name)
    shape = Shape(dims.levels, periodic=False, flipped=flipped)
    sign = -1.0 if own.faces[-1] < own.faces[0] else 1.0
    cells, faces = _widths(own, periodic=False)
    scaled_cells, scaled_faces = _widths(scale, periodic=False)
    widths = {
        CENTRE_WIDTH: sign * cells,
        FACE_WIDTH: sign * faces,
        CENTRE_SCALE: sign * scaled_cells,
        FACE_SCALE: sign * scaled_faces,
    }
    made = _made(dataset, dims, {terms["a"]: own, terms["b"]: scale}, shape)
    return ColumnGrid(dims, shape, Hybrid(), widths, {SURFACE: terms["orog"]}, made)


def _term(dataset: xr.Dataset, dims: ColumnDims, name: str) -> _Line:
    if tuple(dataset[name].dims) == (dims.centre,) and _bounds(dataset, name) is not None:
        return _from_bounds(dataset, name)
    raise FieldError(
        f"Heights of the faces follow from the bounds of '{name}' along '{dims.centre}', which"
        " are not there.",
        hint="Name a variable with the heights of the faces: heights='z_face'.",
    )


def _line(dataset: xr.Dataset, dims: ColumnDims, *, periodic: bool) -> _Line:
    """Return the coordinate of a dataset whose heights are the same everywhere."""
    centres = [n for n in _along(dataset, dims.centre) if is_height(dataset[n])]
    faces = [n for n in _along(dataset, dims.face) if is_height(dataset[n])]
    if faces and (dims.centre in dataset.sizes or not periodic):
        return _from_faces(dataset, dims, faces[0], centres, periodic=periodic)
    for name in centres:
        if _bounds(dataset, name) is not None:
            return _from_bounds(dataset, name)
    others = [*_along(dataset, dims.face), *_along(dataset, dims.centre)]
    what = f"coordinate '{others[0]}' does not hold heights" if others else "there is no coordinate"
    if centres:
        what = f"coordinate '{centres[0]}' has no bounds"
    raise AxisError(
        f"The heights of the faces between the levels of '{dims.centre}' are not known: {what}.",
        hint=_HINT,
    )


def _from_faces(
    dataset: xr.Dataset, dims: ColumnDims, face: str, centres: list[str], *, periodic: bool
) -> _Line:
    """Return a line whose faces are a variable; centres without one lie in the middle."""
    values = _finite(dataset[face])
    usable = [name for name in centres if is_height(dataset[name])]
    own = _finite(dataset[usable[0]]) if usable else None
    if periodic:
        if own is None:
            raise AxisError(
                f"A periodic column needs the heights of its centres along '{dims.centre}', to know"
                " where it ends.",
                hint="Add a coordinate.",
            )
        values = np.append(values, 2.0 * own[-1] - values[-1])
    with np.errstate(over="ignore", invalid="ignore"):
        middle = 0.5 * (values[1:] + values[:-1])
        line = _Line(values, middle if own is None else own, usable[0] if usable else "", face)
        between = (line.centres - values[:-1]) * (values[1:] - line.centres)
    if not (between > 0.0).all():
        raise FieldError(
            f"The heights '{line.centre or face}' do not lie between those of the faces, '{face}'.",
            hint="Centres and faces must be sorted alike, both going up or both going down.",
        )
    return line


def _finite(heights: xr.DataArray) -> NDArray[np.float64]:
    """Return heights; raises `FieldError` unless all are numbers."""
    values = real_values(heights)
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        raise FieldError(
            f"The heights '{heights.name}' must be finite, got {values.reshape(-1)[wrong[0]]} at"
            f" place {int(wrong[0])}.",
            hint="Fill in what is missing, or choose another variable with 'heights'.",
        )
    return values


def _from_bounds(dataset: xr.Dataset, name: str) -> _Line:
    """Return a line whose faces are where the bounds of its cells meet."""
    bounds = _bounds(dataset, name)
    assert bounds is not None
    tolerance = 1e-5 * float(abs(np.diff(bounds, axis=1)).max(initial=0.0))
    for low, high in ((0, 1), (1, 0)):
        if (abs(bounds[:-1, high] - bounds[1:, low]) <= tolerance).all():
            faces = np.append(bounds[:, low], bounds[-1, high])
            return _Line(faces, _finite(dataset[name]), name, "")
    raise FieldError(
        f"The bounds of '{name}' leave gaps between its cells, or overlap.", hint=_HINT
    )


def _bounds(dataset: xr.Dataset, name: str) -> _Array | None:
    """Return the bounds of a coordinate, indexed [level, end], or None."""
    variable = attribute_of(dataset[name], "bounds")
    if variable not in dataset.variables:
        return None
    values = _finite(dataset[variable])
    return values if values.shape == (dataset[name].size, 2) else None


def _widths(line: _Line, *, periodic: bool) -> tuple[_Array, _Array]:
    """Return signed widths of cells and of faces, in the order of the data."""
    cells, between = np.diff(line.faces), np.diff(line.centres)
    if periodic:
        wrap = (line.centres[0] - line.faces[0]) + (line.faces[-1] - line.centres[-1])
        return cells, np.concatenate([[wrap], between])
    ends = line.centres[0] - line.faces[0], line.faces[-1] - line.centres[-1]
    return cells, np.concatenate([[2.0 * ends[0]], between, [2.0 * ends[1]]])


def _along(dataset: xr.Dataset, dim: str) -> list[str]:
    """Return the coordinates along a dimension only, its own one last."""
    coords = cast("Mapping[str, xr.DataArray]", dataset.coords)
    found = [str(name) for name, item in coords.items() if tuple(item.dims) == (dim,)]
    return sorted(found, key=lambda name: name == dim)


def _is_flipped(faces: _Array, dataset: xr.Dataset, *names: str) -> bool:
    """Whether the first level of the data is the top; `names` are the variables of heights."""
    steps = np.diff(faces)
    if not ((steps > 0.0).all() or (steps < 0.0).all()):
        raise FieldError(
            f"The heights '{names[0]}' must go up, or down, from level to level.",
            hint="Sort the levels; cells without a width have no derivative.",
        )
    variables = [dataset[name] for name in dict.fromkeys(names) if name]
    return bool(steps[0] < 0.0) is is_upward(faces, variables)


def _terms(text: str) -> dict[str, str]:
    """Return CF's formula terms.

    >>> _terms("a: level_height b: sigma orog: surface_altitude")["b"]
    'sigma'
    """
    words = text.replace(":", " ").split()
    return dict(zip(words[::2], words[1::2], strict=False))


def _made(
    dataset: xr.Dataset, dims: ColumnDims, lines: Mapping[str, _Line], shape: Shape
) -> dict[str, xr.DataArray]:
    """Return coordinates along the one dimension that the dataset lacks."""
    if dims.centre in dataset.sizes and dims.face in dataset.sizes:
        return {}
    faces = dims.face not in dataset.sizes
    made, suffix = (dims.face, "_face") if faces else (dims.centre, "_centre")
    there = dims.centre if faces else dims.face
    called = {name: made if name == there else f"{name}{suffix}" for name in lines}
    found: dict[str, xr.DataArray] = {}
    for name, line in lines.items():
        attrs = {k: v for k, v in dataset[name].attrs.items() if k not in ("bounds", SHIFT)}
        if words := attribute_of(dataset[name], "formula_terms").split():
            attrs["formula_terms"] = " ".join(called.get(word, word) for word in words)
        if faces:
            attrs[SHIFT] = -0.5
        values = line.faces[: shape.domain] if faces else line.centres
        found[called[name]] = xr.DataArray(
            values.astype(dataset[name].dtype), dims=(made,), attrs=attrs
        )
    return found
