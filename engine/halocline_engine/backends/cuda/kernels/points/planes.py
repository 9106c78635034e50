"""Planes: levels of arrays that a block keeps in shared memory while it sweeps up the levels.

Where points read far along I and J, neighbouring threads read the same elements many times, and
the caches between the memory and a thread become the limit. So a block copies each level of such
an array once, its own points and a halo around them, some levels before they are used; threads
load from there what they would have loaded from memory. A ring buffer has as many levels as
are read at once, and those under way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from halocline_engine.backends.cuda.kernels.points.windows import Place, windows
from halocline_engine.backends.cuda.model.entries import Kind, Stride
from halocline_engine.backends.cuda.model.tile import Tile
from halocline_engine.ir.extent import Range
from halocline_engine.ir.nodes import Offset
from halocline_engine.ir.types import DType

__all__ = ["MOST_PIECES", "SHARED", "Plane", "planes_of"]

#: Bytes of one copy.
_COPY = 16
#: Copies of a thread for a level: as many as the bits of a mask.
MOST_PIECES = 32
#: Shared memory that a block may have on devices from compute capability 8.0 on.
SHARED = 163 * 1024
#: Bytes at whose multiples rows begin, the best first; the last ones need the least memory.
_LINES = (128, 64, 32, _COPY)


@dataclass(frozen=True, slots=True)
class Plane:
    """Levels of one array kept by a block; columns and rows count from the block's first point.

    `columns` and `rows` are what it copies, `read` the offsets along I and `across` those along J
    that points read, `levels` those along K at which threads load; a range has its end behind it.
    `piece` elements are copied at once, and `deep` levels are in the ring.

    The block's first point lies at a multiple of `line` bytes, in memory and here, and so do those
    below it: pieces of one sector of memory that lie in two lines here would be two transfers.
    """

    itemsize: int
    piece: int
    columns: Range
    rows: Range
    read: Range
    across: Range
    levels: Range
    deep: int
    line: int = 16

    @property
    def wide(self) -> int:
        """Elements of a row."""
        return self.columns[1] - self.columns[0]

    @property
    def tall(self) -> int:
        """Rows of a level."""
        return self.rows[1] - self.rows[0]

    @property
    def pitch(self) -> int:
        """Elements from row to row."""
        unit = self.piece if self.line == _COPY else self.line // self.itemsize
        return -(-self.wide // unit) * unit

    @property
    def lead(self) -> int:
        """Elements ahead of the first row."""
        return self.columns[0] % (self.line // self.itemsize) if self.line > _COPY else 0

    @property
    def pieces(self) -> int:
        """Places of copies in a level; those behind the end of a row are left out."""
        return self.pitch // self.piece * self.tall

    @property
    def size(self) -> int:
        """Elements from level to level; each level begins at a multiple of a line."""
        unit = self.line // self.itemsize
        return -(-(self.lead + self.pitch * self.tall) // unit) * unit

    @property
    def bytes(self) -> int:
        """Bytes of the ring."""
        return self.size * self.deep * self.itemsize

    def place(self, place: Place) -> int:
        """Return where in a level an element of a thread lies, from the thread's first point.

        >>> plane = Plane(8, 2, (-2, 66), (-1, 33), (-1, 2), (-1, 2), (1, 2), 3)
        >>> plane.place((0, 0)), plane.place((-1, -1))
        (70, 1)
        """
        return (place[0] - self.rows[0]) * self.pitch + self.lead + place[1] - self.columns[0]


def planes_of(
    offsets: Mapping[str, Iterable[Offset]],
    kinds: Mapping[str, Kind],
    dtypes: Mapping[str, DType],
    aligned: Collection[str],
    tile: Tile,
) -> Mapping[str, Plane]:
    """Return how the arrays that are read at `offsets` are kept by a block, by array.

    Those are kept of which a thread loads more than its own points, if their elements are numbers
    of 4 or 8 bytes that lie next to each other along I. With `tile.planes` 0 there are none.
    """
    if not tile.planes:
        return {}
    usual = (Stride.ONE, Stride.ANY, Stride.ANY)
    names = [
        name
        for name in offsets
        if kinds[name] == usual and dtypes[name].is_float and dtypes[name].itemsize in (4, 8)
    ]
    found: dict[str, Plane] = {}
    for line in _LINES:
        planes = {
            name: _plane(
                list(offsets[name]),
                dtypes[name].itemsize,
                tile,
                line if name in aligned else 0,
            )
            for name in names
        }
        found = {name: plane for name, plane in planes.items() if plane is not None}
        if sum(plane.bytes for plane in found.values()) <= SHARED:
            break
    return found


def _plane(offsets: list[Offset], itemsize: int, tile: Tile, line: int) -> Plane | None:
    """Return how an array is kept, or None where threads load their own points only.

    `line` is 0 for arrays whose rows begin anywhere.
    """
    ones = (Stride.ONE, Stride.ANY, Stride.ANY)
    found = windows(offsets, ones, width=tile.width, rows=tile.rows, ring=True)
    own = {(row, column) for row in range(tile.rows) for column in range(tile.width)}
    if all(window.loaded <= own for window in found):
        return None
    unit = max(n for n in (1, 2, 4) if n * itemsize <= _COPY and tile.width % n == 0)
    along, across = _ends(i for i, _, _ in offsets), _ends(j for _, j, _ in offsets)
    levels = _ends(window.level for window in found if window.loaded)
    return Plane(
        itemsize=itemsize,
        piece=unit if line else 1,
        columns=(
            along[0] // unit * unit,
            tile.block[0] * tile.width - (1 - along[1]) // unit * unit,
        ),
        rows=(across[0], tile.block[1] * tile.rows + across[1] - 1),
        read=along,
        across=across,
        levels=levels,
        deep=levels[1] - levels[0] + tile.planes,
        line=line or _COPY,
    )


def _ends(numbers: Iterable[int]) -> Range:
    values = list(numbers)
    return min(values), max(values) + 1
