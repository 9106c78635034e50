"""A cache of kernel tiles that also serves calls on slightly different domains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from halocline_engine.backends.cuda.kernels.choose import kernel_kind
from halocline_engine.backends.cuda.model.entries import Entry, Variant
from halocline_engine.backends.cuda.model.tile import Domain, Tile

__all__ = ["TileCache", "Tiles"]

#: The tile of each kernel, by its name in the code.
Tiles: TypeAlias = Mapping[str, Tile]

#: Domains that differ by less than this share along I and along J are cut alike, if they are large.
_NEAR = 8
_LARGE = 64
#: The last so many domains are looked at.
_KEPT = 8


@dataclass(slots=True)
class TileCache:
    """Tiles by the kind of arrays and the domain.

    The cost models take longer than a step, and the steps of a pass have domains that shrink by a
    few rows each: those are cut as the first of them was. The bits do not depend on it. `entries`
    are the kernels of the program.
    """

    entries: tuple[Entry, ...]
    _known: dict[tuple[Variant, int], list[tuple[Domain, Tiles]]] = field(
        default_factory=dict[tuple[Variant, int], list[tuple[Domain, Tiles]]]
    )

    def tiles(self, variant: Variant, domain: Domain, choose: Callable[[], Tiles]) -> Tiles:
        """Return the tiles of a domain that is near, or else those that `choose` makes."""
        known = self._known.setdefault((variant, domain[2]), [])
        for other, tiles in known:
            if _near(domain, other) and not self._has_one_domain(tiles):
                return tiles
        tiles = choose()
        known.append((domain, tiles))
        del known[:-_KEPT]
        return tiles

    def _has_one_domain(self, tiles: Tiles) -> bool:
        return any(kernel_kind(entry, tiles[entry.name]).one_domain for entry in self.entries)


def _near(one: Domain, other: Domain) -> bool:
    """Whether two domains are large and much the same.

    >>> _near((1000, 200, 1), (990, 220, 1)), _near((1000, 16, 1), (1000, 17, 1))
    (True, False)
    """
    return one == other or all(
        a == b or (min(a, b) >= _LARGE and abs(a - b) * _NEAR < b)
        for a, b in zip(one[:2], other[:2], strict=True)
    )
