"""Blocks of a ragged batch of tree systems: how it is cut up, and what a worker does.

A block has some whole cells. What a worker writes along the nodes, though, begins and ends where
chunks of the result do, so that no chunk has two writers: a block also solves the cells behind its
own that reach into its last chunk, and leaves its first nodes to the block before where they lie
in a chunk of that::

    cells    |   0   |    1    |  2  |      3      |  4   |
    blocks   |        block 0        |      block 1       |
    chunks   |             |             |                |
    written  |      by block 0           |  by block 1    |
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halocline_engine.datasets.stores.sink import Sink
from halocline_engine.datasets.stores.source import Source
from halocline_engine.distribute.grid.partition import Block, Span
from halocline_engine.distribute.jobs.blocking import region_of
from halocline_engine.distribute.solves.banded import Band, read_band
from halocline_engine.distribute.solves.select import tree_solver
from halocline_engine.distribute.tasks.cancel import CancelToken
from halocline_engine.distribute.tasks.model import Report, Task
from halocline_engine.kernels.tree.storage import flat
from halocline_engine.kernels.tree.topology import arrange

__all__ = ["Piece", "TreeWork", "pieces_of"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a block: `own` cells, of `cells` that it solves; nodes it reads and writes."""

    own: Span
    cells: Span
    nodes: Span
    written: Span


def pieces_of(offsets: NDArray[np.int64], cells: int, chunk: int) -> tuple[Piece, ...]:
    """Return the pieces of `cells` cells each; results have chunks of `chunk` nodes.

    >>> [p.written for p in pieces_of(np.array([0, 3, 8, 9]), 2, 5)]
    [Span(start=0, stop=10), Span(start=10, stop=10)]
    """
    count, total = len(offsets) - 1, int(offsets[-1])
    pieces: list[Piece] = []
    for start in range(0, count, cells):
        stop = min(count, start + cells)
        low, high = (-(-int(offsets[at]) // chunk) * chunk for at in (start, stop))
        if stop == count:
            high = max(total, low)
        past = max(stop, int(np.searchsorted(offsets, min(high, total))))
        nodes = Span(int(offsets[start]), int(offsets[past]))
        pieces.append(Piece(Span(start, stop), Span(start, past), nodes, Span(low, high)))
    return tuple(pieces)


@dataclass(frozen=True, slots=True)
class TreeWork:
    """Work of a worker on a block.

    `bands` are diagonal, upper and rhs; `dims` the dimensions of rhs, `samples` the one of nodes.
    A block's spans are those of `rows`, the cells, and of the dimensions of rhs but `samples`.
    """

    pieces: tuple[Piece, ...]
    bands: tuple[Band, Band, Band]
    parent: str
    row_size: str
    rows: str
    samples: str
    dims: tuple[str, ...]
    source: Source
    sink: Sink
    target: str
    name: str
    status: str

    def run(self, block: Block, cancelled: CancelToken | None = None) -> Report:
        """Read, solve and write a block."""
        task = Task(block, cancelled)
        others = [dim for dim in self.dims if dim != self.samples]
        piece, spans = self.pieces[block.index], block.extra[1:]
        around = dict(zip(others, spans, strict=True))
        read_at = {**around, self.rows: piece.cells, self.samples: piece.nodes}
        sizes = task.read(self.source, self.row_size, region_of((self.rows,), read_at))
        parents = task.read(self.source, self.parent, region_of((self.samples,), read_at))
        order = [*others, self.samples]
        bands = [task.loaded(read_band(self.source, band, order, read_at)) for band in self.bands]
        with task.computing():
            shape = tuple(span.size for span in spans)
            found, status = self._solve(piece, sizes, parents, bands, shape)
        self._write(task, piece, around, others, found, status)
        return task.report()

    def _solve(
        self,
        piece: Piece,
        sizes: NDArray[Any],
        parents: NDArray[Any],
        bands: list[NDArray[Any]],
        shape: tuple[int, ...],
    ) -> tuple[NDArray[Any], NDArray[np.uint8]]:
        """Return solutions [others..., node] and status bytes [others..., cell]."""
        layout = flat(sizes)
        forest = arrange(layout, parents, piece.cells.start)
        solver = tree_solver(self.target)
        found = np.empty((*shape, layout.total), bands[2].dtype)
        status = np.zeros((*shape, layout.count), np.uint8)
        full = [np.broadcast_to(band, found.shape) for band in bands]
        for point in itertools.product(*(range(size) for size in shape)):
            arrays = [forest.arranged(np.ascontiguousarray(band[point])) for band in full]
            solved = solver.solve(forest, arrays[0], arrays[1], arrays[2])
            found[point] = forest.restored(solved.solution)
            status[point] = solved.status
        return found, status

    def _write(
        self,
        task: Task,
        piece: Piece,
        around: Mapping[str, Span],
        others: list[str],
        found: NDArray[Any],
        status: NDArray[np.uint8],
    ) -> None:
        """Write what belongs to a block."""
        low = piece.written.start
        high = max(low, min(piece.written.stop, piece.nodes.stop))
        part = found[..., low - piece.nodes.start : high - piece.nodes.start]
        places = [*others, self.samples]
        ordered = part.transpose([places.index(dim) for dim in self.dims])
        to = {**around, self.samples: Span(low, high)}
        if ordered.size:
            task.write(self.sink, self.name, region_of(self.dims, to), ordered)
        if not self.status:
            return
        own = status[..., : piece.own.size]
        to = {**around, self.rows: piece.own}
        task.write(self.sink, self.status, region_of((*others, self.rows), to), own)
