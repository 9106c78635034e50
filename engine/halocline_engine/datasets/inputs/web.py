"""Zarr stores and NetCDF-4 files at addresses, read in parts."""

from __future__ import annotations

import functools
import hashlib
import warnings
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import fsspec  # pyright: ignore[reportMissingTypeStubs] - it has none
import xarray as xr
from numpy.typing import NDArray

from halocline_engine.datasets.decoding.bounded import bounded_decoding
from halocline_engine.datasets.decoding.corruption import read_chunked, read_whole
from halocline_engine.datasets.stores.census import refuse_many_chunks
from halocline_engine.datasets.stores.netcdf import open_remote
from halocline_engine.datasets.stores.source import Opened, Region, read_variable
from halocline_engine.datasets.storing.opening import open_zarr
from halocline_engine.datasets.untyped import ZARR
from halocline_engine.errors import CapacityError, DatasetError

__all__ = ["WebFile", "WebStore", "open_address"]

_FSSPEC: Any = fsspec
_NETCDF = frozenset({".nc", ".nc4", ".cdf", ".h5", ".hdf5"})
#: Files at the root of a Zarr store, of either format.
_ROOTS = ("zarr.json", ".zmetadata", ".zgroup")
#: Bytes that are fetched at a time, and how many such blocks of a file are kept.
_BLOCK, _KEPT = 1 << 20, 32
_HDF5 = b"\x89HDF"


@dataclass(frozen=True, slots=True)
class WebStore:
    """A Zarr store at an address; `stamp` changes when its metadata do."""

    address: str
    stamp: str

    def read(self, name: str, region: Region) -> NDArray[Any]:
        """Return the decoded values of a region; raises `DatasetError` where a chunk is broken."""
        dataset = _open_store(self.address, self.stamp)
        return read_variable(dataset, self.address, name, region, read_chunked)


@dataclass(frozen=True, slots=True)
class WebFile:
    """A NetCDF-4 file at an address; `stamp` changes when the file does."""

    address: str
    stamp: str

    def read(self, name: str, region: Region) -> NDArray[Any]:
        """Return the decoded values of a region; raises `DatasetError` where it is broken."""
        dataset = _open_file(self.address, self.stamp)
        return read_variable(dataset, self.address, name, region, read_whole)


def open_address(address: str) -> Opened:
    """Open the dataset at an address of HTTP.

    Raises `DatasetError` where there is none or it cannot be read, and `CapacityError` where it
    declares too much.
    """
    try:
        if PurePosixPath(urlsplit(address).path).suffix.lower() in _NETCDF:
            stamp = _stamp_of_file(address)
            dataset, source = _open_file(address, stamp), WebFile(address, stamp)
        else:
            stamp = _stamp_of_store(address.rstrip("/"))
            address = address.rstrip("/")
            dataset, source = _open_store(address, stamp), WebStore(address, stamp)
        _refuse_empty(address, dataset)
        refuse_many_chunks(dataset)
        return Opened(dataset, source, None, f"{address} {stamp}")
    except (DatasetError, CapacityError):
        raise
    except Exception as error:  # readers raise whatever their libraries do
        raise _unreadable(address, error) from error


def _refuse_empty(address: str, dataset: xr.Dataset) -> None:
    if not dataset.variables:
        raise DatasetError(
            f"The Zarr store at '{address}' shows no variables: it has no consolidated metadata,"
            " and HTTP lists no files.",
            hint="Write it with to_zarr(..., consolidated=True), or call zarr.consolidate_metadata"
            " on it.",
        )


def _unreadable(address: str, error: Exception) -> DatasetError:
    """Make the error of an address, by what fsspec says of it."""
    cause = error.__cause__ if isinstance(error, FileNotFoundError) else error
    if isinstance(cause, aiohttp.ClientConnectionError):
        return DatasetError(
            f"The host of dataset '{address}' does not answer: {str(cause).rstrip('. ')}.",
            hint="Check the address, and the connection of this machine.",
        )
    if isinstance(error, FileNotFoundError):
        return DatasetError(
            f"There is no dataset at '{address}'.",
            hint="A Zarr store has 'zarr.json' or '.zgroup' below its address.",
        )
    return DatasetError(
        f"Dataset '{address}' cannot be read: {type(error).__name__}: {str(error).rstrip('. ')}.",
        hint="Download it, and name the file; or open it with xarray, and pass the dataset.",
    )


def _stamp_of_file(address: str) -> str:
    info = _FSSPEC.filesystem("https").info(address)
    known = (info.get("size"), info.get("ETag"), info.get("Last-Modified"))
    with _file(address) as file:
        begin = file.read(_BLOCK)
    if begin[:4] != _HDF5:
        what = "a NetCDF-3 file" if begin[:3] == b"CDF" else "no NetCDF file"
        raise DatasetError(
            f"Dataset '{address}' is {what}, which cannot be read in parts over HTTP.",
            hint="Download it, and name the file.",
        )
    return _digest(f"{known}".encode(), begin)


def _stamp_of_store(address: str) -> str:
    files = _FSSPEC.filesystem("https")
    for name in _ROOTS:
        try:
            return _digest(files.cat_file(f"{address}/{name}"))
        except FileNotFoundError:
            continue
    raise FileNotFoundError(address)


def _digest(*parts: bytes) -> str:
    return hashlib.blake2s(b"".join(parts), digest_size=16).hexdigest()


def _file(address: str) -> Any:
    return _FSSPEC.filesystem("https").open(
        address,
        block_size=_BLOCK,
        cache_type="blockcache",
        cache_options={"maxblocks": _KEPT},
    )


@functools.lru_cache(maxsize=8)
def _open_store(address: str, stamp: str) -> xr.Dataset:  # noqa: ARG001 - part of the cache's key
    with warnings.catch_warnings(), bounded_decoding():
        warnings.simplefilter("ignore")
        store = ZARR.storage.FsspecStore.from_url(address, read_only=True)
        return open_zarr(store, cache=False)


@functools.lru_cache(maxsize=8)
def _open_file(address: str, stamp: str) -> xr.Dataset:  # noqa: ARG001 - part of the cache's key
    return open_remote(address, _file)
