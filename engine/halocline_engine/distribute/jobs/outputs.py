"""Outputs of a run: a result that appears complete or not at all, and its disk space."""

from __future__ import annotations

import errno
import functools
import hashlib
import math
import os
import platform
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import xarray as xr

from halocline_engine.arguments import place_of
from halocline_engine.datasets.dask_blocks import with_checked_blocks
from halocline_engine.datasets.grids.conventions import with_encoded_attributes
from halocline_engine.datasets.grids.match import FieldUse, Grid
from halocline_engine.datasets.inputs.opening import open_source
from halocline_engine.datasets.stores.netcdf_writing import write_netcdf
from halocline_engine.datasets.stores.result import open_result
from halocline_engine.datasets.stores.source import Opened
from halocline_engine.datasets.storing.outputs import check_output_path, is_netcdf
from halocline_engine.distribute.tasks.cancel import CancelToken, raise_if_cancelled
from halocline_engine.errors import OutputError
from halocline_engine.removal import remove_own

__all__ = [
    "check_output",
    "check_space",
    "check_workspace",
    "field_bytes",
    "open_beside",
    "published",
    "result_needs",
    "same_disk",
    "temporary_folder",
]

#: The NetCDF file of a result, in the folder of its draft.
_WRITTEN = ".new-netcdf"
#: Bytes of a name that file systems take, and of a path with room for files below it.
_LONGEST_NAME, _LONGEST_PATH = 255, 3_800
#: Seconds before each attempt to remove a folder.
_WAITS = (0.0, 0.1, 0.5, 2.0)


def check_output(output: Path, source: Path | None) -> None:
    """Raise `OutputError` unless a new result can stand at `output`, apart from the input.

    It is looked at where links lead, and `source` has none. See also `open_beside`.
    """
    _check_apart(output, source, "input")
    check_output_path(output, OutputError)


def open_beside(dataset: xr.Dataset | str | Path, what: str, output: str | Path | None) -> Opened:
    """Open what is read beside the input, which is called `what`.

    Readers find all attributes of CF in `attrs`, and blocks of Dask as they are declared. Raises
    `DatasetError`, and `OutputError` where the output lies in it.
    """
    opened, place = open_source(dataset), place_of("output", output)
    if place is not None:
        _check_apart(place, opened.place, what)
    return replace(opened, dataset=with_encoded_attributes(with_checked_blocks(opened.dataset)))


def _check_apart(output: Path, source: Path | None, what: str) -> None:
    if source is not None and _without_links(output).is_relative_to(source):
        raise OutputError(
            f"The output '{output}' lies on the {what} '{source}'.",
            hint=f"Choose a place outside of the {what}.",
        )


def check_workspace(workspace: Path, output: Path | None, source: Path | None) -> None:
    """Raise `OutputError` unless passes can be kept in `workspace`, apart from the input.

    A workspace that is not there yet is made. The output may lie in it, but not around it.
    """
    longest = max(len(os.fsencode(part)) for part in workspace.parts)
    if longest > _LONGEST_NAME or len(os.fsencode(workspace)) > _LONGEST_PATH:
        raise OutputError(
            f"The path of the workspace must have at most {_LONGEST_PATH} bytes and names of at"
            f" most {_LONGEST_NAME}, got {len(os.fsencode(workspace))} and {longest}.",
            hint="Choose a shorter one.",
        )
    real = _without_links(workspace)
    if source is not None and real.is_relative_to(source):
        raise OutputError(
            f"The workspace '{workspace}' lies on the input '{source}'.",
            hint="Choose a place outside of the input.",
        )
    if output is not None and real.is_relative_to(_without_links(output)):
        raise OutputError(
            f"The workspace '{workspace}' lies on the output '{output}'.",
            hint="Choose a place outside of the output.",
        )
    there = next(path for path in (workspace, *workspace.parents) if os.path.lexists(path))
    if not there.is_dir():
        raise OutputError(
            f"The workspace '{workspace}' cannot be made, as '{there}' is no directory.",
            hint="Choose another place.",
        )
    if not os.access(there, os.W_OK):
        raise OutputError(
            f"The workspace '{workspace}' cannot be made, as '{there}' cannot be written to.",
            hint="Choose another place.",
        )


def _without_links(path: Path) -> Path:
    """Return where a path leads; links that lead nowhere stay."""
    return Path(os.path.realpath(path))


def check_space(needs: Sequence[tuple[Path, int]]) -> None:
    """Raise `OutputError` where a file system has less free space than is needed on it.

    `needs` are directories with bytes; those on one file system are added up.
    """
    totals: dict[int, tuple[Path, int]] = {}
    for path, size in needs:
        place = _there(path)
        device = place.stat().st_dev
        first, before = totals.get(device, (place, 0))
        totals[device] = (first, before + size)
    for place, size in totals.values():
        free = shutil.disk_usage(place).free
        if size > free:
            raise OutputError(
                f"The run needs up to {size} bytes under '{place}', but only {free} are free.",
                hint="Free some space, or choose another place with output=.",
            )


def same_disk(path: Path, other: Path) -> bool:
    """Say whether two places, which need not be there yet, are on one file system."""
    return _there(path).stat().st_dev == _there(other).stat().st_dev


def _there(path: Path) -> Path:
    return next(p for p in (path, *path.parents) if p.exists())


def field_bytes(uses: Sequence[FieldUse], grid: Grid) -> int:
    """Return the bytes of all values of some fields."""
    return sum(
        math.prod(grid.size_of(dim) for dim in use.dims) * np.dtype(use.dtype).itemsize
        for use in uses
    )


@contextmanager
def temporary_folder(parent: Path | None) -> Generator[Path]:
    """Give a folder for what is needed on the way, which is gone at the end.

    Where work failed, something else may still be written there for a moment. What someone else put
    there stays.
    """
    made = Path(tempfile.mkdtemp(prefix=".halocline-", dir=parent))
    try:
        yield made
    finally:
        for wait in _WAITS:
            time.sleep(wait)
            if not remove_own(made).left:
                break


@contextmanager
def published(output: Path, cancelled: CancelToken | None = None) -> Generator[Path]:
    """Give a place beside `output` for a Zarr store, which becomes `output` at the end.

    Where `output` is a NetCDF file, the store is its draft and goes when the file is written,
    which `cancelled` may end.
    Where the body raises, nothing is left of it. What a process left that was killed meanwhile is
    removed when the next one on its machine writes to the same place.
    """
    _remove_leftovers(output)
    owner = f"{_machine()}-{os.getpid()}-{_started(os.getpid())}"
    part = output.with_name(f".{output.name}.{owner}.{uuid.uuid4().hex[:12]}.part")
    try:
        yield part
        if is_netcdf(output):
            check = functools.partial(raise_if_cancelled, cancelled)
            write_netcdf(open_result(part), part / _WRITTEN, check)
            _link(part / _WRITTEN, output)
        else:
            _rename(part, output)
    finally:
        remove_own(part)


def result_needs(output: Path, size: int) -> tuple[Path, int]:
    """Return the directory of a result with the bytes that are written there.

    Those of a NetCDF file are written twice.
    """
    return output.parent, 2 * size if is_netcdf(output) else size


def _remove_leftovers(output: Path) -> None:
    """Remove what processes of this machine that are gone wrote beside `output`."""
    name = re.compile(rf"\.{re.escape(output.name)}\.([0-9a-f]+)-(\d+)-(\d*)\.[0-9a-f]+\.part")
    for path in output.parent.iterdir():
        found = name.fullmatch(path.name)
        if found and found[1] == _machine() and _started(int(found[2])) != found[3]:
            remove_own(path)


@functools.cache
def _machine() -> str:
    """Return a name for where process numbers are those of this process, since it was started."""
    parts = [platform.node()]
    with suppress(OSError):
        parts += [Path("/proc/sys/kernel/random/boot_id").read_text("ascii")]
        parts += [os.readlink("/proc/self/ns/pid")]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _started(process: int) -> str:
    """Return a number for when a process began, "" where there is none any more."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text("utf-8", errors="replace")
    except FileNotFoundError:
        elsewhere = not Path("/proc/self/stat").exists()
        return "0" if elsewhere and psutil.pid_exists(process) else ""
    except OSError:
        return ""
    # In ticks since the system began: psutil tells it by the clock, which may be set meanwhile.
    # The name in brackets may hold anything; the state comes behind it, and the start 19 later.
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state == "Z" else fields[18]


def _taken(output: Path) -> OutputError:
    return OutputError(
        f"The output '{output}' was made by someone else during the run.",
        hint="Choose another place.",
    )


def _rename(part: Path, output: Path) -> None:
    if os.path.lexists(output):  # a folder that is empty would be replaced
        raise _taken(output)
    try:
        part.rename(output)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        raise _taken(output) from error


def _link(part: Path, output: Path) -> None:
    """Give a file its name, and replace none; where there are no links it is renamed."""
    try:
        output.hardlink_to(part)
    except FileExistsError as error:
        raise _taken(output) from error
    except OSError:
        _rename(part, output)
