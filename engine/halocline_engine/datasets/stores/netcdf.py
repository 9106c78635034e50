"""NetCDF files, read by one thread at a time and open only while one reads.

HDF5 and the library of NetCDF are not made for threads. xarray holds a lock while it reads values,
but none while it opens a file and reads its metadata, so that two threads which open files end the
process. Here a file is its own lock: whatever xarray does with it, it does behind the one lock of
this process, and the file is closed when it is done. Nothing is left open, so that a file may be
written anew, and nothing is left for the garbage collector to close beside another reader.

Files of HDF5 are read by h5py, which has a lock of its own for whoever else uses it; the library of
NetCDF, which has none, reads those of the classic formats alone, under xarray's lock as well.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py  # pyright: ignore[reportMissingTypeStubs] - it has none
import xarray as xr
from xarray.backends.file_manager import FileManager

from halocline_engine.datasets.regular import open_regular
from halocline_engine.datasets.stores.hdf5_scan import is_hdf5, refuse_outside
from halocline_engine.datasets.storing.opening import open_stored
from halocline_engine.datasets.untyped import XARRAY
from halocline_engine.errors import DatasetError

__all__ = ["open_netcdf", "open_remote"]

#: One thread at a time in a process: what is behind it has one state for all files.
_LIBRARIES = threading.RLock()
#: How files of the classic formats begin: with offsets of 32 bits, with those of 64, with all so.
_CLASSIC = (b"CDF\x01", b"CDF\x02", b"CDF\x05")
_h5: Any = h5py


def open_netcdf(path: Path) -> xr.Dataset:
    """Return a dataset whose values are read, and decoded, when they are asked for.

    Raises `DatasetError` where the file refers to other files, or is none of NetCDF.
    """
    if is_hdf5(path):
        refuse_outside(path)
        return _opened(_Hdf5(path))
    with open_regular(path) as file:
        begin = file.read(4)
    if begin not in _CLASSIC:
        from halocline_engine.datasets.storing.foreign import refuse_foreign

        refuse_foreign(path, DatasetError)
        raise DatasetError(
            f"Dataset '{path}' is no NetCDF file: expected the signature of HDF5 or 'CDF', got"
            f" {begin!r}.",
            hint="Its format does not match its name. If xarray can open it, pass the dataset.",
        )
    return _opened(_Classic(path))


def open_remote(address: str, open_file: Callable[[str], Any]) -> xr.Dataset:
    """Return the dataset in a NetCDF-4 file elsewhere, of which `open_file` gives the bytes.

    Raises `DatasetError` where it refers to other files.
    """
    with _LIBRARIES, open_file(address) as file:
        refuse_outside(file, address)
    return _opened(_Remote(address, open_file))


class _File(FileManager[Any], ABC):
    """A file as xarray asks for it, and the lock that it holds while it reads.

    It is open from when somebody asks for it behind the lock until the lock is left.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = path
        self._depth = 0
        self._opened: Any = None

    def __reduce__(self) -> tuple[type[_File], tuple[Any, ...]]:
        return type(self), (self.path,)

    def __enter__(self) -> None:
        _LIBRARIES.acquire()
        if not self._depth:
            self._enter()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        try:
            self._depth -= 1
            if not self._depth:
                self._leave()
        finally:
            _LIBRARIES.release()

    def acquire(self, needs_lock: bool = True) -> Any:  # noqa: ARG002 - xarray's name
        """Return the open file; whoever asks holds the lock."""
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    @contextmanager
    def acquire_context(self, needs_lock: bool = True) -> Generator[Any]:
        """Return the open file; whoever asks holds the lock."""
        yield self.acquire(needs_lock)

    def close(self, needs_lock: bool = True) -> None:  # noqa: ARG002 - xarray's name
        """Close the file, which is opened again when it is asked for."""
        with _LIBRARIES:
            opened, self._opened = self._opened, None
            if opened is not None:
                opened.close()

    def _enter(self) -> None:
        """Lock out others beside this module."""

    def _leave(self) -> None:
        self.close()

    @abstractmethod
    def _open(self) -> Any: ...

    @abstractmethod
    def store(self) -> Any:
        """Return what xarray reads."""

    def beyond(self, store: Any) -> list[str]:  # noqa: ARG002 - of the formats
        """Return the variables that cannot be read."""
        return []


class _Hdf5(_File):
    @property
    def place(self) -> Any:
        """What h5py opens."""
        return self.path

    def _open(self) -> Any:
        import h5netcdf  # pyright: ignore[reportMissingTypeStubs] - it has none

        # Dimensions without names are called as the library of NetCDF calls them.
        return h5netcdf.File(self.place, "r", decode_vlen_strings=True, phony_dims="sort")

    def store(self) -> Any:
        return XARRAY.backends.H5NetCDFStore(self, lock=self)

    def beyond(self, store: Any) -> list[str]:
        """Return the variables whose elements are sequences, of which xarray can open only some."""
        with _h5.File(self.place, "r") as file:
            kinds = {name: _h5.check_vlen_dtype(file[name].dtype) for name in store.ds.variables}
        return [name for name, kind in kinds.items() if kind not in (None, str, bytes)]


class _Remote(_Hdf5):
    """A file elsewhere, whose bytes are fetched, and kept for a while, by the file of `open_file`.

    That stays open, with what it has fetched; what HDF5 knows of it is read anew each time.
    """

    def __init__(self, address: str, open_file: Callable[[str], Any]) -> None:
        super().__init__(address)
        self._open_file = open_file
        self._bytes: Any = None

    def __reduce__(self) -> tuple[type[_File], tuple[Any, ...]]:
        return type(self), (self.path, self._open_file)

    @property
    def place(self) -> Any:
        """The file of which h5py reads the bytes."""
        if self._bytes is None:
            self._bytes = self._open_file(str(self.path))
        return self._bytes


class _Classic(_File):
    def _enter(self) -> None:
        _netcdf_lock().acquire()

    def _leave(self) -> None:
        try:
            self.close()
        finally:
            _netcdf_lock().release()

    def _open(self) -> Any:
        import netCDF4

        return netCDF4.Dataset(str(self.path), mode="r")

    def store(self) -> Any:
        return XARRAY.backends.NetCDF4DataStore(self, lock=self)


def _netcdf_lock() -> Any:
    """Return the lock under which xarray reads the files that users opened with it."""
    from xarray.backends.netCDF4_ import NETCDF4_PYTHON_LOCK

    return NETCDF4_PYTHON_LOCK


def _opened(file: _File) -> xr.Dataset:
    with file:
        store = file.store()
        return open_stored(store, chunks=None, cache=False, drop_variables=file.beyond(store))
