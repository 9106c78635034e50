"""NetCDF and CSV files of a result, written block by block."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, cast

import numpy as np

from halocline_engine.datasets.stores.netcdf_writing import check_netcdf, write_netcdf
from halocline_engine.datasets.stores.result import open_result
from halocline_engine.errors import ArgumentError, CapacityError, OutputError

__all__ = ["write_export"]

_ZARR = "Read the Zarr store, which holds it"
_ROWS = 65_536  # of a CSV file that are in memory at a time
_CELL = 25  # bytes of a number as text, with its comma


def write_export(store: Path, form: str, path: Path, *, most: int, headroom: int) -> None:
    """Write the result in a Zarr store to a file of at most about `most` bytes.

    Raises `ArgumentError` where the format cannot hold it, `CapacityError` where it is too large,
    and `OutputError` where less than `headroom` bytes of the disk would be free.
    """
    with open_result(store) as opened:
        dataset: Any = opened
        if form == "csv":
            dim = _series_dim(dataset)
            rows = dataset.sizes.get(dim, 1)
            _check_size(rows * len(dataset.variables) * _CELL, path.parent, most, headroom)
            _write_csv(dataset, dim, path)
        else:
            check_netcdf(dataset, ArgumentError, way_out=_ZARR)
            _check_size(int(dataset.nbytes), path.parent, most, headroom)
            write_netcdf(dataset, path)


def _check_size(size: int, folder: Path, most: int, headroom: int) -> None:
    if size > most:
        raise CapacityError(
            f"The file would have about {size} bytes, but at most {most} are made of a result.",
            hint="Read the Zarr store: 'xarray.open_zarr' opens it lazily.",
            needed=size,
            available=most,
        )
    free = shutil.disk_usage(folder).free
    if free - size < headroom:
        raise OutputError(
            f"The file would have about {size} bytes, but the disk is full.",
            hint="Read the Zarr store: 'xarray.open_zarr' opens it lazily.",
        )


def _series_dim(dataset: Any) -> str:
    """Return the only dimension of a result; empty where all of it are single values."""
    dims = [str(dim) for dim in dataset.sizes]
    if len(dims) > 1:
        named = ", ".join(f"'{dim}'" for dim in dims)
        raise ArgumentError(
            f"The result has the dimensions {named}, but CSV holds series along one dimension.",
            hint="Write f=netcdf, or read the Zarr store.",
        )
    return dims[0] if dims else ""


def _write_csv(dataset: Any, dim: str, path: Path) -> None:
    """Write a column for the dimension, and one for each coordinate and variable."""
    if not dim:
        row = {name: [variable.values[()]] for name, variable in dataset.variables.items()}
        _frame(row).to_csv(path, index=False)
        return
    count = dataset.sizes[dim]
    if dim not in dataset.coords:
        dataset = dataset.assign_coords({dim: np.arange(count)})
    names = [dim, *(n for n in (*dataset.coords, *dataset.data_vars) if n != dim)]
    with path.open("w", encoding="utf-8", newline="") as file:
        for start in range(0, max(count, 1), _ROWS):
            rows = dataset.isel({dim: slice(start, start + _ROWS)})
            frame = rows.to_dataframe().reset_index()
            frame.to_csv(file, columns=names, header=not start, index=False)


def _frame(columns: dict[str, Any]) -> Any:
    import pandas as pd  # pyright: ignore[reportMissingTypeStubs] - it has none

    return cast("Any", pd).DataFrame(columns)
