"""Weight files of ESMF and SCRIP: sparse matrices from one horizontal grid to another.

ESMF's files hold `row` (target cells), `col` (source cells) and `S`; SCRIP's the same as
`dst_address`, `src_address` and `remap_matrix`, whose first column is used. Cells are counted from
1. Grids are described by `src_grid_dims` and `dst_grid_dims`, fastest dimension first, and by the
centres of their cells (`xc_a`, `yc_a`, `xc_b`, `yc_b`; `src_grid_center_lon` and the like). xESMF
writes `row`, `col` and `S` alone, so sizes have to be added.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.datasets.attributes import text_of
from halocline_engine.datasets.formats.centres import Centres
from halocline_engine.datasets.grids.angles import LATITUDE, LONGITUDE, degrees, is_angle
from halocline_engine.datasets.stores.source import Opened
from halocline_engine.datasets.variables import real_values
from halocline_engine.errors import DatasetError, HaloclineError
from halocline_engine.kernels.indirect.indices import narrowest
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
#: Bytes that a term and a row take while the matrix is put in order, and a cell with its centre.
_BYTES_A_TERM = 96
_BYTES_A_ROW = 40
_BYTES_A_CELL = 160
_SOURCE = (("yc_a", "xc_a"), ("src_grid_center_lat", "src_grid_center_lon"))
_TARGET = (("yc_b", "xc_b"), ("dst_grid_center_lat", "dst_grid_center_lon"))


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """A matrix and its grids.

    Shapes have the slowest dimension first; they have one dimension for unstructured grids.
    `key` names the matrix in plans, the same wherever its content is.
    """

    key: str
    matrix: Sparse
    source: Centres
    target: Centres

    def used(self) -> NDArray[np.int64]:
        """Return the source cells that some weight uses."""
        return np.flatnonzero(np.bincount(self.matrix.columns, minlength=self.matrix.cells))

    def in_order(self, order: NDArray[np.int64], plans: PlanCache) -> Sparse:
        """Return the matrix for data that have source cell n at the place `order[n]`."""

        def make() -> Sparse:
            columns = narrowest(order[self.matrix.columns], self.matrix.cells)
            return replace(self.matrix, columns=columns)

        return plans.get(content_key(self.key, order), make)


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
    rows, cells, terms = math.prod(target), math.prod(source), int(dataset[names[0]].size)
    known = any(name in dataset.variables for pair in _SOURCE for name in pair)
    needs = _BYTES_A_TERM * terms + _BYTES_A_ROW * rows + known * _BYTES_A_CELL * cells
    check("weights", needs)
    row, column = (_numbers(dataset, name) for name in names[:2])
    values = _values(dataset, names[2], dataset[names[0]].dims)
    key = content_key("weights", row, column, values, rows, cells)

    def make() -> Sparse:
        whole = (_whole(row, names[0]) - 1, _whole(column, names[1]) - 1)
        return sparse(*whole, values, rows, cells)

    return Weights(
        key=key,
        matrix=plans.get(key, make),
        source=_source_centres(dataset, source),
        target=_target_centres(dataset, target),
    )


def _values(dataset: xr.Dataset, name: str, links: tuple[Any, ...]) -> NDArray[np.float64]:
    """Return the weights: of several for each link, the first, which multiplies the value."""
    array = dataset[name]
    method = text_of(dataset.attrs, "map_method")
    if len({*array.dims}) == array.ndim == 2 and len({*array.dims} & {*links}) == 1:
        array = array.transpose(*links, ...)
        values = real_values(array)
        if "bicubic" in method.lower() and values[:, 1:].any():
            raise DatasetError(
                f"The weights of '{method}' multiply gradients as well, which are not computed.",
                hint="Make bilinear or conservative weights.",
            )
        return values[:, 0]
    return real_values(array)


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


def _target_centres(dataset: xr.Dataset, shape: tuple[int, ...]) -> Centres:
    """Return centres in degrees, unknown where they are no angles."""
    for names in _TARGET:
        if all(name in dataset.variables for name in names):
            both = [dataset[name] for name in names]
            if all(one.size == math.prod(shape) and is_angle(one) for one in both):
                lat, lon = degrees(both[0], LATITUDE), degrees(both[1], LONGITUDE)
                return Centres(lat.reshape(-1), lon.reshape(-1), shape)
    return Centres(None, None, shape)


def _source_centres(dataset: xr.Dataset, shape: tuple[int, ...]) -> Centres:
    """Return centres in degrees, unknown where they are no angles or all the same.

    Weights can be applied without them, so nothing is refused.
    """
    found: list[NDArray[np.float64] | None] = [None, None]
    for names in _SOURCE:
        for place, (name, kind) in enumerate(zip(names, (LATITUDE, LONGITUDE), strict=True)):
            if name not in dataset.variables or dataset[name].size != math.prod(shape):
                continue
            try:
                found[place] = degrees(dataset[name], kind).reshape(-1)
            except HaloclineError:
                continue
    if all(one is None or (one == one[0]).all() for one in found):
        found = [None, None]
    return Centres(found[0], found[1], shape)
