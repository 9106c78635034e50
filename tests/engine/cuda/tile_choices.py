"""Tiles that tests force on kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from halocline_engine.backends.cuda.kernels.choose import TileFor, tile_for
from halocline_engine.backends.cuda.model.entries import Entry, Variant
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.schedule.nodes import Schedule

__all__ = ["changed"]


def changed(**changes: Any) -> TileFor:
    """Return a choice that is the usual one with some parts of the tile replaced."""

    def choose(entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile:
        return replace(tile_for(entry, schedule, variant, domain), **changes)

    return choose
