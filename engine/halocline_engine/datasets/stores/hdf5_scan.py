"""Look into an HDF5 file before anything opens it: some files read other files.

HDF5 can point outside: links to other files, raw data in external files, virtual datasets, and
filters that load code. A NetCDF file that somebody sent could show the contents of any file that
this process may read, so such files are refused. The walk takes links as they are and follows
none, at every level.
"""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path
from typing import Any, cast

import h5py  # pyright: ignore[reportMissingTypeStubs] - met here only

from halocline_engine.datasets.regular import NotRegularError, open_regular
from halocline_engine.errors import DatasetError

__all__ = ["is_hdf5", "refuse_outside"]

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
#: deflate, shuffle, fletcher32, szip, nbit, scaleoffset: those that the library brings itself.
_BUILT_IN_FILTERS = frozenset({1, 2, 3, 4, 5, 6})
_MOST_OBJECTS = 100_000
_DEEPEST = 64  # groups; readers recurse, and a group that is within itself has no end
_COPY = "Copy it to a plain NetCDF file or a Zarr store first."
_h5: Any = cast(Any, h5py)


def is_hdf5(path: Path) -> bool:
    """Whether a file starts as HDF5 does, at any of the places where the format allows it."""
    with _opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        at = 0
        while at < size:
            file.seek(at)
            if file.read(len(_SIGNATURE)) == _SIGNATURE:
                return True
            at = 512 if at == 0 else at * 2
    return False


def _opened(path: Path) -> FileIO:
    try:
        return open_regular(path)
    except NotRegularError as error:
        raise DatasetError(
            f"Dataset '{path.name}' is refused: it is neither a file nor a folder.", hint=_COPY
        ) from error


def refuse_outside(place: Any, name: str = "") -> None:
    """Raise `DatasetError` if an HDF5 file refers outside of itself, or is no tree of groups.

    `place` is a path, or an open file with a `name`. The message names the object. Reads metadata
    only.
    """
    called = name or place.name
    try:
        with _h5.File(place, "r") as file:
            _walk(file, called)
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        raise DatasetError(
            f"Dataset '{called}' cannot be read as HDF5: {error}.",
            hint="It is damaged or incomplete: obtain it again.",
        ) from error


def _walk(root: Any, path: str) -> None:
    pending: list[tuple[str, int, Any]] = [("", 1, root)]
    seen: set[Any] = {_mark(root)}
    while pending:
        prefix, level, group = pending.pop()
        for name in group:
            place = f"{prefix}/{name}"
            link = group.get(name, getlink=True)
            if not isinstance(link, _h5.HardLink):
                raise _refused(path, place, "is a link to another object or file")
            item = group[name]
            is_group = isinstance(item, _h5.Group)
            if is_group and level >= _DEEPEST:
                raise _refused(path, place, f"is nested more than {_DEEPEST} groups deep")
            if (mark := _mark(item)) in seen:
                if is_group:
                    raise _refused(path, place, "is another name of a group")
                continue
            seen.add(mark)
            if len(seen) > _MOST_OBJECTS:
                raise _refused(path, place, f"is one of more than {_MOST_OBJECTS} objects")
            if is_group:
                pending.append((place, level + 1, item))
            elif isinstance(item, _h5.Dataset):
                _check_dataset(path, place, item)


def _mark(item: Any) -> tuple[int, int]:
    """Return what identifies an object, by whatever name it was reached."""
    info = _h5.h5o.get_info(item.id)
    return info.fileno, info.addr


def _check_dataset(path: str, place: str, item: Any) -> None:
    if item.is_virtual:
        raise _refused(path, place, "is a virtual dataset")
    if item.external:
        raise _refused(path, place, "keeps its data in other files")
    filters = item.id.get_create_plist()
    for at in range(filters.get_nfilters()):
        code = filters.get_filter(at)[0]
        if code not in _BUILT_IN_FILTERS:
            raise _refused(path, place, f"needs the filter {code}, which would load code")


def _refused(path: str, place: str, why: str) -> DatasetError:
    return DatasetError(
        f"Dataset '{path}' is refused: '{place}' {why}.",
        hint=_COPY,
    )
