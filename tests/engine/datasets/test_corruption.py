"""Chunks that cannot be decoded are named, with their files."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr
import zarr

from halocline_engine import run
from halocline_engine.datasets.inputs.opening import open_source
from halocline_engine.datasets.stores.source import ArrayStore
from halocline_engine.errors import DatasetError

WHOLE = (slice(0, 20), slice(0, 10))
DOUBLE = "def double(a: Field[IJ, float32], b: Field[IJ, float32]):\n"


def stored(path: Path, format_: Any, **encoding: Any) -> Path:
    values = np.arange(200, dtype="float32").reshape(20, 10)
    data = xr.Dataset({"u": (("y", "x"), values)})
    options = {"u": {"chunks": (5, 10), **encoding}}
    # Zarr warns of consolidated metadata.
    cast(Any, data).to_zarr(path, zarr_format=format_, encoding=options, consolidated=False)
    return path


@pytest.mark.parametrize(
    ("format_", "file", "why"),
    [
        (3, "c/2/0", "RuntimeError: Zstd decompression error: invalid input data"),
        (2, "2.0", "its file has 20 bytes, and not {size}"),
    ],
)
def test_a_chunk_that_cannot_be_decoded_is_named(
    tmp_path: Path, format_: int, file: str, why: str
) -> None:
    path = stored(tmp_path / "a.zarr", format_)
    broken = path / "u" / file
    why = why.format(size=broken.stat().st_size)
    broken.write_bytes(broken.read_bytes()[:20])
    with pytest.raises(DatasetError) as caught:
        open_source(path).source.read("u", WHOLE)
    assert str(caught.value) == (
        f"Chunk (2, 0) of variable 'u' of '{path}' cannot be decoded: {why}."
        f" The file '{broken}' is damaged: copy it anew, or remove it to have the fill value there."
    )
    # The others can be read, and so can all where the file is gone.
    assert np.isfinite(open_source(path).source.read("u", (slice(0, 10), slice(0, 10)))).all()
    broken.unlink()
    assert np.isnan(open_source(path).source.read("u", WHOLE)[10:15]).all()


def test_a_shard_is_named_by_its_file(tmp_path: Path) -> None:
    group: Any = cast(Any, zarr).create_group(str(tmp_path / "a.zarr"), zarr_format=3)
    group.create_array("u", shape=(20, 10), chunks=(5, 10), shards=(10, 10), dtype="float32")
    group["u"][...] = np.ones((20, 10), "float32")
    (tmp_path / "a.zarr/u/c/1/0").write_bytes(b"short")
    source = ArrayStore(str(tmp_path / "a.zarr"))
    assert source.read("u", (slice(0, 10), slice(0, 10))).all()
    with pytest.raises(DatasetError, match=r"Chunk \(1, 0\) of variable 'u' of .*/u/c/1/0'"):
        source.read("u", WHOLE)


def test_what_is_not_the_fault_of_a_chunk_stays_as_it_is(tmp_path: Path) -> None:
    path = stored(tmp_path / "a.zarr", 3)
    with pytest.raises(KeyError):
        open_source(path).source.read("v", WHOLE)


def test_a_run_says_which_chunk(tmp_path: Path) -> None:
    path = stored(tmp_path / "a.zarr", 3)
    (path / "u/c/3/0").write_bytes(b"")
    program = DOUBLE + "    with computation(FORWARD), interval(...):\n        b = a + a\n"
    with pytest.raises(DatasetError, match=r"Chunk \(3, 0\) of variable 'u'"):
        run(program, path, fields={"a": "u"}, target="reference", output=tmp_path / "b.zarr")
    assert not (tmp_path / "b.zarr").exists()


def test_a_variable_of_a_file_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    values = np.random.default_rng(4).integers(0, 9, (20, 10)).astype("float32")
    h5py: Any = import_module("h5py")
    with h5py.File(path, "w") as file:
        made = file.create_dataset("u", data=values, chunks=(5, 10), compression="gzip")
        chunk = made.id.get_chunk_info(1)
    found = bytearray(path.read_bytes())
    found[chunk.byte_offset + 4 : chunk.byte_offset + chunk.size] = b"\xff" * (chunk.size - 4)
    path.write_bytes(found)
    with pytest.raises(DatasetError) as caught:
        open_source(path).source.read("u", WHOLE)
    text = str(caught.value)
    assert text.startswith(f"Variable 'u' of '{path}' cannot be decoded: OSError: ")
    assert text.endswith(
        ". The file is damaged: copy it again, or pass a dataset of its intact parts."
    )
