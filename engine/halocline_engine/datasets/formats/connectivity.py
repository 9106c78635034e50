"""Tables of points in mesh files: fill values and index bases of any form, repeated corners.

A table lists points by whole numbers. What is no point is a declared `_FillValue` or
`missing_value`, NaN, or without a declaration, behind the last corner of a face, a negative number
or the largest of the type (the default fill values of NetCDF among them).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.datasets.attributes import whole_of
from halocline_engine.errors import DatasetError
from halocline_engine.kernels.whole import first_fraction, whole_numbers

__all__ = ["corners_of", "drop_repeats", "whole_table"]

_Whole = NDArray[np.int64]
_Flags = NDArray[np.bool_]

_LARGEST = 2**63 - 1
#: Different nodes of a face, at least.
_LEAST_NODES = 3


def whole_table(array: xr.DataArray) -> tuple[_Whole, _Flags]:
    """Return the whole numbers of a table as they are, and which of them are declared fills.

    Raises `DatasetError` for numbers with a fraction.
    """
    values: NDArray[Any] = np.asarray(array.values)
    missing = ~np.isfinite(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
    for fill in _declared_fills(array, values.dtype):
        missing |= values == fill
    known = np.where(missing, np.zeros((), values.dtype), values)
    place = first_fraction(known)
    if place is not None:
        raise DatasetError(
            f"The mesh's '{array.name}' must hold whole numbers, got {known.reshape(-1)[place]} of"
            f" type '{values.dtype}' at place {place}."
        )
    return whole_numbers(known), missing


def corners_of(array: xr.DataArray, nodes: int) -> _Whole:
    """Return the nodes of faces [face, corner], counted from 0, -1 behind the last of a face.

    Corners that repeat the one before, or close a face, are left out. Raises `DatasetError` for a
    number that is no node, and for faces of less than three.
    """
    numbers, missing = whole_table(array)
    start = _start_index(array)
    padding = ~missing & ((numbers < 0) | (numbers >= _largest_of(array)) & (numbers > nodes))
    known = numbers[~missing & ~padding]
    reaches_end = known.size > 0 and int(known.max()) == nodes
    if start is None:
        # Counted from 0, the number of nodes would be no node.
        start = 1 if reaches_end else 0
    if start == 1 and reaches_end:
        padding |= ~missing & (numbers == 0)
    _refuse_no_node(array, numbers - start, padding, missing, nodes, start)
    corners = drop_repeats(np.where(missing | padding, -1, numbers - start))
    ordered = np.sort(corners, axis=1)
    different = (ordered[:, :1] >= 0).sum(axis=1)
    different += ((np.diff(ordered, axis=1) > 0) & (ordered[:, 1:] >= 0)).sum(axis=1)
    few = np.flatnonzero(different < _LEAST_NODES)
    if few.size:
        face = int(few[0])
        raise DatasetError(
            f"Face {face} of the mesh has {int(different[face])} different nodes in"
            f" '{array.name}', expected at least {_LEAST_NODES}.",
            hint="Leave faces without an area out, and check its attributes 'start_index' and"
            " '_FillValue'.",
        )
    return corners


def drop_repeats(corners: _Whole) -> _Whole:
    """Return corners without those that equal the one before; the last stands before the first.

    >>> drop_repeats(np.array([[4, 7, 7, 9], [1, 2, 3, 1], [5, -1, 6, 8]])).tolist()
    [[4, 7, 9, -1], [2, 3, 1, -1], [5, 6, 8, -1]]
    """
    if not corners.size:
        return corners
    corners = _compacted(corners)
    counts = (corners >= 0).sum(axis=1)
    before = np.roll(corners, 1, axis=1)
    rows = np.flatnonzero(counts)
    before[rows, 0] = corners[rows, counts[rows] - 1]
    return _compacted(np.where(corners == before, -1, corners))


def _compacted(corners: _Whole) -> _Whole:
    """Return corners with those of each face in front."""
    order = np.argsort(corners < 0, axis=1, kind="stable")
    return np.take_along_axis(corners, order, axis=1)


def _declared_fills(array: xr.DataArray, dtype: np.dtype[Any]) -> list[Any]:
    """Return the fill values that attributes declare, as they are and in the type of the table."""
    encoding = cast("Mapping[str, Any]", array.encoding)
    declared = [
        attributes[name]
        for attributes in (array.attrs, encoding)
        for name in ("_FillValue", "missing_value")
        if name in attributes
    ]
    fills: list[Any] = []
    for value in (each for one in declared for each in np.ravel(np.asarray(one)).tolist()):
        try:
            number = float(value)
        except (TypeError, ValueError):
            continue
        fills.append(value if isinstance(value, int | float) else number)
        # -1 in an unsigned table is its largest number.
        if dtype.kind == "u" and number < 0 and number.is_integer():
            fills.append(2 ** (8 * dtype.itemsize) + int(number))
    return fills


def _start_index(array: xr.DataArray) -> int | None:
    """Return the number of the first node; None where the table does not say it."""
    if array.attrs.get("start_index") is None:
        return None
    start = whole_of(array.attrs, "start_index")
    if start not in (0, 1):
        raise DatasetError(
            f"The attribute 'start_index' of the mesh's '{array.name}' must be 0 or 1, got"
            f" {array.attrs['start_index']!r}.",
            hint="It is the number of the first node.",
        )
    return start


def _largest_of(array: xr.DataArray) -> int:
    dtype = array.dtype
    return int(np.iinfo(dtype).max) if dtype.kind in "iu" and dtype.itemsize < 8 else _LARGEST


def _refuse_no_node(
    array: xr.DataArray, indices: _Whole, padding: _Flags, missing: _Flags, nodes: int, start: int
) -> None:
    """Raise `DatasetError` for numbers that are neither a node nor padding behind the last one."""
    given = ~missing & ~padding
    later = np.flip(np.maximum.accumulate(np.flip(given, axis=1), axis=1), axis=1)
    wrong = (given & ((indices < 0) | (indices >= nodes))) | (padding & later)
    if not wrong.any():
        return
    face, corner = (int(place[0]) for place in np.nonzero(wrong))
    number, base = int(indices[face, corner]) + start, f"counted from {start}"
    if padding[face, corner]:
        raise DatasetError(
            f"Face {face} of the mesh has the node {number} in '{array.name}', {base}, and others"
            " behind it.",
            hint=f"If {number} is a fill value, put it after the nodes of its face.",
        )
    raise DatasetError(
        f"Face {face} of the mesh has the node {number} in '{array.name}', {base}, but there are"
        f" {nodes} of them.",
        hint="Set its attribute 'start_index' to the number of the first node, 0 or 1, and write -1"
        " where a face has no further node.",
    )
