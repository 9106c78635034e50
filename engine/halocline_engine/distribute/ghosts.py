"""Fill the ghost cells of a block's array, with slices that NumPy and CuPy both understand."""

from __future__ import annotations

from halocline_engine.backends.base import Array
from halocline_engine.distribute.boundary import Kind, Line
from halocline_engine.distribute.partition import Span

__all__ = ["fill_ghosts"]


def fill_ghosts(array: Array, lines: tuple[Line, ...], frames: tuple[Span, ...]) -> None:
    """Fill the cells of `array` that lie beyond the data, along I, then J, then K.

    `array` is indexed [i, j, k] and holds the cells `frames`; a frame that stays inside the data
    has no ghosts along its axis.
    """
    for axis, (line, frame) in enumerate(zip(lines, frames, strict=True)):
        if line.endless:
            continue
        low, high = -frame.start, frame.stop - line.size
        if low > 0:
            _fill_low(array, axis, line, low)
        if high > 0:
            _fill_high(array, axis, line, frame, high)


def _fill_low(array: Array, axis: int, line: Line, depth: int) -> None:
    """Fill the `depth` cells at the start; the first cell of data is at index `depth`."""
    first = depth
    ghosts = _part(array, axis, 0, depth)
    match line.low.kind:
        case Kind.EDGE:
            ghosts[...] = _part(array, axis, first, first + 1)
        case Kind.REFLECT:
            ghosts[...] = _reversed(_part(array, axis, first + 1, first + 1 + depth), axis)
        case Kind.EXTRAPOLATE:
            last = _part(array, axis, first, first + 1)
            slope = last - _part(array, axis, first + 1, first + 2)
            for distance in range(1, depth + 1):
                at = first - distance
                _part(array, axis, at, at + 1)[...] = last + distance * slope
        case Kind.WRAP:
            ghosts[...] = _part(array, axis, first + line.size - depth, first + line.size)
        case Kind.CONSTANT:
            ghosts[...] = line.low.value
        case Kind.NONE | Kind.PERIODIC:
            pass


def _fill_high(array: Array, axis: int, line: Line, frame: Span, depth: int) -> None:
    """Fill the `depth` cells at the end; the last cell of data is the one before them."""
    after = line.size - frame.start
    ghosts = _part(array, axis, after, after + depth)
    match line.high.kind:
        case Kind.EDGE:
            ghosts[...] = _part(array, axis, after - 1, after)
        case Kind.REFLECT:
            ghosts[...] = _reversed(_part(array, axis, after - 1 - depth, after - 1), axis)
        case Kind.EXTRAPOLATE:
            last = _part(array, axis, after - 1, after)
            slope = last - _part(array, axis, after - 2, after - 1)
            for distance in range(1, depth + 1):
                at = after - 1 + distance
                _part(array, axis, at, at + 1)[...] = last + distance * slope
        case Kind.WRAP:
            start = -frame.start
            ghosts[...] = _part(array, axis, start, start + depth)
        case Kind.CONSTANT:
            ghosts[...] = line.high.value
        case Kind.NONE | Kind.PERIODIC:
            pass


def _part(array: Array, axis: int, start: int, stop: int) -> Array:
    """Return the view of some cells along one axis."""
    return array[(slice(None),) * axis + (slice(start, stop),)]


def _reversed(array: Array, axis: int) -> Array:
    return array[(slice(None),) * axis + (slice(None, None, -1),)]
