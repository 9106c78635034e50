"""Moves of chunks between memory and the windows of a pass, as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from halocline_engine.backends.cuda.kernels.column_chunks.windows import (
    COLUMNS,
    PassWindows,
    Window,
)
from halocline_engine.backends.cuda.model.entries import Stride
from halocline_engine.backends.cuda.text.expressions import TYPES
from halocline_engine.backends.cuda.text.fragments import bound, signed
from halocline_engine.backends.cuda.text.statements import Scope
from halocline_engine.ir.nodes import Interval

__all__ = ["ChunkMoves", "first_level", "last_level"]


@dataclass(frozen=True, slots=True)
class ChunkMoves:
    """Writes what moves the chunks of a pass."""

    one: PassWindows
    scope: Scope
    chunk: int

    @property
    def sign(self) -> int:
        """The step from a level to the one that is visited next."""
        return -self.one.one.step

    def declarations(self) -> list[str]:
        """Return the places of all windows."""
        numbered = enumerate(self.one.windows)
        return [line for number, window in numbered for line in self._declared(number, window)]

    def _declared(self, number: int, window: Window) -> list[str]:
        """Return the places of a window, and the levels that it loads."""
        kind, pitch = TYPES[self.scope.dtypes[window.name]], window.pitch(self.chunk)
        if not window.chunks:
            return [f"{kind}* const l{number} = c_{self.scope.arrays[window.name]};"]
        lines = [
            f"{kind}* const w{number} = reinterpret_cast<{kind}*>(chip + {window.start});",
            f"{kind}* const l{number} = w{number} + lane * {pitch};",
        ]
        if window.loaded:
            low, high = first_level(window.loaded), last_level(window.loaded)
            if window.name not in self.scope.fields:
                # A buffer has the levels of the domain; a branch that is not taken may name others.
                low, high = f"max({low}, 0)", f"min({high}, nk)"
            lines.append(f"const int low{number} = {low}, high{number} = {high};")
        return lines

    def prologue(self) -> list[str]:
        """Return the loads of what the first chunk needs besides what it loads itself."""
        lines: list[str] = []
        for n, window in enumerate(self.one.windows):
            for number in range(-1 if window.behind else 0, window.early):
                lines += self._load(n, window, f"initial{signed(self.sign * number)}")
        return lines

    def loads(self) -> list[str]:
        """Return the loads for a chunk before it is computed."""
        return [
            line
            for n, window in enumerate(self.one.windows)
            for line in self._load(n, window, f"m{signed(self.sign * window.early)}")
        ]

    def _load(self, n: int, window: Window, chunk: str) -> list[str]:
        """Return the load of a chunk, if the window has any."""
        if not window.loaded:
            return []
        levels = f"({chunk}) * {self.chunk}, low{n}, high{n}"
        if window.own:
            move = f"load_levels<{self.chunk}, {self.mask(window)}>"
            return [f"{move}(w{n}, {self._own(window)}, {levels});"]
        move = f"load_chunk<{self.chunk}, {window.pitch(self.chunk)}, {self.mask(window)}>"
        return [f"{move}(w{n}, {self._base(window)}, {self._columns(window)}, {levels});"]

    def stores(self) -> list[str]:
        """Return the stores of the chunk that was computed."""
        return [
            self._store(n, window, f"m * {self.chunk}, {bound(levels.start)}, {bound(levels.end)}")
            for n, window in enumerate(self.one.windows)
            for levels in window.stored
        ]

    def _store(self, n: int, window: Window, levels: str) -> str:
        if window.own:
            move = f"store_levels<{self.chunk}, {self.mask(window)}>"
            return f"{move}({self._own(window)}, w{n}, {levels});"
        move = f"store_chunk<{self.chunk}, {window.pitch(self.chunk)}, {self.mask(window)}>"
        return f"{move}({self._base(window)}, w{n}, {self._columns(window)}, {levels}, own);"

    def _columns(self, window: Window) -> str:
        return f"columns{self.scope.kinds[window.name][0]}"

    def _own(self, window: Window) -> str:
        """Return the address of the first level of an array that the block has for itself."""
        return f"(c_{self.scope.arrays[window.name]} - lane)"

    def _base(self, window: Window) -> str:
        """Return the address that offsets of columns and levels are counted from."""
        number, kind = self.scope.kinds[window.name]
        text = self.scope.arrays[window.name]
        for axis, stride, steps in zip("ij", kind, window.across, strict=False):
            if steps and stride is Stride.ONE:
                text += signed(steps)
            elif steps and stride is not Stride.NONE:
                text += f" {'+' if steps > 0 else '-'} {abs(steps)} * s{number}{axis}"
        return text

    def place(self, window: Window, level: str) -> str:
        """Return where a thread has a level of its column, in the ring or without one in memory."""
        place = f"({level}) & {self.mask(window)}" if window.chunks else level
        return f"({place}) * {COLUMNS}" if window.own else place

    def mask(self, window: Window) -> int:
        """Return what makes a level its place in the ring of a window."""
        return window.chunks * self.chunk - 1


def first_level(intervals: Sequence[Interval]) -> str:
    """Return the first level of intervals."""
    return _nested("min", [bound(interval.start) for interval in intervals])


def last_level(intervals: Sequence[Interval]) -> str:
    """Return the level behind the last one of intervals."""
    return _nested("max", [bound(interval.end) for interval in intervals])


def _nested(function: str, values: Sequence[str]) -> str:
    first, *rest = dict.fromkeys(values)
    for value in rest:
        first = f"{function}({first}, {value})"
    return first
