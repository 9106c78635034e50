"""Gathers and scatters cut up on both sides: which elements a block names, and what it takes.

`Exchange` says what is moved. Its arrays are cut into tiles of four kinds: along the dimensions
that stay as they are, along those that source and index share, along the other dimensions of the
index, and along `dim`, which the indices name::

                     dim, that is named
                     k = 0     1     2
      indexed  m = 0  |  3  |  .  |  1  |      how many elements of a tile of the index lie in
               m = 1  |  .  |  2  |  2  |      each tile of `dim`: a bucket each

A gather reads tiles of `dim` and writes tiles of the index, a scatter the other way round. What a
task holds is one tile of either kind, whatever the indices are: its bytes follow from the cut.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from halocline_engine.distribute.grid.partition import Span
from halocline_engine.distribute.jobs.reading import Chunked
from halocline_engine.kernels.indirect.problem import Direction, Policy

__all__ = ["LARGE", "Cut", "Exchange", "ExchangeLayout", "Tiles", "choose_cut", "task_bytes"]

#: Bytes of tiles that a task has at once, if the caller asks for no others.
LARGE = 256 << 20
#: Bytes that an index takes while it is resolved and sorted.
_SORTING = 96
#: Bytes that an index takes while its elements are moved.
_MOVING = 64
#: Arrays of a tile's elements: as read, in the order of the work, and as moved.
_HELD = 3
# Elements of fewer bytes are better kept together than tiles along other dimensions whole.
_WIDE = 4096


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExchangeLayout:
    """Dimensions of a gather or a scatter, and their sizes.

    `dims` are those of the result, in their own order. `batch` and `values` stay as they are,
    `shared` are in source and index, `indexed` are the other dimensions of the index, for a scatter
    in the order of the source. `sizes` are those of all of these, and `size` is that of the
    dimension along which elements are moved, which may have the name of a dimension of the index.
    """

    dims: tuple[str, ...]
    batch: tuple[str, ...]
    values: tuple[str, ...]
    shared: tuple[str, ...]
    indexed: tuple[str, ...]
    sizes: Mapping[str, int]
    size: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exchange:
    """A gather or a scatter of a variable along `dim`; `own` are the dimensions of the source."""

    direction: Direction
    source: Chunked
    index: Chunked
    names: tuple[str, str, str]
    dim: str
    own: tuple[str, ...]
    layout: ExchangeLayout
    dtype: str
    policy: Policy
    fill: Any
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def gather(self) -> bool:
        """Whether elements are taken, not put."""
        return self.direction is Direction.GATHER

    @property
    def cuttable(self) -> tuple[str, ...]:
        """The names along which tiles may be cut."""
        layout = self.layout
        names = (*layout.batch, *layout.shared, self.dim, *layout.indexed, *layout.values)
        return tuple(dict.fromkeys(names))


@dataclass(frozen=True, slots=True)
class Tiles:
    """Some dimensions cut into tiles, numbered in the order of the dimensions, the last fastest.

    >>> tiles = Tiles(("y", "x"), (3, 4), (2, 4))
    >>> tiles.total, tiles.spans(1)
    (2, (Span(start=2, stop=3), Span(start=0, stop=4)))
    """

    dims: tuple[str, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of tiles along each dimension."""
        return tuple(-(-n // step) for n, step in zip(self.sizes, self.steps, strict=True))

    @property
    def total(self) -> int:
        """Number of tiles."""
        return math.prod(self.counts)

    @property
    def points(self) -> int:
        """Number of points of the largest tile."""
        return math.prod(self.steps)

    def spans(self, number: int) -> tuple[Span, ...]:
        """Return what a tile has of each dimension."""
        places: list[int] = []
        for count in reversed(self.counts):
            number, place = divmod(number, count)
            places.append(place)
        return tuple(
            Span(place * step, min(n, (place + 1) * step))
            for place, step, n in zip(reversed(places), self.steps, self.sizes, strict=True)
        )

    def cut(self, at: int) -> Tiles:
        """Return the tiles with those along one dimension half as large."""
        steps = list(self.steps)
        steps[at] = -(-steps[at] // 2)
        return replace(self, steps=tuple(steps))

    def in_rows(self) -> Tiles:
        """Return tiles whose points follow each other, each at most as large as it was."""
        steps, whole = list(self.steps), True
        for at in reversed(range(len(steps))):
            if not whole:
                steps[at] = 1
            whole = whole and steps[at] >= self.sizes[at]
        return replace(self, steps=tuple(steps))


@dataclass(frozen=True, slots=True)
class Cut:
    """The tiles of an exchange.

    A number of a tile of the index, or of `dim`, counts the tiles of the shared dimensions first.
    """

    stay: Tiles
    shared: Tiles
    indexed: Tiles
    named: Tiles

    @property
    def index_tiles(self) -> int:
        """Number of tiles of the index."""
        return self.shared.total * self.indexed.total

    @property
    def named_tiles(self) -> int:
        """Number of tiles of the array that the indices address."""
        return self.shared.total * self.named.total

    @property
    def narrow(self) -> bool:
        """Whether places within a tile can be counted with 32 bits."""
        return self.shared.points * max(self.indexed.points, self.named.points) < 2**31

    def of_index(self, number: int) -> dict[str, Span]:
        """Return the spans of a tile of the index."""
        group, tile = divmod(number, self.indexed.total)
        return self._spans(group, self.indexed, tile)

    def of_named(self, number: int) -> dict[str, Span]:
        """Return the spans of a tile of what the indices name."""
        group, tile = divmod(number, self.named.total)
        return self._spans(group, self.named, tile)

    def _spans(self, group: int, tiles: Tiles, tile: int) -> dict[str, Span]:
        shared = zip(self.shared.dims, self.shared.spans(group), strict=True)
        return {**dict(shared), **dict(zip(tiles.dims, tiles.spans(tile), strict=True))}


def choose_cut(exchange: Exchange, chunks: Mapping[str, int], memory: int) -> Cut:
    """Return tiles of the sizes that `chunks` gives, and along other dimensions such that they fit.

    Tiles take no more than `memory` bytes, if that can be; `task_bytes` says what they take.
    """
    layout = exchange.layout
    sizes = layout.sizes

    def tiles(dims: Sequence[str]) -> Tiles:
        lengths = tuple(sizes[dim] for dim in dims)
        steps = (max(1, min(chunks.get(dim, n), n)) for dim, n in zip(dims, lengths, strict=True))
        return Tiles(tuple(dims), lengths, tuple(steps))

    size = layout.size
    step = max(1, min(chunks.get(exchange.dim, size), size))
    cut = Cut(
        tiles((*layout.batch, *layout.values)),
        tiles(layout.shared),
        tiles(layout.indexed),
        Tiles((exchange.dim,), (size,), (step,)),
    )
    cut = _rows(exchange, cut)
    while excess := _excess(exchange, cut, memory):
        smaller = (_rows(exchange, one) for one in _smaller(exchange, cut, chunks))
        better = next((one for one in smaller if _excess(exchange, one, memory) < excess), None)
        if better is None:
            break
        cut = better
    return cut


def task_bytes(exchange: Exchange, cut: Cut) -> int:
    """Return the bytes that any task holds at most, with the chunks that it decodes."""
    return max(sum(part) for part in _parts(exchange, cut))


def _rows(exchange: Exchange, cut: Cut) -> Cut:
    """Return tiles of a scatter in the order of the indices, which decides about duplicates."""
    return cut if exchange.gather else replace(cut, indexed=cut.indexed.in_rows())


def _excess(exchange: Exchange, cut: Cut, memory: int) -> int:
    """Return how far all kinds of tasks together are above what they may hold."""
    return sum(
        max(0, held - LARGE) + max(0, held + decoded - memory)
        for held, decoded in _parts(exchange, cut)
    )


def _parts(exchange: Exchange, cut: Cut) -> tuple[tuple[int, int], ...]:
    """Return what each kind of task holds in tiles, and in chunks that it decodes."""
    shared, element = cut.shared.points, _element(exchange, cut)
    indexed, named = shared * cut.indexed.points, shared * cut.named.points
    heads = 16 * (cut.indexed.total + cut.named.total)
    read, written = (named, indexed) if exchange.gather else (indexed, named)
    move = read * (_HELD * element + _MOVING) + heads
    join = written * (_HELD * element + _MOVING) + heads
    if not exchange.gather:
        join += indexed * (2 * element + _MOVING)
    around = dict(zip(cut.stay.dims, cut.stay.steps, strict=True))
    around |= dict(zip(cut.shared.dims, cut.shared.steps, strict=True))
    inner = cut.named if exchange.gather else cut.indexed
    of_source = around | dict(zip(inner.dims, inner.steps, strict=True))
    of_index = around | dict(zip(cut.indexed.dims, cut.indexed.steps, strict=True))
    return (
        (indexed * _SORTING + heads, exchange.index.bytes(of_index)),
        (move, exchange.source.bytes(of_source)),
        (join, 0),
    )


def _element(exchange: Exchange, cut: Cut) -> int:
    """Return the bytes of one element for all points of a tile that stay."""
    return cut.stay.points * np.dtype(exchange.dtype).itemsize


def _smaller(exchange: Exchange, cut: Cut, chunks: Mapping[str, int]) -> Iterator[Cut]:
    """Yield cuts with smaller tiles, the best first."""
    batch, stay = len(exchange.layout.batch), len(cut.stay.dims)

    def along(name: str, places: Sequence[int]) -> Iterator[Cut]:
        tiles: Tiles = getattr(cut, name)
        for at in places:
            if tiles.steps[at] > 1 and tiles.dims[at] not in chunks:
                yield replace(cut, **{name: tiles.cut(at)})

    shared = range(len(cut.shared.dims))
    indexed = along("indexed", range(len(cut.indexed.dims)))
    named = along("named", (0,))
    first, second = named, indexed
    if cut.indexed.points > cut.named.points:
        first, second = indexed, named
    outer = itertools.chain(along("stay", range(batch)), along("shared", shared))
    inner = along("stay", range(batch, stay))
    if _element(exchange, cut) > _WIDE:
        return itertools.chain(outer, first, second, inner)
    return itertools.chain(along("shared", shared), first, second, outer, inner)
