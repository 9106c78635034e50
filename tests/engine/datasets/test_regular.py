"""What is no regular file is refused without being opened: nobody waits for a pipe."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import halocline_engine as he
from halocline_engine.datasets.regular import NotRegularError, open_regular
from halocline_engine.errors import DatasetError

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes in folders"),
]

_DOUBLE = """
def double(t: Field[np.float64], out: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        out = 2.0 * t
"""


def _socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the path of a socket may be short only
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


SPECIAL: dict[str, Callable[[Path], Any]] = {
    "pipe": os.mkfifo,
    "socket": _socket,
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
}
special = pytest.mark.parametrize("make", SPECIAL.values(), ids=SPECIAL)


@special
def test_special_files_are_not_opened(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    path = tmp_path / "x"
    make(path)
    with pytest.raises(NotRegularError, match="It is not a regular file"):
        open_regular(path)


def test_regular_files_are_opened(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("x")
    for name in ("x", "link"):
        with open_regular(tmp_path / name) as file:
            assert file.read() == b"abc"
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "y")
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)


@special
@pytest.mark.parametrize("compressed", [False, True])
def test_a_chunk_that_is_no_file_is_named(
    tmp_path: Path, make: Callable[[Path], Any], compressed: bool
) -> None:
    dataset = xr.Dataset({"t": (("y", "x"), np.ones((8, 8)))})
    encoding = {"t": {"chunks": (4, 8), **({} if compressed else {"compressors": None})}}
    stored: Any = dataset
    stored.to_zarr(tmp_path / "t.zarr", encoding=encoding, consolidated=False)
    chunk = tmp_path / "t.zarr" / "t" / "c" / "1" / "0"
    chunk.unlink()
    make(chunk)
    with pytest.raises(DatasetError) as caught:
        he.run(_DOUBLE, tmp_path / "t.zarr", output=tmp_path / "out.zarr", target="reference")
    assert caught.value.message == (
        f"Chunk (1, 0) of variable 't' of '{tmp_path}/t.zarr' cannot be decoded: NotRegularError: "
        f"[Errno 22] It is not a regular file: '{chunk}'."
    )


@special
def test_a_file_that_is_none_is_refused(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    make(tmp_path / "x.nc")
    with pytest.raises(DatasetError) as caught:
        he.run(_DOUBLE, tmp_path / "x.nc", target="reference")
    name = (tmp_path / "x.nc").resolve().name
    assert caught.value.message == (
        f"Dataset '{name}' is refused: it is neither a file nor a folder."
    )
    assert caught.value.hint == "Copy it to a plain NetCDF file or a Zarr store first."
