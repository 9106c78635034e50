"""Pictures of a walk: the order of work, what a cache holds on the way, and what is fetched when.

A scene is a small grid of cells of whatever kind (`column.py`) that is walked in some order through
a cache, which forgets what was used longest ago. As text it shows the number of each cell and the
cache in the midst of the work; as SVG also when each cell was fetched and how long it stayed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from halocline_engine.errors import InternalError
from halocline_engine.schedule.traversal.column import ColumnOrder
from halocline_engine.schedule.traversal.column_model import Reads, Work, working_set
from halocline_engine.schedule.traversal.lru import LRU

__all__ = ["Scene", "Stay", "Trace", "draw_svg", "draw_text", "sketch", "traced"]

_MOST_CELLS = 400
#: Rows and columns of a sketch, and twice as many cells in a row, at most.
_SKETCHED = 12
_CELL, _LEFT, _TOP, _GAP = 22, 14, 44, 40
#: What the heading of the grid takes, which may be wider than the grid itself.
_HEADING = 120
_HELD, _FETCHED, _WORK, _PATH = "#9ecae1", "#e6550d", "#a50f15", "#555"


@dataclass(frozen=True, slots=True)
class Scene:
    """A walk over `rows` rows of `length` cells, in columns of a `width`.

    `name` is "row", "column" or "zigzag"; `cache` is how many cells are held. `notes` are lines to
    be set beneath.
    """

    name: str
    rows: int
    length: int
    width: int
    reads: Reads
    cache: int
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn."""
        if not 0 < self.rows * self.length <= _MOST_CELLS or self.width < 1:
            raise InternalError(
                f"A picture has 1 to {_MOST_CELLS} cells and columns of at least one, got"
                f" {self.rows} rows of {self.length} cells and columns of {self.width}."
            )

    def order(self) -> list[int]:
        """Return the numbers of the cells as they are worked on."""
        if self.name == "row":
            return list(range(self.rows * self.length))
        width = min(self.width, self.length)
        return ColumnOrder(self.rows, self.length, width, self.name == "zigzag").order().tolist()


@dataclass(frozen=True, slots=True)
class Stay:
    """A cell is fetched for a step, and is in the cache through the last one."""

    cell: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Trace:
    """The cells in the order of work, those that each reads, and their stays in the cache."""

    order: tuple[int, ...]
    read: tuple[tuple[int, ...], ...]
    stays: tuple[Stay, ...]

    def held(self, step: int) -> frozenset[int]:
        """Return what is in the cache when the work on a step is done."""
        return frozenset(s.cell for s in self.stays if s.first <= step <= s.last)

    def fetched(self, step: int) -> frozenset[int]:
        """Return what is fetched for a step."""
        return frozenset(s.cell for s in self.stays if s.first == step)


def sketch(name: str, reads: Reads) -> Scene:
    """Return a small grid of cells that are read so, and a cache that holds a column of it.

    >>> sketch("column", Reads((1, 1), (1, 1))).cache
    18
    """
    (above, below), (before, after) = reads.rows, reads.cells
    width, rows = max(4, before + after), max(above + below + 3, 6)
    cache = working_set(Work(1, reads), width)
    rows, length = min(rows, _SKETCHED), min(3 * width, 2 * _SKETCHED)
    return Scene(name, rows, length, width, reads, cache)


def traced(scene: Scene) -> Trace:
    """Follow a walk through its cache; a cache of nothing keeps what a step reads for that step.

    >>> scene = Scene("row", 3, 4, 4, Reads((1, 1), (0, 0)), cache=8)
    >>> len(traced(scene).stays)
    24
    """
    order = scene.order()
    read = tuple(tuple(_read(scene, cell)) for cell in order)
    held = LRU[int](scene.cache)
    began: dict[int, int] = {}
    stays: list[Stay] = []
    for step, cells in enumerate(read):
        held.limit = max(scene.cache, len(cells))
        for cell in cells:
            used = held.use(cell)
            if not used.hit:
                began[cell] = step
            stays += [Stay(old, began.pop(old), step - 1) for old in used.forgotten]
    stays += [Stay(cell, first, len(order) - 1) for cell, first in began.items()]
    return Trace(tuple(order), read, tuple(sorted(stays, key=lambda s: (s.first, s.cell))))


def draw_text(scene: Scene) -> str:
    """Return the picture as lines of text, ending with a newline.

    On the left the step at which each cell is done, on the right the cache in the midst of it: `#`
    in work, `+` fetched for that, `o` in the cache, `-` no longer in it, `.` not fetched yet.
    """
    trace = traced(scene)
    middle = _middle(scene, trace)
    steps = {cell: step for step, cell in enumerate(trace.order)}
    signs = _signs(trace, middle)
    wide = len(str(len(trace.order) - 1)) + 1
    numbers = scene.length * wide
    head = "order of work".ljust(numbers)
    lines = [_title(scene), f"{head}  cache at step {middle}"]
    for row in range(scene.rows):
        cells = range(row * scene.length, (row + 1) * scene.length)
        left = "".join(str(steps[cell]).rjust(wide) for cell in cells)
        right = "".join(f" {signs[cell]}" for cell in cells)
        lines.append(f"{left.ljust(len(head))} {right}")
    lines.append("# in work  + fetched for it  o in the cache  - no longer  . not yet")
    return "".join(f"{line}\n" for line in (*lines, _sum(scene, trace), *scene.notes))


def draw_svg(scene: Scene) -> str:
    """Return the picture as an SVG document.

    On the left the order of work and the cache in the midst of it, on the right the stays of each
    cell (downwards) over the steps (to the right).
    """
    trace = traced(scene)
    cells = scene.rows * scene.length
    grid = scene.length * _CELL
    high = max(scene.rows * _CELL, 3 * cells, 120)
    start, tall = _LEFT + max(grid, _HEADING) + _GAP, 3 * cells
    wide = max(start + 4 * cells + _LEFT, 640)
    key = "red: in work; orange: fetched; blue: in the cache; grey: no longer; line: order of work"
    notes = [key, _sum(scene, trace), *scene.notes]
    bottom = _TOP + high + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {bottom + 16 * len(notes)}"'
        ' font-family="sans-serif" font-size="12" role="img">',
        f"<title>{escape(_title(scene))}</title>",
        '<rect class="ground" width="100%" height="100%" fill="white"/>',
        f'<text x="{_LEFT}" y="18" font-weight="bold">{escape(_title(scene))}</text>',
        f'<text x="{_LEFT}" y="36">cache at step {_middle(scene, trace)}</text>',
        f'<text x="{start}" y="36">each cell (down) in the cache over the steps (right)</text>',
        *_grid(scene, trace),
        *_stays(trace, start, tall, cells),
        *(
            f'<text x="{_LEFT}" y="{bottom + 16 * n}">{escape(note)}</text>'
            for n, note in enumerate(notes)
        ),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _title(scene: Scene) -> str:
    grid = f"{scene.rows} {'row' if scene.rows == 1 else 'rows'} of {scene.length}"
    if scene.name == "row":
        return f"row order, {grid}"
    turned = ", every other one from its end" if scene.name == "zigzag" else ""
    return f"columns {min(scene.width, scene.length)} wide{turned}, {grid}"


def _sum(scene: Scene, trace: Trace) -> str:
    cells = scene.rows * scene.length
    fetched = len(trace.stays)
    return (
        f"a cache of {scene.cache} cells: {fetched} fetched for {cells} cells,"
        f" {fetched / cells:.2f} times each"
    )


def _middle(scene: Scene, trace: Trace) -> int:
    """Return a step in the second column or row of work, about its middle."""
    width = min(scene.width, scene.length)
    return min(len(trace.order) - 1, (scene.rows // 2) * width + width // 2)


def _signs(trace: Trace, step: int) -> dict[int, str]:
    """Return a sign for each cell as of a step."""
    seen = {s.cell for s in trace.stays if s.first <= step}
    signs = {cell: "-" if cell in seen else "." for cell in trace.order}
    signs |= dict.fromkeys(trace.held(step), "o")
    signs |= dict.fromkeys(trace.fetched(step), "+")
    return signs | {trace.order[step]: "#"}


def _read(scene: Scene, cell: int) -> Iterator[int]:
    """Yield the cells that the work on one reads; nothing lies beyond the grid."""
    row, place = divmod(cell, scene.length)
    (above, below), (before, after) = scene.reads.rows, scene.reads.cells
    for other in range(max(row - above, 0), min(row + below + 1, scene.rows)):
        low, high = max(place - before, 0), min(place + after + 1, scene.length)
        yield from range(other * scene.length + low, other * scene.length + high)


def _grid(scene: Scene, trace: Trace) -> Iterator[str]:
    """Yield the cells with their colours, and the way through them."""
    middle = _middle(scene, trace)
    colours = {"#": _WORK, "+": _FETCHED, "o": _HELD, "-": "#eee", ".": "white"}
    kinds = {"#": "work", "+": "fetched", "o": "held", "-": "past", ".": "future"}
    for cell, sign in sorted(_signs(trace, middle).items()):
        row, place = divmod(cell, scene.length)
        x, y = _LEFT + place * _CELL, _TOP + row * _CELL
        yield (
            f'<rect class="{kinds[sign]}" x="{x}" y="{y}" width="{_CELL}" height="{_CELL}"'
            f' fill="{colours[sign]}" stroke="#ccc"/>'
        )
    points: list[str] = []
    for cell in trace.order:
        row, place = divmod(cell, scene.length)
        points.append(f"{_LEFT + (place + 0.5) * _CELL:g},{_TOP + (row + 0.5) * _CELL:g}")
    yield (
        f'<polyline points="{" ".join(points)}" fill="none" stroke="{_PATH}" stroke-width="1"'
        ' stroke-opacity="0.6"/>'
    )


def _stays(trace: Trace, start: int, tall: int, steps: int) -> Iterator[str]:
    """Yield a line for each stay, with a mark where it begins, and the line of work."""
    yield (
        f'<rect class="past" x="{start}" y="{_TOP}" width="{4 * steps}" height="{tall}"'
        ' fill="#fafafa" stroke="#ccc"/>'
    )
    for stay in trace.stays:
        x, y = start + 4 * stay.first, _TOP + 3 * stay.cell
        long = 4 * (stay.last - stay.first + 1)
        yield f'<rect class="held" x="{x}" y="{y}" width="{long}" height="2" fill="{_HELD}"/>'
        yield f'<rect class="fetched" x="{x}" y="{y}" width="3" height="2" fill="{_FETCHED}"/>'
    for step, cell in enumerate(trace.order):
        x, y = start + 4 * step, _TOP + 3 * cell
        yield f'<rect class="work" x="{x}" y="{y}" width="3" height="2" fill="{_WORK}"/>'
