"""Fill the ghost cells of a block's arrays: all at once where the target can.

What every target can do is to copy slices, which NumPy and CuPy both understand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import setitem

from halocline_engine.analysis.boundaries import Kind, Side
from halocline_engine.backends import ghosts
from halocline_engine.backends.base import Array, Executable
from halocline_engine.backends.ghosts import Filling, Framed, Rule
from halocline_engine.distribute.grid.boundary import Line
from halocline_engine.distribute.grid.partition import Span

__all__ = ["fill_ghosts", "ghost_fills", "ghosts_of"]

#: Ends whose ghosts are data, or do not exist.
_UNMADE = (Kind.NONE, Kind.PERIODIC)


def fill_ghosts(array: Array, lines: tuple[Line, ...], frames: tuple[Span, ...]) -> None:
    """Fill the cells of `array` that lie beyond the data, along I, then J, then K.

    `array` is indexed [i, j, k] and holds the cells `frames`; a frame that stays inside the data
    has no ghosts along its axis.
    """
    for fill in ghost_fills(array, lines, frames):
        fill()


def ghost_fills(
    array: Array, lines: tuple[Line, ...], frames: tuple[Span, ...]
) -> list[Callable[[], None]]:
    """Return what fills the ghosts of `array`, in order, from what it holds by then."""
    found: list[Callable[[], None]] = []
    for axis, (line, frame) in enumerate(zip(lines, frames, strict=True)):
        if line.endless:
            continue
        low, high = -frame.start, frame.stop - line.size
        if low > 0:
            found += _low(array, axis, line, low)
        if high > 0:
            found += _high(array, axis, line, frame, high)
    return found


def ghosts_of(
    executable: Executable | None,
    lines: tuple[Line, ...],
    several: Sequence[tuple[Array, tuple[Span, ...]]],
) -> list[Callable[[], None]]:
    """Return what fills the ghosts of arrays, each with its frame, from what they hold by then.

    The executable does so at once, if it can; None copies slices, which needs no code.
    """
    outside = [one for one in several if _reaches_out(lines, one[1])]
    if not outside:
        return []
    if isinstance(executable, Filling):
        found = executable.filling(_ends(lines), [_framed(lines, *one) for one in outside])
        if found is not None:
            return [found]
    return [fill for array, frames in outside for fill in ghost_fills(array, lines, frames)]


def _reaches_out(lines: tuple[Line, ...], frames: tuple[Span, ...]) -> bool:
    """Whether there are cells in a frame that rules make."""
    return any(
        (line.low.kind not in _UNMADE and frame.start < 0)
        or (line.high.kind not in _UNMADE and frame.stop > line.size)
        for line, frame in zip(lines, frames, strict=True)
    )


def _ends(lines: tuple[Line, ...]) -> ghosts.Ends:
    return tuple((_side(line.low), _side(line.high)) for line in lines)


def _side(side: Side) -> ghosts.Side | None:
    return None if side.kind in _UNMADE else ghosts.Side(Rule(side.kind.value), side.value)


def _framed(lines: tuple[Line, ...], array: Array, frames: tuple[Span, ...]) -> Framed:
    """Return an array and which of its indices are data."""
    i, j, k = (
        (max(0, -frame.start), min(frame.size, line.size - frame.start))
        for line, frame in zip(lines, frames, strict=True)
    )
    return Framed(array, (i, j, k))


def _low(array: Array, axis: int, line: Line, depth: int) -> Iterator[Callable[[], None]]:
    """Yield what fills the `depth` cells at the start; the first cell of data is behind them."""
    first = depth
    ghosts = _part(array, axis, 0, depth)
    match line.low.kind:
        case Kind.EDGE:
            yield _copy(ghosts, _part(array, axis, first, first + 1))
        case Kind.REFLECT:
            yield _copy(ghosts, _reversed(_part(array, axis, first + 1, first + 1 + depth), axis))
        case Kind.EXTRAPOLATE:
            last = _part(array, axis, first, first + 1)
            inner = _part(array, axis, first + 1, first + 2)
            cells = [_part(array, axis, at, at + 1) for at in range(first - 1, -1, -1)]
            yield partial(_extrapolate, last, inner, cells)
        case Kind.WRAP:
            yield _copy(ghosts, _part(array, axis, first + line.size - depth, first + line.size))
        case Kind.CONSTANT:
            yield _copy(ghosts, line.low.value)
        case Kind.NONE | Kind.PERIODIC:
            pass


def _high(
    array: Array, axis: int, line: Line, frame: Span, depth: int
) -> Iterator[Callable[[], None]]:
    """Yield what fills the `depth` cells at the end; the last cell of data is before them."""
    after = line.size - frame.start
    ghosts = _part(array, axis, after, after + depth)
    match line.high.kind:
        case Kind.EDGE:
            yield _copy(ghosts, _part(array, axis, after - 1, after))
        case Kind.REFLECT:
            yield _copy(ghosts, _reversed(_part(array, axis, after - 1 - depth, after - 1), axis))
        case Kind.EXTRAPOLATE:
            last = _part(array, axis, after - 1, after)
            inner = _part(array, axis, after - 2, after - 1)
            cells = [_part(array, axis, at, at + 1) for at in range(after, after + depth)]
            yield partial(_extrapolate, last, inner, cells)
        case Kind.WRAP:
            yield _copy(ghosts, _part(array, axis, -frame.start, depth - frame.start))
        case Kind.CONSTANT:
            yield _copy(ghosts, line.high.value)
        case Kind.NONE | Kind.PERIODIC:
            pass


def _copy(ghosts: Array, values: Array | float) -> Callable[[], None]:
    return partial(setitem, ghosts, ..., values)


def _extrapolate(last: Array, inner: Array, cells: Sequence[Array]) -> None:
    """Fill cells, the nearest first, on the line through the last cell and the one inside it."""
    slope = last - inner
    for distance, cell in enumerate(cells, 1):
        cell[...] = last + distance * slope


def _part(array: Array, axis: int, start: int, stop: int) -> Array:
    """Return the view of some cells along one axis."""
    return array[(slice(None),) * axis + (slice(start, stop),)]


def _reversed(array: Array, axis: int) -> Array:
    return array[(slice(None),) * axis + (slice(None, None, -1),)]
