"""Shares of a block of fused steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from halocline_engine.backends.cuda.model.tile import Domain
from halocline_engine.schedule.temporal.levels import Levels

__all__ = ["Chooser", "FusedTile"]


@dataclass(frozen=True, slots=True)
class FusedTile:
    """The share of a block that streams.

    A lane has `width` columns; where planes follow one another it has `rows` rows as well, and
    `warps` lie above one another. A block makes results for `depth` positions. Loads of `ahead`
    positions are under way, and `unroll` positions are written out in a row. The registers of a
    thread leave room for `resident` warps on a processor; 0 leaves that to the compiler.
    """

    width: int
    depth: int
    rows: int = 1
    warps: int = 1
    ahead: int = 2
    unroll: int = 2
    resident: int = 0

    @property
    def block(self) -> tuple[int, int]:
        """The threads of a block."""
        return 32, self.warps

    @property
    def threads(self) -> int:
        """Number of threads of a block."""
        return 32 * self.warps

    @property
    def words(self) -> str:
        """The tile for people.

        >>> FusedTile(4, 100).words
        'strips of 128 columns, 100 positions, 2 ahead'
        """
        tall = f" x {self.rows * self.warps}" if self.warps > 1 else ""
        return (
            f"strips of {32 * self.width}{tall} columns, {self.depth} positions, {self.ahead} ahead"
        )


#: Chooses the tile of some steps for a domain.
Chooser: TypeAlias = Callable[[Levels, Domain], FusedTile]
