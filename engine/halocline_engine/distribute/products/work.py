"""Panels of a matrix product, one after the other: read, multiplied and written at the same time.

Tiles are read by threads in the order in which they are needed first, as far ahead as there are
places for them; a place is free again when the last product that needs its tile is queued. Tiles of
the product are written by other threads. So reading, copying, multiplying, copying back and writing
overlap, and go on over the ends of panels and columns.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.backends.targets import TARGETS
from halocline_engine.datasets.stores.sink import ArraySink, Sink
from halocline_engine.datasets.stores.source import Source
from halocline_engine.distribute.executors.base import POLL
from halocline_engine.distribute.grid.partition import Block, Span
from halocline_engine.distribute.products.reading import (
    PIECE,
    Made,
    Operand,
    Piece,
    fill,
    pieces_of,
    store,
)
from halocline_engine.distribute.products.rows import (
    Copied,
    ResultFiles,
    Stored,
    held_array,
    rectangle,
    rows_of_pieces,
)
from halocline_engine.distribute.products.tiling import (
    Panel,
    Panels,
    Product,
    ProductCut,
    cells_of,
    follows,
    points_of,
    sums_in_order,
)
from halocline_engine.distribute.tasks.cancel import CancelToken, raise_if_cancelled
from halocline_engine.distribute.tasks.model import COMPUTE, Report, Task
from halocline_engine.distribute.tasks.spent import Spent
from halocline_engine.kernels.matmul.workspace import HostWorkspace, Shape, Workspace
from halocline_engine.processors import usable_processors

__all__ = ["ProductWork", "RunningStream", "await_copies", "tile_threads"]

_LEFT, _RIGHT = "left", "right"
#: Bytes of a piece where several threads share a tile, and how many tiles of operands they do.
_SHARED, _SOON = 8 << 20, 6
#: Products that are queued at most before there is a place for the result, and tiles that are asked
#: for before the next one is.
_AHEAD, _NEAR = 48, 4
#: Places for tiles of the product that are at least left, so that one can be written meanwhile.
_KEPT = 2
#: An operand, the member of the batch, and the place of a tile in it.
_Key = tuple[str, int, int, int]


def tile_threads(target: str) -> int:
    """Return how many threads read tiles, and how many write them, for a target here."""
    cores = usable_processors()
    return min(16, max(2, cores)) if TARGETS[target].on_device else min(4, max(2, cores))


@dataclass(frozen=True, slots=True, eq=False)
class RunningStream:
    """A stream that this process has begun; `open` is closed when it ends, as `stream` says."""

    reports: Callable[[Sink], Iterator[Report]]
    open: ExitStack


@dataclass(frozen=True, slots=True)
class ProductWork:
    """Work of a worker on a block: some panels; its spans are those of their places.

    `direct` says for left, right and the result whether files of chunks are used directly; `piece`
    are the bytes of the largest piece. `threads` read, and as many write. `copies_rows` says
    that rows of files and arrays are copied by compiled loops, which large products are worth.
    `sink` may be None where blocks are only started, and `begun` is that start.
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
    sink: Sink | None
    target: str
    copies_rows: bool = False
    begun: RunningStream | None = None

    def run(self, block: Block, cancelled: CancelToken | None = None) -> Report:
        """Compute the panels of a block."""
        assert self.sink is not None
        with self.started((block,), cancelled) as reports:
            (report,) = reports(self.sink)
        return report

    def stream(
        self,
        blocks: Sequence[Block],  # noqa: ARG002 - it began with them
        cancelled: CancelToken | None,  # noqa: ARG002 - and knows whom to ask
    ) -> Iterator[Report]:
        """Go on with what has begun; nothing of it is under way at the end."""
        assert self.begun is not None
        assert self.sink is not None
        with self.begun.open:
            yield from self.begun.reports(self.sink)

    @contextmanager
    def started(
        self, blocks: Sequence[Block], cancelled: CancelToken | None
    ) -> Generator[Callable[[Sink], Iterator[Report]]]:
        """Begin with blocks; give what goes on, once there is a sink for the product.

        That computes blocks one after the other, and tells of each when it is written.
        """
        workspace = self._workspace()
        with (
            closing(workspace),
            _Threads(self.threads, "halocline-read") as readers,
            _Threads(self.threads, "halocline-write") as writers,
        ):
            run = _Run(self, workspace, readers, writers, cancelled)
            run.begin(blocks)
            yield run.reports

    def _workspace(self) -> Workspace:
        if not TARGETS[self.target].on_device:
            return HostWorkspace(self.target, self.made.dtype)
        from halocline_engine.device.panels import DeviceWorkspace

        return DeviceWorkspace(
            self.made.dtype, self.threads, self.piece, copies_rows=self.copies_rows
        )


class _Threads(ThreadPoolExecutor):
    """Threads that have ended, with nothing left to do, when the context is left."""

    def __init__(self, count: int, name: str) -> None:
        super().__init__(count, thread_name_prefix=name)

    def __exit__(self, *details: object) -> None:
        self.shutdown(wait=True, cancel_futures=True)


@dataclass(slots=True)
class _Tile:
    """A tile of an operand whose pieces are loaded, or sent together from where they lie."""

    place: Any
    pieces: Sequence[Piece]
    loads: Sequence[Copied] = ()
    sent: Any = None


@dataclass(frozen=True, slots=True)
class _Pending:
    """A block whose products are queued, and what is to be written of it."""

    block: Block
    stores: list[Copied]


class _Run:
    """The state of a stream: places, tiles that are here or on their way, and what follows."""

    def __init__(
        self,
        work: ProductWork,
        workspace: Workspace,
        readers: ThreadPoolExecutor,
        writers: ThreadPoolExecutor,
        cancelled: CancelToken | None,
    ) -> None:
        cut, panels = work.panels.cut, work.panels
        self._work, self._workspace, self._cancelled = work, workspace, cancelled
        self._row_copies = workspace.row_copies
        self._readers, self._writers = readers, writers
        self._free = {
            _LEFT: deque(workspace.place(cut.left, total=False) for _ in range(panels.left)),
            _RIGHT: deque(workspace.place(cut.right, total=False) for _ in range(panels.right)),
        }
        self._totals: deque[tuple[Any, list[Copied]]] = deque(
            (workspace.place(cut.total, total=True), []) for _ in range(panels.totals)
        )
        self._tiles: dict[_Key, _Tile] = {}
        self._next: _Key | None = None
        self._loads: Iterator[_Key] = iter(())
        self._read = self._begun = 0
        self._computed = 0.0
        self._held = {
            kind: held_array(self._operand(kind), work.source) for kind in (_LEFT, _RIGHT)
        }
        self._result_files = ResultFiles(work.made)
        self._sink: Sink | None = None
        self._steps: Iterator[Report | None] = iter(())

    def begin(self, blocks: Sequence[Block]) -> None:
        """Let the first tiles be read and, if that is done later, multiplied."""
        panels = [panel for block in blocks for panel in self._work.panels.within(block)]
        self._loads = self._needed(panels)
        self._next = next(self._loads, None)
        self._steps = self._through(blocks, panels)
        self._read_ahead(None if self._row_copies is None else _NEAR)
        if self._row_copies is not None and panels:
            for _ in range(_AHEAD):
                next(self._steps)
            self._read_ahead()

    def reports(self, sink: Sink) -> Iterator[Report]:
        """Compute what was begun, and yield what became of each block in their order."""
        self._sink = sink
        return (report for report in self._steps if report is not None)

    def _through(self, blocks: Sequence[Block], panels: Sequence[Panel]) -> Iterator[Report | None]:
        """Compute blocks; yield None for each product, and what became of each block."""
        started = time.perf_counter()
        afters = iter([*panels[1:], None])
        pending: deque[_Pending] = deque()
        for block in blocks:
            stores: list[Copied] = []
            for panel in self._work.panels.within(block):
                yield from self._panel(panel, next(afters), stores)
            pending.append(_Pending(block, stores))
            while pending and all(written.done() for written in pending[0].stores):
                yield self._report(pending.popleft(), started)
        if self._row_copies is not None:
            self._row_copies.finish(out=True)
        while pending:
            await_copies(pending[0].stores, self._cancelled)
            yield self._report(pending.popleft(), started)

    def _report(self, pending: _Pending, started: float) -> Report:
        read, self._read = self._read, 0
        written = sum(store.result(POLL) for store in pending.stores)
        spent, self._computed = Spent(computing=self._computed), 0.0
        return Task(pending.block, None, read, written, started).report(spent=spent)

    def _panel(self, panel: Panel, after: Panel | None, stores: list[Copied]) -> Iterator[None]:
        """Queue all products of a panel, yielding after each, and add the writing of its tiles."""
        pieces = self._work.panels.cut.inner.total
        kept = self._work.panels.resident and after is not None and follows(panel, after)
        order = list(sums_in_order(panel, pieces, self._last(panel, after)))
        uses = Counter(key for at in order for key in _operands(panel, at))
        totals: dict[tuple[int, int], Any] = {}
        for i, j, k in order:
            if (i, j) not in totals:
                totals[i, j] = self._total()
            self._multiply(panel, (i, j, k), totals[i, j])
            for key in _operands(panel, (i, j, k)):
                uses[key] -= 1
                if not uses[key] and not (kept and key[0] == _RIGHT):
                    self._release(key)
            yield
            if k == pieces - 1:
                yield from self._until_sink()
                stores += self._store(totals[i, j], panel.batch, i, j)
        if pieces == 0:
            for i, j in itertools.product(panel.rows, panel.columns):
                total = self._total()
                self._workspace.clear(total)
                yield from self._until_sink()
                stores += self._store(total, panel.batch, i, j)

    def _until_sink(self) -> Iterator[None]:
        """Go no further before there is a place for the result."""
        while self._sink is None:
            yield

    def _last(self, panel: Panel, after: Panel | None) -> int:
        """Return how many pieces are added tile by tile, so that tiles are written meanwhile."""
        panels = self._work.panels
        return panels.last or (panels.cut.inner.total if self._by_tiles(panel, after) else 0)

    def _by_tiles(self, panel: Panel, after: Panel | None) -> bool:
        """Whether the tiles of the last panel can be done one after the other.

        All its operands must be at hand at once: a column that stays, and a row of left.
        """
        panels, pieces = self._work.panels, self._work.panels.cut.inner.total
        held = (_RIGHT, panel.batch, 0, panel.columns[0]) in self._tiles
        fits = after is None and panels.resident and held and len(panel.rows) == 1
        return fits and (panels.left >= pieces > 0 or self._makes_places(pieces - panels.left))

    def _makes_places(self, count: int) -> bool:
        """Make places for tiles of left of those for the product that are not needed any more."""
        cut = self._work.panels.cut
        taken = -(-count // max(1, cut.total // cut.left))
        if self._row_copies is None or cut.total < cut.left or taken + _KEPT > len(self._totals):
            return False
        for _ in range(taken):
            self._free[_LEFT].extend(self._row_copies.split(self._total(), cut.left))
        return True

    def _multiply(self, panel: Panel, at: tuple[int, int, int], total: Any) -> None:
        """Queue the product of two tiles, which are waited for."""
        i, j, k = at
        raise_if_cancelled(self._cancelled)
        left, right = map(self._ready, _operands(panel, at))
        shape = self._shape(panel.batch, i, j, k)
        with COMPUTE:
            self._computed += self._workspace.multiply(left, right, total, shape, new=k == 0)

    def _needed(self, panels: Iterable[Panel]) -> Iterator[_Key]:
        """Yield the tiles that panels need, in the order in which they need them first."""
        before: Panel | None = None
        for panel in panels:
            held = self._work.panels.resident and before is not None and follows(before, panel)
            order = sums_in_order(panel, self._work.panels.cut.inner.total, self._work.panels.last)
            keys = (key for at in order for key in _operands(panel, at))
            yield from (key for key in dict.fromkeys(keys) if not (held and key[0] == _RIGHT))
            before = panel

    def _read_ahead(self, most: int | None = None) -> None:
        """Let tiles be read as long as there are places for the next one, at most so many."""
        for _ in itertools.repeat(None) if most is None else range(most):
            if self._next is None or not self._free[self._next[0]]:
                return
            key = self._next
            place = self._free[key[0]].popleft()
            operand = self._operand(key[0])
            direct = self._work.direct[key[0] == _RIGHT]
            spans = _spans(self._work.panels.cut, key)
            item = np.dtype(operand.dtype).itemsize
            chunks = dict(zip(operand.own, operand.chunks, strict=False))
            soon = self._row_copies is not None and self._begun < _SOON
            largest = _SHARED if soon else PIECE
            pieces = list(
                pieces_of(operand.order, chunks, spans, item, direct=direct, most=largest)
            )
            self._begun += 1
            self._tiles[key] = tile = _Tile(place, pieces)
            tile.sent = self._sent(operand, self._held[key[0]], tile)
            if tile.sent is None:
                tile.loads = [
                    self._readers.submit(self._load, operand, place, piece) for piece in pieces
                ]
            self._next = next(self._loads, None)
            if self._next is None and self._row_copies is not None:
                self._row_copies.finish(out=False)

    def _sent(self, operand: Operand, held: NDArray[Any] | None, tile: _Tile) -> Any:
        """Let a tile be sent from where it lies; return None where it lies in no rows."""
        if self._row_copies is None:
            return None
        copies = rows_of_pieces(operand, self._work.source, held, tile.pieces)
        if copies is None:
            return None
        return self._row_copies.send(
            tile.place, list(zip(map(rectangle, tile.pieces), copies, strict=True))
        )

    def _load(self, operand: Operand, place: Any, piece: Piece) -> int:
        """Bring a piece to its place; return its bytes."""
        fills = functools.partial(fill, operand, self._work.source, piece)
        self._workspace.load(place, rectangle(piece), fills)
        return piece.rows * piece.width * np.dtype(operand.dtype).itemsize

    def _ready(self, key: _Key) -> Any:
        """Return the place of a tile that is loaded, or whose copy is queued."""
        # Some at a time, since what is ready shall be multiplied first.
        self._read_ahead(_NEAR)
        while key not in self._tiles:
            assert self._next is not None
            assert self._free[self._next[0]]
            self._read_ahead(1)
        tile = self._tiles[key]
        if tile.sent is not None:
            self._read += await_copies((tile.sent,), self._cancelled)
            # What has no file is read as its store says.
            operand = self._operand(key[0])
            missing: Sequence[int] = tile.sent.missing
            tile.loads = [
                self._readers.submit(self._load, operand, tile.place, tile.pieces[at])
                for at in missing
            ]
            tile.sent = None
        if tile.loads:
            self._read += await_copies(tile.loads, self._cancelled)
            tile.loads = ()
        return tile.place

    def _operand(self, kind: str) -> Operand:
        return self._work.left if kind == _LEFT else self._work.right

    def _release(self, key: _Key) -> None:
        self._free[key[0]].append(self._tiles.pop(key).place)

    def _total(self) -> Any:
        """Return a place for a tile of the product, of which nothing is to be written any more."""
        place, stores = self._totals.popleft()
        await_copies(stores, self._cancelled)
        return place

    def _shape(self, batch: int, i: int, j: int, k: int) -> Shape:
        cut = self._work.panels.cut
        sides = ((cut.rows, i), (cut.columns, j), (cut.inner, k), (cut.batch, batch))
        rows, columns, inner, members = (points_of(tiles.spans(number)) for tiles, number in sides)
        left, right, product = self._work.left, self._work.right, self._work.product
        return Shape(
            batch=members,
            rows=rows,
            columns=columns,
            inner=inner,
            left_turned=bool(left.order) and left.order[-1] != product.inner,
            right_turned=right.order[-1] == product.inner and len(product.columns) > 0,
        )

    def _store(self, total: Any, batch: int, i: int, j: int) -> list[Copied]:
        """Let a tile of the product be written."""
        cut, made = self._work.panels.cut, self._work.made
        spans = cells_of((cut.batch, batch), (cut.rows, i), (cut.columns, j))
        assert self._sink is not None
        shared = self._row_copies is not None and isinstance(self._sink, ArraySink)
        chunks = {} if shared else dict(zip(made.dims, made.chunks, strict=True))
        item, direct = np.dtype(made.dtype).itemsize, self._work.direct[2]
        most = _SHARED if shared else PIECE
        pieces = list(pieces_of(made.order, chunks, spans, item, direct=direct, most=most))
        copies = None if self._row_copies is None else self._result_files.pinned(self._sink, pieces)
        if self._row_copies is None or copies is None:
            stores: list[Copied] = [
                self._writers.submit(self._write, total, piece) for piece in pieces
            ]
        else:
            parts = list(zip(map(rectangle, pieces), copies, strict=True))
            stores = [
                Stored(self._row_copies.fetch(total, parts), self._result_files.folder(self._sink))
            ]
        self._totals.append((total, stores))
        return stores

    def _write(self, total: Any, piece: Piece) -> int:
        made, sink = self._work.made, self._sink
        assert sink is not None

        def write(values: NDArray[Any]) -> None:
            store(made, sink, piece, values)

        self._workspace.take(total, rectangle(piece), write)
        return piece.rows * piece.width * np.dtype(made.dtype).itemsize


def _spans(cut: ProductCut, key: _Key) -> dict[str, Span]:
    """Return the cells of a tile of an operand."""
    kind, batch, first, second = key
    sides = (cut.rows, cut.inner) if kind == _LEFT else (cut.inner, cut.columns)
    return cells_of((cut.batch, batch), (sides[0], first), (sides[1], second))


def _operands(panel: Panel, at: tuple[int, int, int]) -> tuple[_Key, _Key]:
    """Return the tiles whose product is added at a row, column and piece."""
    i, j, k = at
    return (_LEFT, panel.batch, i, k), (_RIGHT, panel.batch, k, j)


def await_copies(futures: Sequence[Copied], cancelled: CancelToken | None) -> int:
    """Return the sum of the results; raises the error of a copy, or `CancelledError`."""
    total: int = 0
    for future in futures:
        known: Any = future
        while True:
            try:
                total += future.result(POLL)
                break
            except NotYet as late:
                # A task of a thread may raise it itself, copies do so only where they are late.
                # One that ends in this moment is asked again.
                if isinstance(known, Future) and known.done() and known.exception() is late:
                    raise
                raise_if_cancelled(cancelled)
    return total
