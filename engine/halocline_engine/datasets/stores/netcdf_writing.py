"""NetCDF-4 files of results, written chunk by chunk, with the encodings that xarray gives them."""

from __future__ import annotations

import io
import math
import re
import reprlib
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import dask
import numpy as np
import xarray as xr
from dask.callbacks import Callback

from halocline_engine.datasets.disk import full_disk
from halocline_engine.datasets.untyped import XARRAY

__all__ = ["check_netcdf", "write_netcdf"]

_DASK: Any = dask
#: Encodings of times, which keep their values.
_TIMES = ("units", "calendar", "dtype")
#: Types that NetCDF has, or that xarray's conventions express.
_KINDS, _FLOATS = "biuSUTOMm", (4, 8)
#: Names that the library of NetCDF accepts: no blank at an end, and no control character.
_NAME = re.compile(r"[A-Za-z0-9_\u0080-\U0010ffff][^/\x00-\x1f\x7f]*")
#: The lowest level of deflate: higher ones are slower, and files of values hardly smaller.
_DEFLATE = {"zlib": True, "complevel": 1, "shuffle": True}
_ZARR = "Name the output with '.zarr', which holds it"


def write_netcdf(
    dataset: xr.Dataset, path: Path, check: Callable[[], object] = lambda: None
) -> None:
    """Write a dataset that was opened from a Zarr store to a new NetCDF-4 file.

    Chunks are read and written one after the other, and `check` is called between them; what it
    raises ends the writing. Variables whose chunks are compressed in the store are compressed in
    the file. Raises `OutputError` where the disk is full.
    """

    def look(*_: object) -> None:
        check()

    lazy, encoding = _chunked(dataset)
    with full_disk(path), path.open("x+b", buffering=0) as opened:
        file = _LateErrors(opened)
        # Not within a write: HDF5 does not survive an error there.
        between: Any = cast("Any", Callback)(pretask=look)
        with _DASK.config.set(scheduler="synchronous"), between:
            lazy.to_netcdf(file, engine="h5netcdf", encoding=encoding)
        if file.error is not None:
            raise file.error


class _LateErrors(io.RawIOBase):
    """A file whose writes seem to succeed; the `error` of the first one that did not is kept.

    HDF5 does not survive a write that fails while a file is closed: the process ends then, or at
    its exit.
    """

    def __init__(self, file: io.FileIO) -> None:
        self._file = file
        self.error: OSError | None = None

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def truncate(self, size: int | None = None) -> int:
        return self._file.truncate(size)

    def readinto(self, buffer: Any) -> int:
        return self._file.readinto(buffer) or 0

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        while len(rest) and self.error is None:
            try:
                rest = rest[self._file.write(rest) :]
            except OSError as error:
                self.error = error
        if len(rest):
            self._file.seek(len(rest), io.SEEK_CUR)
        return size


def _chunked(dataset: xr.Dataset) -> tuple[Any, dict[str, dict[str, Any]]]:
    """Return a dataset whose data are chunks of its store, and how they are written."""
    plain: Any = cast("Any", dataset).copy()
    encoding: dict[str, dict[str, Any]] = {}
    for name, variable in plain.variables.items():
        source = dict(variable.encoding)
        variable.encoding = {
            key: source[key] for key in _TIMES if "units" in source if key in source
        }
        chunks = source.get("preferred_chunks", {})
        if name not in plain.data_vars or variable.dtype.kind not in "biufc" or not chunks:
            continue
        plain[name] = plain[name].chunk(chunks)
        sizes = tuple(min(chunks[dim], size) for dim, size in variable.sizes.items())
        if source.get("compressors") and math.prod(sizes):
            encoding[name] = {**_DEFLATE, "chunksizes": sizes}
    return plain, encoding


def check_netcdf(
    dataset: xr.Dataset, refuse: Callable[..., Exception], *, way_out: str = _ZARR
) -> None:
    """Raise what `refuse` makes where a NetCDF file cannot hold a dataset.

    Values are not looked at. `way_out` begins the hint.
    """

    def refusal(message: str, otherwise: str) -> Exception:
        return refuse(message, hint=f"{way_out}; or {otherwise} before the run.")

    for dim in dataset.dims:
        if not _NAME.fullmatch(str(dim)) or str(dim).endswith(" "):
            raise _bad_name("dimension", str(dim), refusal)
    for name, variable in cast("Any", dataset).variables.items():
        kind = "coordinate" if name in dataset.coords else "variable"
        if not _NAME.fullmatch(str(name)) or str(name).endswith(" "):
            raise _bad_name(kind, str(name), refusal)
        dtype = variable.dtype
        if dtype.kind not in _KINDS and not (dtype.kind == "f" and dtype.itemsize in _FLOATS):
            raise refusal(
                f"The {kind} '{name}' has values of type '{dtype}', which NetCDF does not have.",
                "convert it to float32 or float64",
            )
        _check_attributes(f"'{name}'", variable.attrs, refusal)
    _check_attributes("the dataset", dataset.attrs, refusal)


def _bad_name(kind: str, name: str, refusal: Callable[[str, str], Exception]) -> Exception:
    return refusal(
        f"The {kind} {reprlib.repr(name)} cannot be written, as NetCDF allows no such name.",
        "rename it",
    )


def _check_attributes(
    what: str, attributes: Mapping[Any, Any], refusal: Callable[[str, str], Exception]
) -> None:
    """Try each attribute in a file of memory."""
    for name, value in attributes.items():
        if not (
            _NAME.fullmatch(str(name)) and not str(name).endswith(" ") and _is_kept(name, value)
        ):
            raise refusal(
                f"The attribute {name!r} of {what} cannot be written to NetCDF, as it is"
                f" {reprlib.repr(value)}, the {type(value).__name__}.",
                "drop it",
            )


def _is_kept(name: object, value: object) -> bool:
    """Whether xarray writes an attribute to a file."""
    if isinstance(value, str) or type(value) in (int, float):
        return not isinstance(value, int) or -(2**63) <= value < 2**63
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one = XARRAY.Dataset({"value": ((), np.int8(0), {name: value})})
            one.to_netcdf(io.BytesIO(), engine="h5netcdf")
    except Exception:  # of xarray, h5netcdf or h5py
        return False
    return True
