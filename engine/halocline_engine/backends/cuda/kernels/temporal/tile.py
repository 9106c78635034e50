"""Cost model for fused steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.schedule.temporal.levels import Levels

__all__ = ["Chooser"]

#: Chooses the tile of some steps for a domain.
Chooser: TypeAlias = Callable[[Levels, Domain], Tile]
