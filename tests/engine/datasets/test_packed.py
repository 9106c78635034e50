"""Compressed chunk files, against what Zarr reads and writes."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numcodecs  # pyright: ignore[reportMissingTypeStubs] - it has none
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from halocline_engine.datasets.chunk_files.packed import (
    PackedArray,
    PackedSource,
    packed_array,
    packed_source,
)
from halocline_engine.datasets.decoding.streams import Streams, streams_of
from halocline_engine.datasets.stores.chunks import CachedSource, Tally, clear_cache
from halocline_engine.datasets.stores.source import ArrayStore
from halocline_engine.errors import DatasetError

SHAPE = (5, 11, 13)
CODECS = cast(Any, numcodecs)
ZARR = cast(Any, zarr)
V3: dict[str, Any] = {
    "auto": "auto",
    "checked": ZARR.codecs.ZstdCodec(level=3, checksum=True),
    "gzip": ZARR.codecs.GzipCodec(level=2),
    "blosc": ZARR.codecs.BloscCodec(cname="lz4", shuffle="shuffle"),
}
V2: dict[str, Any] = {
    "blosc": CODECS.Blosc(),
    "blosc-zstd": CODECS.Blosc("zstd", 3, CODECS.Blosc.BITSHUFFLE),
    "zstd": CODECS.Zstd(3),
    "lz4": CODECS.LZ4(),
    "zlib": CODECS.Zlib(1),
}


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(3) as threads:
        yield threads


def made(path: Path, codec: str, format_: int = 3, **options: Any) -> Any:
    compressors = (V3 if format_ == 3 else V2).get(codec, codec)
    options = {"chunks": (2, 4, 13), "dtype": "float32", "compressors": compressors, **options}
    if format_ == 2:
        # Another value would stand for missing ones.
        options["fill_value"] = np.nan
    group = ZARR.create_group(str(path), zarr_format=format_, overwrite=True)
    return group.create_array("a", shape=SHAPE, **options)


def opened(path: Path, dtype: str = "float32") -> PackedArray:
    found = packed_array(str(path), "a", dtype)
    assert found is not None
    return found


def smooth(dtype: str = "float32") -> NDArray[Any]:
    return (np.add.outer(np.arange(55), np.arange(13)) // 3).reshape(SHAPE).astype(dtype)


@pytest.mark.parametrize(
    ("format_", "codec"), [*((3, one) for one in V3), *((2, one) for one in V2)]
)
def test_regions_are_those_of_zarr(
    tmp_path: Path, executor: Executor, format_: int, codec: str
) -> None:
    values = smooth()
    made(tmp_path, codec, format_)[...] = values
    array = opened(tmp_path)
    side = st.tuples(*(st.tuples(st.integers(0, n - 1), st.integers(1, n)) for n in SHAPE))

    @settings(max_examples=10, deadline=None, derandomize=True)
    @given(side)
    def check(box: Any) -> None:
        region = tuple(slice(min(a, b - 1), max(a + 1, b)) for a, b in box)
        into = np.full([side.stop - side.start for side in region], np.nan, "float32", order="F")
        assert array.read_into(region, into, executor)
        np.testing.assert_array_equal(into, values[region])

    check()


@pytest.mark.parametrize("dtype", ["float32", "int16", "bool"])
def test_what_is_written_is_what_zarr_reads(tmp_path: Path, executor: Executor, dtype: str) -> None:
    values = smooth(dtype)
    there = made(tmp_path, "auto", dtype=dtype)
    array = opened(tmp_path, dtype)
    for rows in (slice(0, 4), slice(4, 8), slice(8, 11)):
        region = (slice(0, 5), rows, slice(0, 13))
        assert array.write(region, np.asfortranarray(values[region]), executor)
    np.testing.assert_array_equal(there[...], values)
    # Its files are those of Zarr, byte by byte.
    again = made(tmp_path / "again", "auto", dtype=dtype)
    again[...] = values
    for file in sorted((tmp_path / "again/a/c").rglob("*")):
        if file.is_file():
            assert (tmp_path / "a/c" / file.relative_to(tmp_path / "again/a/c")).read_bytes() == (
                file.read_bytes()
            )


def test_what_is_not_whole_or_of_another_codec_is_left_to_zarr(
    tmp_path: Path, executor: Executor
) -> None:
    made(tmp_path, "auto")
    region = (slice(0, 5), slice(0, 6), slice(0, 13))
    values = np.zeros((5, 6, 13), "float32")
    assert not opened(tmp_path).write(region, values, executor)
    # A chunk that was never written has the fill value, which Zarr knows.
    assert not opened(tmp_path).read_into(region, values, executor)
    made(tmp_path / "other", "gzip")
    whole = (slice(0, 5), slice(0, 4), slice(0, 13))
    assert not opened(tmp_path / "other").write(whole, values[:, :4], executor)
    assert not list((tmp_path / "other/a").rglob("c*"))


@pytest.mark.parametrize(
    "options",
    [
        {"compressors": None},
        {"attributes": {"_FillValue": 3.0}},
        {"dtype": "float64"},
        {"serializer": ZARR.codecs.BytesCodec(endian="big")},
        {"shards": (4, 8, 13)},
        {"filters": [ZARR.codecs.TransposeCodec(order=(2, 1, 0))]},
        {"compressors": [ZARR.codecs.ZstdCodec(), ZARR.codecs.Crc32cCodec()]},
    ],
)
def test_other_arrays_are_left_to_zarr(tmp_path: Path, options: dict[str, Any]) -> None:
    made(tmp_path, "auto", **options)
    assert packed_array(str(tmp_path), "a", "float32") is None


@pytest.mark.parametrize(
    ("format_", "codec", "file", "cut", "why"),
    [
        (3, "auto", "c/1/0/0", 9, "RuntimeError: Zstd decompression error: invalid input data"),
        (3, "blosc", "c/1/0/0", 9, "it has 9 bytes, fewer than a header"),
        (2, "blosc", "1.0.0", 20, "its file has 20 bytes, and not {size}"),
        (2, "lz4", "1.0.0", 3, "it has 3 bytes, fewer than a header"),
    ],
)
def test_a_broken_chunk_is_named(
    tmp_path: Path, format_: int, codec: str, file: str, cut: int, why: str
) -> None:
    made(tmp_path, codec, format_)[...] = smooth()
    broken = tmp_path / "a" / file
    data = broken.read_bytes()
    broken.write_bytes(data[:cut])
    region = tuple(slice(0, n) for n in SHAPE)
    with pytest.raises(DatasetError) as caught:
        opened(tmp_path).read_into(region, np.empty(SHAPE, "float32"))
    assert str(caught.value) == (
        f"Chunk (1, 0, 0) of variable 'a' of '{tmp_path}' cannot be decoded:"
        f" {why.format(size=len(data))}."
        f" The file '{broken}' is damaged: copy it anew, or remove it to have the fill value there."
    )


def test_a_chunk_of_another_size_is_named(tmp_path: Path) -> None:
    made(tmp_path, "auto")[...] = smooth()
    (tmp_path / "a/c/0/0/0").write_bytes(CODECS.Zstd().encode(np.zeros(7, "float32")))
    region = tuple(slice(0, n) for n in SHAPE)
    with pytest.raises(DatasetError, match="decoded: it has 28 bytes, and not 416"):
        opened(tmp_path).read_into(region, np.empty(SHAPE, "float32"))


def put_together(streams: Streams, packed: NDArray[np.uint8], room: int) -> NDArray[np.uint8]:
    """Return a chunk that is decoded stream by stream, as RFCs and Blosc's text say."""
    found = np.full(room, 0xA5, np.uint8)
    lanes = zip(streams.start, streams.size, streams.at, streams.room, strict=True)
    for start, size, at, wide in lanes:
        data = packed[start : start + size].tobytes()
        if size != wide:
            head = b"" if streams.codec == "zstd" else int(wide).to_bytes(4, "little")
            data = (CODECS.Zstd() if streams.codec == "zstd" else CODECS.LZ4()).decode(head + data)
        found[at : at + wide] = np.frombuffer(data, np.uint8)
    for begin in range(0, room, streams.block):
        part = found[begin : begin + streams.block]
        part[:] = part.reshape(streams.width, -1).T.reshape(-1)
    return found


def data_of(codec: Any, values: NDArray[Any]) -> NDArray[np.uint8]:
    """Return what a codec makes of values, in memory that may be changed."""
    return np.frombuffer(codec.encode(values), np.uint8).copy()


def field(count: int, dtype: str) -> NDArray[Any]:
    noise = np.random.default_rng(3).normal(size=count)
    return (np.cumsum(noise) * 8).round().astype(dtype)


@pytest.mark.parametrize("count", [100, 40_000, 200_001])
@pytest.mark.parametrize("dtype", ["float32", "int16"])
@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("zstd", CODECS.Zstd(1)),
        ("lz4", CODECS.LZ4()),
        ("blosc", CODECS.Blosc("lz4", 5, CODECS.Blosc.SHUFFLE)),
        ("blosc", CODECS.Blosc("zstd", 1, CODECS.Blosc.SHUFFLE)),
        ("blosc", CODECS.Blosc("lz4", 1, CODECS.Blosc.NOSHUFFLE, blocksize=1 << 13)),
    ],
)
def test_streams_put_together_are_the_chunk(name: str, codec: Any, dtype: str, count: int) -> None:
    values = field(count, dtype)
    packed = data_of(codec, values)
    streams = streams_of(name, packed, values.nbytes)
    if name == "lz4" and packed.size == values.nbytes + 4:
        assert streams is None
        return
    assert streams is not None
    assert streams.room.sum() == values.nbytes
    made = put_together(streams, packed, values.nbytes)
    np.testing.assert_array_equal(made, values.view(np.uint8))


def test_noise_that_blosc_copies_is_one_stream() -> None:
    values = np.random.default_rng(0).integers(0, 256, 4000, np.uint8).view("float32")
    packed = data_of(CODECS.Blosc(), values)
    streams = streams_of("blosc", packed, 4000)
    assert streams is not None
    assert (streams.width, list(streams.size), list(streams.start)) == (1, [4000], [16])


def test_what_needs_another_decoder_has_no_streams() -> None:
    values = field(5000, "float32")
    checked = data_of(CODECS.Zstd(1, checksum=True), values)
    bits = data_of(CODECS.Blosc("lz4", 5, CODECS.Blosc.BITSHUFFLE), values)
    own = data_of(CODECS.Blosc("blosclz", 5), values)
    plain = data_of(CODECS.Zstd(1), values)
    assert streams_of("zstd", checked, values.nbytes) is None
    assert streams_of("blosc", bits, values.nbytes) is None
    assert streams_of("blosc", own, values.nbytes) is None
    assert streams_of("zlib", plain, values.nbytes) is None
    assert streams_of("zstd", plain, values.nbytes + 4) is None
    assert streams_of("zstd", np.concatenate((plain, plain)), values.nbytes) is None


@pytest.mark.parametrize("name", ["zstd", "blosc"])
def test_streams_of_damaged_files_stay_within_them(name: str) -> None:
    values = field(40_000, "float32")
    codec = CODECS.Zstd(1) if name == "zstd" else CODECS.Blosc("lz4", 5, blocksize=1 << 14)
    packed = data_of(codec, values)
    rng = np.random.default_rng(5)
    seen: set[bool] = set()
    for _ in range(300):
        damaged = packed[: rng.integers(0, packed.size + 1)].copy()
        if rng.random() < 0.8:
            damaged = packed.copy()
            damaged[rng.integers(0, min(80, packed.size), 2)] = rng.integers(0, 256, 2)
        streams = streams_of(name, damaged, values.nbytes)
        seen.add(streams is None)
        if streams is None:
            continue
        assert np.all(streams.start >= 0)
        assert np.all(streams.start + streams.size <= damaged.size)
        order = np.argsort(streams.at)
        ends = streams.at[order] + streams.room[order]
        np.testing.assert_array_equal(streams.at[order], np.append(0, ends[:-1]))
        assert ends[-1] == values.nbytes
    assert seen == {True, False}


@pytest.mark.parametrize("limit", [0, 2 * 2 * 4 * 13 * 4, 1 << 20])
def test_chunks_that_are_kept_fill_an_array_in_threads(
    tmp_path: Path, executor: Executor, limit: int
) -> None:
    values = smooth()
    made(tmp_path, "blosc", 2)[...] = values
    source = packed_source(ArrayStore(str(tmp_path)), "a", "float32")
    assert isinstance(pickle.loads(pickle.dumps(source)), PackedSource)
    stored = opened(tmp_path).stored
    cached = CachedSource(source, "here", (stored,), limit, f"{tmp_path} {limit}")
    tally, other = Tally(), Tally()
    into = np.full(SHAPE, np.nan, "float32", order="F")
    region = tuple(slice(0, n) for n in SHAPE)
    try:
        for _ in range(2):
            assert cached.fill("a", region, into, tally, executor) == (limit > 0)
            np.testing.assert_array_equal(cached.fetch("a", region, other), values)
            if limit:
                np.testing.assert_array_equal(into, values)
    finally:
        clear_cache(f"{tmp_path} {limit}", limit)
    # With room for all of them, chunks are fetched once.
    fetched = {0: (0, 18), 1 << 20: (9, 0)}.get(limit, (18, 18))
    assert (tally.fetches, other.fetches) == fetched


def test_what_is_not_there_is_read_by_zarr(tmp_path: Path) -> None:
    made(tmp_path, "auto", fill_value=np.nan)[...] = smooth()
    (tmp_path / "a/c/0/0/0").unlink()
    source = packed_source(ArrayStore(str(tmp_path)), "a", "float32")
    found = source.read("a", tuple(slice(0, n) for n in SHAPE))
    assert np.isnan(found[:2, :4]).all()
    np.testing.assert_array_equal(found[2:], smooth()[2:])
