"""Chunks that would become far larger than they are declared: refused before they are decoded."""

from __future__ import annotations

import bz2
import gzip
import re
import tracemalloc
import zlib
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import numcodecs  # pyright: ignore[reportMissingTypeStubs] - it has none
import numpy as np
import pytest
import xarray as xr
import zarr
import zarr.codecs

import halocline_engine as he
from halocline_engine.datasets.decoding.bounds import decoded
from halocline_engine.datasets.decoding.frames import Corrupt, zstd_most
from halocline_engine.datasets.inputs.opening import open_source
from halocline_engine.errors import DatasetError

_N: Any = cast(Any, numcodecs)
_Z: Any = cast(Any, zarr)
SHAPE = (64, 64)
DECLARED = 64 * 64 * 8
MEBIBYTE = 2**20
ZEROS = bytes(64 * MEBIBYTE)

PACKED: dict[str, tuple[Any, Any]] = {
    "zstd": (_N.Zstd().encode, _N.Zstd()),
    "blosc": (_N.Blosc().encode, _N.Blosc()),
    "lz4": (_N.LZ4().encode, _N.LZ4()),
    "gzip": (gzip.compress, _N.GZip()),
    "zlib": (zlib.compress, _N.Zlib()),
    "bz2": (bz2.compress, _N.BZ2()),
}
V3: dict[str, Any] = {
    "zstd": zarr.codecs.ZstdCodec(),
    "blosc": zarr.codecs.BloscCodec(),
    "gzip": zarr.codecs.GzipCodec(),
}


def written(path: Path, *, shards: bool = False, **how: Any) -> Path:
    """Write a store whose second chunk a test replaces."""
    values = np.random.default_rng(1).normal(size=(2 * SHAPE[0], SHAPE[1]))
    group = _Z.open_group(path, mode="w", zarr_format=how.pop("zarr_format", 3))
    chunks = (SHAPE[0] // 4, SHAPE[1]) if shards else SHAPE
    given = {"shards": SHAPE} if shards else {}
    names = {} if group.metadata.zarr_format == 2 else {"dimension_names": ("y", "x")}
    made = group.create_array(
        "a", shape=values.shape, chunks=chunks, dtype="f8", **given, **names, **how
    )
    if not names:
        made.attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
    made[:] = values
    return path


@pytest.fixture(scope="module", autouse=True)
def _traced() -> Generator[None]:
    """Count memory in all tests: a thread that still decodes would crash if counting ended."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


def reads(path: Path) -> int:
    """Read the damaged chunk, and give the bytes that were taken at most."""
    opened = open_source(path)
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    with pytest.raises(DatasetError) as caught:
        opened.source.read("a", (slice(64, 128), slice(0, 64)))
    peak = tracemalloc.get_traced_memory()[1] - before
    assert "Chunk (1, 0) of variable 'a'" in str(caught.value)
    assert re.search(
        r"cannot be decoded: it becomes \d+ bytes or more, where its chunk has \d+\.",
        str(caught.value),
    )
    return peak


@pytest.mark.parametrize("codec", V3)
def test_a_chunk_that_becomes_too_large_is_refused(tmp_path: Path, codec: str) -> None:
    path = written(tmp_path / "a.zarr", compressors=[V3[codec]])
    (path / "a" / "c" / "1" / "0").write_bytes(PACKED[codec][0](ZEROS))
    assert reads(path) < 8 * MEBIBYTE


@pytest.mark.parametrize("codec", PACKED)
def test_so_it_is_in_the_second_format(tmp_path: Path, codec: str) -> None:
    path = written(tmp_path / "a.zarr", compressors=PACKED[codec][1], zarr_format=2)
    (path / "a" / "1.0").write_bytes(PACKED[codec][0](ZEROS))
    assert reads(path) < 8 * MEBIBYTE


@pytest.mark.parametrize("codec", PACKED)
def test_so_it_is_where_a_filter_decompresses(tmp_path: Path, codec: str) -> None:
    path = written(tmp_path / "a.zarr", zarr_format=2, compressors=None, filters=[PACKED[codec][1]])
    (path / "a" / "1.0").write_bytes(PACKED[codec][0](ZEROS))
    assert reads(path) < 8 * MEBIBYTE


def test_so_it_is_in_several_layers(tmp_path: Path) -> None:
    path = written(tmp_path / "a.zarr", compressors=[V3["zstd"], V3["gzip"]])
    small = gzip.compress(_N.Zstd().encode(ZEROS))
    (path / "a" / "c" / "1" / "0").write_bytes(small)
    assert reads(path) < 8 * MEBIBYTE


@pytest.mark.parametrize("codec", V3)
def test_so_it_is_inside_shards(tmp_path: Path, codec: str) -> None:
    path = written(tmp_path / "a.zarr", shards=True, compressors=[V3[codec]])
    file = path / "a" / "c" / "1" / "0"
    bomb = PACKED[codec][0](ZEROS)
    index = np.array([[0, len(bomb)]] * 4, "<u8").tobytes()
    check = int(_N.CRC32C().encode(index)[-4:].view("<u4")[0]).to_bytes(4, "little")
    file.write_bytes(bomb + index + check)
    assert reads(path) < 8 * MEBIBYTE


@pytest.mark.parametrize("codec", PACKED)
def test_the_readers_of_runs_have_the_bound_too(tmp_path: Path, codec: str) -> None:
    path = written(tmp_path / "a.zarr", compressors=PACKED[codec][1], zarr_format=2)
    (path / "a" / "1.0").write_bytes(PACKED[codec][0](ZEROS))
    program = """
def double(a: Field[np.float64], out: Field[np.float64]):
    with computation(PARALLEL), interval(...):
        out = a + a
"""
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    with pytest.raises(DatasetError, match=r"Chunk \(1, 0\) of variable 'a'"):
        he.run(program, path, target="reference")
    assert tracemalloc.get_traced_memory()[1] - before < 32 * MEBIBYTE


@pytest.mark.parametrize("codec", PACKED)
def test_whole_chunks_are_read_as_they_are(tmp_path: Path, codec: str) -> None:
    for number, shards in enumerate((False, True)):
        if codec not in V3 and shards:
            continue
        how: dict[str, Any] = {"zarr_format": 2, "compressors": PACKED[codec][1]}
        if codec in V3:
            how = {"compressors": [V3[codec]], "shards": shards}
        path = written(tmp_path / f"{number}.zarr", **how)
        expected = np.random.default_rng(1).normal(size=(128, 64))
        found = open_source(path).source.read("a", (slice(0, 128), slice(0, 64)))
        np.testing.assert_array_equal(found, expected)


def test_text_is_read_as_it_is(tmp_path: Path) -> None:
    """How long it is is in the chunk alone."""
    values = np.array(["ä" * 1000, "b", ""], np.dtypes.StringDType())
    group = _Z.open_group(tmp_path / "a.zarr", mode="w", zarr_format=3)
    made = group.create_array("a", shape=(3,), dtype=values.dtype, dimension_names=("y",))
    made[:] = values
    found = open_source(tmp_path / "a.zarr").source.read("a", (slice(0, 3),))
    assert list(found) == list(values)


@pytest.mark.parametrize("codec", PACKED)
def test_the_bound_is_the_size_itself(codec: str) -> None:
    packed = np.frombuffer(PACKED[codec][0](bytes(1000)), np.uint8)
    assert decoded(codec, packed, 1000) in (None, bytes(1000))
    with pytest.raises(Corrupt, match=r"bytes or more, where its chunk has 999"):
        decoded(codec, packed, 999)


@pytest.mark.parametrize("codec", ["gzip", "bz2"])
def test_streams_may_have_several_parts_and_must_end(codec: str) -> None:
    two = PACKED[codec][0](b"a" * 10) + PACKED[codec][0](b"b" * 10)
    assert decoded(codec, np.frombuffer(two, np.uint8), 20) == b"a" * 10 + b"b" * 10
    with pytest.raises(Corrupt, match="bytes or more"):
        decoded(codec, np.frombuffer(two, np.uint8), 19)
    with pytest.raises(Corrupt, match="its stream has no end"):
        decoded(codec, np.frombuffer(two[:-3], np.uint8), 20)


def test_frames_without_a_size_are_bounded_by_their_blocks() -> None:
    """A block of four bytes may say that it is 128 kB of the same byte."""
    runs = 1000
    block = int.to_bytes(128 * 1024 << 3 | 1 << 1, 3, "little") + b"x"
    last = int.to_bytes(1 << 1 | 1, 3, "little") + b"x"
    frame = bytes.fromhex("28b52ffd0058") + block * runs + last
    packed = np.frombuffer(frame, np.uint8)
    assert zstd_most(packed) == runs * 128 * 1024
    with pytest.raises(Corrupt, match="131072000 bytes or more"):
        decoded("zstd", packed, DECLARED)
    assert decoded("zstd", packed, runs * 128 * 1024) is None


@pytest.mark.parametrize("size", range(20))
def test_frames_that_are_cut_off_have_a_bound(size: int) -> None:
    packed = np.frombuffer(_N.Zstd().encode(b"abc" * 100)[:size], np.uint8)
    assert zstd_most(packed) <= 128 * 1024


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_more_texts_than_their_bytes_can_hold(zarr_format: int, tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    texts = xr.Dataset({"a": ("x", np.array(["one", "two"], object))})
    packing: dict[str, Any] = {"a": {"compressors": ()}}
    cast("Any", texts).to_zarr(path, zarr_format=zarr_format, consolidated=False, encoding=packing)
    chunk = path / ("a/0" if zarr_format == 2 else "a/c/0")
    chunk.write_bytes((2**31).to_bytes(4, "little") + bytes(8))
    with pytest.raises(DatasetError, match="has 2147483648 texts, where its bytes hold at most 2"):
        open_source(path).source.read("a", (slice(0, 2),))
