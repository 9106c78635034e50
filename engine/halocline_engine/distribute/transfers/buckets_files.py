"""Files that the tasks of a bucketed gather or scatter exchange in a shared folder.

Of each tile of the index::

    sorted-<tile>     where the bucket of each tile of `dim` begins, then the places of its elements
                      there, then an order: see `Sorted`
    sorted-<tile>.json  how many elements are named, and what was wrong

and of each tile that is read, for each tile along the dimensions that stay::

    moved-<stay>-<tile>  where the piece for each other tile begins, then the pieces, one after the
                         other, each indexed [batch, element, value]

A file appears when all of it is there, so that a task may be run again.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from halocline_engine.datasets.disk import full_disk

__all__ = ["Sorted", "SpillFiles"]

_START = np.dtype("<i8")


@dataclass(frozen=True, slots=True, eq=False)
class Sorted:
    """The elements that a tile of the index names, by buckets: `starts` has where each begins.

    `places` are those within the tiles of `dim`. Of a gather, they are different in a bucket, and
    `order` says for each index which of them it names, or -1; of a scatter, `order` says for each
    of them which element of the tile goes there, ascending in a bucket.
    """

    starts: NDArray[np.int64]
    places: NDArray[Any]
    order: NDArray[Any]


@dataclass(frozen=True, slots=True)
class SpillFiles:
    """The files of one job; `word` is the type of places and orders."""

    folder: str
    word: str

    def keep_sorted(self, tile: int, found: Sorted, facts: dict[str, Any]) -> int:
        """Store a tile of the index; return how many bytes that took."""
        parts = (
            found.starts.astype(_START),
            found.places.astype(self.word),
            found.order.astype(self.word),
        )
        with self._new(f"sorted-{tile}") as file:
            for part in parts:
                part.tofile(file)
        self.keep_facts(f"sorted-{tile}", facts)
        return sum(part.nbytes for part in parts)

    def keep_facts(self, name: str, facts: dict[str, Any]) -> None:
        """Store what the job must know of a task."""
        with self._new(f"{name}.json") as file:
            file.write(json.dumps(facts).encode())

    def facts(self, name: str) -> dict[str, Any]:
        """Return what the job must know of a task."""
        return cast("dict[str, Any]", json.loads((Path(self.folder) / f"{name}.json").read_text()))

    def starts(self, tile: int, first: int, count: int) -> NDArray[np.int64]:
        """Return where some buckets of a tile of the index begin."""
        return self._read(f"sorted-{tile}", _START, first, count)

    def places(self, tile: int, buckets: int, first: int, past: int) -> NDArray[Any]:
        """Return some of the places of a tile that has so many buckets."""
        return self._words(tile, buckets, first, past - first)

    def order(
        self, tile: int, buckets: int, named: int, first: int = 0, past: int | None = None
    ) -> NDArray[Any]:
        """Return some of the order of a tile that names so many elements, by default all of it."""
        count = -1 if past is None else past - first
        return self._words(tile, buckets, named + first, count)

    def keep_moved(
        self, stay: int, tile: int, starts: NDArray[np.int64], pieces: Iterable[NDArray[Any]]
    ) -> int:
        """Store the pieces of a tile that was read; return how many bytes they have."""
        written = 0
        with self._new(f"moved-{stay}-{tile}") as file:
            starts.astype(_START).tofile(file)
            for piece in pieces:
                np.ascontiguousarray(piece).tofile(file)
                written += piece.nbytes
        return written

    def moved(
        self, stay: int, tile: int, piece: int, pieces: int, shape: tuple[int, int], dtype: str
    ) -> NDArray[Any]:
        """Return a piece of `pieces`, indexed [batch, element, value]; `shape` is batch, value."""
        name, batch, values = f"moved-{stay}-{tile}", *shape
        first, past = (int(n) for n in self._read(name, _START, piece, 2))
        kind = np.dtype(dtype)
        row = batch * values
        begin = (pieces + 1) * _START.itemsize + first * row * kind.itemsize
        found = np.fromfile(
            Path(self.folder) / name, np.uint8, (past - first) * row * kind.itemsize, offset=begin
        )
        return found.view(kind).reshape(batch, past - first, values)

    def _words(self, tile: int, buckets: int, first: int, count: int) -> NDArray[Any]:
        head = (buckets + 1) * _START.itemsize
        return self._read(f"sorted-{tile}", np.dtype(self.word), first, count, head)

    def _read(
        self, name: str, kind: np.dtype[Any], first: int, count: int, head: int = 0
    ) -> NDArray[Any]:
        place = Path(self.folder) / name
        return np.fromfile(place, kind, count, offset=head + first * kind.itemsize)

    @contextmanager
    def _new(self, name: str) -> Generator[BinaryIO]:
        place = Path(self.folder) / name
        part = place.with_name(f"{name}.{uuid.uuid4().hex}.part")
        with full_disk(self.folder):
            with part.open("wb") as file:
                yield file
            part.replace(place)
