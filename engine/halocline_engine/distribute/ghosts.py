"""Fill the ghost cells of a block's array, with slices that NumPy and CuPy both understand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import setitem

from halocline_engine.backends.base import Array
from halocline_engine.distribute.boundary import Kind, Line
from halocline_engine.distribute.partition import Span

__all__ = ["fill_ghosts", "ghost_fills"]


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
