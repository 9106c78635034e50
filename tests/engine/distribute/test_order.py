"""Blocks in any order: the same bits, and the chunks that the model and the simulator say."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr
import zarr
from column_formulas import fetch_bound
from lru import misses

from halocline_engine.analysis.boundaries import Kind, Side
from halocline_engine.datasets.grids.match import match_fields
from halocline_engine.datasets.stores.chunks import Chunk, chunks_in
from halocline_engine.distribute.grid.boundary import Line
from halocline_engine.distribute.grid.geometry import Layout, geometry, reaches_of
from halocline_engine.distribute.grid.partition import Block, partition, shares
from halocline_engine.distribute.grid.regions import regions_of
from halocline_engine.distribute.stencils.order import (
    BlockGrid,
    Order,
    arrange,
    choose_order,
    fetched_chunks,
    stored_variables,
    touched_chunks,
    whole_rows,
)
from halocline_engine.distribute.stencils.visit import VisitPlan, visit
from halocline_engine.distribute.tasks.events import Event, Finished, Planned
from halocline_engine.distribute.tasks.options import ORDERS, Options
from halocline_engine.errors import ArgumentError, CapacityError
from halocline_engine.functions.run import run
from halocline_engine.program import compile_program
from halocline_engine.schedule.traversal.column_model import turning, working_set

STAR = """
def star(inp: Field[float], out: Field[float]):
    with computation(PARALLEL), interval(...):
        out = inp[1, 0, 0] + inp[-1, 0, 0] + inp[0, 1, 0] + inp[0, -1, 0] - 3.0 * inp
"""
SIZES = {"time": 2, "z": 3, "y": 40, "x": 44}
CHUNKS = {"time": 1, "z": 2, "y": 4, "x": 4}


def layout_of(sizes: dict[str, int], chunks: dict[str, int]) -> Layout:
    compiled = compile_program(STAR, target="reference")
    values = np.broadcast_to(np.float64(0), tuple(sizes.values()))
    dataset = xr.Dataset({"inp": (tuple(sizes), values)})
    dataset["inp"].encoding["chunks"] = tuple(chunks[dim] for dim in sizes)
    match = match_fields(compiled.program, compiled.facts, dataset, {}, {}, None)
    reaches = tuple(reaches_of(compiled.facts.fields[use.name]) for use in match.uses)
    i, j, k = (Line(size) for size in match.grid.sizes)
    return Layout(match.grid, match.uses, ((i, j, k),) * len(match.uses), reaches)


def blocks_of(layout: Layout, i: int, j: int) -> tuple[Block, ...]:
    grid = layout.grid
    extra = tuple(1 for _ in grid.extra)
    return partition(grid.sizes, grid.extra_sizes, (i, j, grid.sizes[2]), extra)


def simulated(layout: Layout, blocks: tuple[Block, ...], room: int) -> int:
    """Return how many chunks the simulator of the tests fetches; all have the same size."""
    numbers: dict[Any, int] = {}
    touched = [chunk for part in touched_chunks(layout, blocks, 1) for chunk in part]
    return misses((numbers.setdefault(c.index, len(numbers)) for c in touched), room)


def test_columns_read_chunks_once_where_rows_read_them_thrice() -> None:
    """The table of the documentation: a plane of blocks of 40 x 24, a cache of half its rows."""
    layout = layout_of({"z": 4, "y": 96, "x": 160}, {"z": 4, "y": 4, "x": 4})
    blocks = blocks_of(layout, 4, 4)
    grid = BlockGrid.of(layout, blocks, 1, 1)
    chunk = 4 * 4 * 4 * 8
    assert (grid.counts, grid.unit, grid.reads) == ((40, 24), chunk, ((1, 1), (1, 1)))
    cache = working_set(grid.work(1), 20)
    ratios: dict[str, float] = {}
    for name in ("row", "column", "zigzag"):
        order = choose_order(name, grid, cache)
        there = arrange(blocks, grid, order)
        fetches = simulated(layout, there, cache // chunk)
        touched = (c for part in touched_chunks(layout, there, 1) for c in part)
        assert fetched_chunks(touched, cache) == fetches
        ratios[name] = fetches / len(blocks)
        if name in ("column", "zigzag"):
            assert order.width == {"column": 20, "zigzag": 14}[name]
            assert fetches <= fetch_bound(grid.work(1), 24, 40, order.width, line=1)
    assert ratios["column"] <= 1.05
    assert ratios["column"] < ratios["zigzag"]
    assert ratios["row"] >= 1.8
    # Rows need no columns where they all fit, nor where rows along the other axis do.
    assert choose_order("auto", grid, whole_rows(grid)).name == "row"
    assert choose_order("auto", grid, working_set(grid.work(0), 24)) == Order("column", 0, 24)


@pytest.mark.parametrize("width", [3, 8, 14])
def test_columns_that_turn_save_the_rows_at_the_turns(width: int) -> None:
    """With room for a row more than columns that all go one way; without it they would thrash."""
    layout = layout_of({"z": 4, "y": 48, "x": 168}, {"z": 4, "y": 4, "x": 4})
    blocks = blocks_of(layout, 4, 4)
    grid = BlockGrid.of(layout, blocks, 1, 1)
    cache = working_set(turning(grid.work(1)), width)
    turned = choose_order("zigzag", grid, cache)
    assert turned == Order("zigzag", 1, width)
    fetched = {
        order: fetched_chunks(itertools.chain(*touched_chunks(layout, there, 1)), cache)
        for order in (turned, replace(turned, name="column"))
        for there in (arrange(blocks, grid, order),)
    }
    # At a turn, two blocks of each row that are at hand still are read by the next column as well.
    io_threads = -(-42 // width) - 1
    assert fetched[turned] + 2 * 2 * io_threads <= fetched[replace(turned, name="column")]
    assert fetched[turned] <= fetch_bound(grid.work(1), 12, 42, width, line=1)


@pytest.mark.parametrize(
    ("i", "j", "chunks"), [(4, 4, 4), (8, 4, 4), (6, 5, 4), (3, 7, 9), (5, 2, 3)]
)
@pytest.mark.parametrize("room", [0.5, 1.0, 3.0])
def test_fetches_never_exceed_the_bound(i: int, j: int, chunks: int, room: float) -> None:
    layout = layout_of(SIZES, {**CHUNKS, "y": chunks, "x": chunks})
    blocks = blocks_of(layout, i, j)
    grid = BlockGrid.of(layout, blocks, 1, 1)
    cache = max(int(room * working_set(grid.work(1), 4)), working_set(grid.work(1), 1))
    order = choose_order("column", grid, cache)
    assert working_set(grid.work(1), order.width) <= cache
    there = arrange(blocks, grid, order)
    touched = [chunk for part in touched_chunks(layout, there, 1) for chunk in part]
    cells = fetch_bound(grid.work(1), grid.counts[1], grid.counts[0], order.width, line=1)
    per_block = max(
        len({chunk.index for chunk in part})
        for part in touched_chunks(layout_without_reach(layout), blocks, 1)
    )
    assert fetched_chunks(touched, cache) <= SIZES["time"] * cells * per_block


def layout_without_reach(layout: Layout) -> Layout:
    return replace(layout, reaches=tuple(((0, 0),) * 3 for _ in layout.uses))


@pytest.mark.parametrize("name", ORDERS)
def test_every_order_has_all_blocks_once(name: str) -> None:
    layout = layout_of(SIZES, CHUNKS)
    blocks = blocks_of(layout, 8, 9)
    grid = BlockGrid.of(layout, blocks, 1, 2)
    assert grid.counts == (6, 5)
    there: tuple[Block, ...] = ()
    for cache, along in itertools.product((0, 30 * grid.unit, 10**9), (0, 1)):
        order = choose_order(name, grid, cache)
        if order.name in ("column", "zigzag"):
            order = Order(order.name, along, min(order.width, 3))
        there = arrange(blocks, grid, order)
        assert [block.index for block in there] == list(range(len(blocks)))
        assert {(b.box, b.extra) for b in there} == {(b.box, b.extra) for b in blocks}
    assert len(there) == len(blocks) == 60


def test_a_cache_is_taken_where_blocks_share_chunks() -> None:
    layout = layout_of(SIZES, CHUNKS)
    blocks = blocks_of(layout, 4, 4)
    job = VisitPlan((layout,), blocks, 1, 1, 1, 2)
    grid = BlockGrid.of(layout, blocks, 1, 2)
    plenty = visit(job, "auto", None, 10**9)
    assert (plenty.order.name, plenty.cache) == ("row", whole_rows(grid))
    assert plenty.fetches == plenty.chunks == 2 * 2 * 10 * 11
    scarce = visit(job, "auto", None, whole_rows(grid))
    assert (scarce.order.name, scarce.cache) == ("column", whole_rows(grid) // 2)
    assert scarce.fetches is not None
    # Two more columns, each of which reads a chunk of its neighbours on both sides in each row.
    assert scarce.order.width == 4
    assert scarce.fetches == scarce.chunks + 2 * 2 * 2 * 2 * 10
    assert visit(job, "auto", None, grid.unit).cache == 0
    alone = VisitPlan((layout_without_reach(layout),), blocks, 1, 1, 1, 2)
    assert visit(alone, "auto", None, 10**9).cache == 0
    with pytest.raises(CapacityError) as caught:
        visit(job, "auto", 1000, 999)
    assert str(caught.value) == (
        "The cache of chunks needs 1000 bytes beside the blocks, but only 999 are free. Give a"
        " smaller cache or smaller 'chunks'."
    )


def test_parts_of_the_columns_have_their_own_caches() -> None:
    """What several parts fetch is what each fetches for itself: more by what they share."""
    layout = layout_of(SIZES, CHUNKS)
    blocks = blocks_of(layout, 4, 4)
    grid = BlockGrid.of(layout, blocks, 1, 2)
    cache = whole_rows(grid)
    alone = visit(VisitPlan((layout,), blocks, 1, 1, 1, 2), "column", cache, cache)
    three = visit(VisitPlan((layout,), blocks, 1, 1, 3, 2), "column", cache, cache)
    assert alone.fetches is not None
    assert three.fetches is not None
    assert alone.blocks == three.blocks
    parts = shares(three.blocks, 3)
    assert [block for part in parts for block in part] == list(three.blocks)
    chunk = stored_variables(layout.uses, layout.grid, {"inp": "inp"})["inp"]
    room = cache // (8 * int(np.prod(chunk.chunks)))
    assert three.fetches == sum(simulated(layout, tuple(part), room) for part in parts)
    # Each cut between two parts costs at most the rows of chunks that both sides read.
    assert alone.fetches < three.fetches <= alone.fetches + 2 * 2 * 3 * 11


def test_what_workers_fetch_is_predicted_only_where_it_is_known() -> None:
    """Any worker may get any block: with a cache that counts, and without one it does not."""
    layout = layout_of(SIZES, CHUNKS)
    blocks = blocks_of(layout, 4, 4)
    job = VisitPlan((layout,), blocks, 1, 1, None, 2)
    cache = whole_rows(BlockGrid.of(layout, blocks, 1, 2))
    assert visit(job, "row", cache, cache).fetches is None
    bare = visit(job, "row", 0, cache)
    assert bare.fetches == sum(map(len, touched_chunks(layout, bare.blocks, 1)))


SHAPE = (3, 24, 40)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("order") / "in.zarr"
    group: Any = cast(Any, zarr).create_group(str(path), zarr_format=3)
    array = group.create_array(
        "inp",
        shape=SHAPE,
        chunks=(2, 4, 4),
        dtype="float64",
        compressors=None,
        dimension_names=("z", "y", "x"),
    )
    array[...] = np.random.default_rng(5).normal(size=SHAPE)
    return path


def watched(store: Path, **arguments: Any) -> tuple[xr.Dataset, Planned, Finished]:
    events: list[Event] = []
    arguments = {"chunks": {"y": 8, "x": 8}, "target": "reference", **arguments}
    arguments["mode"] = "streamed"
    result = run(STAR, store, on_event=events.append, **arguments)
    planned, finished = events[0], events[-1]
    assert isinstance(planned, Planned)
    assert isinstance(finished, Finished)
    return result, planned, finished


@pytest.mark.parametrize("threads", [1, 2])
def test_any_order_gives_the_same_bits_and_fetches_what_was_predicted(
    store: Path, threads: int
) -> None:
    """One block at a time is what the simulator counts; two share what is on its way as well."""
    expected, _, _ = watched(store, chunks={"y": 24, "x": 40})
    unit = 2 * 2 * 3 * 4 * 4 * 8
    tried = [*((name, 13 * unit) for name in ORDERS), ("auto", None), ("row", 0)]
    for order, cache in tried if threads == 1 else [("column", 13 * unit), ("auto", None)]:
        got, planned, finished = watched(
            store, options=Options(order=order, chunk_cache=cache, threads=threads)
        )
        assert got["out"].identical(expected["out"])
        assert planned.chunks == 2 * 6 * 10
        if threads == 1 or cache is None:
            assert finished.fetches == planned.predicted_fetches
        if cache is None:
            assert (planned.order, finished.fetches) == ("row", planned.chunks)
            assert planned.cache_bytes > 0
        elif cache:
            assert (planned.order, planned.cache_bytes) == (order, cache) or order == "auto"
            bound = -(-5 // planned.width) * (planned.width + 2) * (3 + 2) * 8
            assert order != "column" or finished.fetches <= bound


def test_passes_through_stores_are_predicted_too(store: Path, tmp_path: Path) -> None:
    feedback = {"out": "inp"}
    expected, _, _ = watched(store, steps=5, feedback=feedback)
    got, planned, finished = watched(
        store,
        steps=5,
        feedback=feedback,
        workspace=tmp_path / "work",
        options=Options(steps_per_pass=2),
    )
    assert planned.passes == 3
    assert got["out"].identical(expected["out"])
    assert finished.fetches == planned.predicted_fetches
    assert planned.chunks < finished.fetches


@pytest.mark.parametrize("cache", [0, 20_000])
def test_pipelines_are_predicted_where_blocks_compute_nothing(store: Path, cache: int) -> None:
    """Rows of one cell at the ends of the data have no stencil inside; then nothing is carried."""
    expected, _, _ = watched(store)
    found: list[int] = []
    for rows in (1, 2):
        chunks, options = {"y": rows, "x": 40}, Options(chunk_cache=cache, pipeline_depth=2)
        got, planned, finished = watched(store, chunks=chunks, options=options)
        assert got["out"].identical(expected["out"])
        assert finished.fetches == planned.predicted_fetches
        found.append(finished.fetches)
    assert found[0] > found[1] or cache


def test_workers_of_a_cluster_fetch_for_themselves(store: Path, two_workers: Any) -> None:
    expected, _, _ = watched(store)
    got, planned, finished = watched(store, cluster=two_workers)
    assert got["out"].identical(expected["out"])
    # Who computes which block is not known, so neither is what is at hand.
    assert planned.cache_bytes > 0
    assert planned.predicted_fetches is None
    got, bare, fetched = watched(store, cluster=two_workers, options=Options(chunk_cache=0))
    assert got["out"].identical(expected["out"])
    assert fetched.fetches == bare.predicted_fetches
    assert planned.chunks <= finished.fetches <= fetched.fetches


@pytest.mark.parametrize("order", ["spiral", None, ["row"]])
def test_an_unknown_order_is_refused(order: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        Options(order=order)
    assert str(caught.value) == (
        f"Option 'order' must be 'auto', 'row', 'column' or 'zigzag', got {order!r}. Leave it out."
    )


@pytest.mark.parametrize("side", [Side(), Side(Kind.PERIODIC), Side(Kind.EXTRAPOLATE)])
def test_what_blocks_touch_is_what_their_geometry_says(side: Side) -> None:
    layout = layout_of({"time": 2, "z": 3, "y": 9, "x": 11}, CHUNKS)
    i, j, k = (Line(size, side, side) for size in layout.grid.sizes)
    layout = replace(layout, lines=((i, j, k),) * len(layout.uses))
    use = layout.uses[0]
    stored = stored_variables(layout.uses, layout.grid, {"inp": "inp"})["inp"]
    for steps, width in itertools.product((1, 3), (1, 4)):
        blocks = blocks_of(layout, width, 2)
        for block, touched in zip(blocks, touched_chunks(layout, blocks, steps), strict=True):
            cells = geometry(layout, block, steps)
            regions = regions_of(use, layout.grid, block, cells.inner["inp"])
            expected = [c for region in regions for c in chunks_in(stored, region)]
            assert touched == ([] if cells.idle else expected)


def test_chunks_at_the_ends_are_cut_off() -> None:
    layout = layout_of({"z": 3, "y": 10, "x": 10}, {"z": 2, "y": 4, "x": 4})
    touched = touched_chunks(layout, blocks_of(layout, 10, 10), 1)[0]
    assert sum(chunk.nbytes for chunk in touched) == 3 * 10 * 10 * 8
    assert {chunk.nbytes for chunk in touched} <= {n * 8 for n in (32, 16, 8, 4)}
    assert all(isinstance(chunk, Chunk) for chunk in touched)
