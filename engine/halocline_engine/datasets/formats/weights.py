"""Weight files of ESMF and SCRIP: sparse matrices from one horizontal grid to another.

ESMF's files hold `row` (target cells), `col` (source cells) and `S`; SCRIP's the same as
`dst_address`, `src_address` and `remap_matrix`, whose first column is used. Cells are counted from
1. Grids are described by `src_grid_dims` and `dst_grid_dims`, fastest dimension first, and by the
centres of their cells (`xc_b`, `yc_b`; `dst_grid_center_lon`, `dst_grid_center_lat`). xESMF writes
`row`, `col` and `S` alone, so sizes have to be added.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.datasets.grids.angles import LATITUDE, LONGITUDE, degrees, is_angle
from halocline_engine.datasets.stores.source import Opened
from halocline_engine.datasets.variables import real_values
from halocline_engine.errors import DatasetError
from halocline_engine.kernels.indirect.plan import PlanCache, content_key
from halocline_engine.kernels.indirect.sparse import Sparse, sparse
from halocline_engine.kernels.whole import first_fraction, whole_numbers

__all__ = ["Weights", "read_weights"]

#: Rows, columns, weights, and for both grids the sizes and the number of cells.
_ESMF = ("row", "col", "S", "src_grid_dims", "dst_grid_dims", "n_a", "n_b")
_SCRIP = (
    "dst_address",
    "src_address",
    "remap_matrix",
    "src_grid_dims",
    "dst_grid_dims",
    "src_grid_size",
    "dst_grid_size",
)
#: Bytes that a term and a row take while the matrix is put in order.
_BYTES_A_TERM = 96
_BYTES_A_ROW = 40
_CENTRES = (("yc_b", "xc_b"), ("dst_grid_center_lat", "dst_grid_center_lon"))


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """A matrix and its grids.

    Shapes have the slowest dimension first; they have one dimension for unstructured grids.
    `latitude` and `longitude` are the centres of the target's cells in degrees, where they are
    known.
    """

    matrix: Sparse
    source_shape: tuple[int, ...]
    target_shape: tuple[int, ...]
    latitude: NDArray[np.float64] | None
    longitude: NDArray[np.float64] | None


def read_weights(opened: Opened, check: Callable[[str, int], None], plans: PlanCache) -> Weights:
    """Read weights from a dataset or a file; raises `DatasetError` where they make no sense.

    `check` is told what needs how many bytes before anything is read, and may raise. Equal weights
    have one matrix in `plans`.
    """
    dataset = opened.dataset
    names = next((n for n in (_ESMF, _SCRIP) if all(v in dataset.variables for v in n[:3])), None)
    if names is None:
        raise DatasetError(
            "The weights hold neither 'row', 'col' and 'S' (ESMF) nor 'dst_address',"
            " 'src_address' and 'remap_matrix' (SCRIP).",
            hint="Write them with ESMF_RegridWeightGen, xESMF or SCRIP.",
        )
    source, target = (
        _shape(dataset, dims, size) for dims, size in zip(names[3:5], names[5:7], strict=True)
    )
    terms = int(dataset[names[0]].size)
    check("weights", _BYTES_A_TERM * terms + _BYTES_A_ROW * math.prod(target))
    row, column = (_numbers(dataset, name) for name in names[:2])
    values = real_values(dataset[names[2]])
    if values.ndim == 2:
        values = values[:, 0]
    rows, cells = math.prod(target), math.prod(source)
    key = content_key("weights", row, column, values, rows, cells)

    def make() -> Sparse:
        whole = (_whole(row, names[0]) - 1, _whole(column, names[1]) - 1)
        return sparse(*whole, values, rows, cells)

    matrix = plans.get(key, make)
    latitude, longitude = _centres(dataset, matrix.rows)
    return Weights(matrix, source, target, latitude, longitude)


def _numbers(dataset: xr.Dataset, name: str) -> NDArray[Any]:
    """Return values that may be whole numbers; raises `DatasetError` for other types."""
    values: NDArray[Any] = np.asarray(dataset[name].values)
    if values.dtype.kind not in "iuf":
        raise DatasetError(
            f"The weights' '{name}' must be whole numbers, got the type '{values.dtype}'."
        )
    return values


def _whole(numbers: NDArray[Any], name: str) -> NDArray[np.int64]:
    place = first_fraction(numbers)
    if place is not None:
        raise DatasetError(
            f"The weights' '{name}' must be whole numbers, got {numbers.reshape(-1)[place]} of type"
            f" '{numbers.dtype}' at place {place}."
        )
    return whole_numbers(numbers)


def _shape(dataset: xr.Dataset, dims: str, size: str) -> tuple[int, ...]:
    """Return a grid's shape, slowest dimension first."""
    if dims in dataset.variables:
        found = _whole(np.atleast_1d(_numbers(dataset, dims)), dims)
        if found.ndim != 1 or found.size == 0 or int(found.min()) < 1:
            raise DatasetError(
                f"The weights' '{dims}' must list the sizes of the grid, each at least 1, got"
                f" {found.tolist()}."
            )
        return tuple(reversed([int(number) for number in found]))
    if size in dataset.sizes:
        return (int(dataset.sizes[size]),)
    raise DatasetError(
        f"The weights do not say how large the grid is: '{dims}' and the dimension '{size}' are"
        " missing.",
        hint="Files of xESMF leave them out; open them with xarray, and add the number of points"
        " along each dimension of the grid, the fastest first: weights.assign("
        f"{dims}=('{dims[:3]}_grid_rank', [360, 180])).",
    )


def _centres(
    dataset: xr.Dataset, cells: int
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Return latitudes and longitudes in degrees, or None where the centres are no angles."""
    for names in _CENTRES:
        if all(name in dataset.variables for name in names):
            found = [dataset[name] for name in names]
            if all(one.size == cells and is_angle(one) for one in found):
                kinds = zip(found, (LATITUDE, LONGITUDE), strict=True)
                latitude, longitude = (degrees(one, kind).reshape(-1) for one, kind in kinds)
                return latitude, longitude
    return None, None
