"""Errors for corrupt chunks: which chunk of which variable, and its file.

Libraries raise whatever their codecs do. What failed is looked for, chunk by chunk, only then.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from halocline_engine.control.interruption import raise_if_interrupted
from halocline_engine.datasets.decoding.frames import Corrupt
from halocline_engine.datasets.untyped import ZARR
from halocline_engine.datasets.zarr_files import RegularFiles
from halocline_engine.errors import DatasetError, HaloclineError

__all__ = ["broken_chunk", "read_chunked", "read_whole", "unreadable"]

#: Reads the values of a region.
_Read = Callable[[tuple[slice, ...]], NDArray[Any]]


def read_chunked(path: str, name: str, region: tuple[slice, ...], read: _Read) -> NDArray[Any]:
    """Return what `read` reads of an array of a Zarr store.

    Raises `DatasetError`, which names the chunk and its file, where one of them cannot be decoded,
    or the variable where its files cannot be read.
    """
    try:
        return read(region)
    except (HaloclineError, MemoryError):
        raise
    except Exception as error:
        found = _first_broken(path, name, region, read)
        if found is None and isinstance(error, OSError):
            found = unreadable(f"'{name}' of '{path}'", error)
        if found is None:
            raise
        raise found from error


def read_whole(path: str, name: str, region: tuple[slice, ...], read: _Read) -> NDArray[Any]:
    """Return what `read` reads of a variable of a file; raises `DatasetError` where it cannot."""
    try:
        return read(region)
    except (HaloclineError, MemoryError):
        raise
    except Exception as error:
        raise DatasetError(
            f"Variable '{name}' of '{path}' cannot be decoded: {_said(error)}.",
            hint="The file is damaged: copy it again, or pass a dataset of its intact parts.",
        ) from error


def unreadable(what: str, error: Exception) -> DatasetError:
    """Return the error for variables that cannot be read, `what` in quotes."""
    return DatasetError(
        f"Variable {what} cannot be read: {_said(error)}.",
        hint="Correct its source or its computation.",
    )


def broken_chunk(
    path: str, name: str, index: tuple[int, ...], file: Path, why: str
) -> DatasetError:
    """Return the error for a chunk that cannot be decoded."""
    place = ", ".join(map(str, index))
    return DatasetError(
        f"Chunk ({place}) of variable '{name}' of '{path}' cannot be decoded: {why}.",
        hint=f"The file '{file}' is damaged: copy it anew, or remove it to have the fill value"
        " there.",
    )


def _first_broken(
    path: str, name: str, region: tuple[slice, ...], read: _Read
) -> DatasetError | None:
    """Return the error of the first chunk that cannot be read by itself."""
    try:
        array = ZARR.open_array(RegularFiles(path), path=name, mode="r")
    except Exception:
        return None
    files: tuple[int, ...] = array.shards or array.chunks
    sizes: tuple[int, ...] = array.shape
    region = tuple(slice(*part.indices(size)) for part, size in zip(region, sizes, strict=True))
    ranges = (
        range(part.start // step, -(-part.stop // step))
        for part, step in zip(region, files, strict=True)
    )
    for index in itertools.product(*ranges):
        raise_if_interrupted()
        sides = zip(index, files, region, strict=True)
        cells = tuple(
            slice(max(at * step, part.start), min((at + 1) * step, part.stop))
            for at, step, part in sides
        )
        try:
            read(cells)
        except Exception as error:
            file = Path(path, name, array.metadata.encode_chunk_key(index))
            return broken_chunk(path, name, index, file, _said(error))
    return None


def _said(error: Exception) -> str:
    if isinstance(error, Corrupt):  # our own words
        return str(error)
    return f"{type(error).__name__}: {error}".rstrip(".: ")
