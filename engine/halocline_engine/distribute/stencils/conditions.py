"""Boundary conditions, checked against the grid and the program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from halocline_engine.analysis.boundaries import (
    OPEN,
    Kind,
    Rules,
    Side,
    is_negated,
    rules_of,
    unknown_dimension,
)
from halocline_engine.arguments import as_held, written
from halocline_engine.datasets.grids.match import FieldUse, Grid
from halocline_engine.distribute.grid.boundary import Line, Lines, Reach, domain
from halocline_engine.distribute.grid.geometry import Reaches
from halocline_engine.distribute.grid.partition import Span
from halocline_engine.errors import BoundaryError
from halocline_engine.ir.types import Axis

__all__ = ["lines_of"]


def lines_of(
    boundary: Mapping[str, Any],
    grid: Grid,
    uses: Sequence[FieldUse],
    reaches: Sequence[Reaches],
    fields: Mapping[str, Sequence[str]],
) -> tuple[Lines, ...]:
    """Return the axes of each field with its boundaries; raises `BoundaryError` for an invalid one.

    `boundary` maps a dimension of I, J or K to what `rules_of` reads, for arguments `fields`.
    """
    rules = {dim: _rules(dim, spec, grid, fields) for dim, spec in boundary.items()}
    _check_fields(rules, grid, uses)
    lines = tuple(_lines(rules, grid, use) for use in uses)
    for at, dim in enumerate(grid.dims):
        several = [
            (use, own[at], reach[at]) for use, own, reach in zip(uses, lines, reaches, strict=True)
        ]
        for use, line, along in several:
            _check_depth(dim or "", line, along)
            _check_type(dim or "", use, line.low if along[0] else OPEN)
            _check_type(dim or "", use, line.high if along[1] else OPEN)
        _check_around(dim or "", grid, at, [(use, line) for use, line, _ in several])
        along = [(line, reach) for use, line, reach in several if use.read]
        _check_domain(dim or "", grid.sizes[at], along)
    return lines


def _lines(rules: Mapping[str, Rules], grid: Grid, use: FieldUse) -> Lines:
    i, j, k = (
        Line(
            size if dim is None or dim not in use.dims else grid.size_of(dim),
            *rules.get(dim or "", Rules()).sides_of(use.name),
        )
        for dim, size in zip(grid.dims_of(use.dims), grid.sizes, strict=True)
    )
    return i, j, k


def _rules(dim: str, spec: Any, grid: Grid, fields: Mapping[str, Sequence[str]]) -> Rules:
    if dim in grid.extra:
        raise BoundaryError(
            f"Dimension '{dim}' is not a stencil axis; it takes no boundary.",
            hint=f"The axes are {_known(grid)}. If '{dim}' is one, say which with axes={{...}}.",
        )
    if grid.axis_of(dim) is None:
        dims = {axis: name for axis, name in zip(Axis, grid.dims, strict=True) if name is not None}
        raise unknown_dimension(dim, spec, dims, _dims(grid))
    return rules_of(dim, spec, fields)


def _check_depth(dim: str, line: Line, reach: Reach) -> None:
    for side, depth, end in ((line.low, -reach[0], "before"), (line.high, reach[1], "after")):
        least = _least_size(side.kind, depth)
        if line.size < least:
            raise BoundaryError(
                f"The program reads {depth} cells {end} a cell along '{dim}', which with the"
                f" boundary '{side.kind.value}' needs at least {least} cells, but it has"
                f" {line.size}.",
                hint="Give more cells, or a boundary that needs none of them, such as 'edge' or"
                " {'constant': 0.0}.",
            )


def _check_fields(rules: Mapping[str, Rules], grid: Grid, uses: Sequence[FieldUse]) -> None:
    """Raise where a field has a rule for a dimension, but lies on another one of that axis."""
    for dim, one in rules.items():
        for use in uses:
            own = [other for other in use.dims if grid.axis_of(other) == grid.axis_of(dim)]
            if use.name in one.fields and own and dim not in own:
                raise BoundaryError(
                    f"The boundary of '{dim}' has a rule for '{use.name}', which lies on"
                    f" '{own[0]}'.",
                    hint=f"Write it there: boundary={{'{own[0]}': ...}}.",
                )


def _check_around(dim: str, grid: Grid, at: int, several: Sequence[tuple[FieldUse, Line]]) -> None:
    """Raise where one of several dimensions of an axis is periodic, and another one not."""
    around = [(use, line) for use, line in several if line.endless]
    for use, line in several:
        if around and (not line.endless or line.size != around[0][1].size):
            longest = max(
                _dims(grid), key=lambda name: (grid.axis_of(name) == at, grid.size_of(name))
            )
            raise BoundaryError(
                f"The boundary of '{dim}' must be periodic for fields at all positions, each with"
                f" as many points, but '{around[0][0].name}' has {around[0][1].size}, and"
                f" '{use.name}' {line.size if line.endless else 'is not periodic'}.",
                hint="Give each dimension of the axis the boundary 'periodic', and leave out the"
                f" face that is the same as the first one: dataset.isel({longest}=slice(0,"
                f" {grid.cut_sizes[at]})).",
            )


def _check_domain(dim: str, size: int, along: Sequence[tuple[Line, Reach]]) -> None:
    if not domain(tuple(along), Span(0, size)).size:
        low, high = min(reach[0] for _, reach in along), max(reach[1] for _, reach in along)
        raise BoundaryError(
            f"The program reads {-low} cells before and {high} cells after a cell along"
            f" '{dim}', which has only {size}, so that no cell can be computed.",
            hint=f"Give a boundary: boundary={{'{dim}': 'edge'}}.",
        )


def _least_size(kind: Kind, depth: int) -> int:
    """Return how many cells ghosts of a depth are made of."""
    if depth == 0:
        return 0
    match kind:
        case Kind.PERIODIC | Kind.WRAP | Kind.SYMMETRIC | Kind.ANTISYMMETRIC:
            return depth
        case Kind.REFLECT:
            return depth + 1
        case Kind.EXTRAPOLATE:
            return 2
        case Kind.EDGE:
            return 1
        case Kind.CONSTANT | Kind.NONE:
            return 0


def _check_type(dim: str, use: FieldUse, side: Side) -> None:
    """Raise where the values of a field's type cannot make the ghosts of one end."""
    dtype = np.dtype(use.dtype)
    if side.kind is Kind.EXTRAPOLATE and dtype.kind != "f":
        raise BoundaryError(
            f"Field '{use.name}' is {use.dtype}, so it cannot be extrapolated along '{dim}'.",
            hint="Use 'edge'.",
        )
    if is_negated(side.kind) and dtype.kind not in "fi":
        raise BoundaryError(
            f"Field '{use.name}' is {use.dtype}, which has no negative values, so it cannot be"
            f" '{side.kind.value}' along '{dim}'.",
            hint="Use 'symmetric'.",
        )
    if side.kind is Kind.CONSTANT and as_held(side.value, dtype) is None:
        raise BoundaryError(
            f"Field '{use.name}' is {use.dtype}, which has no value {written(side.value)} for"
            f" the boundary of '{dim}'.",
            hint="Use 'edge', or a number that the type has.",
        )


def _known(grid: Grid) -> str:
    return ", ".join(f"'{dim}'" for dim in _dims(grid)) or "no dimensions"


def _dims(grid: Grid) -> list[str]:
    """Return the dimensions of I, J and K, those of one axis behind each other."""
    along = {dim: at for at, dim in enumerate(grid.dims) if dim is not None}
    along |= {dim: at for dim, at, _ in grid.positions}
    return sorted(along, key=lambda dim: along[dim])
