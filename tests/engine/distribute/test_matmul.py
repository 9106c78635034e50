"""Tiles, panels and pieces of matrix products, without a device; and workers."""

from __future__ import annotations

import ctypes
import itertools
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import halocline_engine as he
from halocline_engine.device.memory.zero_copy import PinnedRows
from halocline_engine.distribute.grid.partition import Span
from halocline_engine.distribute.products import job
from halocline_engine.distribute.products import rows as matmul_rows
from halocline_engine.distribute.products.reading import Piece, pieces_of
from halocline_engine.distribute.products.rows import rows_of
from halocline_engine.distribute.products.tiling import (
    Panel,
    Panels,
    Product,
    ProductCut,
    cut_product,
    panels_within,
    sums_in_order,
)
from halocline_engine.distribute.products.work import await_copies
from halocline_engine.distribute.tasks.events import Event, Planned
from halocline_engine.distribute.tasks.options import Options
from halocline_engine.errors import CapacityError
from halocline_engine.kernels.matmul.problem import CUTS, CutSizes


def product(**sizes: int) -> Product:
    dims = tuple(sizes)
    return Product(dims[:-3], dims[-3:-2], dims[-1:], dims[-2], (*dims[:-2], dims[-1]), sizes)


def square(n: int) -> ProductCut:
    return cut_product(product(m=n, k=n, n=n), CUTS["cuda"])


def test_tiles_do_not_depend_on_memory_and_cover_all() -> None:
    cut = cut_product(product(t=3, m=10_000, k=5000, n=100), CUTS["cuda"])
    assert (cut.rows.steps, cut.columns.steps, cut.inner.steps) == ((3456,), (100,), (1792,))
    assert cut.batch.steps == (1,)
    small = cut_product(product(t=1000, m=10, k=20, n=30), CUTS["cuda"])
    assert small.batch.steps == (1000,)
    many = Product((), ("y", "x"), ("n",), "k", ("y", "x", "n"), {"y": 9, "x": 600, "n": 8, "k": 8})
    assert cut_product(many, CutSizes(2048, 2048, 64)).rows.steps == (3, 600)


def tiles_read(panels: Panels) -> tuple[int, int]:
    return panels.fetches([panels.panel(place) for place in panels.order()])


def test_columns_are_as_wide_as_the_model_allows() -> None:
    cut = square(16384)  # 4 x 4 tiles of the product, 8 pieces
    tile, total = cut.left * 8, cut.total * 8
    assert (tile, total) == (64 << 20, 128 << 20)
    whole = panels_within(cut, 8, 8, 5 << 30, {})
    assert (whole.resident, whole.width, tiles_read(whole)) == (True, 4, (32, 32))
    # Two columns, each with the same rows of left.
    half = panels_within(cut, 8, 8, 8 * 3 * tile + 4 * total, {})
    assert (half.resident, half.width, tiles_read(half)) == (True, 2, (64, 32))
    assert (half.tall, half.left, half.totals) == (2, 4, 6)
    assert half.nbytes == (16 + 4) * tile + 6 * total
    # Less than two rows of tiles over the inner dimension: the model has no width.
    none = panels_within(cut, 8, 8, 2 * 8 * tile - 1, {})
    assert not none.resident
    assert (none.height, none.width) == (1, 2)
    assert tiles_read(none) == (4 * 2 * 8, 4 * 4 * 8)
    with pytest.raises(CapacityError):
        panels_within(cut, 8, 8, 4 * tile + 2 * total - 1, {})


def test_a_product_of_few_tiles_stays_as_a_whole() -> None:
    cut = square(16384)
    tile, total = cut.left * 8, cut.total * 8
    whole = panels_within(cut, 8, 8, 30 * tile + 16 * total, {}, few=128)
    assert (whole.counts, whole.last, tiles_read(whole)) == ((1, 1, 1), 4, (32, 32))
    assert (whole.left, whole.right, whole.totals) == (14, 16, 16)
    assert whole.nbytes == 30 * tile + 16 * total
    for other in (
        panels_within(cut, 8, 8, whole.nbytes - 1, {}, few=128),
        panels_within(cut, 8, 8, whole.nbytes, {}, few=127),
        panels_within(cut, 8, 8, whole.nbytes, {"m": 16384}, few=128),
    ):
        assert other.resident
        assert not other.last


@settings(deadline=None)
@given(rows=st.integers(1, 5), columns=st.integers(1, 5), pieces=st.integers(1, 5), last=st.data())
def test_every_piece_is_added_once_in_ascending_order(
    rows: int, columns: int, pieces: int, last: st.DataObject
) -> None:
    panel = Panel(0, range(2, 2 + rows), range(1, 1 + columns))
    order = list(sums_in_order(panel, pieces, last.draw(st.integers(0, pieces))))
    assert len(order) == rows * columns * pieces
    for tile in itertools.product(panel.rows, panel.columns):
        assert [k for i, j, k in order if (i, j) == tile] == list(range(pieces))


@pytest.mark.parametrize("last", [0, 1, 2, 3])
def test_there_is_as_much_to_multiply_with_what_was_read_as_there_can_be(last: int) -> None:
    side, pieces = 4, 3
    order = list(sums_in_order(Panel(0, range(side), range(side)), pieces, last))
    read = list(dict.fromkeys(key for i, j, k in order for key in (("l", i, k), ("r", k, j))))
    assert len(read) == 2 * side * pieces
    for count in range(1, 2 * side * (pieces - last) + 1):
        there = set(read[:count])
        ready = sum(("l", i, k) in there and ("r", k, j) in there for i, j, k in order)
        # Pieces that are read in full, and a rectangle of the next one.
        full, rest = divmod(count, 2 * side)
        assert ready == full * side**2 + (rest // 2) * (rest - rest // 2)
    at = {product: number for number, product in enumerate(order)}
    ends = sorted(at[i, j, pieces - 1] for i in range(side) for j in range(side))
    # From the first tile that is done on, there is one after as many products as are its last.
    assert ends == [ends[0] + max(1, last) * number for number in range(side**2)]


@settings(
    deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(sizes=st.tuples(*[st.integers(1, 150)] * 3), turned=st.booleans())
def test_a_product_that_stays_has_the_bits_of_one_that_does_not(
    sizes: tuple[int, int, int], turned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "CUTS", {"cpu": CutSizes(32, 32, 16)})
    m, k, n = sizes
    rng = np.random.default_rng(m * k + n)
    left = (
        (("k", "m"), rng.normal(size=(k, m))) if turned else (("m", "k"), rng.normal(size=(m, k)))
    )
    dataset = xr.Dataset({"l": left, "r": (("k", "n"), rng.normal(size=(k, n)))})
    asked: dict[str, Any] = {"left": "l", "right": "r", "dim": "k", "target": "cpu"}
    events: list[Event] = []
    found = [he.matmul(dataset, **asked)["product"].values]
    monkeypatch.setattr(job, "_few", Mock(return_value=125))
    found.append(he.matmul(dataset, **asked, on_event=events.append)["product"].values)
    assert isinstance(events[0], Planned)
    assert events[0].reason.startswith("all tiles of the product stay")
    np.testing.assert_array_equal(found[0], found[1])


def test_panels_hold_every_tile_once_whatever_is_asked_for() -> None:
    cut = cut_product(product(t=2, m=70, k=30, n=50), CutSizes(16, 16, 4))
    for memory in (12_288, 20_000, 10**6):
        for wanted in ({}, {"n": 20}, {"m": 33, "n": 1}):
            panels = panels_within(cut, 8, 8, memory, wanted)
            done = [
                (panel.batch, i, j)
                for place in panels.order()
                for panel in [panels.panel(place)]
                for i in panel.rows
                for j in panel.columns
            ]
            assert len(done) == len(set(done)) == 2 * cut.rows.total * cut.columns.total
            assert panels.nbytes <= memory


@pytest.mark.parametrize("direct", [False, True])
def test_pieces_cover_a_tile_once(direct: bool) -> None:
    spans = {"y": Span(3, 17), "x": Span(5, 29)}
    tile = np.zeros(14 * 24, int)
    for piece in pieces_of(("y", "x"), {"y": 4, "x": 10}, spans, 8, direct=direct):
        tile[places(piece)] += 1
        if direct:
            y, x = (piece.spans[dim] for dim in "yx")
            assert piece.chunk == (y.start // 4, x.start // 10)
            assert piece.chunk == ((y.stop - 1) // 4, (x.stop - 1) // 10)
    assert (tile == 1).all()


def places(piece: Piece) -> Any:
    rows = piece.offset + piece.pitch * np.arange(piece.rows)
    return (rows[:, None] + np.arange(piece.width)).reshape(-1)


def read_rows(pinned: PinnedRows) -> Any:
    found = [
        ctypes.string_at(pinned.start + at * pinned.pitch, pinned.width)
        for at in range(pinned.rows)
    ]
    return np.frombuffer(b"".join(found))


@pytest.mark.parametrize(
    ("view", "count", "rows"),
    [
        (np.s_[:], 1, 1),
        (np.s_[1:3], 1, 1),
        (np.s_[1:3], 8, 8),
        (np.s_[:, 1:3], 1, 4),
        (np.s_[:, :, 1:4], 1, 16),
        (np.s_[2, :, 1:4], 4, 4),
        (np.s_[:, 1, 1:2], 4, 4),
        (np.s_[1:2, 2:3, 3:], 1, 1),
        (np.s_[:, 1:3, 1:4], 1, None),
        (np.s_[::-1], 1, None),
        (np.s_[:, :, ::2], 1, None),
        (np.s_[:, :, 1:4], 4, None),
        (np.s_[:0], 1, None),
    ],
)
def test_views_are_lent_as_rows(
    view: Any, count: int, rows: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matmul_rows, "_SHORT", 8)
    values = np.arange(80.0).reshape(4, 4, 5)[view]
    pinned = rows_of(values, "float64", count)
    assert (pinned.rows if pinned else None) == rows
    if pinned is not None:
        np.testing.assert_array_equal(read_rows(pinned), values.reshape(-1))
    assert rows_of(values, "float32", count) is None
    assert rows_of(values.astype(">f8"), "float64", count) is None
    monkeypatch.setattr(matmul_rows, "_SHORT", 1000)
    assert rows == 1 or rows_of(values, "float64", count) is None


def test_workers_give_the_bits_of_this_process(
    two_workers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "CUTS", {"cpu": CutSizes(64, 64, 16)})
    rng = np.random.default_rng(5)
    dataset = xr.Dataset(
        {
            "l": (("m", "k"), rng.normal(size=(300, 150))),
            "r": (("k", "n"), rng.normal(size=(150, 90))),
        }
    )
    asked: dict[str, Any] = {"left": "l", "right": "r", "dim": "k", "target": "cpu"}
    here = he.matmul(dataset, **asked)
    there = he.matmul(dataset, **asked, cluster=two_workers, output=tmp_path / "out")
    np.testing.assert_array_equal(here["product"].values, there["product"].values)


def test_operands_larger_than_memory_go_from_store_to_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "CUTS", {"cpu": CutSizes(64, 64, 16)})
    rng = np.random.default_rng(6)
    left, right = (rng.normal(size=shape).astype("f4") for shape in ((400, 300), (300, 400)))
    dataset = xr.Dataset({"l": (("m", "k"), left), "r": (("k", "n"), right)})
    encoding = {name: {"chunks": (100, 100)} for name in "lr"}
    cast("Any", dataset).to_zarr(tmp_path / "in", encoding=encoding, consolidated=False)
    planned: list[Event] = []
    memory = 700_000
    assert left.nbytes + right.nbytes > memory
    found = he.matmul(
        tmp_path / "in",
        left="l",
        right="r",
        dim="k",
        target="cpu",
        output=tmp_path / "out",
        options=Options(memory_limit=memory),
        on_event=planned.append,
    )
    assert isinstance(planned[0], Planned)
    assert planned[0].projected_bytes <= memory
    exact = left.astype("f8") @ right.astype("f8")
    np.testing.assert_allclose(found["product"].values, exact, rtol=1e-4, atol=1e-4)


def test_panels_leave_room_for_a_result_in_memory() -> None:
    shapes = {"a": (("y", "k"), (700, 300)), "b": (("k", "x"), (300, 900))}
    dataset = xr.Dataset({name: (dims, np.ones(shape)) for name, (dims, shape) in shapes.items()})
    result = 700 * 900 * 8
    events: list[Event] = []
    asked: dict[str, Any] = {"left": "a", "right": "b", "dim": "k", "target": "cpu"}
    he.matmul(dataset, **asked, on_event=events.append)
    assert isinstance(events[0], Planned)
    least = events[0].projected_bytes
    for memory in (least, least + result):
        events.clear()
        he.matmul(dataset, **asked, on_event=events.append, options=Options(memory_limit=memory))
        assert isinstance(events[0], Planned)
        assert result < events[0].projected_bytes <= memory
    with pytest.raises(CapacityError):
        he.matmul(dataset, **asked, options=Options(memory_limit=result + 1_000_000))


class _EndsLate(Future[int]):
    """A future that ends between the end of a wait for it and the next look at it."""

    def result(self, timeout: float | None = None) -> int:
        if not self.done():
            self.set_result(7)
            raise TimeoutError
        return super().result(timeout)


def test_a_copy_that_ends_as_the_wait_for_it_does_is_complete() -> None:
    assert await_copies([_EndsLate()], None) == 7


def test_a_task_that_raises_a_timeout_itself_ends_the_wait() -> None:
    failed: Future[int] = Future()
    failed.set_exception(TimeoutError("of the disk"))
    with pytest.raises(TimeoutError, match="of the disk"):
        await_copies([failed], None)
