"""Levels of arrays that a block of threads keeps in shared memory while it goes up the levels.

Where points read far along I and J, neighbouring threads read the same elements many times, and
the caches between the memory and a thread become the limit. So a block copies each level of such
an array once, its own points and a halo around them, some levels before they are used; threads
load from there what they would have loaded from memory. A ring has as many levels as are read at
once, and those under way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from halocline_engine.backends.cuda.entries import Kind, Stride
from halocline_engine.backends.cuda.tiling import Tile
from halocline_engine.backends.cuda.windows import Place, windows
from halocline_engine.ir.extent import Range
from halocline_engine.ir.nodes import Offset
from halocline_engine.ir.types import DType

__all__ = ["MOST_PIECES", "Plane", "planes_of"]

#: Bytes of one copy.
_COPY = 16
#: Copies of a thread for a level: as many as the bits of a mask.
MOST_PIECES = 32


@dataclass(frozen=True, slots=True)
class Plane:
    """How a block keeps levels of one array; columns and rows count from the block's first point.

    `columns` and `rows` are what it copies, `read` the offsets along I and `across` those along J
    that points read, `levels` those along K at which threads load; a range has its end behind it.
    `piece` elements are copied at once, and `deep` levels are in the ring.
    """

    itemsize: int
    piece: int
    columns: Range
    rows: Range
    read: Range
    across: Range
    levels: Range
    deep: int

    @property
    def pitch(self) -> int:
        """Elements from row to row."""
        return self.columns[1] - self.columns[0]

    @property
    def pieces(self) -> int:
        """Copies of a level."""
        return self.pitch // self.piece * (self.rows[1] - self.rows[0])

    @property
    def size(self) -> int:
        """Elements from level to level; each level begins at a multiple of 16 bytes."""
        unit = _COPY // self.itemsize
        return -(-self.pitch * (self.rows[1] - self.rows[0]) // unit) * unit

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
        return (place[0] - self.rows[0]) * self.pitch + place[1] - self.columns[0]


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
    found: dict[str, Plane] = {}
    for name, read in offsets.items():
        usual = kinds[name] == (Stride.ONE, Stride.ANY, Stride.ANY)
        if usual and dtypes[name].is_float and dtypes[name].itemsize in (4, 8):
            plane = _plane(list(read), dtypes[name].itemsize, tile, aligned=name in aligned)
            if plane is not None:
                found[name] = plane
    return found


def _plane(offsets: list[Offset], itemsize: int, tile: Tile, *, aligned: bool) -> Plane | None:
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
        piece=unit if aligned else 1,
        columns=(
            along[0] // unit * unit,
            tile.block[0] * tile.width - (1 - along[1]) // unit * unit,
        ),
        rows=(across[0], tile.block[1] * tile.rows + across[1] - 1),
        read=along,
        across=across,
        levels=levels,
        deep=levels[1] - levels[0] + tile.planes,
    )


def _ends(numbers: Iterable[int]) -> Range:
    values = list(numbers)
    return min(values), max(values) + 1
