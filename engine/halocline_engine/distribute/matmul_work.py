"""Panels of a matrix product, one after the other: read, multiplied and written at the same time.

Tiles are read by threads in the order in which they are needed first, as far ahead as there are
places for them; a place is free again when the last product that needs its tile is queued. Tiles of
the product are written by other threads. So reading, copying, multiplying, copying back and writing
overlap, and go on over the ends of panels and columns.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.datasets.sink import Sink
from halocline_engine.datasets.source import Source
from halocline_engine.distribute.matmul_cut import Panel, Panels, Product, follows
from halocline_engine.distribute.matmul_read import Made, Operand, Piece, fill, pieces_of, store
from halocline_engine.distribute.partition import Block, Span
from halocline_engine.distribute.pool import POLL
from halocline_engine.distribute.solving import stop_if
from halocline_engine.distribute.steps import Asked
from halocline_engine.distribute.task import COMPUTE, Report, peak_bytes
from halocline_engine.kernels.matmul.bench import Bench, HostBench, Rectangle, Shape

__all__ = ["ProductWork", "bench_threads"]

_LEFT, _RIGHT = "left", "right"
#: An operand, the member of the batch, and the place of a tile in it.
_Key = tuple[str, int, int, int]


def bench_threads(target: str) -> int:
    """Return how many threads read tiles, and how many write them, for a target here."""
    cores = len(os.sched_getaffinity(0))
    return min(16, max(2, cores)) if target == "cuda" else min(4, max(2, cores))


@dataclass(frozen=True, slots=True)
class ProductWork:
    """What a worker does with a block: some panels; its spans are those of their places.

    `direct` says for left, right and the result whether files of chunks are used directly; `piece`
    are the bytes of the largest piece. `threads` read, and as many write.
    """

    product: Product
    panels: Panels
    left: Operand
    right: Operand
    made: Made
    direct: tuple[bool, bool, bool]
    piece: int
    threads: int
    source: Source
    sink: Sink
    target: str

    def run(self, block: Block, asked: Asked | None = None) -> Report:
        """Compute the panels of a block."""
        (report,) = self.stream((block,), asked)
        return report

    def stream(self, blocks: Sequence[Block], asked: Asked | None) -> Iterator[Report]:
        """Compute blocks one after the other, and tell of each when it is written."""
        bench = self._bench()
        with (
            closing(bench),
            _Threads(self.threads, "halocline-read") as readers,
            _Threads(self.threads, "halocline-write") as writers,
        ):
            yield from _Run(self, bench, readers, writers, asked).blocks(blocks)

    def _bench(self) -> Bench:
        if self.target != "cuda":
            return HostBench(self.target, self.made.dtype)
        from halocline_engine.device.panels import DeviceBench

        return DeviceBench(self.made.dtype, self.threads, self.piece)


class _Threads(ThreadPoolExecutor):
    """Threads that have ended, with nothing left to do, when the context is left."""

    def __init__(self, count: int, name: str) -> None:
        super().__init__(count, thread_name_prefix=name)

    def __exit__(self, *details: object) -> None:
        self.shutdown(wait=True, cancel_futures=True)


@dataclass(slots=True)
class _Tile:
    place: Any
    loads: list[Future[int]]


@dataclass(frozen=True, slots=True)
class _Pending:
    """A block whose products are queued, and what is to be written of it."""

    index: int
    stores: list[Future[int]]


class _Run:
    """The state of a stream: places, tiles that are here or on their way, and what follows."""

    def __init__(
        self,
        work: ProductWork,
        bench: Bench,
        readers: ThreadPoolExecutor,
        writers: ThreadPoolExecutor,
        asked: Asked | None,
    ) -> None:
        cut, panels = work.panels.cut, work.panels
        self._work, self._bench, self._asked = work, bench, asked
        self._readers, self._writers = readers, writers
        self._free = {
            _LEFT: deque(bench.place(cut.left, total=False) for _ in range(panels.left)),
            _RIGHT: deque(bench.place(cut.right, total=False) for _ in range(panels.right)),
        }
        self._totals: deque[tuple[Any, list[Future[int]]]] = deque(
            (bench.place(cut.total, total=True), []) for _ in range(panels.totals)
        )
        self._tiles: dict[_Key, _Tile] = {}
        self._next: _Key | None = None
        self._loads: Iterator[_Key] = iter(())
        self._read = 0

    def blocks(self, blocks: Sequence[Block]) -> Iterator[Report]:
        """Compute blocks, and yield what became of each in their order."""
        started = time.perf_counter()
        panels = [panel for block in blocks for panel in _panels(self._work, block)]
        self._loads = self._needed(panels)
        self._next = next(self._loads, None)
        afters = iter([*panels[1:], None])
        pending: deque[_Pending] = deque()
        for block in blocks:
            stores: list[Future[int]] = []
            for panel in _panels(self._work, block):
                stores += self._panel(panel, next(afters))
            pending.append(_Pending(block.index, stores))
            while pending and all(written.done() for written in pending[0].stores):
                yield self._report(pending.popleft(), started)
        while pending:
            self._wait(pending[0].stores)
            yield self._report(pending.popleft(), started)

    def _report(self, block: _Pending, started: float) -> Report:
        read, self._read = self._read, 0
        return Report(
            index=block.index,
            seconds=time.perf_counter() - started,
            bytes_read=read,
            bytes_written=sum(store.result() for store in block.stores),
            peak_bytes=peak_bytes(),
        )

    def _panel(self, panel: Panel, after: Panel | None) -> list[Future[int]]:
        """Queue all products of a panel and the writing of its tiles."""
        if self._by_tiles(panel, after):
            return self._last(panel)
        pieces = self._work.panels.cut.inner.total
        kept = self._work.panels.resident and after is not None and follows(panel, after)
        totals = {(i, j): self._total() for i in panel.rows for j in panel.columns}
        for k in range(pieces):
            for i in panel.rows:
                for j in panel.columns:
                    self._multiply(panel, (i, j, k), totals[i, j])
                    if i == panel.rows[-1] and not kept:
                        self._release((_RIGHT, panel.batch, k, j))
                self._release((_LEFT, panel.batch, i, k))
        stores: list[Future[int]] = []
        for (i, j), total in totals.items():
            if pieces == 0:
                self._bench.clear(total)
            stores += self._store(total, panel.batch, i, j)
        return stores

    def _by_tiles(self, panel: Panel, after: Panel | None) -> bool:
        """Whether the tiles of the last panel can be done one after the other.

        All its operands must be at hand at once: a column that stays, and a row of left.
        """
        panels = self._work.panels
        held = (_RIGHT, panel.batch, 0, panel.columns[0]) in self._tiles
        whole = panels.left >= panels.cut.inner.total > 0
        return after is None and panels.resident and held and whole and len(panel.rows) == 1

    def _last(self, panel: Panel) -> list[Future[int]]:
        """Do a panel tile by tile, so that all but the last are written meanwhile."""
        stores: list[Future[int]] = []
        row = panel.rows[0]
        for j in panel.columns:
            total = self._total()
            for k in range(self._work.panels.cut.inner.total):
                self._multiply(panel, (row, j, k), total)
                self._release((_RIGHT, panel.batch, k, j))
                if j == panel.columns[-1]:
                    self._release((_LEFT, panel.batch, row, k))
            stores += self._store(total, panel.batch, row, j)
        return stores

    def _multiply(self, panel: Panel, at: tuple[int, int, int], total: Any) -> None:
        """Queue the product of two tiles, which are waited for."""
        i, j, k = at
        stop_if(self._asked)
        left = self._ready((_LEFT, panel.batch, i, k))
        right = self._ready((_RIGHT, panel.batch, k, j))
        shape = self._shape(panel.batch, i, j, k)
        with COMPUTE:
            self._bench.multiply(left, right, total, shape, new=k == 0)

    def _needed(self, panels: Iterable[Panel]) -> Iterator[_Key]:
        """Yield the tiles that panels need, in the order in which they need them first."""
        before: Panel | None = None
        for panel in panels:
            held = self._work.panels.resident and before is not None and follows(before, panel)
            for k in range(self._work.panels.cut.inner.total):
                for i in panel.rows:
                    yield (_LEFT, panel.batch, i, k)
                    if i == panel.rows[0] and not held:
                        yield from ((_RIGHT, panel.batch, k, j) for j in panel.columns)
            before = panel

    def _read_ahead(self) -> None:
        """Let tiles be read as long as there are places for the next one."""
        while self._next is not None and self._free[self._next[0]]:
            key = self._next
            place = self._free[key[0]].popleft()
            operand = self._work.left if key[0] == _LEFT else self._work.right
            direct = self._work.direct[key[0] == _RIGHT]
            spans = self._spans(key)
            item = np.dtype(operand.dtype).itemsize
            chunks = dict(zip(operand.own, operand.chunks, strict=False))
            pieces = pieces_of(operand.order, chunks, spans, item, direct=direct)
            loads = [self._readers.submit(self._load, operand, place, piece) for piece in pieces]
            self._tiles[key] = _Tile(place, loads)
            self._next = next(self._loads, None)

    def _load(self, operand: Operand, place: Any, piece: Piece) -> int:
        where = Rectangle(piece.rows, piece.width, piece.offset, piece.pitch)
        source = self._work.source

        def read(into: NDArray[Any]) -> None:
            fill(operand, source, piece, into)

        self._bench.load(place, where, read)
        return piece.rows * piece.width * np.dtype(operand.dtype).itemsize

    def _ready(self, key: _Key) -> Any:
        """Return the place of a tile that is loaded, or whose copy is queued."""
        self._read_ahead()
        tile = self._tiles[key]
        if tile.loads:
            self._read += self._wait(tile.loads)
            tile.loads = []
        return tile.place

    def _release(self, key: _Key) -> None:
        self._free[key[0]].append(self._tiles.pop(key).place)

    def _total(self) -> Any:
        """Return a place for a tile of the product, of which nothing is to be written any more."""
        place, stores = self._totals.popleft()
        self._wait(stores)
        return place

    def _wait(self, futures: Sequence[Future[int]]) -> int:
        """Return the sum of results; raises what one raised, or `CancelledError`."""
        total = 0
        for future in futures:
            while True:
                try:
                    total += future.result(POLL)
                    break
                except NotYet:
                    if future.done():
                        raise
                    stop_if(self._asked)
        return total

    def _spans(self, key: _Key) -> dict[str, Span]:
        """Return the cells of a tile of an operand."""
        cut, (kind, batch, first, second) = self._work.panels.cut, key
        sides = (cut.rows, cut.inner) if kind == _LEFT else (cut.inner, cut.columns)
        return _cells((cut.batch, batch), (sides[0], first), (sides[1], second))

    def _shape(self, batch: int, i: int, j: int, k: int) -> Shape:
        cut = self._work.panels.cut
        rows, columns, inner, members = (
            _points(tiles.spans(number))
            for tiles, number in (
                (cut.rows, i),
                (cut.columns, j),
                (cut.inner, k),
                (cut.batch, batch),
            )
        )
        inner_name = self._work.product.inner
        return Shape(
            batch=members,
            rows=rows,
            columns=columns,
            inner=inner,
            left_turned=bool(self._work.left.order) and self._work.left.order[-1] != inner_name,
            right_turned=self._turned_right(inner_name),
        )

    def _turned_right(self, inner: str) -> bool:
        order = self._work.right.order
        return order[-1] == inner and len(self._work.product.columns) > 0

    def _store(self, total: Any, batch: int, i: int, j: int) -> list[Future[int]]:
        """Let a tile of the product be written."""
        cut, made = self._work.panels.cut, self._work.made
        spans = _cells((cut.batch, batch), (cut.rows, i), (cut.columns, j))
        chunks = dict(zip(made.dims, made.chunks, strict=True))
        item = np.dtype(made.dtype).itemsize
        pieces = pieces_of(made.order, chunks, spans, item, direct=self._work.direct[2])
        stores = [self._writers.submit(self._write, total, piece) for piece in pieces]
        self._totals.append((total, stores))
        return stores

    def _write(self, total: Any, piece: Piece) -> int:
        where = Rectangle(piece.rows, piece.width, piece.offset, piece.pitch)
        made, sink = self._work.made, self._work.sink

        def write(values: NDArray[Any]) -> None:
            store(made, sink, piece, values)

        self._bench.take(total, where, write)
        return piece.rows * piece.width * np.dtype(made.dtype).itemsize


def _panels(work: ProductWork, block: Block) -> Iterator[Panel]:
    members, down, across = block.extra
    for member in range(members.start, members.stop):
        for column in range(across.start, across.stop):
            for row in range(down.start, down.stop):
                yield work.panels.panel((member, row, column))


def _cells(*tiles: tuple[Any, int]) -> dict[str, Span]:
    return {
        dim: span
        for some, number in tiles
        for dim, span in zip(some.dims, some.spans(number), strict=True)
    }


def _points(spans: Sequence[Span]) -> int:
    points = 1
    for span in spans:
        points *= span.size
    return points
