"""Centres of the cells that weights are for, beside those of the data: which cell is which.

Weights number the cells of a grid in one order. Data may have the same cells in another: latitudes
from north to south, longitudes from 180 degrees west, dimensions exchanged, or any order of an
unstructured grid. Cells are told by their centres; longitudes count modulo a turn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.datasets.attributes import text_of
from halocline_engine.datasets.grids.angles import LARGEST, LATITUDE, LONGITUDE, degrees, kind_of
from halocline_engine.errors import DatasetError, FieldError, HaloclineError

__all__ = ["Centres", "coordinates_in", "order_of"]

_Floats = NDArray[np.float64]
_Index = NDArray[np.int64]

_TURN = 360.0
_NAMES = {LATITUDE: ("lat", "latitude"), LONGITUDE: ("lon", "longitude")}
#: Share of the distance between cells by which centres of the same cell may differ.
_TOLERANCE = 0.25
#: Degrees by which equal values of an axis may differ: rounding to float32.
_ROUNDING = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class Centres:
    """Latitudes and longitudes of cells in degrees, [cell]; None, or NaN for some, if unknown."""

    latitude: _Floats | None
    longitude: _Floats | None
    shape: tuple[int, ...]

    def taken(self, order: _Index) -> Centres:
        """Return the centres in another order."""
        lat, lon = self.latitude, self.longitude
        return Centres(
            None if lat is None else lat[order], None if lon is None else lon[order], self.shape
        )

    def distances(self, other: Centres) -> _Floats | None:
        """Return how many degrees the centres of cells differ by; NaN or None if not known.

        Longitudes count at the poles as well, where they tell the columns of a grid apart.
        """
        parts: list[_Floats] = []
        if self.latitude is not None and other.latitude is not None:
            parts.append(self.latitude - other.latitude)
        if self.longitude is not None and other.longitude is not None:
            apart = self.longitude - other.longitude
            parts.append(apart - _TURN * np.round(apart / _TURN))
        return np.sqrt(np.sum([part**2 for part in parts], axis=0)) if parts else None

    def latitude_axis(self) -> int | None:
        """Return the dimension of latitudes of a rectilinear grid; None for others."""
        axes = _axes(self)
        return axes[0][0][0] if len(axes) == 1 else None

    def spacing(self) -> float:
        """Return the degrees between cells that follow each other along the closest dimension."""
        index = np.arange(math.prod(self.shape)).reshape(self.shape)
        medians: list[float] = []
        for axis in range(len(self.shape)):
            here = index.take(range(self.shape[axis] - 1), axis).ravel()
            there = index.take(range(1, self.shape[axis]), axis).ravel()
            apart = self.taken(here).distances(self.taken(there))
            apart = np.zeros(0) if apart is None else apart[apart > _ROUNDING]
            if apart.size:
                medians.append(float(np.median(apart)))
        return min(medians, default=_TURN)


def coordinates_in(
    dataset: xr.Dataset, array: xr.DataArray, dims: tuple[str, ...]
) -> dict[str, xr.DataArray]:
    """Return the latitude and the longitude of the cells of a variable, by kind, where known.

    Its coordinates count before other variables, and those that say what they are before those that
    are called so.
    """
    own: Mapping[str, xr.DataArray] = cast("Any", array).coords
    beside = [name for name in map(str, dataset.data_vars) if name != array.name]
    candidates = [
        item
        for item in (*own.values(), *(dataset[name] for name in beside))
        if item.ndim and {*map(str, item.dims)} <= {*dims} and len({*item.dims}) == item.ndim
    ]
    found: dict[str, xr.DataArray] = {}
    for kind, names in _NAMES.items():
        told = [item for item in candidates if kind_of(item) == kind]
        called = [item for item in candidates if str(item.name).lower() in names]
        # The axis itself counts before what lies along it.
        axes = [item for item in told if item.name in item.dims]
        choices = axes or told or called
        if len(choices) == 1:
            found[kind] = choices[0]
    return found


def order_of(
    name: str,
    dims: tuple[str, ...],
    coordinates: Mapping[str, xr.DataArray],
    shape: tuple[int, ...],
    wanted: Centres,
    used: _Index,
) -> _Index | None:
    """Return the place in the data of each cell of the weights; None where they are in one order.

    `shape` is that of the data along `dims`. `used` are the cells that the weights use. Cells of
    which either side does not tell the centre are taken to be in one order. Raises `FieldError`
    where the data have other cells.
    """
    given = Centres(
        _flat(coordinates.get(LATITUDE), LATITUDE, dims, shape),
        _flat(coordinates.get(LONGITUDE), LONGITUDE, dims, shape),
        shape,
    )
    apart = given.distances(wanted)
    if apart is None or not used.size:
        return None
    tolerance = _TOLERANCE * given.spacing()
    if not (apart[used] > tolerance).any():
        return None
    for order in _orders(given, wanted, tolerance):
        other = given.taken(order).distances(wanted)
        if other is not None and not (other[used] > tolerance).any():
            return order
    cell = int(used[np.nanargmax(np.where(apart[used] > tolerance, apart[used], -1))])
    place = tuple(int(number) for number in np.unravel_index(cell, shape))
    shown = ", ".join(f"{dim} {number}" for dim, number in zip(dims, place, strict=True))
    named = [str(item.name) for item in coordinates.values()]
    raise FieldError(
        f"The weights are for other cells than those of variable '{name}': the cell at {shown} has"
        f" its centre at {_shown(wanted, cell)} in the weights, and at {_shown(given, cell)} in the"
        " dataset.",
        hint="Make weights for the grid of the dataset; or, if its coordinates are wrong, leave"
        f" them out: dataset.drop_vars({named}).",
    )


def _flat(
    item: xr.DataArray | None, kind: str, dims: tuple[str, ...], shape: tuple[int, ...]
) -> _Floats | None:
    """Return a coordinate in degrees for each cell; None where it is no angle."""
    if item is None:
        return None
    try:
        values = degrees(item, kind)
    except DatasetError:
        # Without units, small numbers may be radians as well: those called latitude are degrees.
        values = np.asarray(item.values, np.float64)
        if (
            text_of(item.attrs, "units")
            or not np.nanmax(np.abs(values), initial=0) <= LARGEST[kind]
        ):
            return None
    except HaloclineError:
        return None
    own = [str(dim) for dim in item.dims]
    values = values.transpose([own.index(dim) for dim in dims if dim in own])
    sizes = [size if dim in own else 1 for dim, size in zip(dims, shape, strict=True)]
    return np.broadcast_to(values.reshape(sizes), shape).ravel()


def _orders(given: Centres, wanted: Centres, tolerance: float) -> Iterator[_Index]:
    """Yield orders in which the given centres may be those that are wanted."""
    yield from _along_axes(given, wanted, tolerance)
    index = np.arange(math.prod(given.shape)).reshape(given.shape)
    axes = range(len(given.shape))
    for count in axes:
        for some in combinations(axes, count + 1):
            yield np.flip(index, some).ravel()
    one, other = (_sorted(centres, tolerance) for centres in (given, wanted))
    if one is not None and other is not None:
        order = np.empty_like(one)
        order[other] = one
        yield order


def _along_axes(given: Centres, wanted: Centres, tolerance: float) -> Iterator[_Index]:
    """Yield the order of rectilinear grids, whose axes have their values in any order."""
    have = _axes(given)
    for shape in dict.fromkeys((wanted.shape, given.shape)):
        want = _axes(Centres(wanted.latitude, wanted.longitude, shape))
        for (lat, lat_values), (lon, lon_values) in want:
            for (to_lat, own_lat), (to_lon, own_lon) in have:
                if own_lat.size != lat_values.size or own_lon.size != lon_values.size:
                    continue
                # Longitudes from one on that no rounding puts a turn farther.
                start = own_lon[0] - tolerance
                columns = _matched((lon_values - start) % _TURN, (own_lon - start) % _TURN)
                places = np.indices(shape)
                there: list[Any] = [None, None]
                there[to_lat] = _matched(lat_values, own_lat)[places[lat]]
                there[to_lon] = columns[places[lon]]
                yield np.ravel_multi_index(tuple(there), given.shape).ravel()


_Axis = tuple[int, _Floats]


def _axes(centres: Centres) -> list[tuple[_Axis, _Axis]]:
    """Return the axes of latitude and longitude with their values, if a grid has such."""
    if len(centres.shape) != 2 or centres.latitude is None or centres.longitude is None:
        return []
    found: list[list[_Axis]] = []
    for values in (centres.latitude, centres.longitude):
        plane = values.reshape(centres.shape)
        lines = [(0, plane[:, 0]), (1, plane[0])]
        found.append(
            [
                (axis, line)
                for axis, line in lines
                if (np.abs(plane - np.expand_dims(line, 1 - axis)) <= _ROUNDING).all()
            ]
        )
    return [(lat, lon) for lat in found[0] for lon in found[1] if lat[0] != lon[0]]


def _matched(wanted: _Floats, given: _Floats) -> _Index:
    """Return the place of each wanted value among the given ones, by their rank."""
    order = np.empty(len(wanted), np.int64)
    order[np.argsort(wanted, kind="stable")] = np.argsort(given, kind="stable")
    return order


def _sorted(centres: Centres, tolerance: float) -> _Index | None:
    """Return the cells by latitude and longitude, rounded as coarsely as cells are told apart."""
    if centres.latitude is None or centres.longitude is None:
        return None
    # An odd step: coordinates that are round numbers lie in the middle of none.
    step = tolerance / math.pi
    lat, lon = centres.latitude, (centres.longitude + step) % _TURN
    return np.lexsort((np.round(lon / step), np.round(lat / step)))


def _shown(centres: Centres, cell: int) -> str:
    parts = ((LATITUDE, centres.latitude), (LONGITUDE, centres.longitude))
    return ", ".join(f"{kind} {values[cell]:.6g}" for kind, values in parts if values is not None)
