"""Gathers and scatters cut up on both sides give the bits of one block, in bounded memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import halocline_engine as he
from halocline_engine.distribute.executors import local
from halocline_engine.distribute.tasks.events import (
    BlockFinished,
    Event,
    Finished,
    PassFinished,
    Planned,
)
from halocline_engine.distribute.transfers import buckets_plan
from halocline_engine.distribute.transfers.buckets_plan import Tiles
from halocline_engine.errors import ArgumentError, CancelledError, CapacityError

identical = cast("Any", xr).testing.assert_identical


def plain(found: xr.Dataset) -> xr.Dataset:
    return cast("Any", found).load().drop_encoding().assign_attrs(history="")


def drawn(seed: int, *, scatter: bool) -> tuple[xr.Dataset, dict[str, Any]]:
    """Return a dataset, and what is asked of it but for chunks."""
    rng = np.random.default_rng(seed)
    n, size = int(rng.integers(1, 30)), int(rng.integers(1, 40))
    dtype = str(rng.choice(["f4", "f8", "i4"]))
    inner = ("y", "x") if rng.random() < 0.4 else ("point",)
    shape = dict(zip(inner, (int(rng.integers(1, 6)), n), strict=False))
    named, width = tuple(shape.values()), 40 if rng.random() < 0.5 else size
    low, high = (-3, size + 3) if rng.random() < 0.5 else (0, size)
    if rng.random() < 0.2:
        low = high - 1  # all in one bucket
    rule = str(rng.choice(["clip", "wrap", "mask"]))
    if scatter:
        names = [*inner, "time", "level"]
        sizes = {**shape, "time": 3, "level": 2}
        dims = [names[int(at)] for at in rng.permutation(len(names))]
        values = rng.normal(size=[sizes[dim] for dim in dims]) * 100
        index = rng.integers(low, high, named)
        asked: dict[str, Any] = {
            "dim": "cell",
            "size": size,
            "duplicates": str(rng.choice(["last", "sum", "min", "max"])),
        }
    else:
        names = ["cell", "time", "level"]
        dims = [names[int(at)] for at in rng.permutation(3)]
        sizes = {"cell": size, "time": 3, "level": 2}
        values = rng.normal(size=[sizes[dim] for dim in dims]) * 100
        if rng.random() < 0.4:
            inner, named = ("time", *inner), (3, *named)
        index = rng.integers(low, high, named)
        asked = {"dim": "cell"}
    if dtype.startswith("f"):
        values[rng.random(values.shape) < 0.1] = np.nan
        values[rng.random(values.shape) < 0.1] = -0.0
    dataset = xr.Dataset(
        {
            "v": (
                tuple(dims),
                np.nan_to_num(values).astype(dtype) if dtype == "i4" else values.astype(dtype),
                {"units": "K"},
            ),
            "index": (inner, index.astype("i4" if width == 40 else "i8")),
        },
        coords={"time": np.arange(3.0), "depth": (("level",), [1.0, 2.0])},
    )
    if not scatter:
        dataset = cast("Any", dataset).assign_coords(lon=(("cell",), np.arange(float(size))))
    return dataset, {"source": "v", "index": "index", "out_of_range": rule, **asked}


@settings(max_examples=16, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    scatter=st.booleans(),
    steps=st.lists(st.integers(1, 12), min_size=5, max_size=5),
)
def test_any_chunking_gives_the_bits_of_one_block(
    seed: int, scatter: bool, steps: list[int]
) -> None:
    dataset, asked = drawn(seed, scatter=scatter)
    make = he.scatter if scatter else he.gather
    names = ("time", "cell", "level", "x", "y")
    known = {*dataset["v"].dims, *dataset["index"].dims, "cell"}
    chunks = {dim: step for dim, step in zip(names, steps, strict=True) if dim in known}
    if "point" in known:
        chunks["point"] = steps[-1]
    whole = plain(make(dataset, target="reference", **asked))
    found = plain(make(dataset, target="reference", chunks=chunks, **asked))
    identical(found, whole)


def exchange(seed: int = 5) -> xr.Dataset:
    rng = np.random.default_rng(seed)
    return xr.Dataset(
        {
            "v": (("time", "cell", "level"), rng.normal(size=(2, 60, 3))),
            "index": (("point",), rng.integers(0, 60, 90)),
            "skewed": (("point",), rng.integers(50, 53, 90)),
            "wrong": (("point",), np.where(np.arange(90) == 70, 60, rng.integers(0, 60, 90))),
            "back": (("cell",), rng.permutation(80)[:60]),
        },
        coords={"lon": (("cell",), np.arange(60.0))},
    )


def test_only_what_is_named_moves(tmp_path: Path) -> None:
    data = exchange()
    events: list[Event] = []
    options: dict[str, Any] = {"source": "v", "dim": "cell", "target": "reference"}
    chunks = {"cell": 10, "point": 20}
    found = he.gather(data, index="skewed", chunks=chunks, on_event=events.append, **options)
    identical(plain(found), plain(he.gather(data, index="skewed", **options)))
    planned, last = events[0], events[-1]
    assert isinstance(planned, Planned)
    assert isinstance(last, Finished)
    assert (planned.passes, planned.blocks) == (3, 5)
    assert planned.reason == "elements are sorted into buckets by tiles of 'cell'"
    passes = [event.pass_index for event in events if isinstance(event, PassFinished)]
    assert passes == [0, 1, 2]
    blocks = [event for event in events if isinstance(event, BlockFinished)]
    assert [sum(e.pass_index == n for e in blocks) for n in range(3)] == [5, 6, 5]
    assert [e.progress for e in events] == sorted(e.progress for e in events)
    # One of six tiles of the source is read. Of it, five tiles of the index name three elements.
    element = 2 * 3 * 8
    assert last.bytes_read == 90 * 8 + 10 * element + 5 * 3 * element
    buckets = 5 * (7 * 8 + 3 * 4) + 90 * 4
    assert last.bytes_written == buckets + 5 * 3 * element + 90 * element


@pytest.mark.parametrize("tile", [1, 7, 60])
def test_errors_name_the_first_of_all(tile: int, tmp_path: Path) -> None:
    data = exchange()
    out = tmp_path / "out.zarr"

    def message(make: Any, **options: Any) -> str:
        with pytest.raises(ArgumentError) as caught:
            make(data, source="v", target="reference", output=out, **options)
        return str(caught.value)

    for chunks in (None, {"cell": tile, "point": tile}):
        options: dict[str, Any] = {"index": "wrong", "dim": "cell", "chunks": chunks}
        assert message(he.gather, **options) == (
            "Index 60 at place 70 of 'wrong' is out of range: expected numbers from 0 to 59."
            " Use out_of_range='clip', 'wrap' or 'mask' if that is meant."
        )
    assert message(
        he.scatter, index="back", dim="wide", size=70, chunks={"wide": tile, "cell": tile}
    ) == message(he.scatter, index="back", dim="wide", size=70)
    data["back"][[7, 33, 58]] = data["back"][[4, 7, 2]].values
    wanted = message(he.scatter, index="back", dim="wide", size=80)
    assert "at place 7 of 'back' was at place 4 before" in wanted
    chunks = {"wide": tile, "cell": tile}
    assert message(he.scatter, index="back", dim="wide", size=80, chunks=chunks) == wanted
    assert list(tmp_path.iterdir()) == []


def test_workers_and_stores(two_workers: Any, tmp_path: Path) -> None:
    data = exchange()
    path = tmp_path / "in.zarr"
    encoding = {"v": {"chunks": (1, 16, 3)}, "index": {"chunks": (25,)}}
    cast("Any", data).to_zarr(path, zarr_format=3, consolidated=False, encoding=encoding)
    chunks = {"cell": 13, "point": 17, "wide": 30, "time": 1}
    cases: tuple[tuple[Any, dict[str, Any]], ...] = (
        (he.gather, {"index": "index", "dim": "cell"}),
        (he.scatter, {"index": "back", "dim": "wide", "size": 80}),
    )
    for make, options in cases:
        cut = {d: n for d, n in chunks.items() if make is he.scatter or d != "wide"}
        cut.pop("point" if make is he.scatter else "wide", None)
        whole = plain(make(data, source="v", target="reference", **options))
        found = make(
            path if make is he.gather else data,
            source="v",
            target="reference",
            cluster=two_workers,
            chunks=cut,
            output=tmp_path / f"{make.__name__}.zarr",
            **options,
        )
        identical(plain(found), whole)
    assert not [one for one in tmp_path.iterdir() if one.name.startswith(".")]
    with pytest.raises(CancelledError):
        he.gather(
            path,
            source="v",
            index="index",
            dim="cell",
            chunks={"cell": 5},
            target="cpu",
            output=tmp_path / "none.zarr",
            cancelled=lambda: True,
        )
    assert not [one for one in tmp_path.iterdir() if "none" in one.name or one.name[0] == "."]


def test_what_fits_nowhere_whole_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    data = exchange()
    options: dict[str, Any] = {
        "source": "v",
        "index": "index",
        "dim": "cell",
        "target": "reference",
    }
    whole = plain(he.gather(data, **options))
    monkeypatch.setattr(local, "host_memory", lambda: 20_000)
    events: list[Event] = []
    found = he.gather(data, on_event=events.append, **options)
    identical(plain(found), whole)
    planned = events[0]
    assert isinstance(planned, Planned)
    assert planned.passes == 3
    assert planned.projected_bytes <= 20_000
    monkeypatch.setattr(local, "host_memory", lambda: 100)
    with pytest.raises(CapacityError) as caught:
        he.gather(data, chunks={"cell": 60}, **options)
    assert str(caught.value) == (
        "A tile of 'v' or of its indices needs 5776 bytes of memory, but 40 are free for it."
        " Give smaller 'chunks', or use workers with more memory."
    )


def test_memory_stays_below_what_was_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A gather of 4 MB by random indices takes what its plan says, not what its arrays take."""
    megabyte = 1 << 20
    n = megabyte // 2
    rng = np.random.default_rng(0)
    data = xr.Dataset(
        {"v": (("cell",), np.arange(float(n))), "index": (("point",), rng.integers(0, n, n))}
    )
    path, out = tmp_path / "in.zarr", tmp_path / "out.zarr"
    encoding = {name: {"chunks": (n // 16,), "compressors": None} for name in data}
    cast("Any", data).to_zarr(path, zarr_format=3, consolidated=False, encoding=encoding)
    wanted = data["index"].values
    options: dict[str, Any] = {"source": "v", "index": "index", "dim": "cell"}
    del data
    # What is imported on the way is not counted.
    he.gather(path, chunks={"cell": n}, target="reference", output=tmp_path / "warm", **options)
    monkeypatch.setattr(buckets_plan, "LARGE", 3 * megabyte)
    events: list[Event] = []
    tracemalloc.start()
    try:
        found = he.gather(
            path,
            chunks={"cell": n // 32},
            target="reference",
            output=out,
            on_event=events.append,
            **options,
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    planned = events[0]
    assert isinstance(planned, Planned)
    assert planned.projected_bytes < 12 * megabyte
    # Two tasks are at hand at once, and one of them computes.
    assert planned.projected_bytes / 4 < peak < planned.projected_bytes
    np.testing.assert_array_equal(found["gathered"].values, wanted)


def test_tiles_in_rows_follow_each_other() -> None:
    tiles = Tiles(("y", "x"), (4, 6), (2, 4)).in_rows()
    assert tiles.steps == (1, 4)
    assert Tiles(("y", "x"), (4, 6), (2, 6)).in_rows().steps == (2, 6)
    assert Tiles(("z", "y", "x"), (2, 4, 6), (2, 2, 6)).in_rows().steps == (1, 2, 6)
