"""Plain chunk files, against what Zarr reads and writes."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr
import zarr
from deadlines import until
from hypothesis import given, settings
from hypothesis import strategies as st

from halocline_engine.datasets.chunk_files import raw
from halocline_engine.datasets.chunk_files.raw import RawArray, raw_array
from halocline_engine.datasets.stores.chunks import chunks_in
from halocline_engine.errors import OutputError

SHAPE = (5, 11, 13)


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(3) as threads:
        yield threads


def made(path: Path, **options: Any) -> Any:
    options = {"chunks": (2, 4, 13), "dtype": "float32", "compressors": None, **options}
    group = cast(Any, zarr).create_group(str(path), zarr_format=3, overwrite=True)
    return group.create_array("a", shape=SHAPE, **options)


def opened(path: Path, dtype: str = "float32") -> RawArray:
    found = raw_array(path, "a", dtype)
    assert found is not None
    return found


SIDE = st.tuples(*(st.tuples(st.integers(0, n - 1), st.integers(1, n)) for n in SHAPE))


@pytest.mark.parametrize("short", [0, 1 << 15])
@pytest.mark.parametrize("chunks", [(2, 4, 13), (5, 3, 4), (1, 11, 13)])
def test_regions_are_those_of_zarr(
    tmp_path: Path, executor: Executor, chunks: Any, short: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "_SHORT", short)
    monkeypatch.setattr(raw, "_PIECE", 40)
    values = np.random.default_rng(2).normal(size=SHAPE).astype("float32")
    made(tmp_path, chunks=chunks)[...] = values
    array = opened(tmp_path)

    @settings(max_examples=25, deadline=None, derandomize=True)
    @given(SIDE, st.sampled_from([(0, 1, 2), (2, 1, 0), (1, 0, 2)]))
    def check(box: Any, order: tuple[int, int, int]) -> None:
        region = tuple(slice(min(a, b - 1), max(a + 1, b)) for a, b in box)
        sizes = [side.stop - side.start for side in region]
        # An array whose dimensions lie in any order in memory.
        into = np.full([sizes[at] for at in order], np.nan, "float32")
        view = into.transpose(np.argsort(order))
        assert array.read_into(region, view, executor)
        np.testing.assert_array_equal(view, values[region])

    check()


@pytest.mark.parametrize("short", [0, 1 << 15])
@pytest.mark.parametrize("dtype", ["float64", "int16", "bool"])
def test_what_is_written_is_what_zarr_reads(
    tmp_path: Path, executor: Executor, dtype: str, short: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "_SHORT", short)
    monkeypatch.setattr(raw, "_PIECE", 40)
    values = np.random.default_rng(2).integers(0, 2, SHAPE).astype(dtype)
    there = made(tmp_path, dtype=dtype)
    array = opened(tmp_path, dtype)
    for rows in (slice(0, 4), slice(4, 8), slice(8, 11)):
        region = (slice(0, 5), rows, slice(0, 13))
        part = np.asfortranarray(values[region])
        assert array.write(region, part, executor)
        assert array.write(region, part, executor)
    np.testing.assert_array_equal(there[...], values)


def test_chunks_across_an_edge_are_left_to_zarr(tmp_path: Path, executor: Executor) -> None:
    made(tmp_path)
    region = (slice(0, 5), slice(0, 6), slice(0, 13))
    values = np.zeros((5, 6, 13), "float32")
    assert not opened(tmp_path).write(region, values, executor)
    assert not list((tmp_path / "a").rglob("c*"))
    # A chunk that was never written has the fill value, which Zarr knows.
    assert not opened(tmp_path).read_into(region, values, executor)


@pytest.mark.parametrize(
    "options",
    [
        {"compressors": "auto"},
        {"attributes": {"_FillValue": 3.0}},
        {"dtype": "float64"},
        {"serializer": cast(Any, zarr).codecs.BytesCodec(endian="big")},
        {"chunks": (2, 4, 13), "shards": (4, 8, 13)},
        {"filters": [cast(Any, zarr).codecs.TransposeCodec(order=(2, 1, 0))]},
    ],
)
def test_other_arrays_are_not_raw(tmp_path: Path, options: dict[str, Any]) -> None:
    made(tmp_path, **options)
    assert raw_array(tmp_path, "a", "float32") is None


@pytest.mark.parametrize("format_", [2, 3])
def test_what_xarray_writes_is_raw_where_no_value_changes(tmp_path: Path, format_: Any) -> None:
    """Both formats; cells that are missing are NaN and stay so, others become NaN when read."""
    values = np.random.default_rng(3).normal(size=SHAPE).astype("float32")
    values[0, 0, :3] = np.nan
    counts = np.arange(values.size, dtype="int16").reshape(SHAPE)
    dims = ("k", "j", "i")
    data = xr.Dataset({"a": (dims, values), "b": (dims, values), "n": (dims, counts)})
    plain = {"chunks": (2, 4, 13), "compressors": None}
    encoding = {"a": plain, "b": {**plain, "_FillValue": 3.0}, "n": {**plain, "_FillValue": 7}}
    store = tmp_path / "store"
    cast("Any", data).to_zarr(store, encoding=encoding, consolidated=False, zarr_format=format_)
    assert raw_array(store, "b", "float32") is None
    assert raw_array(store, "n", "int16") is None
    assert raw_array(store, "a", "float64") is None
    array = raw_array(store, "a", "float32")
    assert array is not None
    region = (slice(1, 4), slice(2, 11), slice(0, 9))
    into = np.full([side.stop - side.start for side in region], -1, "float32")
    assert array.read_into(region, into)
    np.testing.assert_array_equal(into, values[region])
    # What is written is there, and cells behind the end of the data belong to the file.
    assert array.write((slice(4, 5), slice(8, 11), slice(0, 13)), np.ones((1, 3, 13), "float32"))
    found = cast("Any", xr).open_zarr(store, consolidated=False)["a"].values
    assert (found[4, 8:] == 1).all()
    np.testing.assert_array_equal(found[:4], values[:4])


def test_what_is_no_array_is_not_raw(tmp_path: Path) -> None:
    made(tmp_path)
    assert raw_array(tmp_path, "b", "float32") is None
    assert raw_array(tmp_path, ".", "float32") is None
    (tmp_path / "a" / "zarr.json").write_text("[1]")
    assert raw_array(tmp_path, "a", "float32") is None


@pytest.mark.parametrize("call", [0, 100, 1 << 20])
@pytest.mark.parametrize("chunks", [(2, 4, 13), (5, 3, 4), (1, 11, 13)])
def test_stretches_hold_what_a_region_has(
    tmp_path: Path, chunks: Any, call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each cell in one stretch, whose bytes are those of its file; few where asking is dear."""
    monkeypatch.setattr(raw, "_CALL", call)
    values = np.random.default_rng(2).normal(size=SHAPE).astype("float32")
    made(tmp_path, chunks=chunks)[...] = values
    array = opened(tmp_path)

    @settings(max_examples=25, deadline=None, derandomize=True)
    @given(SIDE)
    def check(box: Any) -> None:
        region = tuple(slice(min(a, b - 1), max(a + 1, b)) for a, b in box)
        found = np.full([side.stop - side.start for side in region], np.nan, "float32")
        count = 0
        for some in array.byte_ranges(region):
            room = np.full((some.count, some.size + 8), 255, np.uint8)
            pieces = [(n, at) for n in array.names(some) for at in some.offsets()]
            for row, (name, at) in zip(room, pieces, strict=True):
                row[: some.size] = np.fromfile(name, np.uint8, some.size, offset=at)
            cells = some.cells(room.reshape(-1), some.size + 8, "float32")
            assert np.shares_memory(cells, room)
            assert np.isnan(some.places(found)).all()
            some.places(found)[...] = cells
            assert some.whole == (4 * cells.size == some.size * some.count)
            assert cells.size == found[some.there].size
            count += some.count
            assert some.files == len(set(array.names(some)))
        np.testing.assert_array_equal(found, values[region])
        if call > 1000:
            assert count == sum(1 for _ in chunks_in(array.stored, region))

    check()


def test_what_is_written_of_a_region_is_one_stretch_of_each_file(tmp_path: Path) -> None:
    made(tmp_path)
    array = opened(tmp_path)
    assert array.files((slice(0, 5), slice(0, 6), slice(0, 13))) is None
    found = array.files((slice(2, 5), slice(8, 11), slice(0, 13)))
    assert found is not None
    files = [(Path(name), one.size) for one in found for name in array.names(one)]
    assert [(path.relative_to(tmp_path / "a").as_posix(), size) for path, size in files] == [
        ("c/1/2/0", 2 * 4 * 13 * 4),
        ("c/2/2/0", 1 * 4 * 13 * 4),
    ]
    assert [list(one.offsets()) for one in found] == [[0], [0]]
    assert [one.whole for one in found] == [False, False]
    assert array.file_size == 2 * 4 * 13 * 4


@pytest.mark.parametrize("what", ["_write", "_read"])
def test_nothing_is_under_way_when_files_fail(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path, chunks=(1, 11, 13))[...] = 1
    array = opened(tmp_path)
    busy, lock, seen = [0], threading.Lock(), [0]
    awaited = threading.Event()

    def waits(futures: Any, **how: Any) -> Any:
        if not how:  # for those that are left
            awaited.set()
        return wait(futures, **how)

    monkeypatch.setattr("halocline_engine.datasets.chunk_files.spread.wait", waits)

    def slow(self: RawArray, part: object) -> bool:
        with lock:
            seen[0] += 1
            first = seen[0] == 1
            busy[0] += 1
        try:
            if first:
                until(lambda: busy[0] == 4)
                raise OSError("broken")
            awaited.wait(5)
        finally:
            with lock:
                busy[0] -= 1
        return True

    monkeypatch.setattr(RawArray, what, slow)
    region = tuple(slice(0, size) for size in SHAPE)
    values = np.zeros(SHAPE, "float32")
    with ThreadPoolExecutor(4) as threads:
        with pytest.raises(OutputError if what == "_write" else OSError, match="broken"):
            (array.write if what == "_write" else array.read_into)(region, values, threads)
        assert busy[0] == 0


def test_the_folder_of_an_array_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    made(tmp_path)
    array = opened(tmp_path)
    shutil.rmtree(tmp_path / "a")
    with pytest.raises(OutputError, match="FileNotFoundError"):
        array.write(tuple(slice(0, size) for size in SHAPE), np.zeros(SHAPE, "float32"))
    assert not (tmp_path / "a").exists()


def test_codecs_may_be_told_by_their_names_alone(tmp_path: Path) -> None:
    group: Any = cast(Any, zarr).create_group(str(tmp_path / "s.zarr"), zarr_format=3)
    group.create_array("t", shape=(4, 6), chunks=(2, 3), dtype="float64", compressors=None)
    file = tmp_path / "s.zarr" / "t" / "zarr.json"
    about = json.loads(file.read_text())
    for codecs, plain in ((["bytes"], True), (["bytes", "zstd"], False), ([], False)):
        file.write_text(json.dumps(about | {"codecs": codecs}))
        assert (raw_array(tmp_path / "s.zarr", "t", "float64") is not None) == plain
