"""Choices for a program and a kind of call: tiles of kernels, storage of temporaries.

A choice is kept on disk as JSON, so it is read with care: what is not exactly a choice is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, cast, get_args

from halocline_engine.backends.cuda.kernels.choose import tile_for
from halocline_engine.backends.cuda.model.entries import Entry, Variant
from halocline_engine.backends.cuda.model.tile import Domain, Tile
from halocline_engine.schedule.nodes import Schedule
from halocline_engine.schedule.options import Temporaries

__all__ = ["Choice", "choice_from", "choice_text"]


@dataclass(frozen=True, slots=True)
class Choice:
    """Tiles by the names of kernels, where they are not the usual ones; where temporaries go."""

    tiles: tuple[tuple[str, Tile], ...] = ()
    temporaries: Temporaries = "auto"

    def tile_for(self, entry: Entry, schedule: Schedule, variant: Variant, domain: Domain) -> Tile:
        """Return the tile of a kernel, which is the usual one if nothing else was chosen."""
        for name, tile in self.tiles:
            if name == entry.name:
                return tile
        return tile_for(entry, schedule, variant, domain)


def choice_text(choice: Choice) -> str:
    """Return a choice as JSON, the same text for equal choices."""
    tiles = {name: asdict(tile) for name, tile in choice.tiles}
    return json.dumps({"temporaries": choice.temporaries, "tiles": tiles}, sort_keys=True)


def choice_from(text: str) -> Choice:
    """Return the choice that a text holds; raises `ValueError` if it holds none.

    >>> choice_from(choice_text(Choice((("kernel0", Tile((64, 2), rows=3)),)))).tiles[0][1].rows
    3
    """
    record = _object(json.loads(text))
    home = record.get("temporaries")
    if set(record) != {"temporaries", "tiles"} or home not in get_args(Temporaries):
        raise ValueError("it has no tiles, or no storage of temporaries")
    tiles = _object(record["tiles"]).items()
    return Choice(
        tuple((name, _tile(_object(values))) for name, values in tiles), cast("Temporaries", home)
    )


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("a part of it is no object")  # noqa: TRY004 - one error for what is wrong
    return cast("dict[str, Any]", value)


def _tile(values: Mapping[str, Any]) -> Tile:
    """Return a tile; numbers must be in range for a launch, and parts unknown here are refused."""
    parts = dict(values)
    block = parts.pop("block", None)
    if not isinstance(block, list) or len(cast("list[object]", block)) != 2:
        raise ValueError("a tile has no block")
    along_i, along_j = cast("list[object]", block)
    known = {field.name: field.default for field in fields(Tile)}
    for name, value in (("block", along_i), ("block", along_j), *parts.items()):
        default = known.get(name, "unknown")
        wanted = bool if isinstance(default, bool) else int
        if default == "unknown" or type(value) is not wanted or not 0 <= value < 2**31:
            raise ValueError(f"a tile has {name} {value!r}")
    tile = Tile((cast("int", along_i), cast("int", along_j)), **parts)
    if not 1 <= tile.threads <= 1024 or min(*tile.block, tile.width, tile.rows, tile.depth) < 1:
        raise ValueError("a tile is empty or too large")
    return tile
