"""Paths of results, checked before anything is computed or sent."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

__all__ = ["NETCDF", "check_output_path", "is_netcdf"]

#: Suffixes of files that hold a result as NetCDF-4; anything else is a Zarr store.
NETCDF = (".nc", ".nc4")
#: Suffixes of formats in which no result is written: a folder of such a name would mislead.
_OTHERS = frozenset(
    [
        *(".avro", ".bin", ".bz2", ".cdf", ".csv", ".dat", ".feather", ".gif", ".grb", ".grb2"),
        *(".grib", ".grib2", ".gz", ".h5", ".hdf", ".hdf5", ".jpeg", ".jpg", ".json", ".mat"),
        *(".n5", ".npy", ".npz", ".parquet", ".pdf", ".pickle", ".pkl", ".png", ".py", ".svg"),
        *(".tar", ".tgz", ".tif", ".tiff", ".toml", ".tsv", ".txt", ".xls", ".xlsx", ".xz"),
        *(".yaml", ".yml", ".zip", ".zst"),
    ]
)
#: Bytes of the name of a result: while it is written, more is put around it.
_LONGEST = 160


def is_netcdf(path: Path) -> bool:
    """Whether a result of this name is a NetCDF file.

    >>> [is_netcdf(Path(name)) for name in ("a.nc", "a.NC4", "a.zarr", "nc")]
    [True, True, False, False]
    """
    return path.suffix.lower() in NETCDF


def check_output_path(output: Path, refuse: Callable[..., Exception]) -> None:
    """Raise what `refuse` makes unless a new result can be written to `output`.

    `refuse` takes a sentence and a `hint`. Nothing is written.
    """
    if len(os.fsencode(output.name)) > _LONGEST:
        raise refuse(
            f"The name of the output '{output}' is longer than {_LONGEST} bytes.",
            hint="Choose a shorter one.",
        )
    if output.suffix.lower() in _OTHERS:
        raise refuse(
            f"The output '{output}' has the suffix '{output.suffix}', but results are written as"
            " Zarr stores or NetCDF files.",
            hint=f"Name it '{output.stem}.zarr' or '{output.stem}.nc'.",
        )
    if os.path.lexists(output):
        raise refuse(
            f"The output '{output}' exists already.", hint="Choose another place, or remove it."
        )
    if not os.path.isdir(output.parent):
        raise refuse(
            f"The output's directory '{output.parent}' does not exist.", hint="Make it first."
        )
    if not os.access(output.parent, os.W_OK):
        raise refuse(
            f"The output's directory '{output.parent}' cannot be written to.",
            hint="Choose another place.",
        )
