"""Positions of dimensions along an axis: centres of cells, and faces between them.

Cells and faces share one index: face `i` is the lower face of cell `i`. For `n` cells::

    left    faces 0 ... n-1    the lower faces of all cells
    right   faces 1 ... n      the upper faces of all cells
    outer   faces 0 ... n
    inner   faces 1 ... n-1

Dimensions of one axis are found in this order: what the caller says; `grid_topology` of SGRID;
xgcm's `axis` with `c_grid_axis_shift`; names that models give. Lengths must fit.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, cast

import xarray as xr

from halocline_engine.analysis.named import near
from halocline_engine.datasets.grids.conventions import (
    attribute_of,
    dimensions_of,
    shifts_of,
)
from halocline_engine.errors import AxisError
from halocline_engine.ir.types import Axis

__all__ = ["Placing", "Position", "Staggered", "aligned", "check_grid", "check_staggered"]


class Position(StrEnum):
    """Position of the points of a dimension among cells, as xgcm calls it."""

    CENTER = "center"
    LEFT = "left"
    RIGHT = "right"
    OUTER = "outer"
    INNER = "inner"

    @property
    def first(self) -> int:
        """Index of the first point."""
        return int(self in (Position.RIGHT, Position.INNER))

    def points(self, cells: int) -> int:
        """Return how many points there are for a number of cells."""
        return cells + (self is Position.OUTER) - (self is Position.INNER)


@dataclass(frozen=True, slots=True)
class Staggered:
    """Dimensions of one axis, each with its position; `points` has the lengths."""

    positions: Mapping[str, Position]
    points: Mapping[str, int]

    @property
    def anchor(self) -> str:
        """The dimension that stands for all: of centres, or of the faces that come first."""
        return min(self.positions, key=lambda dim: list(Position).index(self.positions[dim]))


#: Dimensions of centres, of faces, and the positions of these by how many more points they have.
_MODELS: Sequence[tuple[str, str, Mapping[int, Position]]] = (
    ("west_east", "west_east_stag", {1: Position.OUTER}),
    ("south_north", "south_north_stag", {1: Position.OUTER}),
    ("xi_rho xi_v", "xi_u xi_psi", {-1: Position.INNER}),
    ("eta_rho eta_u", "eta_v eta_psi", {-1: Position.INNER}),
    ("xh", "xq", {0: Position.RIGHT, 1: Position.OUTER}),
    ("yh", "yq", {0: Position.RIGHT, 1: Position.OUTER}),
    ("lonh", "lonq", {0: Position.RIGHT, 1: Position.OUTER}),
    ("lath", "latq", {0: Position.RIGHT, 1: Position.OUTER}),
    ("xt_ocean", "xu_ocean", {0: Position.RIGHT}),
    ("yt_ocean", "yu_ocean", {0: Position.RIGHT}),
    ("x_c", "x_f", {0: Position.RIGHT}),
    ("y_c", "y_f", {0: Position.RIGHT}),
    ("xc", "xg", {0: Position.LEFT}),
    ("yc", "yg", {0: Position.LEFT}),
    ("i", "i_g", {0: Position.LEFT}),
    ("j", "j_g", {0: Position.LEFT}),
    ("x", "xp1", {1: Position.OUTER}),
    ("y", "yp1", {1: Position.OUTER}),
)
#: SGRID's padding of cells against nodes, and where the nodes lie.
_PADDINGS = {
    "none": Position.OUTER,
    "low": Position.RIGHT,
    "high": Position.LEFT,
    "both": Position.INNER,
}
_PADDED = re.compile(r"(\S+)\s*:\s*(\S+)\s*\(\s*padding\s*:\s*(\w+)\s*\)")
_PAIR = re.compile(r"(\S+)\s*:\s*(\S+)")
_SPELLED = {"centre": Position.CENTER}
_EXAMPLE = "For example grid={'X': {'center': 'xh', 'right': 'xq'}}."


@dataclass(frozen=True, slots=True)
class Placing:
    """What a caller says: dimensions by axis and position, and dimensions of outputs."""

    grid: Mapping[str, Mapping[str, str]] | None = None
    outputs: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])

    def staggered(self, dataset: xr.Dataset, variables: Sequence[str]) -> tuple[Staggered, ...]:
        """Return the axes with several dimensions, of variables and of outputs."""
        shapes = [[str(dim) for dim in dataset[name].dims] for name in variables]
        return _staggered(dataset, [*shapes, *self.outputs.values()], self.grid)

    def position(self, output: str, dims: Sequence[str], *models: Sequence[str]) -> str:
        """Return where an output lies, of the dimensions of an axis, the first one of centres.

        It is where the caller says, or where the first of the models lies that lies anywhere;
        among those of several positions it is the centres.
        """
        for model in (self.outputs.get(output, ()), *models):
            there = [dim for dim in dims if dim in model]
            if len(there) == 1:
                return there[0]
        return dims[0]


def _staggered(
    dataset: xr.Dataset,
    used: Sequence[Sequence[str]],
    grid: Mapping[str, Mapping[str, str]] | None,
) -> tuple[Staggered, ...]:
    """Return the axes with several dimensions in use.

    `used` has the dimensions of each variable. A variable with two dimensions of an axis combines
    their points, so that they are no positions of one. Raises `AxisError` where what the caller, or
    the dataset, says does not fit.
    """
    known = {dim for dims in used for dim in dims}
    sizes = {str(dim): size for dim, size in dataset.sizes.items()}
    found: list[Staggered] = []
    taken: set[str] = set()
    for axis, strict in _axes(dataset, sizes, grid):
        present = {dim: position for dim, position in axis.items() if dim in known}
        joined = any(len(present.keys() & {*dims}) > 1 for dims in used)
        if len(present) < 2 or joined or taken & present.keys() or not _fits(axis, sizes, strict):
            continue
        taken |= present.keys()
        found.append(Staggered(present, {dim: sizes[dim] for dim in present}))
    return tuple(found)


def aligned(
    dataset: xr.Dataset, variables: Sequence[str], staggered: Sequence[Staggered]
) -> xr.Dataset:
    """Return variables with one dimension for each axis, as if all lay at its `anchor`."""
    names = list(dict.fromkeys(variables))
    part = dataset[names]
    if not staggered:
        return part
    alias = {dim: one.anchor for one in staggered for dim in one.positions}
    common = {one.anchor: slice(0, min(one.points.values())) for one in staggered}
    # An anchor may be a dimension of outputs alone.
    own = {(one.anchor,) for one in staggered}

    def same(array: xr.DataArray) -> xr.DataArray:
        moved = {str(dim): alias[str(dim)] for dim in array.dims if str(dim) in alias}
        bare = array.reset_coords(drop=True).drop_vars(list(array.dims), errors="ignore")
        others = {dim: to for dim, to in moved.items() if dim != to}
        return bare.rename(others).isel({to: common[to] for to in moved.values()})

    known = cast("Mapping[str, xr.DataArray]", dataset.coords)
    coords = {
        name: same(item)
        for name, item in known.items()
        if (name in part.coords or item.dims in own)
        and name not in names
        and all(alias.get(str(dim), dim) == dim for dim in item.dims)
    }
    made = xr.Dataset({name: same(part[name]) for name in names})
    return cast("Any", made).assign_coords(coords)


def check_staggered(
    staggered: Sequence[Staggered],
    dims: tuple[str | None, str | None, str | None],
    positional: Collection[Axis],
) -> None:
    """Raise `AxisError` where an axis with several dimensions is not I or J, or counts points."""
    for one in staggered:
        several = " and ".join(f"'{dim}'" for dim in one.positions)
        if one.anchor not in dims[:2]:
            is_vertical = one.anchor == dims[2]
            raise AxisError(
                f"Dimensions {several} are positions of one axis, which must be I or J, but it is"
                f" {'K' if is_vertical else 'none of both'}.",
                hint="Use 'column' for operators between levels and their faces."
                if is_vertical
                else f"Say which one it is: axes={{'I': '{one.anchor}'}}.",
            )
        axis = Axis.I if one.anchor == dims[0] else Axis.J
        if axis in positional:
            raise AxisError(
                f"The program asks where points lie along axis '{axis}', which has several"
                f" positions: {several}.",
                hint="Leave regions and indices out, or use variables at one position.",
            )


def check_grid(grid: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse unknown names of positions."""
    for name, positions in grid.items():
        for word in positions:
            if word not in (*Position, *_SPELLED):
                raise AxisError(
                    f"Argument 'grid' must name positions of axis '{name}', got '{word}'.",
                    hint=near(word, Position),
                )


def _axes(
    dataset: xr.Dataset, sizes: Mapping[str, int], grid: Mapping[str, Mapping[str, str]] | None
) -> Iterator[tuple[dict[str, Position], bool]]:
    """Yield the positions of an axis, and whether its lengths must fit, the first rule first."""
    for name, positions in (grid or {}).items():
        yield _given(name, positions, sizes), True
    for axis in _of_topology(dataset):
        yield axis, True
    for axis in _of_attributes(dataset, sizes):
        yield axis, True
    lower = {dim.lower(): dim for dim in sizes}
    for centers, faces, positions in _MODELS:
        cells = [lower[name] for name in centers.split() if name in lower]
        edges = [lower[name] for name in faces.split() if name in lower]
        if not cells or not edges:
            continue
        position = positions.get(sizes[edges[0]] - sizes[cells[0]])
        if position is not None:
            named = {**dict.fromkeys(cells, Position.CENTER), **dict.fromkeys(edges, position)}
            yield named, False


def _given(
    name: str, positions: Mapping[str, str], sizes: Mapping[str, int]
) -> dict[str, Position]:
    found: dict[str, Position] = {}
    check_grid({name: positions})
    for word, dim in positions.items():
        if dim not in sizes:
            raise AxisError(
                f"Argument 'grid' names '{dim}', which is no dimension of the dataset.",
                hint=near(dim, sizes),
            )
        if dim in found:
            raise AxisError(
                f"Argument 'grid' gives '{dim}' two positions of axis '{name}'.", hint=_EXAMPLE
            )
        found[dim] = _SPELLED.get(word) or Position(word)
    return found


def _fits(axis: Mapping[str, Position], sizes: Mapping[str, int], strict: bool) -> bool:
    """Whether all dimensions have the points of as many cells; raises where they must."""
    first = next(iter(sorted(axis, key=lambda dim: list(Position).index(axis[dim]))))
    cells = sizes[first] - axis[first].points(0)
    for dim, position in axis.items():
        if sizes[dim] != position.points(cells):
            if not strict:
                return False
            raise AxisError(
                f"Dimension '{dim}' lies at '{position}' of the {cells} cells along '{first}', so"
                f" it must have {position.points(cells)} points, got {sizes[dim]}.",
                hint=f"Say where its points lie. {_EXAMPLE}",
            )
    return True


def _of_topology(dataset: xr.Dataset) -> Iterator[dict[str, Position]]:
    """Yield the axes that SGRID declares, with cells, nodes and edges."""
    variables = cast("Mapping[str, xr.Variable]", dataset.variables)
    for variable in variables.values():
        if attribute_of(variable, "cf_role") != "grid_topology":
            continue
        axes: dict[str, dict[str, Position]] = {}
        for role in ("face_dimensions", "edge1_dimensions", "edge2_dimensions"):
            text = attribute_of(variable, role)
            for cell, node, padding in _PADDED.findall(text):
                if padding in _PADDINGS:
                    axis = axes.setdefault(node, {node: _PADDINGS[padding]})
                    axis[cell] = Position.CENTER
            for edge, node in _PAIR.findall(_PADDED.sub("", text)):
                if node in axes:
                    axes[node].setdefault(edge, axes[node][node])
        for axis in axes.values():
            yield {dim: position for dim, position in axis.items() if dim in dataset.sizes}


def _of_attributes(dataset: xr.Dataset, sizes: Mapping[str, int]) -> Iterator[dict[str, Position]]:
    """Yield the axes that `axis` and xgcm's `c_grid_axis_shift` of 1-D coordinates declare."""
    by_attributes = dimensions_of(dataset).by_attributes
    for axis in (Axis.I, Axis.J):
        dims = dict.fromkeys(dim for rank in by_attributes[axis] for dim in rank)
        shifts = {dim: shifts_of(dataset, dim) for dim in dims}
        centers = [dim for dim in dims if not shifts[dim]]
        for center in centers:
            faces = {
                dim: _shifted(several, sizes[dim] - sizes[center])
                for dim, several in shifts.items()
                if several
            }
            found = {dim: position for dim, position in faces.items() if position is not None}
            if found:
                yield {center: Position.CENTER, **found}


def _shifted(shifts: Iterable[float], more: int) -> Position | None:
    """Return the position of faces by their shifts, and how many more there are than cells."""
    match more:
        case 1:
            return Position.OUTER
        case -1:
            return Position.INNER
        case 0:
            return Position.LEFT if min(shifts) < 0.0 else Position.RIGHT
        case _:
            return None
