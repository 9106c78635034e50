"""Weight files of ESMF and SCRIP beside data whose cells are in the same or in another order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

Rng = np.random.Generator
Floats = NDArray[np.float64]


@dataclass
class DrawnRegridding:
    """Data, weights, and the result [time, target cell] by plain loops."""

    dataset: xr.Dataset
    weights: xr.Dataset
    wanted: Floats
    options: dict[str, Any]
    forms: list[str] = field(default_factory=list[str])


@dataclass
class _Grid:
    """Cells in the order of the weights: their centres in degrees, and their shape."""

    lat: Floats
    lon: Floats
    shape: tuple[int, ...]
    kind: str


def draw_regridding(rng: Rng) -> DrawnRegridding:
    """Draw a source grid, weights from it to some cells, and data in some order of its cells."""
    grid = _grid(rng)
    cells, rows = grid.lat.size, int(rng.integers(1, 9))
    terms = int(rng.integers(1, 40))
    row, column = rng.integers(0, rows, terms), rng.integers(0, cells, terms)
    weight = rng.integers(-8, 9, terms) / 8.0
    values = rng.integers(-99, 100, (2, cells)).astype(float)
    wanted = np.full((2, rows), np.nan)
    for r, c, w in zip(row.tolist(), column.tolist(), weight.tolist(), strict=True):
        wanted[:, r] = np.where(np.isnan(wanted[:, r]), 0, wanted[:, r]) + w * values[:, c]
    drawn = DrawnRegridding(xr.Dataset(), xr.Dataset(), wanted, {"skipna": False})
    known = rng.random() < 0.85
    drawn.weights = _weights(rng, drawn, grid, (row, column, weight, rows), known)
    drawn.dataset = _data(rng, drawn, grid, values, known)
    return drawn


def _grid(rng: Rng) -> _Grid:
    j, i = int(rng.integers(2, 7)), int(rng.integers(2, 9))
    match int(rng.integers(5)):
        case 0:  # regular, from pole to pole or not
            far = [90.0, 80.0, 60.0][rng.integers(3)]
            lat, lon = np.linspace(-far, far, j), np.arange(i) * 360.0 / i + 0.5
        case 1:  # from 180 degrees west
            lat, lon = np.linspace(-75, 75, j), np.arange(i) * 360.0 / i - 180
        case 2:  # a region across the meridian 0, irregular
            lat = np.sort(rng.choice(np.arange(-20.0, 60.0), j, replace=False))
            lon = np.sort(rng.choice(np.arange(-30.0, 30.0), i, replace=False)) % 360
        case 3:  # curvilinear
            y, x = np.meshgrid(np.arange(j) * 2.0, np.arange(i) * 3.0, indexing="ij")
            turn = 0.3
            plane_lat: Any = 10 + y * np.cos(turn) + x * np.sin(turn)
            plane_lon: Any = 350 + x * np.cos(turn) - y * np.sin(turn)
            return _Grid(plane_lat.ravel(), plane_lon.ravel() % 360, (j, i), "curvilinear")
        case _:  # unstructured
            n = j * i
            lat = np.degrees(np.arcsin(np.linspace(-0.95, 0.95, n)))
            spiral: Any = np.arange(n) * 137.5 % 360
            return _Grid(lat, spiral, (n,), "unstructured")
    if rng.random() < 0.4:
        lat = lat[::-1]
    both = np.meshgrid(lat, lon, indexing="ij")
    return _Grid(both[0].ravel(), both[1].ravel(), (j, i), "rectilinear")


def _weights(
    rng: Rng,
    drawn: DrawnRegridding,
    grid: _Grid,
    terms: tuple[Any, Any, Any, int],
    known: bool,
) -> xr.Dataset:
    row, column, weight, rows = terms
    whole = str(rng.choice(["i4", "i8", "u4", "f8"]))
    made = rng.random() < 0.5
    names = ("row", "col", "S", "yc_a", "xc_a", "n_a")
    if not made:
        names = ("dst_address", "src_address", "remap_matrix", "src_grid_center_lat")
        names = (*names, "src_grid_center_lon", "src_grid_size")
    found = xr.Dataset(
        {
            names[0]: ("n_s", (row + 1).astype(whole)),
            names[1]: ("n_s", (column + 1).astype(whole)),
            "src_grid_dims": ("src_rank", np.array(grid.shape[::-1], "i4")),
            "dst_grid_dims": ("dst_rank", np.array([rows], "i4")),
        }
    )
    matrix: Any = ("n_s", weight)
    if not made:
        several = np.stack([weight, np.ones(weight.size)], axis=1)
        matrix = (("n_s", "num_wgts"), several)
        if rng.random() < 0.3:
            matrix = (("num_wgts", "n_s"), several.T)
    found[names[2]] = matrix
    drawn.forms.append(f"{grid.kind} {grid.shape}, {'ESMF' if made else 'SCRIP'}")
    if grid.shape[1:] == () and rng.random() < 0.3:
        found["src_grid_dims"] = ("src_rank", np.array([grid.shape[0], 1], "i4"))
    if known:
        turned = np.where(grid.lon > 180, grid.lon - 360, grid.lon)
        centres = (grid.lat, turned if rng.random() < 0.5 else grid.lon)
        in_radians = rng.random() < 0.5
        for name, values in zip(names[3:5], centres, strict=True):
            units = ["radians", "radian"] if in_radians else ["degrees", "degrees "]
            given = np.radians(values) if in_radians else values
            found[name] = (names[5], given, {"units": units[rng.integers(2)]})
        drawn.forms.append("radians" if in_radians else "degrees")
    return found


def _data(rng: Rng, drawn: DrawnRegridding, grid: _Grid, values: Floats, known: bool) -> xr.Dataset:
    """Return variable t with the values [time, cell], in an order that coordinates tell."""
    cells = np.arange(grid.lat.size).reshape(grid.shape)
    dims = ["lat", "lon"] if grid.kind == "rectilinear" else ["y", "x"]
    dims = dims[: cells.ndim] if cells.ndim == 2 else ["ncol"]
    if known:
        cells = _reordered(rng, drawn, grid, cells)
    lat, lon = grid.lat[cells], grid.lon[cells]
    lon = [lon, np.where(lon > 180, lon - 360, lon), lon % 360][rng.integers(3)]
    dtype = ["f4", "f8", "f8"][rng.integers(3)]
    north, east = _attributes(rng, drawn, grid)
    coordinates: dict[str, Any]
    if grid.kind == "rectilinear" and rng.random() < 0.75:
        coordinates = {
            "lat": ("lat", lat[:, 0].astype(dtype), north),
            "lon": ("lon", lon[0].astype(dtype), east),
        }
    else:
        if grid.kind == "rectilinear":
            dims = ["y", "x"]
        coordinates = {
            "lat": (dims, lat.astype(dtype), north),
            "lon": (dims, lon.astype(dtype), east),
        }
    order = ["time", *dims]
    field_of = xr.DataArray(values[:, cells], dims=order, name="t")
    if rng.random() < 0.4 and len(dims) == 2 and "lat" in dims:
        rng.shuffle(order)
        field_of = field_of.transpose(*order)
        drawn.forms.append(f"dimensions {order}")
    dataset: Any = field_of.to_dataset()
    beside = "lat" not in dims and rng.random() < 0.3
    return dataset.assign(coordinates) if beside else dataset.assign_coords(coordinates)


def _attributes(rng: Rng, drawn: DrawnRegridding, grid: _Grid) -> tuple[Any, Any]:
    match int(rng.integers(4)):
        case 0:
            drawn.forms.append("told by names")
            return {}, {}
        case 1:
            lat, lon = ({"standard_name": name} for name in ("latitude", "longitude"))
            return lat | {"units": "degrees"}, lon | {"units": "degrees"}
        case _:
            return {"units": "degrees_north"}, {"units": "degrees_east"}


def _reordered(
    rng: Rng, drawn: DrawnRegridding, grid: _Grid, cells: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the cells in an order that the data may have."""
    if cells.ndim == 1:
        match int(rng.integers(3)):
            case 0:
                return cells
            case 1:
                drawn.forms.append("reversed")
                return cells[::-1]
            case _:
                drawn.forms.append("any order")
                order: Any = rng.permutation(cells)
                return order
    if rng.random() < 0.5:
        drawn.forms.append("latitudes the other way")
        cells = cells[::-1]
    if rng.random() < 0.3:
        drawn.forms.append("longitudes the other way")
        cells = cells[:, ::-1]
    if grid.kind == "rectilinear" and rng.random() < 0.5:
        drawn.forms.append("longitudes from another one")
        cells = np.roll(cells, int(rng.integers(grid.shape[1])), axis=1)
    return cells
