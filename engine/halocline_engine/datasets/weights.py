"""Weight files of ESMF and SCRIP: sparse matrices from one horizontal grid to another.

ESMF's files hold `row` (target cells), `col` (source cells) and `S`; SCRIP's the same as
`dst_address`, `src_address` and `remap_matrix`, whose first column is used. Cells are counted from
1. Grids are described by `src_grid_dims` and `dst_grid_dims`, fastest dimension first, and by the
centres of their cells (`xc_b`, `yc_b`; `dst_grid_center_lon`, `dst_grid_center_lat`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.datasets.source import Opened
from halocline_engine.errors import DatasetError
from halocline_engine.kernels.indirect.plan import PlanCache, content_key
from halocline_engine.kernels.indirect.sparse import Sparse, sparse

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
    row, column, values = (_values(dataset, name) for name in names[:3])
    if values.ndim == 2:
        values = values[:, 0]
    rows, cells = math.prod(target), math.prod(source)
    key = content_key("weights", row, column, values, rows, cells)

    def make() -> Sparse:
        whole = (_whole(row, names[0]) - 1, _whole(column, names[1]) - 1)
        return sparse(*whole, values.astype(np.float64), rows, cells)

    matrix = plans.get(key, make)
    latitude, longitude = _centres(dataset, matrix.rows)
    return Weights(matrix, source, target, latitude, longitude)


def _values(dataset: xr.Dataset, name: str) -> NDArray[Any]:
    return np.asarray(dataset[name].values)


def _whole(numbers: NDArray[Any], name: str) -> NDArray[np.int64]:
    whole = numbers.astype(np.int64)
    if not (whole == numbers).all():
        raise DatasetError(f"The weights' '{name}' must be whole numbers.")
    return whole


def _shape(dataset: xr.Dataset, dims: str, size: str) -> tuple[int, ...]:
    """Return a grid's shape, slowest dimension first."""
    if dims in dataset.variables:
        fastest_first = _whole(np.atleast_1d(_values(dataset, dims)), dims).tolist()
        return tuple(reversed([int(number) for number in fastest_first]))
    if size in dataset.sizes:
        return (int(dataset.sizes[size]),)
    raise DatasetError(
        f"The weights do not say how large the grid is: '{dims}' and the dimension '{size}' are"
        " missing."
    )


def _centres(
    dataset: xr.Dataset, cells: int
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    for names in _CENTRES:
        if all(name in dataset.variables for name in names):
            centres = [_degrees(dataset[name]) for name in names]
            if all(centre.size == cells for centre in centres):
                return centres[0], centres[1]
    return None, None


def _degrees(variable: xr.DataArray) -> NDArray[np.float64]:
    values = np.asarray(variable.values, np.float64).reshape(-1)
    return np.degrees(values) if str(variable.attrs.get("units", "")).startswith("rad") else values
