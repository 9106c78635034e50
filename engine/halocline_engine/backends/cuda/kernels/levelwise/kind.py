"""The kind of PARALLEL kernel on arrays along K that takes every program: a point a thread.

Neighbouring threads have neighbouring levels, and then those of the next column, so that they load
neighbouring elements. Conditions and levels of the run are as in the text.
"""

from __future__ import annotations

from collections.abc import Iterator

from halocline_engine.backends.cuda.kernels.kind import KernelKind
from halocline_engine.backends.cuda.kernels.points.text import point_lines
from halocline_engine.backends.cuda.model.entries import Entry, Variant, lies_along_k
from halocline_engine.backends.cuda.model.launch import MAX_BLOCKS, Launch
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.backends.cuda.text.fragments import indent, signed
from halocline_engine.backends.cuda.text.statements import Scope
from halocline_engine.ir.extent import Range
from halocline_engine.ir.types import Order
from halocline_engine.schedule.nodes import Schedule

__all__ = ["LEVELWISE"]

_THREADS = 256
#: Threads along a row of columns that a number of 32 bits counts.
_MOST = 2**32 - _THREADS


def _tile(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile | None:
    tile = Tile((_THREADS, 1), levelwise=variant.near + 1)
    return _fit(tile, entry, schedule, variant, domain)


def _fit(
    tile: Tile, entry: Entry, schedule: Schedule, variant: Variant, domain: Domain
) -> Tile | None:
    if entry.kernel.order is not Order.PARALLEL or entry.level_at_hand or entry.staged is not None:
        return None
    near = _points(entry, domain)[tile.levelwise - 1]
    if near * domain[2] > _MOST or not lies_along_k(entry, schedule, variant):
        return None
    return Tile((_THREADS, 1), levelwise=tile.levelwise)


def _points(entry: Entry, domain: Domain) -> tuple[int, int]:
    """Return how many points along I and J a kernel computes."""
    (i_low, i_high), (j_low, j_high) = entry.kernel.extent
    return domain[0] + i_high - i_low, domain[1] + j_high - j_low


def _text(entry: Entry, scope: Scope, tile: Tile) -> list[str]:
    (i_low, i_high), (j_low, j_high) = entry.kernel.extent
    low = {"i": signed(i_low), "j": signed(j_low)}
    near, far = "ij" if tile.levelwise == 1 else "ji"
    return [
        f"const int i1 = ni{signed(i_high)}, j1 = nj{signed(j_high)};",
        "const unsigned t = blockIdx.x * blockDim.x + threadIdx.x, height = top - level;",
        f"const int {near} = (int)(t / height){low[near]}, k = level + (int)(t % height);",
        f"if ({near} >= {near}1) return;",
        f"for (int {far} = (int)blockIdx.y{low[far]}; {far} < {far}1; {far} += (int)gridDim.y) {{",
        *indent(point_lines(entry, scope)),
        "}",
    ]


def _launches(entry: Entry, domain: Domain, tile: Tile, levels: Range) -> Iterator[Launch]:
    first, top = levels
    along_i, along_j = _points(entry, domain)
    near, far = (along_i, along_j) if tile.levelwise == 1 else (along_j, along_i)
    if min(near, far, top - first) <= 0:
        return
    blocks = -(-near * (top - first) // _THREADS)
    row = entry.kernel.extent[1][0]
    yield Launch((blocks, min(far, MAX_BLOCKS), 1), (_THREADS, 1, 1), row, first, top)


LEVELWISE = KernelKind(
    tile=_tile,
    fit=_fit,
    text=lambda entry, _schedule, _variant, scope, tile: _text(entry, scope, tile),
    shared_bytes=lambda _entry, _schedule, _variant, _tile, _domain: 0,
    launches=_launches,
)
