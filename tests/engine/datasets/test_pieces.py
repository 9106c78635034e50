"""Regions of many chunks are read and written in pieces, between which they can be interrupted."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halocline_engine.control.interruption import interruptible
from halocline_engine.datasets.decoding import pieces
from halocline_engine.datasets.decoding.pieces import pieces_of, read_pieces
from halocline_engine.datasets.stores.chunks import CachedSource, Stored
from halocline_engine.datasets.stores.sink import ZarrSink
from halocline_engine.datasets.stores.source import ArrayStore, Source, ZarrStore
from halocline_engine.errors import CancelledError, DatasetError


@st.composite
def regions(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], tuple[slice, ...]]:
    """Draw a shape, chunks and a region of up to three dimensions, perhaps an empty one."""
    shape = tuple(draw(st.lists(st.integers(0, 12), max_size=3)))
    chunks = tuple(draw(st.integers(1, 14)) for _ in shape)
    region: list[slice] = []
    for size in shape:
        low = draw(st.integers(0, size))
        region.append(slice(low, draw(st.integers(low, size))))
    whole = draw(st.booleans())
    return shape, chunks, tuple(slice(None) if whole else part for part in region)


@given(regions(), st.integers(1, 20))
@settings(max_examples=100, deadline=None)
def test_pieces_cover_a_region_once_with_few_chunks_each(
    drawn: tuple[tuple[int, ...], tuple[int, ...], tuple[slice, ...]], most: int
) -> None:
    shape, chunks, region = drawn
    visits = np.zeros(shape, int)
    for piece in pieces_of(region, shape, chunks, most):
        visits[piece] += 1
        bounds = [part.indices(size) for part, size in zip(piece, shape, strict=True)]
        touched = math.prod(
            len(range(low // step, -(-high // step)))
            for (low, high, _), step in zip(bounds, chunks, strict=True)
        )
        assert touched <= most
    expected = np.zeros(shape, int)
    expected[region] = 1
    assert (visits == expected).all()
    values = np.arange(math.prod(shape)).reshape(shape)
    got = read_pieces(region, shape, chunks, lambda cells: values[cells], most)
    np.testing.assert_array_equal(got, values[region])


def test_a_region_with_strides_is_one_piece() -> None:
    assert list(pieces_of([slice(0, 9, 2)], [9], [1], most=2)) == [(slice(0, 9, 2),)]


def declared(folder: Path, rows: int) -> Path:
    """Make a store of metadata alone, which declares a chunk for each row."""
    array = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [rows, 8],
        "data_type": "float64",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 8]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 2.5,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": {},
        "dimension_names": ["y", "x"],
    }
    (folder / "t").mkdir(parents=True)
    group: dict[str, Any] = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    (folder / "zarr.json").write_text(json.dumps(group))
    (folder / "t" / "zarr.json").write_text(json.dumps(array))
    return folder


ROWS = 10**7
REGION = (slice(0, ROWS), slice(0, 8))
STORED = Stored("t", (ROWS, 8), (1, 8), 8)


def cached(path: str, limit: int) -> Source:
    return CachedSource(ZarrStore(path, "now"), path, (STORED,), limit, path)


@pytest.mark.timeout(30, func_only=True)  # it took minutes
@pytest.mark.parametrize("kind", ["store", "arrays", "counted", "cached"])
def test_reading_millions_of_chunks_can_be_interrupted(tmp_path: Path, kind: str) -> None:
    path = str(declared(tmp_path / "many.zarr", ROWS))
    sources: dict[str, Source] = {
        "store": ZarrStore(path, "now"),
        "arrays": ArrayStore(path),
        "counted": cached(path, 0),
        "cached": cached(path, 2**20),
    }
    source = sources[kind]
    looks: list[int] = []

    def check() -> None:
        looks.append(0)
        if len(looks) > 3:
            raise CancelledError("Stopped.")

    with interruptible(check), pytest.raises(CancelledError, match=r"Stopped\."):
        source.read("t", REGION)
    assert len(looks) == 4


@pytest.mark.timeout(30, func_only=True)
def test_writing_many_chunks_can_be_interrupted(tmp_path: Path) -> None:
    rows = 5_000
    path = declared(tmp_path / "many.zarr", rows)
    looks: list[int] = []

    def check() -> None:
        looks.append(0)
        if len(looks) > 1:
            raise CancelledError("Stopped.")

    with interruptible(check), pytest.raises(CancelledError):
        ZarrSink(str(path)).write("t", (slice(0, rows), slice(0, 8)), np.ones((rows, 8)))
    written = sum(1 for _ in (path / "t" / "c").iterdir())
    assert written == pieces.CHUNKS_AT_ONCE


def test_a_broken_chunk_is_found_among_those_of_its_piece(tmp_path: Path) -> None:
    path = declared(tmp_path / "many.zarr", ROWS)
    broken = path / "t" / "c" / "5000" / "0"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"x")
    with pytest.raises(DatasetError, match=r"^Chunk \(5000, 0\) of variable 't'"):
        ZarrStore(str(path), "now").read("t", (slice(0, 6000), slice(0, 8)))
