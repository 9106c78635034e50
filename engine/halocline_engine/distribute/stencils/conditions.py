"""Boundary conditions, checked against the grid and the program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from halocline_engine.analysis.boundaries import OPEN, Kind, Side, sides_of, unknown_dimension
from halocline_engine.arguments import as_held, written
from halocline_engine.datasets.grids.match import FieldUse, Grid
from halocline_engine.distribute.grid.boundary import Line, Reach, computed
from halocline_engine.distribute.grid.geometry import Reaches
from halocline_engine.errors import BoundaryError

__all__ = ["lines_of"]

#: "periodic", "edge", "reflect", "extrapolate", "none" or {"constant": value}.


def lines_of(
    boundary: Mapping[str, Any],
    grid: Grid,
    uses: Sequence[FieldUse],
    reaches: Sequence[Reaches],
) -> tuple[Line, Line, Line]:
    """Return the axes with their boundaries; raises `BoundaryError` for an invalid one.

    `boundary` maps a dimension of I, J or K to a rule for both ends, or to
    {"low": rule, "high": rule}; an end that is not named is "none".
    """
    sides = {dim: _sides(dim, spec, grid) for dim, spec in boundary.items()}
    lines: list[Line] = []
    for at, (dim, size) in enumerate(zip(grid.dims, grid.sizes, strict=True)):
        low, high = sides.get(dim or "", (OPEN, OPEN))
        line = Line(size, low, high)
        reach = (min(r[at][0] for r in reaches), max(r[at][1] for r in reaches))
        _check_depth(dim or "", line, reach)
        for use, along in zip(uses, reaches, strict=True):
            _check_type(dim or "", use, low if along[at][0] else OPEN)
            _check_type(dim or "", use, high if along[at][1] else OPEN)
        lines.append(line)
    return lines[0], lines[1], lines[2]


def _sides(dim: str, spec: Any, grid: Grid) -> tuple[Side, Side]:
    if dim in grid.extra:
        raise BoundaryError(
            f"Dimension '{dim}' is not a stencil axis; it takes no boundary.",
            hint=f"The axes are {_known(grid)}. If '{dim}' is one, say which with axes={{...}}.",
        )
    if dim not in grid.dims:
        raise unknown_dimension(dim, [name for name in grid.dims if name is not None])
    return sides_of(dim, spec)


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
    if not computed(line, reach).size:
        raise BoundaryError(
            f"The program reads {-reach[0]} cells before and {reach[1]} cells after a cell along"
            f" '{dim}', which has only {line.size}, so that no cell can be computed.",
            hint=f"Give a boundary: boundary={{'{dim}': 'edge'}}.",
        )


def _least_size(kind: Kind, depth: int) -> int:
    """Return how many cells ghosts of a depth are made of."""
    if depth == 0:
        return 0
    match kind:
        case Kind.PERIODIC | Kind.WRAP:
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
    if side.kind is Kind.CONSTANT and as_held(side.value, dtype) is None:
        raise BoundaryError(
            f"Field '{use.name}' is {use.dtype}, which has no value {written(side.value)} for"
            f" the boundary of '{dim}'.",
            hint="Use 'edge', or a number that the type has.",
        )


def _known(grid: Grid) -> str:
    return ", ".join(f"'{dim}'" for dim in grid.dims if dim is not None) or "no dimensions"
