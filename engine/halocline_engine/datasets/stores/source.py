"""Sources: references that travel to workers and read regions there.

A reference names the place and holds nothing open; each process opens what it needs once. A halo
is read from the store as any other region is.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import importlib
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.copies import in_threads, of_device
from halocline_engine.datasets.dask_blocks import load_region
from halocline_engine.datasets.decoding.bounded import bounded_decoding
from halocline_engine.datasets.decoding.corruption import read_chunked, read_whole, unreadable
from halocline_engine.datasets.decoding.pieces import read_pieces
from halocline_engine.datasets.disk import full_disk
from halocline_engine.datasets.stores.census import chunk_lengths, refuse_many_chunks
from halocline_engine.datasets.stores.netcdf import open_netcdf
from halocline_engine.datasets.storing.opening import ValuesNeeded, open_zarr
from halocline_engine.datasets.storing.writing import store_values
from halocline_engine.datasets.untyped import (
    XARRAY,
    ZARR,
    is_on_device,
    variable_data,
)
from halocline_engine.datasets.zarr_files import RegularFiles
from halocline_engine.errors import CapacityError, DatasetError, HaloclineError

__all__ = [
    "ArrayStore",
    "Arrays",
    "InMemory",
    "NetcdfFile",
    "Opened",
    "Region",
    "Source",
    "ZarrStore",
    "array_in",
    "copy_variable",
    "native",
    "open_path",
    "read_variable",
    "spool",
]

#: Files of a Zarr store, of either format, that tell of a group or an array.
_METADATA = ("zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata")

#: Bytes that a thread copies at once.
_PART = 32 << 20
_THREADS = 8

Region = tuple[slice, ...]


def native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a type in the byte order of this machine, as sources give values.

    >>> native(np.dtype(">f8")) == np.dtype("float64")
    True
    """
    return dtype.newbyteorder("=")


class Source(Protocol):
    """A set of named arrays."""

    def read(self, name: str, region: Region) -> NDArray[Any]:
        """Return the decoded values of a region, dimensions as in the source."""
        ...


@dataclass(frozen=True, slots=True)
class ZarrStore:
    """A dataset in a Zarr store; `stamp` changes when the store is written anew."""

    path: str
    stamp: str

    def read(self, name: str, region: Region) -> NDArray[Any]:
        """Return the decoded values of a region; raises `DatasetError` where a chunk is broken."""
        return read_variable(
            _open_zarr(self.path, self.stamp), self.path, name, region, read_chunked
        )


@dataclass(frozen=True, slots=True)
class NetcdfFile:
    """A dataset in a NetCDF file, which one thread at a time reads, and none holds open."""

    path: str
    stamp: str

    def read(self, name: str, region: Region) -> NDArray[Any]:
        """Return the decoded values of a region; raises `DatasetError` where it is broken."""
        return read_variable(
            _open_netcdf(self.path, self.stamp), self.path, name, region, read_whole
        )


@dataclass(frozen=True, slots=True, eq=False)
class InMemory:
    """A dataset of this process. What Dask holds is computed region by region, in this thread."""

    dataset: xr.Dataset

    def __post_init__(self) -> None:
        # Dask loads parts of `distributed` when it first computes, and they import each other: two
        # threads that begin with different ones find them half made. Importing the whole waits.
        if any(variable.chunks is not None for variable in self.dataset.variables.values()):
            importlib.import_module("distributed")

    def read(self, name: str, region: Region) -> NDArray[Any]:
        """Return the values of a region, in the byte order of this machine.

        Raises `DatasetError` where what they are read or computed from fails.
        """
        try:
            variable = variable_data(self.dataset, name)
            lazy = variable.chunks is not None
            data: Any
            data = load_region(name, variable.data, region) if lazy else variable[region].data
        except (HaloclineError, MemoryError):
            raise
        except Exception as error:  # whatever the user's readers and functions do
            raise unreadable(f"'{name}' of the dataset", error) from error
        values = np.asarray(data.get() if of_device(data) else data)
        return values.astype(native(values.dtype), copy=False)


@dataclass(frozen=True, slots=True)
class ArrayStore:
    """Plain Zarr arrays as a pass leaves them."""

    path: str

    def read(self, name: str, region: Region) -> NDArray[Any]:
        """Return the values of a region; raises `DatasetError` where a chunk is broken."""
        array = ZARR.open_array(RegularFiles(self.path), path=name, mode="r")

        def read(cells: Region) -> NDArray[Any]:
            return read_chunked(self.path, name, cells, lambda part: np.asarray(array[part]))

        return read_pieces(region, array.shape, array.shards or array.chunks, read)


@dataclass(frozen=True, slots=True, eq=False)
class Arrays:
    """Arrays of this process as a pass leaves them."""

    arrays: Mapping[str, NDArray[Any]]

    def read(self, name: str, region: Region) -> NDArray[Any]:
        """Return a view of a region, also of an array without dimensions."""
        return self.arrays[name][(*region, ...)]


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """A dataset as it was found.

    `dataset` is lazy; `source` reads it anywhere, or only here where `path` is None; `identity`
    tells datasets of other contents apart, as far as that can be known without reading them.
    """

    dataset: xr.Dataset
    source: Source
    path: Path | None
    identity: str

    @property
    def place(self) -> Path | None:
        """Path of the files, with links resolved; known where xarray opened them itself."""
        if self.path is not None:
            return self.path
        told: object = self.dataset.encoding.get("source")
        found = Path(told) if isinstance(told, str) else None
        return found.resolve() if found is not None and found.exists() else None


def open_path(path: Path) -> Opened:
    """Open the Zarr store or the NetCDF file at a path, of which links are resolved.

    Raises `DatasetError` where it cannot be read or points outside of itself, and `CapacityError`
    where it declares too much.
    """
    if path.is_dir() and not any((path / name).exists() for name in _METADATA):
        raise DatasetError(
            f"The folder '{path}' is not a Zarr store: it has none of {', '.join(_METADATA)}.",
            hint="Pass the path of a Zarr store, or of a NetCDF file.",
        )
    try:
        stamp = _stamp(path)
        if path.is_dir():
            opened = _open_zarr(str(path), stamp)
            refuse_many_chunks(opened)
            return Opened(opened, ZarrStore(str(path), stamp), path, f"{path} {stamp}")
        opened = _open_netcdf(str(path), stamp)
        refuse_many_chunks(opened)
        return Opened(opened, NetcdfFile(str(path), stamp), path, f"{path} {stamp}")
    except (DatasetError, CapacityError):
        raise
    except Exception as error:  # readers raise whatever their libraries do
        raise DatasetError(
            f"Dataset '{path}' cannot be read as Zarr or NetCDF: {type(error).__name__}: {error}.",
            hint="Open it with xarray, and pass the dataset.",
        ) from error


def _stamp(path: Path) -> str:
    """Return what changes when the dataset is written anew.

    Of a store these are times and sizes of its metadata, and times of its folders: a chunk that is
    written anew takes the place of the old one, which its folder tells.
    """
    places = _telling(str(path)) if path.is_dir() else (str(path),)
    stats = [os.stat(place) for place in places]
    text = "-".join(f"{stat.st_mtime_ns:x}.{stat.st_size:x}" for stat in stats)
    return hashlib.blake2s(text.encode(), digest_size=16).hexdigest()


def _telling(folder: str) -> Iterator[str]:
    """Yield a folder, its metadata, and the same of those in it, in an order that stays the same.

    There may be very many chunks, so names are all that is asked for.
    """
    yield folder
    with os.scandir(folder) as entries:
        every = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, _ in sorted(one for one in every if one[0] in _METADATA):
        yield f"{folder}/{name}"
    for name, _ in sorted(one for one in every if one[1]):
        yield from _telling(f"{folder}/{name}")


@functools.lru_cache(maxsize=8)
def _open_zarr(path: str, stamp: str) -> xr.Dataset:  # noqa: ARG001 - part of the cache's key
    with warnings.catch_warnings(), bounded_decoding():
        warnings.simplefilter("ignore")
        return open_zarr(RegularFiles(path), cache=False, consolidated=False)


@functools.lru_cache(maxsize=8)
def _open_netcdf(path: str, stamp: str) -> xr.Dataset:  # noqa: ARG001 - part of the cache's key
    return open_netcdf(Path(path))


def read_variable(
    dataset: xr.Dataset, path: str, name: str, region: Region, guarded: Callable[..., NDArray[Any]]
) -> NDArray[Any]:
    """Return the values of a region of a file's variable; `guarded` says what cannot be read."""
    variable = variable_data(dataset, name)
    values = functools.partial(_values, dataset, name)
    return read_pieces(
        region,
        variable.shape,
        chunk_lengths(variable),
        lambda cells: guarded(path, name, cells, values),
    )


def _values(dataset: xr.Dataset, name: str, region: Region) -> NDArray[Any]:
    return np.asarray(variable_data(dataset, name)[region].values)


def spool(dataset: xr.Dataset, names: Sequence[str], path: Path) -> Source:
    """Write some variables of a dataset to a new store, for other processes to read; return it."""
    plain = xr.Dataset({name: _on_host(dataset, name) for name in dict.fromkeys(names)})
    try:
        store_values(plain, path)
    except (HaloclineError, MemoryError):
        raise
    except Exception as error:  # whatever the user's readers and functions do
        with full_disk(path):
            if isinstance(error, OSError) and _is_of(path, error):
                raise
        named = ", ".join(f"'{name}'" for name in plain.data_vars)
        raise unreadable(f"{named} of the dataset", error) from error
    return ZarrStore(str(path), _stamp(path))


def _on_host(dataset: xr.Dataset, name: str) -> xr.Variable:
    """Return the values of a variable, without its attributes."""
    variable = variable_data(dataset, name)
    data = variable.data.get() if is_on_device(dataset, name) else variable.data
    return XARRAY.Variable(variable.dims, data)


def _is_of(path: Path, error: OSError) -> bool:
    """Whether an error is one of writing below a path, and not of what is read."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT) or str(path) in str(error.filename)


def array_in(source: Source, name: str) -> NDArray[Any] | None:
    """Return the array of a variable that is in memory: where a part of it is no copy."""
    if not isinstance(source, InMemory):
        return None
    variable = variable_data(source.dataset, name)
    first = (slice(0, 1),) * variable.ndim
    try:
        parts: list[Any] = [variable[first].data for _ in range(2)]
    except ValuesNeeded:
        return None
    if not all(type(part) is np.ndarray and part.size for part in parts):
        return None
    one, other = (part.__array_interface__["data"] for part in parts)
    if one != other or not parts[0].dtype.isnative:
        return None
    found: NDArray[Any] = variable[(slice(None),) * variable.ndim].data
    return found


def copy_variable(source: InMemory, name: str, into: NDArray[Any]) -> None:
    """Copy a variable: with several threads, where it is in memory."""

    def copy(region: Region) -> None:
        into[region] = source.read(name, region)

    in_threads(copy, list(_parts(into)), 1 if array_in(source, name) is None else _THREADS)


def _parts(values: NDArray[Any]) -> Iterator[Region]:
    """Yield regions of some bytes, cut along the first dimension."""
    if not values.ndim:
        yield ()
        return
    row = max(1, values.nbytes // max(1, values.shape[0]))
    step = max(1, _PART // row)
    for start in range(0, values.shape[0], step):
        yield (
            slice(start, min(start + step, values.shape[0])),
            *(slice(None),) * (values.ndim - 1),
        )
