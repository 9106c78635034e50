"""Fill the ghost cells of a block's arrays: all at once where the target can.

What every target can do is to copy slices, which NumPy and CuPy both understand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from halocline_engine.analysis.boundaries import Kind, Side
from halocline_engine.backends import ghosts
from halocline_engine.backends.base import Array, Executable
from halocline_engine.backends.ghosts import Filling, Framed, Rule, copies
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
    return copies(_framed(lines, array, frames), _ends(lines))


def ghosts_of(
    executable: Executable | None,
    several: Sequence[tuple[Array, tuple[Line, ...], tuple[Span, ...]]],
) -> list[Callable[[], None]]:
    """Return the calls that fill the ghosts of arrays.

    Each has its axes and its frame. The executable fills those with the same rules at once, if it
    can; None copies slices, which needs no code.
    """
    alike: dict[ghosts.Ends, list[Framed]] = {}
    for array, lines, frames in several:
        if _reaches_out(lines, frames):
            alike.setdefault(_ends(lines), []).append(_framed(lines, array, frames))
    fills: list[Callable[[], None]] = []
    for ends, framed in alike.items():
        at_once = executable.filling(ends, framed) if isinstance(executable, Filling) else None
        fills += [at_once] if at_once else [fill for one in framed for fill in copies(one, ends)]
    return fills


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
